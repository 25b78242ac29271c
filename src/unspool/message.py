"""Events to messages: the whole answer as one value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call. ``arguments`` is JSON text, verbatim where the model wrote JSON."""

    id: str
    name: str
    arguments: str

    def as_openai(self) -> dict[str, Any]:
        """The call as an entry of a message's ``tool_calls`` in OpenAI's API."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


def is_object(text: str) -> bool:
    """Whether a text is one whole JSON object, as arguments must be."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def same_call(one: ToolCall | None, other: ToolCall | None) -> bool:
    """Whether two calls mean the same: the tool, and the arguments as values; ids don't matter.

    Raises ``ValueError`` for arguments that are not JSON.
    """
    if one is None or other is None:
        return one is other
    return one.name == other.name and _same_value(json.loads(one.arguments), json.loads(other.arguments))


def _same_value(one: Any, other: Any) -> bool:
    """Equality of JSON values, in which true is not 1 but 1.0 is."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_value(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


@dataclass(frozen=True, slots=True)
class Message:
    """One assistant turn. Absent text is ``None``, never ``""``."""

    reasoning: str | None = None
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None

    @classmethod
    def from_events(cls, events: Iterable[Event]) -> Message:
        """The message that a list of events spells out.

        A call without its :class:`ToolCallEnd` was cut or turned out malformed and is left out.
        """
        reasoning: list[str] = []
        content: list[str] = []
        starts: dict[int, ToolCallStart] = {}
        arguments: dict[int, list[str]] = {}
        ended: list[int] = []
        finish = Finish("stop")
        for event in events:
            match event:
                case ContentDelta(text):
                    content.append(text)
                case ReasoningDelta(text):
                    reasoning.append(text)
                case ToolCallStart(index):
                    starts[index] = event
                    arguments[index] = []
                case ToolCallDelta(index, piece):
                    arguments[index].append(piece)
                case ToolCallEnd(index):
                    ended.append(index)
                case Finish():
                    finish = event
        return cls(
            reasoning="".join(reasoning) or None,
            content="".join(content) or None,
            tool_calls=tuple(ToolCall(starts[i].id, starts[i].name, "".join(arguments[i])) for i in sorted(ended)),
            finish_reason=finish.reason,
            usage=finish.usage,
        )
