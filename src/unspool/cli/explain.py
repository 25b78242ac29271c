"""``unspool explain``: the raw text coloured by what each character became, and why.

This is the picture people need when a call got lost. One list of spans is drawn four ways: rich text, SVG,
a self-contained page, or JSON lines.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

import unspool
from unspool.cli.lost import explained, lost
from unspool.cli.options import Reading, reading_options
from unspool.cli.output import (
    is_for_people,
    json_option,
    print_json,
    print_note,
    terminal,
    visible,
    write_file,
)
from unspool.cli.pieces import KINDS, merged, shown, summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_SVG_WIDTH = 100


@click.command()
@reading_options
@click.option("--html", is_flag=True, help="Write a self-contained page.")
@click.option("--svg", is_flag=True, help="Write a picture of the terminal output.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Where --html or --svg goes; standard output otherwise.",
)
@json_option
def explain(reading: Reading, html: bool, svg: bool, output: Path | None, as_json: bool) -> None:
    """Show what each character of raw model output became, and why.

    FILE holds what the model wrote, special tokens included; - or nothing is standard input. Every character
    is reasoning, content, a call's name, its arguments, framing (markup that is part of none of these), or
    cut (a call that the end of the text cut off).
    """
    if html + svg + as_json > 1:
        raise click.UsageError("--html, --svg and --json exclude each other: give one of them")
    if output is not None and not (html or svg):
        raise click.UsageError("--output needs --html or --svg")
    raw = "".join(reading.pieces())
    spans = explained(reading, raw)
    hint = lost(reading, raw, spans)
    pieces = merged(spans)
    if html:
        from unspool.cli.page import render

        write_file(output, render(reading.format.name, raw, pieces, hint))
    elif svg:
        write_file(output, _svg(reading, raw, pieces, hint))
    elif is_for_people(as_json):
        _draw(terminal(), raw, pieces, hint)
    else:
        for span in spans:
            print_json(
                {
                    "start": span.start,
                    "end": span.end,
                    "kind": span.kind,
                    "text": raw[span.start : span.end],
                    "note": span.note,
                }
            )
        print_note(hint)


def _draw(console: Console, raw: str, pieces: list[unspool.Span], hint: str | None) -> None:
    from rich.panel import Panel
    from rich.text import Text

    body = Text(overflow="fold")
    for piece in pieces:
        body.append(shown(raw[piece.start : piece.end], piece.kind), style=KINDS[piece.kind].style)
    console.print(Panel(body, title="raw text", title_align="left", border_style="dim"))
    console.print(_legend())
    if hint is not None:
        console.print(Text(f"\n{visible(hint)}", style="bold red"))
    console.print(_table(raw, pieces))


def _legend() -> Text:
    from rich.text import Text

    legend = Text()
    for kind in KINDS.values():
        legend.append(kind.label, style=kind.style).append("   ")
    return legend


def _table(raw: str, pieces: list[unspool.Span]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("characters", justify="right", style="dim", no_wrap=True)
    table.add_column("became", no_wrap=True)
    table.add_column("text", overflow="fold")
    table.add_column("why")
    for piece in pieces:
        kind = KINDS[piece.kind]
        table.add_row(
            f"{piece.start}-{piece.end}",
            Text(kind.label, style=kind.style),
            Text(summary(raw[piece.start : piece.end])),
            Text(visible(piece.note)),
        )
    return table


def _svg(reading: Reading, raw: str, pieces: list[unspool.Span], hint: str | None) -> str:
    from rich.console import Console

    console = Console(
        record=True,
        width=_SVG_WIDTH,
        file=io.StringIO(),
        color_system="truecolor",
        force_terminal=True,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )
    _draw(console, raw, pieces, hint)
    picture = console.export_svg(title=f"unspool explain -f {reading.format.name}", unique_id="unspool-explain")
    # rich loads its font from the network; a picture must not.
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
