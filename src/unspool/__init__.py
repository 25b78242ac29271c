"""unspool: what a language model writes, as what an API promises.

Reasoning, content and tool calls out of raw generations, streamed or whole, for every open-weight family::

    import unspool
    message = unspool.parse("qwen3", raw, tools=tools)

The package itself imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
from unspool.lazy import attributes
from unspool.message import Message, ToolCall

if TYPE_CHECKING:
    from unspool.formats.checkpoint import CheckpointError
    from unspool.formats.detection import AmbiguousFormatError, Detection, UndetectedFormatError, detect
    from unspool.formats.loading import FormatFileError, load_format
    from unspool.formats.response_template import (
        ResponseTemplateError,
        from_response_template,
        load_response_template,
    )
    from unspool.formats.writer import WriteError, write
    from unspool.parsing.declaration import Format
    from unspool.parsing.parser import Parser, ToolChoice
    from unspool.parsing.schema import AnyTool
    from unspool.parsing.signals import Span

__version__ = "0.1.0"

__all__ = [
    "AmbiguousFormatError",
    "CheckpointError",
    "ContentDelta",
    "Detection",
    "Event",
    "Finish",
    "Format",
    "FormatFileError",
    "Message",
    "Parser",
    "ReasoningDelta",
    "ResponseTemplateError",
    "Span",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "UndetectedFormatError",
    "UnknownFormatError",
    "Usage",
    "WriteError",
    "detect",
    "explain",
    "formats",
    "from_response_template",
    "get_format",
    "load_format",
    "load_response_template",
    "parse",
    "register",
    "write",
]

__getattr__ = attributes(
    __name__,
    {
        "formats.checkpoint": ("CheckpointError",),
        "formats.detection": ("AmbiguousFormatError", "Detection", "UndetectedFormatError", "detect"),
        "formats.loading": ("FormatFileError", "load_format"),
        "formats.response_template": ("ResponseTemplateError", "from_response_template", "load_response_template"),
        "formats.writer": ("WriteError", "write"),
        "parsing.declaration": ("Format",),
        "parsing.parser": ("Parser",),
        "parsing.signals": ("Span",),
    },
)


def parse(
    format: str | Format,
    raw: str,
    *,
    tools: Iterable[Mapping[str, Any]] | AnyTool | None = None,
    tool_choice: ToolChoice = "auto",
    prompt: str | None = None,
    finish_reason: str | None = "stop",
    parallel_tool_calls: bool = True,
) -> Message:
    """The message that a whole generation spells out: a :class:`Parser` fed once.

    ``raw`` is the text after the prompt, special tokens spelled out. Raises :class:`UnknownFormatError`; no text
    raises.
    """
    from unspool.parsing.parser import Parser

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
    parallel_tool_calls: bool = True,
) -> list[Span]:
    """What each character of a generation became, and why: spans that cover ``raw`` once, in order."""
    from unspool.parsing.parser import Parser
    from unspool.parsing.signals import Span

    parser = Parser(
        get_format(format),
        tools=tools,
        tool_choice=tool_choice,
        prompt=prompt,
        parallel_tool_calls=parallel_tool_calls,
        trace=True,
    )
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
