"""One turn of a model: reasoning, content and calls, as two coroutines that hand over to each other.

A state looks for its own markers only, so nothing is syntax where it can't be: in reasoning the closer, in
content the openers. Layout whitespace at the start of a stretch of content waits for what follows it: before
text it is text, before a marker it is framing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unspool.parsing.calls import json_calls, named_calls, python_calls, tagged_calls
from unspool.parsing.channels import channels
from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    Format,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    Reasoning,
    RegionCalls,
    TaggedCalls,
)
from unspool.parsing.expressions import texts
from unspool.parsing.reader import (
    HOLD,
    NotACall,
    Reader,
    Steps,
    Unfinished,
    content_sink,
    no_space,
    reasoning_sink,
)
from unspool.parsing.regions import regions
from unspool.parsing.scanner import Watch

_FORCED = JsonCalls(bare=True, separators=",;")
_READERS: dict[type, Callable[[Reader, Any, str], Steps[None]]] = {
    JsonCalls: json_calls,
    NamedCalls: named_calls,
    TaggedCalls: tagged_calls,
    PythonCalls: python_calls,
}


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
        elif isinstance(shape, PythonCalls):
            bare.append(("[", shape))
    if offered and forced and not isinstance(fmt.calls, ChannelCalls | RegionCalls):
        bare += [(mark, _FORCED) for mark in "{[" if mark not in {mark for mark, _ in bare}]
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
        ),
        Watch((block.close_pad, closers)),
    )


def turn(r: Reader, grammar: Grammar) -> Steps[None]:
    """Reads a whole generation."""
    if isinstance(grammar.format.calls, ChannelCalls):
        yield from channels(r, grammar.format.calls, offered=grammar.offered)
        return
    if isinstance(grammar.format.calls, RegionCalls):
        yield from regions(r, grammar.format.calls, offered=grammar.offered)
        return
    block: Reasoning | None = None
    yield from r.pad(grammar.format.lead, "layout at the start of the turn")
    while True:
        if block is None:
            block = yield from _content(r, grammar)
            if block is None:
                return
        else:
            if not (yield from _reasoning(r, grammar, block)):
                return
            block = None


def _content(r: Reader, g: Grammar) -> Steps[Reasoning | None]:
    """Reads content and calls up to a reasoning opener, or to the end (``None``)."""
    lead = True
    watch = g.later
    while True:
        if lead:
            watch = g.first if r.fresh else g.later
            ahead = r.space_end(r.pos)
            if ahead == len(r.text) and not r.final and ahead - r.pos <= HOLD:
                r.wait(no_space)
                yield
                continue
            found = watch.at(r.text, ahead, r.final) if ahead - r.pos <= HOLD else None
            if found and not found.lastindex:
                r.wait_for(watch, ahead - r.pos)
                yield
                continue
            if found:
                r.take(ahead, "framing", "layout before a marker")
            elif ahead == len(r.text) and r.final and r.spoke:
                r.take(ahead, "framing", "layout at the end")
                return None
            elif g.bare and ahead < len(r.text) and (yield from _bare(r, g, ahead)):
                continue
            else:
                lead = False
                watch = g.later
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if found is None and r.final:
            end = _content_end(r, g.format.content_end)
        if end > r.pos:
            r.content(end)
        if found is None:
            if r.final:
                r.take(len(r.text), "framing", "layout at the end")
                return None
            r.flow(watch.stop, content_sink)
            yield
            continue
        if not found.lastindex:
            r.wait_for(watch)
            yield
            continue
        mark = found.group(found.lastindex)
        if found.lastindex == 1:
            lead = yield from _call(r, g, found.end(), mark)
            watch = g.later
        elif found.lastindex == 2:
            r.take(found.end(), "framing", "opens reasoning")
            return next(block for block in g.format.reasoning if block.open == mark)
        else:
            after, note = g.closers[mark]
            r.take(found.end(), "framing", note)
            if mark not in g.format.stops:
                lead = True
                r.fresh = r.fresh and note == "wraps content"
                yield from r.pad(after, "layout after a marker")


def _content_end(r: Reader, pad: str) -> int:
    """Where the content ends that ends the turn, with the layout that a template puts behind it left out."""
    end = len(r.text)
    while end > r.pos and len(r.text) - end < len(pad) and r.text[end - 1] in pad:
        end -= 1
    return end


def _bare(r: Reader, g: Grammar, ahead: int) -> Steps[bool]:
    """Tries a call without markers at the start of a stretch of content."""
    shape = next((calls for mark, calls in g.bare if r.text[ahead] == mark), None)
    if shape is None:
        return False
    r.begin_call()
    r.take(ahead, "framing", "layout before a call")
    try:
        yield from _READERS[type(shape)](r, shape, "")
    except NotACall as why:
        r.reject_call(why)
        return False
    r.end_call()
    return True


def _read(r: Reader, g: Grammar, mark: str) -> Steps[None]:
    """Reads what stands behind a call opener, by the syntax that opens so."""
    shapes = g.calls[mark]
    shape = shapes[0]
    if len(shapes) > 1:
        yield from r.space()
        json = bool((yield from r.at(("{", "["))))
        shape = next((each for each in shapes if isinstance(each, JsonCalls) is json), shape)
    yield from _READERS[type(shape)](r, shape, mark)


def _call(r: Reader, g: Grammar, end: int, mark: str, *, in_reasoning: bool = False) -> Steps[bool]:
    """Reads what a call opener promises; whether there was a call."""
    r.begin_call()
    r.take(end, "framing", "opens a call")
    try:
        yield from _read(r, g, mark)
    except NotACall as why:
        r.reject_call(why, in_reasoning=in_reasoning)
        return False
    r.end_call()
    return True


def _reasoning(r: Reader, g: Grammar, block: Reasoning) -> Steps[bool]:
    """Reads a reasoning block through its closer; ``False`` at the end of the text."""
    watch, closer = g.inside[g.format.reasoning.index(block)]
    r.spoke = True
    r.fresh = False
    prefilled = r.in_prompt
    yield from r.pad(block.open_pad, "layout after the reasoning opener")
    if prefilled and (size := (yield from _repeated(r, block.open))):
        r.take(r.pos + size, "framing", "opener repeated after the prompt's")
        yield from r.pad(block.open_pad, "layout after the reasoning opener")
    while True:
        found = watch.find(r.text, r.pos, r.final)
        r.reasoning(found.start() if found else len(r.text))
        if found is None or not found.lastindex:
            if r.final:
                return False
            if found is None:
                r.flow(watch.stop, reasoning_sink)
            else:
                r.wait_for(watch)
            yield
            continue
        mark = found.group(found.lastindex)
        if found.lastindex == 1:
            r.fresh = r.in_prompt
            r.take(found.end(), "framing", "closes the reasoning")
            yield from r.pad(block.after_accepts or block.after, "layout after the reasoning closer")
            return True
        if found.lastindex == 3:
            return True
        if found.lastindex == 4:
            r.take(found.end(), "framing", "ends the turn")
        elif (yield from _call_inside(r, g, block, closer, found.end() - r.pos, mark)):
            return True


def _repeated(r: Reader, opener: str) -> Steps[int]:
    """The size of a reasoning opener, and the layout before it, that repeats the prompt's; 0 for none."""
    while True:
        ahead = r.space_end(r.pos) - r.pos
        if ahead > HOLD:
            return 0
        if r.pos + ahead < len(r.text) or r.final:
            return ahead + len(opener) if (yield from r.at((opener,), ahead)) else 0
        yield


def _call_inside(r: Reader, g: Grammar, block: Reasoning, closer: Watch, size: int, mark: str) -> Steps[bool]:
    """Decides about a call opener inside an open block; whether the block ends there.

    It must open a call to an offered tool. Then the call stands inside the block, where the format has such calls;
    otherwise it ends the block if no closer follows: from here on the text waits for the closer or the end, the
    one place where more than a marker is held.
    """

    def attempt() -> Steps[None]:
        r.take(r.pos + size)
        yield from _read(r, g, mark)

    try:
        name = yield from r.probe(attempt())
    except Unfinished:
        if r.cut:
            r.take(len(r.text), "cut", "call cut by the token limit")
        else:
            r.reasoning(r.pos + size, "a marker that opens no call")
        return False
    if name not in r.tools:
        r.reasoning(r.pos + size, "a marker that opens no call")
        return False
    if block.holds_calls:
        yield from _call(r, g, r.pos + size, mark, in_reasoning=True)
        return False
    start = r.offset
    held: list[str] = []

    def hold(delta: str) -> list[Any]:
        held.append(delta)
        return []

    while True:
        found = closer.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if r.final and not (found and found.lastindex):
            r.rewind("".join(held) + r.text[r.pos :], start)
            return (yield from _call(r, g, r.pos + size, mark, in_reasoning=True))
        held.append(r.take(end, "reasoning", "a call drafted inside reasoning"))
        if found and found.lastindex:
            r.say_reasoning("".join(held), start)
            r.take(found.end(), "framing", "closes the reasoning")
            yield from r.pad(block.after_accepts or block.after, "layout after the reasoning closer")
            return True
        if found is None:
            r.flow(closer.stop, hold)
        yield
