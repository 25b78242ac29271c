"""``unspool lint``: whether a checkpoint's chat template and its format agree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

import unspool
from unspool.cli.options import complete_format, read_format
from unspool.cli.output import is_for_people, json_option, print_json, terminal, visible
from unspool.cli.pieces import summary
from unspool.formats.checkpoint import read_checkpoint

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from unspool.lint import Report, Result

_STYLES = {"holds": "green", "differs": "bold red", "fails": "bold red", "refused": "yellow", "skipped": "dim"}


@click.command()
@click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-f",
    "--format",
    "format_",
    metavar="NAME",
    shell_complete=complete_format,
    help="The format to read with, a name or alias from 'unspool formats'. [default: found out]",
)
@json_option
@click.pass_context
def lint(ctx: click.Context, path: Path, format_: str | None, as_json: bool) -> None:
    """Try a checkpoint's chat template in round trips.

    PATH is a model's directory, its tokenizer_config.json, a chat template (.jinja), or a .gguf file. The template
    renders reasoning, single, parallel and nested calls, a call without arguments, a tool's result and a
    follow-up; what it writes for the model is read with the format and compared with what went in.

    Exit status: 0 if every round trip holds, 1 if one doesn't or there is none, 2 for bad input. What a template
    refuses by itself or has no words for counts as no round trip.
    """
    try:
        from unspool.lint import check

        checkpoint = read_checkpoint(path)
        if checkpoint.template is None:
            raise click.UsageError(f"{click.format_filename(path)}: there is no chat template to try")
        form = _detected(path) if format_ is None else read_format(ctx, ctx.command.params[1], format_)
        report = check(checkpoint, form)
    except ModuleNotFoundError as error:
        if error.name != "jinja2":
            raise
        raise click.ClickException('Templates need jinja2; run: pip install "unspool[server]"') from None
    except unspool.CheckpointError as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"{click.format_filename(path)}: {error}") from None
    if is_for_people(as_json):
        _show(report, terminal())
    else:
        print_json({"holds": report.holds, **_plain(report)})
    ctx.exit(0 if report.holds else 1)


def _detected(path: Path) -> unspool.Format:
    try:
        return unspool.detect(path).format
    except (unspool.AmbiguousFormatError, unspool.UndetectedFormatError) as error:
        raise click.UsageError(f"{str(error).rstrip('.')}. Give it as --format.") from None


def _plain(report: Report) -> dict[str, object]:
    return {"format": report.format.name, "notes": report.notes, "results": list(report.results)}


def _show(report: Report, console: Console) -> None:
    from rich.text import Text

    console.print(Text.assemble("read as ", (report.format.name, "bold cyan")))
    _show_notes(console, report.notes, "")
    for result in report.results:
        console.print(Text.assemble((f"{result.outcome:<9}", _STYLES[result.outcome]), result.case))
        _show_notes(console, result.notes, " " * 9)
        if result.differences:
            console.print(_differences(result))
    held = sum(result.outcome == "holds" for result in report.results)
    broken = sum(result.outcome in ("differs", "fails") for result in report.results)
    console.print(Text(f"{held} round trips hold, {broken} don't", style="bold"))


def _show_notes(console: Console, notes: Iterable[str], indent: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for note in notes:
        console.print(Padding(Text(visible(f"- {note}"), style="dim"), (0, 0, 0, len(indent))))


def _differences(result: Result) -> Table:
    """As ``explain`` draws it: which characters, what they are, what they became."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("characters", justify="right", style="dim", no_wrap=True)
    for column in ("what", "expected", "got", "text there", "became"):
        table.add_column(column, overflow="fold")
    for each in result.differences:
        there = each.start is not None and each.end is not None
        table.add_row(
            f"{each.start}-{each.end}" if there else "",
            each.what,
            Text(visible(each.expected)),
            Text(visible(each.got)),
            Text(summary(result.text[each.start : each.end])) if there else "",
            Text(visible(each.became or "not in the text")),
        )
    return table
