"""Text without escapes: the body of a call as one string, and what such text becomes on the way to a marker."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from unspool.parsing.codecs.json import escape, quote
from unspool.parsing.markers import upto
from unspool.parsing.reader import Reader
from unspool.parsing.scanner import Watch
from unspool.parsing.signals import Steps


class Spoken:
    """Text that goes out at once, as the inside of a JSON string."""

    __slots__ = ("_note", "_r")

    def __init__(self, r: Reader, note: str) -> None:
        self._r = r
        self._note = note

    def text(self, end: int) -> None:
        self._r.arguments(escape(self._r.spell(self._r.take(end, "arguments", self._note))))

    def flow(self, stop: Callable[[str], object]) -> None:
        self._r.flow(stop, self._r.arguments_sink(escape))


class Gathered:
    """Text that is held in ``parts``."""

    __slots__ = ("_note", "_r", "parts")

    def __init__(self, r: Reader, note: str) -> None:
        self._r = r
        self._note = note
        self.parts: list[str] = []

    def text(self, end: int) -> None:
        self.parts.append(self._r.spell(self._r.take(end, "arguments", self._note)))

    def flow(self, stop: Callable[[str], object]) -> None:
        self._r.flow(stop, self._r.raw_sink(self.parts))


@lru_cache(maxsize=256)
def _closer(pad: str, close: str) -> Watch:
    return Watch((pad, (close,)))


def raw_text(r: Reader, member: str, pad: str, close: str) -> Steps[None]:
    """Says the text up to ``close``, and the layout before that, as ``{member: text}``; the cursor stays there."""
    r.arguments("{" + quote(member) + ': "')
    yield from upto(r, _closer(pad, close), Spoken(r, "text"))
    r.arguments('"}')
