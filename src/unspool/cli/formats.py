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

    from unspool.formats.checking import Finding

# The heading of ``formats show`` says these already.
_HEADING = {"name", "aliases", "models", "summary", "engine_names", "quirks", "disagreements"}


@click.group(invoke_without_command=True)
@click.option("--find", metavar="TEXT", help="Only those with this in a name, an alias, a model or a parser name.")
@json_option
@click.pass_context
def formats(ctx: click.Context, find: str | None, as_json: bool) -> None:
    """List the formats that unspool reads, or show one.

    The list has names, aliases, shapes and example models; any name or alias goes after -f of the other
    commands. 'unspool formats show NAME' tells all about one.
    """
    if ctx.invoked_subcommand is not None:
        return
    found = [each for each in unspool.formats() if find is None or _has(each, find)]
    if not found:
        raise click.ClickException(f"no format has {find!r} in a name, an alias, a model or a parser name")
    if not is_for_people(as_json):
        for each in found:
            print_json(_entry(each))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold cyan", no_wrap=True)
    for column, ratio in [("aliases", 2), ("shape", 3), ("models", 3)]:
        table.add_column(column, ratio=ratio, overflow="fold")
    for each in found:
        table.add_row(each.name, Text(", ".join(each.aliases), style="dim"), each.summary, "\n".join(each.models))
    terminal().print(table)


def _has(format_: unspool.Format, text: str) -> bool:
    parsers = (name for names in format_.engine_names.values() for name in names)
    return any(
        text.lower() in name.lower() for name in (format_.name, *format_.aliases, *format_.models, *parsers)
    )


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
            "quirks": format_.quirks,
            "disagreements": format_.disagreements,
            "declaration": _declaration(format_),
            "samples": [
                {"case": case, "prompt_tail": tail, "raw_output": raw} for case, tail, raw in samples(format_)
            ],
        }
    )


@formats.command()
@click.argument("name", metavar="FILE|NAME", shell_complete=complete_format)
@json_option
@click.pass_context
def check(ctx: click.Context, name: str, as_json: bool) -> None:
    """Check a format of your own: what it writes is read back, however the text is cut.

    FILE is a TOML file that declares a format; samples of what the model writes may stand in it as [[samples]],
    each with raw and what it means. The exit status is 1 if a case fails.
    """
    from unspool.formats.checking import SampleError, check_format
    from unspool.formats.loading import SAMPLES, read_file

    format_ = read_format(ctx, ctx.command.params[0], name)
    said = read_file(name).get(SAMPLES, []) if name.lower().endswith(".toml") else []
    failed = 0
    try:
        for finding in check_format(format_, said):
            failed += bool(finding.problem)
            if is_for_people(as_json):
                _print_finding(finding, terminal())
            else:
                print_json(dataclasses.asdict(finding))
    except SampleError as error:
        raise click.ClickException(f"{name}: {error}") from error
    ctx.exit(1 if failed else 0)


def _print_finding(finding: Finding, console: Console) -> None:
    from rich.text import Text

    mark = ("✗ ", "bold red") if finding.problem else ("- ", "dim") if not finding.raw else ("✓ ", "bold green")
    console.print(Text.assemble(mark, finding.case), soft_wrap=True)
    for text, style in [(finding.problem, "red"), (finding.note, "dim")]:
        if text:
            console.print(Text(f"  {text}", style=style), soft_wrap=True)
    if finding.problem:
        console.print(Text(f"  {visible(finding.raw)}", style="dim"), soft_wrap=True)


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

    for title, items in [("what to know", format_.quirks), ("where engines disagree", format_.disagreements)]:
        if items:
            console.print(Text(f"\n{title}", style="bold"))
        for item in items:
            console.print(Text(f"  * {item}"), soft_wrap=True)
    console.print(Text("\ndeclaration", style="bold"))
    for line in declaration_lines(format_):
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


def declaration_lines(format_: unspool.Format) -> list[str]:
    """What the format declares, as indented ``name: value`` lines."""
    return list(_declaration_lines(_declaration(format_)))


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
