"""Feeds one generation to the parser in every way it can be cut.

The recorded cases of this suite (bug reports, samples, other engines' tests) are all the same thing: a
text, the tools that were offered, how the prompt ended, and the message that is right. Here is the one
way to replay them: as a whole, one character at a time, at every split point and at cuts of their own,
always checking that the events are a legal stream before they are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import unspool
from unspool import (
    ContentDelta,
    Event,
    Finish,
    Message,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from unspool.events import FinishReason

ArgumentMode = Literal["incremental", "atomic"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One recorded generation and everything the parser is told about it."""

    format: str
    raw: str
    tools: Sequence[Mapping[str, Any]] = ()
    prompt: str | None = None
    tool_choice: Any = "auto"
    parallel_tool_calls: bool = True
    finish: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A message in a form that can be compared: arguments are canonical JSON text."""

    reasoning: str | None = None
    content: str | None = None
    calls: tuple[tuple[str, str], ...] = ()

    def stripped(self) -> Outcome:
        """The same message without white space around its texts; a blank text counts as absent."""
        return Outcome(_strip(self.reasoning), _strip(self.content), self.calls)


def calls(*named: tuple[str, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """The calls of an :class:`Outcome` from names and decoded arguments."""
    return tuple((name, canonical(arguments)) for name, arguments in named)


def canonical(value: Any) -> str:
    """One text per JSON value: key order is ignored, 1, 1.0 and true stay three different values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def decode_arguments(text: str) -> dict[str, Any]:
    """Arguments as the strictest client would read them: an object, unique keys, no NaN."""
    value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_reject_constant)
    assert isinstance(value, dict), f"arguments are not an object: {text!r}"
    return value


def parse_cut(
    generation: Generation, pieces: Sequence[str], arguments: ArgumentMode = "incremental"
) -> list[Event]:
    """The events of a generation that arrives in these pieces; checked to be a legal stream."""
    assert "".join(pieces) == generation.raw
    parser = unspool.Parser(
        unspool.get_format(generation.format),
        tools=list(generation.tools),
        tool_choice=generation.tool_choice,
        prompt=generation.prompt,
        arguments=arguments,
        parallel_tool_calls=generation.parallel_tool_calls,
    )
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    events += parser.finish(generation.finish)
    _check_stream(events, arguments)
    return events


def outcome(events: Sequence[Event]) -> Outcome:
    """What a client holds after these events."""
    message = Message.from_events(events)
    return Outcome(
        message.reasoning,
        message.content,
        tuple((call.name, canonical(decode_arguments(call.arguments))) for call in message.tool_calls),
    )


def every_cut(raw: str) -> Iterator[tuple[str, ...]]:
    """The whole text, single characters, and the text split in two at every point."""
    yield (raw,)
    yield tuple(raw)
    for point in range(1, len(raw)):
        yield raw[:point], raw[point:]


def outcomes_by_cut(
    generation: Generation, cuts: Iterator[tuple[str, ...]], arguments: ArgumentMode
) -> dict[Outcome, tuple[str, ...]]:
    """Every different outcome of these cuts, each with the first cut that gave it."""
    found: dict[Outcome, tuple[str, ...]] = {}
    for pieces in cuts:
        found.setdefault(outcome(parse_cut(generation, pieces, arguments)), pieces)
    return found


def _check_stream(events: Sequence[Event], arguments: ArgumentMode) -> None:
    """Starts count up from 0 with names and fresh ids, pieces belong to an open call, one finish is last."""
    ids: list[str] = []
    open_calls: set[int] = set()
    for event in events[:-1]:
        match event:
            case ToolCallStart(index, call_id, name):
                assert index == len(ids), f"call {len(ids)} starts with index {index}"
                assert call_id, f"call {index} has an empty id"
                assert name, f"call {index} has an empty name"
                ids.append(call_id)
                open_calls.add(index)
            case ToolCallDelta(index, piece):
                assert index in open_calls, f"arguments for call {index}, which is not open"
                assert piece, f"an empty argument piece for call {index}"
            case ToolCallEnd(index):
                assert index in open_calls, f"call {index} ends but is not open"
                open_calls.remove(index)
            case ContentDelta(text) | ReasoningDelta(text):
                assert text, f"an empty delta: {event!r}"
            case Finish():
                raise AssertionError("an event after the finish")
    assert events, "no finish"
    assert isinstance(events[-1], Finish), f"the last event is {events[-1]!r}, not the finish"
    assert len(set(ids)) == len(ids), f"call ids repeat: {ids}"
    if arguments == "atomic":
        assert not open_calls, f"calls {sorted(open_calls)} were announced in atomic mode but never completed"


def _strip(text: str | None) -> str | None:
    return (text or "").strip() or None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key twice in one object: {keys}"
    return dict(pairs)


def _reject_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")
