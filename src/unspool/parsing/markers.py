"""Reading up to markers: those behind a value, however long it is, and those that are near.

Near ones are the ends of headers, and closers that may be missing or doubled. How far is near is bounded, so text
without the marker is given up soon. Noise before a marker is framing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Protocol

from unspool.parsing.reader import Reader
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.signals import HEADER, HOLD, NotACall, Steps, Unfinished


class Taker(Protocol):
    """What the text before a marker becomes."""

    def text(self, end: int) -> None:
        """Everything up to ``end`` belongs to it."""

    def flow(self, stop: Callable[[str], object]) -> None:
        """Lets text pass in which ``stop`` finds nothing, if that is possible now."""


def upto(r: Reader, watch: Watch, taker: Taker) -> Steps[re.Match[str]]:
    """Reads to the next marker of ``watch``; what is before it is the taker's. Consumes no marker."""
    while True:
        found = watch.find(r.text, r.pos, r.final)
        taker.text(found.start() if found else len(r.text))
        if found and found.lastindex:
            return found
        if r.final:
            raise Unfinished("the text ends inside a value")
        if found:
            r.wait_for(watch)
        else:
            taker.flow(watch.stop)
        yield


@lru_cache(maxsize=256)
def _seek_watch(literals: tuple[str, ...]) -> Watch:
    return Watch(("", literals))


def seek(r: Reader, literals: tuple[str, ...], *, keeps_words: bool = False) -> Steps[str]:
    """Which of the literals comes within :data:`HOLD` characters; the cursor goes to it over the noise.

    ``""`` if none does; the cursor then stays. ``keeps_words``: noise with a letter or digit in it is content.
    """
    offset, found = yield from _near(r, _seek_watch(literals), HOLD)
    if found is None:
        return ""
    if keeps_words and any(map(str.isalnum, r.text[r.pos : r.pos + offset])):
        r.content(r.pos + offset, "text between markers")
    else:
        r.take(r.pos + offset, "framing", "noise between markers")
    return found.group(1)


def _near(r: Reader, watch: Watch, limit: int) -> Steps[tuple[int, re.Match[str] | None]]:
    """How far ahead a marker of ``watch`` begins, and its match; ``None`` if none is within ``limit`` characters.

    Without a match, more than ``limit`` characters say that it is too far, fewer that the text has ended.
    """
    most = limit + watch.longest
    offset = 0
    while True:
        # No further than that: the next opener would pay for the same text again.
        window = r.text[r.pos : r.pos + most]
        ended = r.final and r.pos + len(window) == len(r.text)
        found = watch.find(window, offset, ended)
        offset = found.start() if found else len(window)
        if offset > limit:
            return offset, None
        if found and found.lastindex:
            return offset, found
        if ended:
            return offset, None
        if found is None:
            r.wait(watch.stop)
        else:
            r.wait_for(watch, offset)
        yield


def trail(r: Reader, closers: tuple[str, ...], others: tuple[str, ...] = ()) -> Steps[None]:
    """Reads a closer that may be missing or doubled, with the noise before it; stops at any of ``others``.

    Noise with a letter or digit in it is content.
    """
    if not any(closers):
        return
    mark = yield from seek(r, closers + others, keeps_words=True)
    if not mark:
        cut_closer(r, closers)
    elif mark in closers:
        r.take(r.pos + len(mark), "framing", "closes the call")
        while size := (yield from r.ahead((mark,))):
            r.take(r.pos + size, "framing", "closes the call again")


def cut_closer(r: Reader, closers: tuple[str, ...]) -> None:
    """Leaves out what the token limit has left of a closer that is due."""
    rest = r.text[r.pos :].lstrip() if r.cut else ""
    if rest and any(closer.startswith(rest) for closer in closers):
        r.take(len(r.text), "cut", "a marker cut by the token limit")


def header_text(r: Reader, ends: tuple[str, ...], stops: tuple[str, ...] = ()) -> Steps[tuple[str, str]]:
    """Reads up to one of ``ends`` (consumed) or ``stops`` (not); returns the text and what ended it."""
    offset, found = yield from _near(r, header_watch(ends, stops + r.barriers), HEADER)
    if offset > HEADER:
        r.take(r.pos + HEADER)
        raise NotACall("the header of the call has no end")
    if found is None:
        raise Unfinished("the text ends inside the header of a call")
    assert found.lastindex
    text = r.spell(r.take(r.pos + offset, "name", "header"))
    mark = found.group(found.lastindex)
    if mark in r.barriers:
        raise NotACall("the reasoning ends inside a header")
    if found.lastindex == 1:
        r.take(r.pos + len(mark), "framing", "end of the header")
    return text, mark


@lru_cache(maxsize=256)
def header_watch(ends: tuple[str, ...], stops: tuple[str, ...]) -> Watch:
    """Group 1 ends a header, group 2 stands behind one."""
    return Watch(("", ends), ("", stops))


_words = pattern(r"[\w\s]*+").fullmatch


def cut_marker(r: Reader, watch: Watch, marks: Iterable[str], *, due: bool = False) -> int:
    """Where, in a text that the token limit has cut, at least half of a marker begins; else where the text ends.

    Letters alone are a word, whatever they begin. Where one is ``due``, right behind a call, any part will do.
    """
    found = watch.find(r.text, r.pos, False) if r.cut else None
    if found is not None and not found.lastindex:
        begun = r.text[r.space_end(found.start()) :]
        known = [mark for mark in marks if mark.startswith(begun)]
        if due and known and not r.text[r.pos : found.start()].strip():
            return r.pos
        if any(2 * len(begun) >= len(mark) for mark in known) and not _words(begun):
            return found.start()
    return len(r.text)
