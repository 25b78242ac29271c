"""Where a region of a response template begins or ends: regular expressions looked for in a stream.

Like a :class:`scanner.Watch`, only that each marker is an expression and a match may hold named groups. What is
found depends on the text alone, never on where it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from unspool.parsing.expressions import Expression, Repeat, ended, first, going_on, limit, single, width
from unspool.parsing.scanner import pattern

_Match = Callable[[str, int], re.Match[str] | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A delimiter, from ``start`` to ``end``, or (``name`` is ``None``) what may still become one."""

    start: int
    end: int = -1
    name: str | None = None
    groups: Mapping[str, str] = field(default_factory=dict)


class Delimiter:
    """One expression to look for, under a name. ``closes`` gives way to an opener at the same place.

    ``after`` matches one character of the layout behind it, of which ``most_after`` are skipped.
    """

    __slots__ = (
        "_ended",
        "_going_on",
        "_lead",
        "_most_lead",
        "_open",
        "after",
        "begins",
        "key",
        "lead",
        "most_after",
    )

    def __init__(self, name: str, expression: Expression, *, closes: bool) -> None:
        self.key = (closes, name)
        self.after: _Match | None = None
        self.most_after = 0
        last = expression[-1]
        # A run of layout at the end would keep the delimiter waiting for what follows.
        if (
            len(expression) > 1
            and isinstance(last, Repeat)
            and single(last)
            and not last.least
            and last.how != "?"
        ):
            self.after, self.most_after = pattern(single(last)).match, limit(last)
            expression = expression[:-1]
        self.lead = single(expression[0]) if len(expression) > 1 and first(expression[1:]) else ""
        begins = expression[1:] if self.lead else expression
        self._lead: _Match | None = pattern(self.lead).match if self.lead else None
        self._most_lead = limit(expression[0]) if self.lead and isinstance(expression[0], Repeat) else 0
        self.begins = first(begins)
        self._ended = pattern(ended(expression)).match
        waiting = pattern(going_on(expression))
        self._going_on = waiting.match
        self._open = tuple(set(range(1, waiting.groups + 1)) - set(waiting.groupindex.values()))

    def at(self, text: str, pos: int, place: int, final: bool) -> Found | None:
        """The delimiter whose first character, after layout not before ``pos``, is at ``place``."""
        start = place
        if self._lead is not None:
            least = max(pos, place - self._most_lead)
            if self.lead == r"\s":
                start = least + len(text[least:place].rstrip())
            while start > least and self._lead(text, start - 1):
                start -= 1
        if final:
            found = self._ended(text, start)
            return None if found is None else Found(start, found.end(), self.key[1], _named(found))
        found = self._going_on(text, start)
        if found is None:
            return None
        if any(found.start(group) >= 0 for group in self._open):
            return Found(start) if start < len(text) else None
        return Found(start, found.end(), self.key[1], _named(found))


def _named(found: re.Match[str]) -> dict[str, str]:
    return {name: text for name, text in found.groupdict().items() if text is not None}


class Delimiters:
    """Delimiters to look for at once: the first wins, of several at one place the longest, openers before closers.

    ``stop`` is a quick test: text in which it finds nothing holds no delimiter and no beginning of one.
    """

    __slots__ = ("_candidate", "marks", "stop", "widest")

    def __init__(self, marks: Sequence[tuple[str, Expression, bool]], *, stops: str = "") -> None:
        self.marks = {name: Delimiter(name, expression, closes=closes) for name, expression, closes in marks}
        self.widest = max((width(expression)[1] for _, expression, _ in marks), default=0)
        every = tuple(self.marks.values())
        begins = dict.fromkeys(source for mark in every for source in mark.begins)
        candidate = "|".join(begins) or "(?!)"
        self._candidate = pattern(candidate).search
        layout = dict.fromkeys(mark.lead for mark in every if mark.lead)
        at_end = [rf"{lead}\Z" for lead in layout]
        self.stop = pattern("|".join([candidate, *at_end, *filter(None, [stops])])).search

    def find(self, text: str, pos: int, final: bool) -> Found | None:
        """The first delimiter at or after ``pos``, or the beginning of one that must be held back."""
        size = len(text)
        look = pos
        while True:
            candidate = self._candidate(text, look)
            place = candidate.start() if candidate else size
            if found := self._best(text, pos, place, final):
                return found
            if place == size:
                return None
            look = place + 1

    def _best(self, text: str, pos: int, place: int, final: bool) -> Found | None:
        best: Found | None = None
        rank: tuple[object, ...] = ()
        for mark in self.marks.values():
            found = mark.at(text, pos, place, final)
            if found is None:
                continue
            key = (found.start, found.name is not None, found.start - found.end, mark.key)
            if best is None or key < rank:
                best, rank = found, key
        return best
