"""One turn of a model: reasoning, content and calls, as two coroutines that hand over to each other.

A state looks for its own markers only, so nothing is syntax where it can't be: in reasoning the closer, in
content the openers. Layout whitespace at the start of a stretch of content waits for what follows it: before
text it is text, before a marker it is framing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from unspool.parsing.calls import element_calls, json_calls, named_calls, python_calls, tagged_calls
from unspool.parsing.channels import channels
from unspool.parsing.declaration import (
    ChannelCalls,
    ElementCalls,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    Reasoning,
    RegionCalls,
    TaggedCalls,
)
from unspool.parsing.grammar import Grammar
from unspool.parsing.markers import cut_marker
from unspool.parsing.reader import Reader
from unspool.parsing.regions import regions
from unspool.parsing.scanner import Watch
from unspool.parsing.signals import HOLD, NotACall, Steps, Unfinished, no_space

_READERS: dict[type, Callable[[Reader, Any, str], Steps[None]]] = {
    JsonCalls: json_calls,
    NamedCalls: named_calls,
    TaggedCalls: tagged_calls,
    ElementCalls: element_calls,
    PythonCalls: python_calls,
}


def turn(r: Reader, grammar: Grammar) -> Steps[None]:
    """Reads a whole generation."""
    if isinstance(grammar.format.calls, ChannelCalls):
        yield from channels(r, grammar.format.calls, offered=grammar.offered)
        return
    if isinstance(grammar.format.calls, RegionCalls):
        yield from regions(r, grammar.format.calls, offered=grammar.offered)
        return
    block: Reasoning | None = None
    lead = grammar.format.lead_accepts or grammar.format.lead
    yield from r.pad(lead, "layout at the start of the turn")
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
    behind_call = -1
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
            if found and found.lastindex == 1:
                # The layout is the call's, and comes back as text if it is none.
                lead = yield from _content_call(r, g, found.end(), found.group(1))
                behind_call = r.offset if lead else -1
                watch = g.later
                continue
            if found:
                r.take(ahead, "framing", "layout before a marker")
            elif ahead == len(r.text) and r.final and r.spoke:
                r.take(ahead, "framing", "layout at the end")
                return None
            elif g.bare and ahead < len(r.text) and ahead - r.pos <= HOLD and (yield from _bare(r, g, ahead)):
                continue
            else:
                lead = False
                watch = g.later
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if found is None and r.final:
            end = min(
                _content_end(r, g.format.content_end),
                begun := cut_marker(r, g.first if r.fresh else watch, g.marks, due=r.offset == behind_call),
            )
            r.content(end)
            r.take(begun, "framing", "layout at the end")
            r.take(len(r.text), "cut", "a marker cut by the token limit")
            return None
        if end > r.pos:
            r.content(end)
        if found is None:
            r.flow_text(watch, reasoning=False)
            yield
            continue
        if not found.lastindex:
            r.wait_for(watch)
            yield
            continue
        mark = found.group(found.lastindex)
        if found.lastindex == 1:
            lead = yield from _content_call(r, g, found.end(), mark)
            behind_call = r.offset if lead else -1
            watch = g.later
            continue
        if found.lastindex == 2:
            r.take(found.end(), "framing", "opens reasoning")
            return next(block for block in g.format.reasoning if block.open == mark)
        gap = found.start(found.lastindex) - r.pos
        what = (yield from _stop(r, g, mark, gap)) if found.lastindex == 3 else "ends"
        if what == "letters":
            r.content(r.pos + gap + len(mark), "a terminator that ends nothing")
            continue
        after, note = g.closers[mark]
        r.take(r.pos + gap + len(mark), "framing", note)
        if what == "over":
            yield from _next_turn(r)
            return None
        if mark not in g.format.stops:
            lead = True
            r.fresh = r.fresh and note == "wraps content"
            yield from r.pad(after, "layout after a marker")


def _content_call(r: Reader, g: Grammar, end: int, mark: str) -> Steps[bool]:
    """Reads a call in content, and what a template writes between it and content that follows."""
    found = yield from _call(r, g, end, mark)
    if found and g.format.calls_first:
        yield from r.pad(g.format.calls_end, "layout after the calls")
    return found


def _stop(r: Reader, g: Grammar, mark: str, offset: int) -> Steps[Literal["letters", "ends", "over"]]:
    """What a terminator that stands ``offset`` characters ahead is.

    As mere text before more text it is ``letters``. Before another turn all is ``over``: the engine forgot to
    stop. Otherwise it ``ends`` the turn.
    """
    if r.in_prompt:
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


def _content_end(r: Reader, pad: str) -> int:
    """Where the content ends that ends the turn, with the layout that a template puts behind it left out."""
    end = len(r.text)
    while end > r.pos and len(r.text) - end < len(pad) and r.text[end - 1] in pad:
        end -= 1
    return end


def _bare(r: Reader, g: Grammar, ahead: int) -> Steps[bool]:
    """Tries a call without markers at the start of a stretch of content.

    Behind a call, one in another syntax than the format's own only repeats what was called.
    """
    shape = next((calls for mark, calls in g.bare if r.text.startswith(mark, ahead)), None)
    if shape is None or (r.call.ended and shape in g.format.also):
        return False
    r.begin_call()
    r.take(ahead, "framing", "layout before a call")
    return (yield from r.attempt(_READERS[type(shape)](r, shape, "")))


def _read(r: Reader, g: Grammar, mark: str) -> Steps[None]:
    """Reads what stands behind a call opener, by the syntax that opens so."""
    shapes = g.calls[mark]
    shape = shapes[0]
    if len(shapes) > 1:
        yield from r.space()
        json = yield from _json_ahead(r)
        shape = next((each for each in shapes if isinstance(each, JsonCalls) is json), shape)
    yield from _READERS[type(shape)](r, shape, mark)


def _json_ahead(r: Reader) -> Steps[bool]:
    """Whether a JSON object stands at the cursor, or a list that holds one first or nothing."""
    mark = yield from r.at(("{", "["))
    size = 1
    while mark == "[":
        size = r.space_end(r.pos + 1) - r.pos
        if size > HOLD:
            return False
        if r.pos + size < len(r.text) or r.final:
            return r.text.startswith(("{", "]"), r.pos + size)
        yield
    return bool(mark)


def _call(r: Reader, g: Grammar, end: int, mark: str, *, in_reasoning: bool = False) -> Steps[bool]:
    """Reads what a call opener promises; whether there was a call."""
    r.begin_call()
    r.take(end, "framing", "opens a call")
    r.settle()
    return (yield from r.attempt(_read(r, g, mark), in_reasoning=in_reasoning))


def _reasoning(r: Reader, g: Grammar, block: Reasoning) -> Steps[bool]:
    """Reads a reasoning block through its closer; ``False`` at the end of the text."""
    watch, closer = g.inside[g.format.reasoning.index(block)]
    r.spoke = True
    r.fresh = False
    prefilled = r.in_prompt
    yield from r.pad(block.open_pad, "layout after the reasoning opener")
    if prefilled and (size := (yield from r.ahead((block.open,)))):
        r.take(r.pos + size, "framing", "opener repeated after the prompt's")
        yield from r.pad(block.open_pad, "layout after the reasoning opener")
    while True:
        found = watch.find(r.text, r.pos, r.final)
        if found is None and r.final:
            r.reasoning(cut_marker(r, watch, (block.close, *block.closes_too, *g.calls)))
            r.take(len(r.text), "cut", "a marker cut by the token limit")
            return False
        r.reasoning(found.start() if found else len(r.text))
        if found is None or not found.lastindex:
            if found is None:
                r.flow_text(watch, reasoning=True)
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
            role = yield from _stop(r, g, mark, 0)
            if role == "letters":
                r.reasoning(r.pos + len(mark), "a terminator that ends nothing")
                continue
            r.take(r.pos + len(mark), "framing", "ends the turn")
            if role == "over":
                yield from _next_turn(r)
                return False
        elif found.lastindex == 5:
            r.take(found.end(), "framing", "marks a note")
        else:
            size = found.end() - r.pos
            if (yield from _call_inside(r, g, block, closer, size, mark)):
                return True


def _call_inside(r: Reader, g: Grammar, block: Reasoning, closer: Watch, size: int, mark: str) -> Steps[bool]:
    """Decides about a call opener inside an open block; whether it ends the block.

    It must open a call to an offered tool. Then the call stands inside the block, where the format has such calls;
    otherwise it ends the block if no closer follows: from here on the text waits for the closer or the end, the
    one place where more than a marker is held. Once the text has ended without a closer, none is looked for again.
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
        r.barriers = (block.close, *block.closes_too)
        yield from _call(r, g, r.pos + size, mark, in_reasoning=True)
        r.barriers = ()
        return False
    start = r.offset
    held: list[str] = []

    def hold(delta: str) -> list[Any]:
        held.append(delta)
        return []

    r.holding = block.open not in r.unclosed
    while block.open not in r.unclosed:
        found = closer.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if r.final or (found and found.lastindex):
            r.holding = False
        if r.final and not (found and found.lastindex):
            r.unclosed.add(block.open)
            r.rewind("".join(held) + r.text[r.pos :], start)
            break
        held.append(r.take(end, "reasoning", "a call drafted inside reasoning"))
        if found and found.lastindex:
            r.say_reasoning("".join(held), start)
            r.take(found.end(), "framing", "closes the reasoning")
            yield from r.pad(block.after_accepts or block.after, "layout after the reasoning closer")
            return True
        if found is None:
            r.flow(closer.stop, hold)
        yield
    if r.cut and (end := _drafted(r, g, size, mark)):
        r.reasoning(end, "a call drafted inside reasoning")
        return False
    return (yield from _call(r, g, r.pos + size, mark, in_reasoning=True))


def _drafted(r: Reader, g: Grammar, size: int, mark: str) -> int:
    """Where text goes on behind a row of calls that opens here, in a text that has ended; 0 if none does."""
    dry = Reader(tools=r.tools, atomic=True, parallel=True, spelled=None, trace=False)
    dry.text, dry.pos, dry.final, dry.stops = r.text, r.pos, True, r.stops
    goes_on = 0
    while mark:
        dry.take(dry.pos + size)
        try:
            # A text that has ended is never waited for: the first step is the last.
            next(_read(dry, g, mark), None)
        except Unfinished:
            return 0
        except NotACall:
            return goes_on
        goes_on = dry.pos
        ahead = dry.space_end(dry.pos)
        if dry.text.startswith(r.stops, ahead) or ahead == len(dry.text):
            return 0
        mark = max((mark for mark in g.calls if dry.text.startswith(mark, ahead)), key=len, default="")
        size = ahead - dry.pos + len(mark)
    return goes_on
