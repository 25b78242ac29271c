"""The text that has arrived, as coroutines read it: what stands at the cursor, and how to wait for more.

While nothing but plain text can come, a coroutine leaves a test and a sink (:meth:`Buffer.flow`) and
:meth:`Parser.feed` answers without waking it: that is the path nearly every token takes.

Consumed text is dropped at once, so each character is copied a bounded number of times. Only an open call
keeps its raw text, since a call that turns out to be none becomes content as it was written.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache

from unspool.events import Event
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.signals import HOLD, Finder, Kind, Span, Steps, content_sink, no_space, reasoning_sink
from unspool.parsing.stretches import Move, State, stretch

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


def _filtered(
    sink: Callable[[str], list[Event]], passes: Callable[[list[Event], bool], list[Event]]
) -> Callable[[str], list[Event]]:
    return lambda delta: passes(sink(delta), False)


class Buffer(ABC):
    """Text that is not yet read for good; of an open call, also that which is."""

    __slots__ = (
        *("_base", "_keep", "_raw", "_raw_from", "filter", "final", "pos"),
        *("sink", "spans", "state", "stop", "text", "torn", "whole"),
    )

    def __init__(self, *, trace: bool) -> None:
        self.text = ""
        self.pos = 0
        self.final = False
        self.torn = -1
        self.stop: Callable[[str], object] | None = None
        self.whole: Callable[[str], object] | None = None
        self.sink: Callable[[str], list[Event]] = content_sink
        self.state: State | None = None
        self.filter: Callable[[list[Event], bool], list[Event]] | None = None
        self.spans: list[Span] | None = [] if trace else None
        self._base = 0
        self._keep: int | None = None
        self._raw: list[str] | None = None
        self._raw_from = 0

    @abstractmethod
    def step(self, delta: str) -> list[Event]:
        """Wakes the coroutine with this text, which may be empty; the events that it then makes."""

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

    @property
    def offset(self) -> int:
        """Where the cursor is in the generation, in characters; negative in the prompt.

        Exact with a trace; without, characters that flowed are not counted.
        """
        return self._base + self.pos

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
        if self.text[self.pos + offset : self.pos + offset + 1] in watch.layout:
            # What becomes of a marker's beginning decides about the layout before it as well.
            return
        beginnings = watch.beginnings

        def decides(delta: str) -> bool | None:
            return None if self.text[self.pos + offset :] + delta in beginnings else True

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

    def flow_text(self, watch: Watch, *, reasoning: bool) -> None:
        """As :meth:`flow`, for text that is said as it is, up to what ``watch`` finds.

        Then what may become a marker is held, and let go, without waking the coroutine as well.
        """
        self.flow(watch.stop, reasoning_sink if reasoning else content_sink)
        if self.stop is not None and self.filter is None:
            self.state = stretch(watch, reasoning).start

    def go(self, move: Move) -> list[Event]:
        """The events of a move of :attr:`state`, which makes it."""
        said, after = move
        if after is not self.state:
            self.state = after
            self.text = after.held
            # What is no move from here wakes the coroutine, which looks at everything that is held.
            self.stop = None if after.held else after.stretch.watch.stop
        return [] if said is None else [said]

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
