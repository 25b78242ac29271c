"""``unspool parse``: raw model output in, the message or its events out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import click

import unspool
from unspool.cli.lost import lost
from unspool.cli.options import Reading, reading_options
from unspool.cli.output import (
    indent_json,
    is_for_people,
    json_option,
    print_json,
    print_note,
    quoted,
    terminal,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@click.command()
@reading_options
@click.option(
    "--chunks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Feed the parser N characters at a time; the message is the same for every N.",
)
@click.option("--events", is_flag=True, help="Print the events, one a line, as they happen.")
@click.option(
    "--arguments",
    type=click.Choice(["incremental", "atomic"]),
    default="incremental",
    show_default=True,
    help="Whether the events of a call flow as it is written or wait until it is complete.",
)
@json_option
def parse(
    reading: Reading,
    chunks: int | None,
    events: bool,
    arguments: Literal["incremental", "atomic"],
    as_json: bool,
) -> None:
    """Print the message that raw model output spells out.

    FILE holds what the model wrote, special tokens included; - or nothing is standard input, which is read as
    it arrives. The text is taken exactly as it is, so write it with printf rather than echo: a final newline
    is content too.

    The prompt matters: its end says whether the model began in reasoning. Without it the format's default
    start applies.
    """
    parser = unspool.Parser(
        reading.format,
        tools=reading.tools,
        tool_choice=reading.tool_choice,
        prompt=reading.prompt,
        arguments=arguments,
    )
    for_people = is_for_people(as_json)
    pieces = _cut(reading.pieces(), chunks)
    if events:
        _print_events(_events(parser, pieces, reading.finish_reason), for_people)
        return
    text = list(pieces)
    message = unspool.Message.from_events(_events(parser, text, reading.finish_reason))
    hint = None if message.tool_calls and message.reasoning else lost(reading, "".join(text))
    if for_people:
        _show(message, hint, terminal())
        return
    print_json(
        {
            "reasoning": message.reasoning,
            "content": message.content,
            "tool_calls": message.tool_calls,
            "finish_reason": message.finish_reason,
        }
    )
    print_note(hint)


def _events(
    parser: unspool.Parser, pieces: Iterable[str], finish_reason: Literal["stop", "length"]
) -> Iterator[unspool.Event]:
    for piece in pieces:
        yield from parser.feed(piece)
    yield from parser.finish(finish_reason)


def _cut(pieces: Iterable[str], size: int | None) -> Iterator[str]:
    """The same text in pieces of ``size`` characters, the last one shorter; ``None`` leaves it as it came."""
    if size is None:
        yield from pieces
        return
    held = ""
    for piece in pieces:
        held += piece
        whole = len(held) - len(held) % size
        for start in range(0, whole, size):
            yield held[start : start + size]
        held = held[whole:]
    if held:
        yield held


def _print_events(events: Iterable[unspool.Event], for_people: bool) -> None:
    if not for_people:
        for event in events:
            print_json({"event": type(event).__name__, **dataclasses.asdict(event)})
        return
    from rich.text import Text

    console = terminal()
    for event in events:
        what, text, style = _event_line(event)
        # soft_wrap: one event is one line, however long; the terminal folds it.
        console.print(Text.assemble((f"{what:<12}", "dim"), (text, style)), soft_wrap=True)


def _event_line(event: unspool.Event) -> tuple[str, str, str]:
    """An event as what happened, the text of it, and the style of the text."""
    match event:
        case unspool.ReasoningDelta(text):
            return "reasoning", quoted(text), "magenta"
        case unspool.ContentDelta(text):
            return "content", quoted(text), "green"
        case unspool.ToolCallStart(index, id, name):
            return f"call {index}", f"{visible(name)}  {visible(id)}", "bold cyan"
        case unspool.ToolCallDelta(index, piece):
            return f"call {index}", quoted(piece), "yellow"
        case unspool.ToolCallEnd(index):
            return f"call {index}", "complete", "cyan"
        case unspool.Finish(reason):
            return "finish", reason, "bold"


def _show(message: unspool.Message, hint: str | None, console: Console) -> None:
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    if message.reasoning is not None:
        _panel(console, "reasoning", Text(visible(message.reasoning), style="magenta"), "magenta")
    if message.content is not None:
        _panel(console, "content", Text(visible(message.content)), "green")
    for call in message.tool_calls:
        arguments = JSONHighlighter()(Text(visible(indent_json(call.arguments))))
        _panel(console, f"call {visible(call.name)}", arguments, "cyan", subtitle=visible(call.id))
    if message.reasoning is None and message.content is None and not message.tool_calls:
        console.print(Text("nothing: no reasoning, no content, no call", style="dim"))
    console.print(Text.assemble(("finish ", "dim"), (message.finish_reason, "bold")))
    if hint is not None:
        console.print(Text(visible(hint), style="bold red"))


def _panel(console: Console, title: str, body: RenderableType, colour: str, subtitle: str | None = None) -> None:
    from rich.panel import Panel
    from rich.text import Text

    console.print(
        Panel(
            body,
            title=Text(title, style=f"bold {colour}"),
            subtitle=None if subtitle is None else Text(subtitle, style="dim"),
            title_align="left",
            subtitle_align="right",
            border_style=colour,
        )
    )
