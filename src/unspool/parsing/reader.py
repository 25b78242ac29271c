"""The buffer that every reader of this package reads from and speaks through.

The grammar of a generation is written as coroutines (``turn``, ``calls``, ``codecs``) that read straight ahead
and ``yield`` when they need more text. What they decide goes out through the methods here, in order and for
good. While nothing but plain text can come, a coroutine leaves a test and a sink (:meth:`Reader.flow`) and
:meth:`Parser.feed` answers without waking it: that is the path nearly every token takes.

Consumed text is dropped at once, so each character is copied a bounded number of times. Only an open call
keeps its raw text, since a call that turns out to be none becomes content as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from unspool.events import ContentDelta, Event, ReasoningDelta
from unspool.parsing.opencall import OpenCall
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.signals import (
    HOLD,
    PROBE,
    Finder,
    Kind,
    NotACall,
    Opened,
    Span,
    Steps,
    Unfinished,
    content_sink,
    no_space,
)

_SENTINEL = pattern("[\ud800-\udfff]")
_LAYOUT = " \t\r\n"
_NOTHING = frozenset(("",))
_SPACE = pattern(r"[ \t\r\n]*+")


@lru_cache(maxsize=1024)
def _literals(
    literals: tuple[str, ...],
) -> tuple[Callable[[str, int], re.Match[str] | None], int, frozenset[str]]:
    """What matches the longest of the literals at a place, how long the longest is, all proper beginnings."""
    ordered = sorted(filter(None, literals), key=len, reverse=True)
    source = "|".join(map(re.escape, ordered))
    beginnings = frozenset(literal[:size] for literal in ordered for size in range(len(literal)))
    return pattern(source or "(?!)").match, max(map(len, ordered), default=0), beginnings


def stop(r: Reader, why: str) -> NoReturn:
    """Raises what fits: the text ended, perhaps in the middle of a marker, or what stands here is wrong."""
    if r.final and r.pos in (len(r.text), r.torn):
        raise Unfinished("the text ends inside a call")
    raise NotACall(why)


def _filtered(
    sink: Callable[[str], list[Event]], passes: Callable[[list[Event], bool], list[Event]]
) -> Callable[[str], list[Event]]:
    return lambda delta: passes(sink(delta), False)


class Reader:
    """Text in, events out; the state that the coroutines share."""

    def __init__(
        self,
        *,
        tools: Mapping[str, Any],
        atomic: bool,
        parallel: bool,
        spelled: Mapping[str, str] | None,
        trace: bool,
    ) -> None:
        self.text = ""
        self.pos = 0
        self.final = False
        self.cut = False
        self.tools = tools
        self.call = OpenCall(atomic=atomic, parallel=parallel)
        self.spoke = False
        self.fresh = True
        self.in_prompt = False
        self.holding = False
        self.filter: Callable[[list[Event], bool], list[Event]] | None = None
        self.stops: tuple[str, ...] = ()
        self.reopens: tuple[str, ...] = ()
        self.barriers: tuple[str, ...] = ()
        self.torn = -1
        self.unclosed: set[str] = set()
        self._base = 0
        self._keep: int | None = None
        self._out: list[Event] = []
        self.stop: Callable[[str], object] | None = None
        self.whole: Callable[[str], object] | None = None
        self.sink: Callable[[str], list[Event]] = content_sink
        self.steps: Steps[None]
        self._spelled = spelled
        self.spans: list[Span] | None = [] if trace else None
        self._probing = False
        self._raw: list[str] | None = None
        self._raw_from = 0
        self._raw_base = 0
        self._settled = 0

    # ---- text in

    def feed(self, delta: str) -> list[Event]:
        """The events that this text makes certain."""
        if not delta:
            return []
        if not isinstance(delta, str):
            raise TypeError(f"feed takes text, not {type(delta).__name__}; feed_tokens takes token ids")
        return self.step(delta)

    def step(self, delta: str) -> list[Event]:
        """Wakes the coroutine with this text, which may be empty; the events that it then makes."""
        self.stop = None
        self.call.flowed()
        self._let_go()
        self.text += delta
        out: list[Event] = []
        self._out = out
        next(self.steps, None)
        self.call.send(out)
        return out if self.filter is None else self.filter(out, self.final)

    def _let_go(self) -> None:
        """Drops the text that was read for good."""
        keep = self.pos if self._keep is None else min(self._keep, self.pos)
        if not keep:
            return
        if self._raw is not None:
            self._raw.append(self.text[self._raw_from : keep])
            self._raw_from = 0
        self._base += keep
        self.text = self.text[keep:]
        self.pos -= keep
        if self._keep is not None:
            self._keep -= keep

    # ---- for coroutines: reading

    def wait(self, decides: Callable[[str], object]) -> None:
        """Until ``decides`` finds something in a delta, text gathers without waking the coroutine.

        Only deltas after which the coroutine would do nothing but yield again may be slept through. More text
        than is ever held wakes it all the same.
        """
        self._let_go()
        self.stop = decides
        self.whole = None
        self.sink = self._gather

    def _gather(self, delta: str) -> list[Event]:
        self.text += delta
        return self.step("") if len(self.text) - self.pos > HOLD else []

    def wait_for(self, watch: Watch, offset: int = 0) -> None:
        """Waits while what is held from ``offset`` characters ahead on may still become a marker."""
        self._let_go()
        held = self.text[self.pos + offset :]
        start = offset + len(held) - len(held.lstrip(watch.layout))
        beginnings = watch.beginnings

        def decides(delta: str) -> bool | None:
            return None if self.text[self.pos + start :] + delta in beginnings else True

        self.wait(decides)

    def flow(
        self,
        stop: Callable[[str], object],
        sink: Callable[[str], list[Event]],
        whole: Callable[[str], object] | None = None,
    ) -> None:
        """Until ``stop`` finds something in a delta, ``sink`` turns it into events without waking the coroutine.

        A delta in which ``stop`` found something still flows if ``whole`` accepts it. Only legal when
        everything read so far is consumed.
        """
        if self.spans is not None or self.pos != len(self.text) or self._keep is not None or self.final:
            return
        if self._raw is not None:
            self._raw.append(self.text[self._raw_from : self.pos])
            self._raw_from = 0
        self._base += self.pos
        self.text = ""
        self.pos = 0
        self.stop = stop
        self.whole = whole
        self.sink = sink if self.filter is None else _filtered(sink, self.filter)

    def take(self, end: int, kind: Kind = "framing", note: str = "") -> str:
        """Consumes up to ``end`` and says what the text was."""
        start = self.pos
        self.pos = end
        if self.spans is not None and self.offset > max(self._base + start, 0):
            self.spans.append(Span(max(self._base + start, 0), self.offset, kind, note))
        return self.text[start:end]

    def space(self, word_end: Finder | None = None) -> Steps[None]:
        """Skips JSON whitespace, and waits for what follows it; ``word_end`` as for :meth:`next`."""
        while True:
            end = self.space_end(self.pos)
            if end > self.pos:
                self.take(end, "framing", "layout")
            if end < len(self.text) or self.final:
                return
            self._wait_at_layout(_NOTHING, word_end, "")
            yield

    def next(self, literals: tuple[str, ...], word_end: Finder | None = None, quote: str = "") -> Steps[str]:
        """Skips JSON whitespace; the longest of the literals that then stands here, or ``""``.

        The literal is not consumed; ``torn`` is as for :meth:`at`. ``word_end``: if a word may stand here that
        says nothing before it is complete, finds what ends one, the beginning of any literal included; until
        something does, the word gathers without waking the coroutine. ``quote``: how such a word begins.
        """
        match, longest, beginnings = _literals(literals)
        while True:
            text = self.text
            layout = _SPACE.match(text, self.pos)
            assert layout is not None
            end = layout.end()
            if end > self.pos:
                self.take(end, "framing", "layout")
            if len(text) - end >= longest or self.final or text[end:] not in beginnings:
                found = match(text, end)
                if found:
                    return found.group()
                if 0 < len(text) - end < longest and text[end:] in beginnings:
                    self.torn = end
                return ""
            # What began to be a literal is no word.
            self._wait_at_layout(beginnings, word_end if end == len(text) else None, quote)
            yield

    def _wait_at_layout(
        self,
        beginnings: frozenset[str],
        word_end: Finder | None,
        quote: str,
        offset: int = 0,
    ) -> None:
        """Waits through the layout that is ``offset`` characters ahead, then through a beginning or a word."""
        if word_end is not None:
            ends = word_end

            def word(delta: str) -> object:
                begun = delta.lstrip(_LAYOUT)
                if not begun:
                    return None
                self.stop = ends
                return ends(begun, len(quote)) if begun.startswith(quote) else True

            self.wait(word)
        elif len(beginnings) == 1:
            self.wait(no_space)
        else:

            def literal(delta: str) -> bool | None:
                return None if (self.text[self.pos + offset :] + delta).lstrip(_LAYOUT) in beginnings else True

            self.wait(literal)

    def space_end(self, pos: int) -> int:
        """Where the whitespace that starts at ``pos`` ends."""
        found = _SPACE.match(self.text, pos)
        assert found is not None
        return found.end()

    def pad(self, characters: str, note: str) -> Steps[None]:
        """Skips framing whitespace: at most ``len(characters)`` characters out of that set."""
        for _ in range(len(characters)):
            while self.pos == len(self.text):
                if self.final:
                    return
                yield
            if self.text[self.pos] not in characters:
                return
            self.take(self.pos + 1, "framing", note)

    def at(self, literals: tuple[str, ...], offset: int = 0) -> Steps[str]:
        """The longest of the literals that stands ``offset`` characters ahead, or ``""``; consumes nothing.

        ``torn`` is then where the text ends in the middle of one.
        """
        match, longest, beginnings = _literals(literals)
        while True:
            pos = self.pos + offset
            if len(self.text) - pos < longest and not self.final and self.text[pos:] in beginnings:

                def decides(delta: str) -> bool | None:
                    return None if self.text[self.pos + offset :] + delta in beginnings else True

                self.wait(decides)
                yield
                continue
            found = match(self.text, pos)
            if found:
                return found.group()
            if 0 < len(self.text) - pos < longest and self.text[pos:] in beginnings:
                self.torn = pos
            return ""

    def ahead(self, literals: tuple[str, ...], offset: int = 0) -> Steps[int]:
        """How far ahead one of the literals ends that stands behind whitespace ``offset`` characters ahead.

        0 if none does, or too much whitespace is before it; consumes nothing.
        """
        match, longest, beginnings = _literals(literals)
        while True:
            start = self.space_end(self.pos + offset)
            if start - self.pos - offset > HOLD:
                return 0
            left = len(self.text) - start
            if left >= longest or self.final or self.text[start:] not in beginnings:
                found = match(self.text, start)
                return found.end() - self.pos if found else 0
            self._wait_at_layout(beginnings, None, "", offset)
            yield

    def certain(self, literal: str) -> bool:
        """Whether the literal holds a special token that arrived by id, so that it can't be mere letters."""
        return self._spelled is not None and _SENTINEL.search(literal) is not None

    # ---- for coroutines: speaking

    def spell(self, text: str) -> str:
        """The text with special tokens spelled out."""
        spelled = self._spelled
        if spelled is None or _SENTINEL.search(text) is None:
            return text
        return _SENTINEL.sub(lambda found: spelled.get(found.group(), ""), text)

    def content(self, end: int, note: str = "plain text") -> None:
        """Everything up to ``end`` is content."""
        if end > self.pos:
            start = self.offset
            if text := self._generated(self.take(end, "content", note), start):
                self._out.append(ContentDelta(self.spell(text)))
            self.spoke = True
            self.fresh = False

    def reasoning(self, end: int, note: str = "inside reasoning") -> None:
        """Everything up to ``end`` is reasoning."""
        if end > self.pos:
            start = self.offset
            self.say_reasoning(self.take(end, "reasoning", note), start)

    def say_reasoning(self, text: str, start: int) -> None:
        """This text, consumed before from the offset ``start`` on, is reasoning."""
        if text := self._generated(text, start):
            self._out.append(ReasoningDelta(self.spell(text)))
        self.spoke = True

    def insert(self, text: str, *, reasoning: bool) -> None:
        """Text that stands in the message and not in the output."""
        self._out.append(ReasoningDelta(text) if reasoning else ContentDelta(text))

    def _generated(self, text: str, start: int) -> str:
        """Text that was read from the offset ``start`` on, without what the prompt has of it."""
        return text if start >= 0 or self.in_prompt else text[-start:]

    def arguments_sink(self, convert: Callable[[str], str] | None = None) -> Callable[[str], list[Event]]:
        """For :meth:`flow`: the delta is argument text, as it stands or converted."""
        assert self._raw is not None
        self.call.send(self._out)
        return self.call.flow(self._raw.append, convert)

    def raw_sink(self, parts: list[str]) -> Callable[[str], list[Event]]:
        """For :meth:`flow`: the delta is text of the open call and gathers in ``parts``."""
        assert self._raw is not None
        raw = self._raw.append

        def gather(delta: str) -> list[Event]:
            raw(delta)
            parts.append(delta)
            return []

        return gather

    # ---- for coroutines: calls

    def begin_call(self) -> None:
        """From here on the text may be a call; what was read before is certain."""
        self._raw = []
        self._raw_from = self.pos
        self._raw_base = self._base + self.pos
        self._settled = 0

    def settle(self, part: Callable[[str], int] | None = None) -> None:
        """What was read of the call so far, or ``part`` of it, is read for good, even if the call is none.

        The rest is read again then: a marker in it may be the opener of the next call. ``part`` says how many
        characters of the text read since the last time are settled.
        """
        if self._raw is None:
            return
        self._raw.append(self.text[self._raw_from : self.pos])
        self._raw_from = self.pos
        if part is not None:
            rest = "".join(self._raw[self._settled :])
            size = part(rest)
            self._raw[self._settled :] = [rest[:size], rest[size:]]
            self._settled += 1
        else:
            self._settled = len(self._raw)

    def start_call(self, name: str) -> None:
        """The call's name is complete."""
        if self._probing:
            raise Opened(name)
        self.settle()
        self.spoke = True
        self.fresh = False
        self.call.start(name, self._out)

    def arguments(self, text: str) -> None:
        """Argument text, as JSON."""
        self.call.say(text)

    def hold_arguments(self) -> Callable[[str], None]:
        """From here on no argument text goes out, until the returned function is told what comes before it."""
        return self.call.hold()

    def argument_text(self) -> str:
        """All argument text of the open call so far."""
        return self.call.text

    def close_call(self) -> None:
        """The call's arguments are complete; it counts once :meth:`confirm_calls` says so."""
        self.call.close(self._out)

    def confirm_calls(self) -> None:
        """The calls closed so far are certain."""
        self.call.confirm(self._out)

    def end_call(self) -> None:
        """The raw text of a call that succeeded is no longer needed."""
        if self._probing:
            raise NotACall("no call was named")
        self.confirm_calls()
        self._raw = None

    def reject_call(self, why: NotACall, *, in_reasoning: bool = False) -> None:
        """What was taken for a call is text, as it was written; a call cut by the token limit is nothing.

        What is not settled is read again.
        """
        assert self._raw is not None
        self.call.reject(self._out)
        raw = self._generated(self._give_back(everything=isinstance(why, Unfinished)), self._raw_base)
        cut = isinstance(why, Unfinished) and self.cut
        if self.spans is not None:
            start = max(self._raw_base, 0)
            self._forget(start)
            note = "call cut by the token limit" if cut else f"no call: {why}"
            kind: Kind = "cut" if cut else "reasoning" if in_reasoning else "content"
            if self.offset > start:
                self.spans.append(Span(start, self.offset, kind, note))
        if raw and not cut:
            said = ReasoningDelta if in_reasoning else ContentDelta
            self._out.append(said(self.spell(raw)))
        self.spoke = True
        self.fresh = False

    def attempt(self, steps: Steps[None], *, in_reasoning: bool = False) -> Steps[bool]:
        """Reads the call that :meth:`begin_call` began, by these steps; whether it is one."""
        try:
            yield from steps
        except NotACall as why:
            self.reject_call(why, in_reasoning=in_reasoning)
            return False
        self.end_call()
        return True

    def _give_back(self, *, everything: bool) -> str:
        """The raw text of the open call that is text for good; unless that is all of it, the rest comes again."""
        assert self._raw is not None
        said = "".join(self._raw[: self._settled])
        rest = "".join(self._raw[self._settled :])
        if everything:
            said += rest + self.text[self._raw_from :]
            self.pos = len(self.text)
        else:
            # Mostly it is still here: a copy for each call that is none would cost their number times the text.
            self.pos = self._raw_from - len(rest)
            if self.pos < 0:
                self.text = rest + self.text[self._raw_from :]
                self.pos = 0
            # Counted from the call's beginning: what flowed since is not in the offset.
            self._base = self._raw_base + len(said) - self.pos
        self._raw = None
        return said

    # ---- for coroutines: looking ahead without deciding

    def probe(self, steps: Steps[Any]) -> Steps[str | None]:
        """Runs a call reader only as far as the name; reads nothing for good. ``None``: no call opens here."""
        self._keep = self.pos
        self._probing = True
        try:
            for _ in steps:
                if len(self.text) - self._keep > PROBE + HOLD:
                    return None
                yield
        except Opened as opened:
            return opened.name if self.pos - self._keep <= PROBE else None
        except Unfinished:
            raise
        except NotACall:
            pass
        finally:
            self._probing = False
            start = self._keep
            self._keep = None
            self.pos = start
            self._forget(self.offset)
        return None

    def begin_prompt(self, size: int) -> None:
        """The next ``size`` characters are the prompt's: their offsets are negative."""
        self.in_prompt = True
        self._base = -size

    def begin_output(self) -> int:
        """Calls count from here; returns the number that the first one had until now."""
        self.in_prompt = False
        self.stop = None
        return self.call.count_from_here()

    def rewind(self, text: str, offset: int) -> None:
        """Gives text back that was read from ``offset`` (characters of the whole generation) on."""
        self.text = text
        self.pos = 0
        self._base = offset
        self._forget(offset)

    def _forget(self, offset: int) -> None:
        """Drops the spans behind ``offset``: that text is read again, or became something else."""
        while self.spans and self.spans[-1].end > offset:
            self.spans.pop()

    @property
    def offset(self) -> int:
        """Where the cursor is in the generation, in characters; negative in the prompt.

        Exact with a trace; without, characters that flowed are not counted.
        """
        return self._base + self.pos
