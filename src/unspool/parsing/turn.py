"""One turn of a model: reasoning, content and calls, as two coroutines that hand over to each other.

A state looks for its own markers only, so nothing is syntax where it can't be: in reasoning the closer, in
content the openers. Layout whitespace at the start of a stretch of content waits for what follows it: before
text it is text, before a marker it is framing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

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
    TaggedCalls,
)
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
    calls: Calls | None
    bare: tuple[tuple[str, Calls], ...]
    first: Watch
    later: Watch
    inside: tuple[tuple[Watch, Watch], ...]
    marks: tuple[str, ...]
    """All markers that may stand outside calls."""


def openers(calls: Calls | None) -> tuple[str, ...]:
    """The markers with which a call or a section of calls may open."""
    match calls:
        case JsonCalls() | PythonCalls():
            return calls.open
        case NamedCalls():
            return tuple(mark for mark in (calls.section_open, calls.open) if mark)
        case TaggedCalls():
            return calls.section_open + calls.call_open
    return ()


@lru_cache(maxsize=512)
def compile_grammar(fmt: Format, offered: bool, forced: bool) -> Grammar:
    """The grammar of a format when tools are offered or not; ``forced``: a call must come."""
    calls = fmt.calls if offered else None
    marks = openers(calls)
    bare: list[tuple[str, Calls]] = []
    if isinstance(calls, JsonCalls) and calls.bare:
        bare += [("{", calls), ("[", calls)]
    elif isinstance(calls, PythonCalls):
        bare.append(("[", calls))
    if offered and forced and not isinstance(calls, ChannelCalls):
        bare += [(mark, _FORCED) for mark in "{[" if mark not in {mark for mark, _ in bare}]
    frame = tuple(mark for pair in fmt.content_frame for mark in pair)
    dropped = fmt.stops + frame
    pad = fmt.before_call_accepts or fmt.before_call
    recurring = tuple(r.open for r in fmt.reasoning if r.recurs)
    return Grammar(
        format=fmt,
        calls=calls,
        bare=tuple(bare),
        first=Watch(
            (pad, marks),
            ("", tuple(r.open for r in fmt.reasoning)),
            ("", dropped + tuple(r.close for r in fmt.reasoning)),
        ),
        later=Watch((pad, marks), ("", recurring), ("", dropped)),
        inside=tuple(
            (
                Watch(
                    (r.close_pad, (r.close,)),
                    (r.close_pad, marks if r.ends_at_call else ()),
                    ("", r.ends_at),
                    ("", fmt.stops),
                ),
                Watch((r.close_pad, (r.close,))),
            )
            for r in fmt.reasoning
        ),
        marks=marks + dropped + fmt.next_turns + tuple(mark for r in fmt.reasoning for mark in (r.open, r.close)),
    )


def turn(r: Reader, grammar: Grammar) -> Steps[None]:
    """Reads a whole generation."""
    if isinstance(grammar.format.calls, ChannelCalls):
        yield from channels(r, grammar.format.calls, offered=grammar.calls is not None)
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
    closers = {block.close: block.after for block in g.format.reasoning}
    while True:
        if lead:
            watch = g.first if r.fresh else g.later
            ahead = r.space_end(r.pos)
            if ahead == len(r.text) and not r.final and ahead - r.pos <= HOLD:
                r.wait(no_space)
                yield
                continue
            found = watch.at(r.text, ahead, r.final) if ahead - r.pos <= HOLD else None
            if found and found.lastindex == 3:
                gap = ahead - r.pos
                letters = (yield from _stop(r, g, found.group(3), gap)) == "letters"
                ahead = r.pos + gap
                found = None if letters else watch.at(r.text, ahead, r.final)
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
        if end > r.pos:
            r.content(end)
        if found is None:
            if r.final:
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
            assert g.calls is not None
            lead = yield from _call(r, g.calls, found.end(), mark)
            watch = g.later
            continue
        what = (yield from _stop(r, g, mark, 0)) if found.lastindex == 3 else "ends"
        if what == "letters":
            r.content(r.pos + len(mark), "a terminator that ends nothing")
            continue
        note = "opens reasoning" if found.lastindex == 2 else _dropped(g, mark)
        r.take(r.pos + len(mark), "framing", note)
        if what == "over":
            yield from _next_turn(r)
            return None
        lead = lead or mark not in g.format.stops
        if mark in closers:
            r.fresh = False
            yield from r.pad(closers[mark], "layout after the closer")
        if found.lastindex == 2:
            return next(block for block in g.format.reasoning if block.open == mark)


def _stop(r: Reader, g: Grammar, mark: str, offset: int) -> Steps[Literal["letters", "ends", "over"]]:
    """What a marker that stands ``offset`` characters ahead is, if it is a terminator.

    As mere text before more text it is ``letters``. Before another turn all is ``over``: the engine forgot to
    stop. Whatever is no terminator ``ends`` something too.
    """
    if mark not in g.format.stops or r.in_prompt:
        return "ends"
    offset += len(mark)
    while True:
        ahead = r.space_end(r.pos + offset) - r.pos
        if ahead - offset > HOLD or r.pos + ahead < len(r.text):
            break
        if r.final:
            return "ends"
        r.wait(no_space)
        yield
    follows = (yield from r.at(g.marks, ahead)) if ahead - offset <= HOLD else ""
    if follows in g.format.next_turns:
        return "over"
    return "ends" if follows or r.certain(mark) else "letters"


def _next_turn(r: Reader) -> Steps[None]:
    """Reads what an engine that did not stop has generated for somebody else."""
    while True:
        r.take(len(r.text), "framing", "another turn")
        if r.final:
            return
        yield


def _dropped(g: Grammar, mark: str) -> str:
    """Why this marker is no text."""
    if mark in g.format.stops:
        return "ends the turn"
    closes = any(mark == block.close for block in g.format.reasoning)
    return "closer without an opener" if closes else "wraps content"


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


def _call(r: Reader, calls: Calls, end: int, mark: str, *, in_reasoning: bool = False) -> Steps[bool]:
    """Reads what a call opener promises; whether there was a call."""
    r.begin_call()
    r.take(end, "framing", "opens a call")
    r.settle()
    try:
        yield from _READERS[type(calls)](r, calls, mark)
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
    unclosed = False
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
            yield from r.pad(block.after, "layout after the reasoning closer")
            return True
        if found.lastindex == 3:
            return True
        if found.lastindex == 4:
            role = yield from _stop(r, g, mark, 0)
            if role == "letters":
                r.reasoning(r.pos + len(mark), "a terminator that ends nothing")
                continue
            r.take(r.pos + len(mark), "framing", "ends the turn")
            if role == "over":
                yield from _next_turn(r)
                return False
        else:
            size = found.end() - r.pos
            what = yield from _ends_at_call(r, g, block, None if unclosed else closer, size, mark)
            if what == "ends":
                return True
            unclosed = unclosed or what == "never closes"


def _repeated(r: Reader, opener: str) -> Steps[int]:
    """The size of a reasoning opener, and the layout before it, that repeats the prompt's; 0 for none."""
    while True:
        ahead = r.space_end(r.pos) - r.pos
        if ahead > HOLD:
            return 0
        if r.pos + ahead < len(r.text) or r.final:
            return ahead + len(opener) if (yield from r.at((opener,), ahead)) else 0
        yield


def _ends_at_call(
    r: Reader, g: Grammar, block: Reasoning, closer: Watch | None, size: int, mark: str
) -> Steps[Literal["ends", "goes on", "never closes"]]:
    """Decides about a call opener inside an open block: a call, if it is valid and no closer follows it.

    From a valid opener of an offered tool on, the text waits for the closer or the end: the one place where
    more than a marker is held. Without ``closer`` none follows, and the text has ended.
    """
    calls = g.calls
    assert calls is not None

    def attempt() -> Steps[None]:
        r.take(r.pos + size)
        yield from _READERS[type(calls)](r, calls, mark)

    try:
        name = yield from r.probe(attempt())
    except Unfinished:
        if r.cut:
            r.take(len(r.text), "cut", "call cut by the token limit")
        else:
            r.reasoning(r.pos + size, "a marker that opens no call")
        return "goes on"
    if name not in r.tools:
        r.reasoning(r.pos + size, "a marker that opens no call")
        return "goes on"
    start = r.offset
    held: list[str] = []

    def hold(delta: str) -> list[Any]:
        held.append(delta)
        return []

    while closer:
        found = closer.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if r.final and not (found and found.lastindex):
            r.rewind("".join(held) + r.text[r.pos :], start)
            break
        held.append(r.take(end, "reasoning", "a call drafted inside reasoning"))
        if found and found.lastindex:
            r.say_reasoning("".join(held), start)
            r.take(found.end(), "framing", "closes the reasoning")
            yield from r.pad(block.after, "layout after the reasoning closer")
            return "ends"
        if found is None:
            r.flow(closer.stop, hold)
        yield
    if r.cut and (end := _drafted(r, calls, size, mark)):
        r.reasoning(end, "a call drafted inside reasoning")
    elif (yield from _call(r, calls, r.pos + size, mark, in_reasoning=True)):
        return "ends"
    return "never closes"


def _drafted(r: Reader, calls: Calls, size: int, mark: str) -> int:
    """Where text goes on behind a row of calls that opens here, in a text that has ended; 0 if none does."""
    dry = Reader(tools=r.tools, atomic=True, parallel=True, spelled=None, trace=False)
    dry.text, dry.pos, dry.final, dry.stops = r.text, r.pos, True, r.stops
    goes_on = 0
    while mark:
        dry.take(dry.pos + size)
        try:
            # A text that has ended is never waited for: the first step is the last.
            next(_READERS[type(calls)](dry, calls, mark), None)
        except Unfinished:
            return 0
        except NotACall:
            return goes_on
        goes_on = dry.pos
        ahead = dry.space_end(dry.pos)
        if dry.text.startswith(r.stops, ahead) or ahead == len(dry.text):
            return 0
        mark = max((mark for mark in openers(calls) if dry.text.startswith(mark, ahead)), key=len, default="")
        size = ahead - dry.pos + len(mark)
    return goes_on
