"""unspool: what a language model writes, as what an API promises.

Reasoning, content and tool calls out of raw generations, streamed or whole, for every open-weight family::

    import unspool
    message = unspool.parse("qwen3", raw, tools=tools)

The package itself imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from unspool.formats import UnknownFormatError, formats, get_format, register
from unspool.message import Message, ToolCall
from unspool.parsing.declaration import Format
from unspool.parsing.parser import Parser, ToolChoice
from unspool.parsing.reader import Span

__version__ = "0.1.0"

__all__ = [
    "ContentDelta",
    "Event",
    "Finish",
    "Format",
    "Message",
    "Parser",
    "ReasoningDelta",
    "Span",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "UnknownFormatError",
    "Usage",
    "explain",
    "formats",
    "get_format",
    "parse",
    "register",
]


def parse(
    format: str | Format,
    raw: str,
    *,
    tools: Iterable[Mapping[str, Any]] | None = None,
    tool_choice: ToolChoice = "auto",
    prompt: str | None = None,
    finish_reason: str | None = "stop",
    parallel_tool_calls: bool = True,
) -> Message:
    """The message that a whole generation spells out: a :class:`Parser` fed once.

    ``raw`` is the text after the prompt, special tokens spelled out. Raises :class:`UnknownFormatError`; no text
    raises.
    """
    parser = Parser(
        get_format(format),
        tools=tools,
        tool_choice=tool_choice,
        prompt=prompt,
        parallel_tool_calls=parallel_tool_calls,
    )
    return Message.from_events(parser.feed(raw) + parser.finish(finish_reason))


def explain(
    format: str | Format,
    raw: str,
    *,
    tools: Iterable[Mapping[str, Any]] | None = None,
    tool_choice: ToolChoice = "auto",
    prompt: str | None = None,
    finish_reason: str | None = "stop",
) -> list[Span]:
    """What each character of a generation became, and why: spans that cover ``raw`` once, in order."""
    parser = Parser(get_format(format), tools=tools, tool_choice=tool_choice, prompt=prompt, trace=True)
    parser.feed(raw)
    parser.finish(finish_reason)
    merged: list[Span] = []
    for span in parser.spans:
        last = merged[-1] if merged else None
        if last is not None and (last.kind, last.note) == (span.kind, span.note):
            merged[-1] = Span(last.start, span.end, span.kind, span.note)
        else:
            merged.append(span)
    return merged
