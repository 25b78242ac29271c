"""What a generation says of tools that the server runs itself, besides what a model says.

A loop over several turns of a model is one answer to the client. Its events are those of the turns, without the
finish of any but the last, and these. A call that the server runs is never a :class:`ToolCallStart`: clients run
whatever they take for a call of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from unspool.events import Event
from unspool.mcp.tools import McpTool

LimitReason: TypeAlias = Literal["max_turns", "max_tool_calls", "max_seconds"]


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """The tools that a server which the request names has for it; ``error`` says why it has none."""

    server: str
    tools: tuple[McpTool, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ServerCallStart:
    """A call has begun that the server answers. ``index`` and ``id`` are like those of a client's calls.

    ``server`` and ``name`` are the tool as its server knows it; without a server there is no such tool.
    ``approval`` is the id of the request that was granted for it.
    """

    index: int
    id: str
    server: str
    name: str
    approval: str | None = None


@dataclass(frozen=True, slots=True)
class ServerCallDelta:
    """The next piece of such a call's arguments, as JSON text."""

    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class ServerCallEnd:
    """The arguments are complete; the tool may run now."""

    index: int


@dataclass(frozen=True, slots=True)
class ServerCallResult:
    """What came of a call: ``text`` for the model, and for clients an ``error`` if it failed."""

    index: int
    call: ServerCallStart
    arguments: str
    text: str
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A call that runs only once the client has agreed, under this unguessable id."""

    id: str
    server: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class LoopLimit:
    """A limit has ended the loop. ``answered``: the model has written an answer without tools since."""

    reason: LimitReason
    answered: bool


ServerEvent: TypeAlias = (
    ToolsListed
    | ServerCallStart
    | ServerCallDelta
    | ServerCallEnd
    | ServerCallResult
    | ApprovalRequested
    | LoopLimit
)
AnyEvent: TypeAlias = Event | ServerEvent

_SERVER_EVENTS = (
    ToolsListed,
    ServerCallStart,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ApprovalRequested,
    LoopLimit,
)


def said_by_model(events: Iterable[AnyEvent]) -> list[Event]:
    """The events that are a model's."""
    return [event for event in events if not isinstance(event, _SERVER_EVENTS)]
