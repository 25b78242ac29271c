"""``unspool formats``: which model families unspool reads, and what one of them looks like."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

import unspool
from unspool.cli.options import complete_format, read_format
from unspool.cli.output import is_for_people, json_option, plain, print_json, quoted, terminal, visible
from unspool.formats import samples

if TYPE_CHECKING:
    from rich.console import Console

# The heading of ``formats show`` says these already.
_HEADING = {"name", "aliases", "models", "summary", "engine_names"}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def formats(ctx: click.Context, as_json: bool) -> None:
    """List the formats that unspool reads, or show one.

    The list has names, aliases, shapes and example models; any name or alias goes after -f of the other
    commands. 'unspool formats show NAME' tells all about one.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not is_for_people(as_json):
        for each in unspool.formats():
            print_json(_entry(each))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold cyan", no_wrap=True)
    for column, ratio in [("aliases", 2), ("shape", 3), ("models", 3)]:
        table.add_column(column, ratio=ratio, overflow="fold")
    for each in unspool.formats():
        table.add_row(each.name, Text(", ".join(each.aliases), style="dim"), each.summary, "\n".join(each.models))
    terminal().print(table)


@formats.command()
@click.argument("format_", metavar="NAME", callback=read_format, shell_complete=complete_format)
@json_option
def show(format_: unspool.Format, as_json: bool) -> None:
    """Show all about one format.

    Its declaration, a sample of each case, and the parser names that other engines have for it. NAME is a
    name, an alias, or REASONING+TOOLS.
    """
    if is_for_people(as_json):
        _show(format_, terminal())
        return
    print_json(
        {
            **_entry(format_),
            "engine_names": format_.engine_names,
            "declaration": _declaration(format_),
            "samples": [
                {"case": case, "prompt_tail": tail, "raw_output": raw} for case, tail, raw in samples(format_)
            ],
        }
    )


def _entry(format_: unspool.Format) -> dict[str, object]:
    return {
        "name": format_.name,
        "aliases": format_.aliases,
        "summary": format_.summary,
        "models": format_.models,
    }


def _show(format_: unspool.Format, console: Console) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for label, value in [
        ("aliases", ", ".join(format_.aliases)),
        ("models", ", ".join(format_.models)),
        *((engine, ", ".join(names)) for engine, names in sorted(format_.engine_names.items())),
    ]:
        if value:
            facts.add_row(label, value)
    console.print(Text.assemble((format_.name, "bold cyan"), f"  {format_.summary}"))
    console.print(facts)

    console.print(Text("\ndeclaration", style="bold"))
    for line in _declaration_lines(_declaration(format_)):
        console.print(Text(line), soft_wrap=True)

    for case, tail, raw in samples(format_):
        console.print()
        console.print(
            Panel(
                Text(visible(raw), overflow="fold"),
                title=Text(f"sample: {case}"),
                subtitle=Text(f"after {quoted(tail)}", style="dim") if tail else None,
                title_align="left",
                subtitle_align="right",
                border_style="dim",
            )
        )


def _declaration(format_: unspool.Format) -> dict[str, object]:
    """What the format declares beyond its heading, without the fields that keep their default."""
    return {name: value for name, value in _said(format_).items() if name not in {"type", *_HEADING}}


def _said(value: object) -> Any:
    """A declaration as JSON has it: each dataclass its type and the fields that differ from their default."""
    if isinstance(value, tuple):
        return [_said(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return plain(value)
    said: dict[str, object] = {"type": type(value).__name__}
    for field in dataclasses.fields(value):
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        if getattr(value, field.name) != default:
            said[field.name] = _said(getattr(value, field.name))
    return said


def _declaration_lines(declaration: Mapping[Any, object], depth: int = 1) -> Iterator[str]:
    """The declaration as indented ``name: value`` lines; texts quoted, so that spaces and newlines show."""
    indent = "  " * depth
    for name, value in declaration.items():
        match value:
            case {"type": kind, **fields}:
                yield f"{indent}{name}: {kind}"
                yield from _declaration_lines(fields, depth + 1)
            case [_, *_] if any(isinstance(item, Mapping | list) for item in value):
                yield f"{indent}{name}:"
                numbered = {str(number): item for number, item in enumerate(value)}
                yield from _declaration_lines(numbered, depth + 1)
            case list():
                yield f"{indent}{name}: {', '.join(_scalar(item) for item in value) or 'none'}"
            case _:
                yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quoted(value) if isinstance(value, str) else str(value)
