"""A format's markers, compiled for one kind of request: what to look for in each state of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    ElementCalls,
    Format,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    Reasoning,
    RegionCalls,
    TaggedCalls,
)
from unspool.parsing.expressions import texts
from unspool.parsing.scanner import Watch

_FORCED = JsonCalls(bare=True, separators=",;")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A format's markers, compiled for one kind of request."""

    format: Format
    offered: bool
    calls: Mapping[str, tuple[Calls, ...]]
    """By opener: the call syntaxes that open so."""
    bare: tuple[tuple[str, Calls], ...]
    first: Watch
    later: Watch
    inside: tuple[tuple[Watch, Watch], ...]
    closers: Mapping[str, tuple[str, str]]
    """Markers that can stand in content without being a call: the pad that follows each, and what it is."""
    marks: tuple[str, ...]
    """All markers that may stand outside calls."""


def openers(fmt: Format) -> tuple[str, ...]:
    """The markers with which a call or a section of calls may open."""
    shapes = (fmt.calls, *fmt.also)
    return tuple(dict.fromkeys(mark for shape in shapes for mark in _openers(shape)))


def _openers(calls: Calls | None) -> tuple[str, ...]:
    match calls:
        case JsonCalls() | PythonCalls():
            return calls.open
        case NamedCalls():
            return tuple(mark for mark in (calls.section_open, calls.open) if mark)
        case ElementCalls():
            return (calls.section_open, calls.call_open)
        case TaggedCalls():
            return calls.section_open + calls.call_open
        case RegionCalls():
            openings = (region.open for region in calls.regions if region.kind == "calls")
            return tuple(text for expression in openings for text in texts(expression)[:1])
    return ()


@lru_cache(maxsize=512)
def compile_grammar(fmt: Format, offered: bool, forced: bool) -> Grammar:
    """The grammar of a format when tools are offered or not; ``forced``: a call must come."""
    shapes = tuple(shape for shape in (fmt.calls, *fmt.also) if shape is not None) if offered else ()
    calls: dict[str, tuple[Calls, ...]] = {}
    bare: list[tuple[str, Calls]] = []
    for shape in shapes:
        for mark in _openers(shape):
            calls[mark] = (*calls.get(mark, ()), shape)
        if isinstance(shape, JsonCalls) and shape.bare:
            bare += [("{", shape), ("[", shape)]
        elif isinstance(shape, PythonCalls) and shape.bare:
            bare.append(("[", shape))
        elif isinstance(shape, NamedCalls) and not shape.open:
            bare.append(("", shape))
    if offered and forced and not isinstance(fmt.calls, ChannelCalls | RegionCalls):
        bare += [(mark, _FORCED) for mark in "{[" if mark not in {mark for mark, _ in bare}]
    bare.sort(key=lambda entry: not entry[0])
    marks = tuple(calls)
    pad = fmt.before_call_accepts or fmt.before_call
    recurring = tuple(r.open for r in fmt.reasoning if r.recurs)
    dropped = (
        (fmt.content_end, fmt.stops),
        ("", tuple(frame.open for frame in fmt.frames)),
        *((frame.close_pad, (frame.close,)) for frame in fmt.frames),
    )
    ends = tuple(mark for block in fmt.reasoning for mark in (block.close, *block.closes_too))
    return Grammar(
        format=fmt,
        offered=offered,
        calls=calls,
        bare=tuple(bare),
        first=Watch((pad, marks), ("", tuple(r.open for r in fmt.reasoning)), *dropped, ("", ends)),
        later=Watch((pad, marks), ("", recurring), *dropped),
        inside=tuple(_inside(fmt, block, marks) for block in fmt.reasoning),
        marks=(
            *marks,
            *fmt.stops,
            *fmt.next_turns,
            *(mark for frame in fmt.frames for mark in (frame.open, frame.close)),
            *(block.open for block in fmt.reasoning),
            *ends,
        ),
        closers={
            **dict.fromkeys(fmt.stops, ("", "ends the turn")),
            **{frame.close: (frame.after, "wraps content") for frame in fmt.frames},
            **{frame.open: (frame.open_pad, "wraps content") for frame in fmt.frames},
            **{
                mark: (block.after_accepts or block.after, "closer without an opener")
                for block in fmt.reasoning
                for mark in (block.close, *block.closes_too)
            },
        },
    )


def _inside(fmt: Format, block: Reasoning, marks: tuple[str, ...]) -> tuple[Watch, Watch]:
    """What is looked for in a block, and what is once a call was found in it."""
    closers = (block.close, *block.closes_too)
    return (
        Watch(
            (block.close_pad, closers),
            (block.close_pad, marks if block.ends_at_call or block.holds_calls else ()),
            ("", block.ends_at),
            ("", fmt.stops),
            ("", block.dropped),
        ),
        Watch((block.close_pad, closers)),
    )
