"""Markers in a stream: find them, and hold back only what may still become one.

A :class:`Watch` is two regular expressions made from the same literals. One is for text that goes on: it also
matches a marker's beginning at the end of the text. The other is for text that has ended. Searching is
linear, never backtracks over the text and never looks at a character that was already let go.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

_SET_OPERATORS = ("[[", "--", "&&", "~~", "||")
"""What Python warns of in a set of characters, since it may read it otherwise some day."""


@lru_cache(maxsize=4096)
def pattern(source: str) -> re.Pattern[str]:
    """The one place where the parsing core compiles, so that a test can count what is scanned.

    An expression of a checkpoint means what it means today, and its user can't change it: no warning.
    """
    if not any(operator in source for operator in _SET_OPERATORS):
        return re.compile(source, re.DOTALL)
    with warnings.catch_warnings():
        # Threads share the filters that this changes, so it is done only where there is something to ignore.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(source, re.DOTALL)


def pad_pattern(pad: str) -> str:
    """Framing whitespace: at most ``len(pad)`` characters, each one of those in ``pad``."""
    return f"[{_set(pad)}]{{0,{len(pad)}}}" if pad else ""


def _beginnings(words: Iterable[str]) -> str:
    """A pattern for each proper, non-empty beginning of a word at the end of the text; ``""`` for none."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).extend([word[1:]] if len(word) > 1 else [])
    branches = []
    for first, tails in rests.items():
        if tails:
            deeper = _beginnings(tails)
            branches.append(re.escape(first) + (rf"(?:\Z|{deeper})" if deeper else r"\Z"))
    return f"(?:{'|'.join(branches)})" if branches else ""


def _complete(words: Sequence[str], others: Iterable[str], going_on: bool) -> str:
    """The words, longest first; one that begins a longer word, of its own group or another, gives way to it.

    While the text goes on it also waits as long as the longer one may still come.
    """
    alternatives = []
    for word in sorted(set(words), key=lambda w: (-len(w), w)):
        tails = [other[len(word) :] for other in others if other != word and other.startswith(word)]
        longer = [re.escape(tail) for tail in tails]
        if tails and going_on:
            longer += [r"\Z", *filter(None, [_beginnings(tails)])]
        alternatives.append(re.escape(word) + (f"(?!{'|'.join(longer)})" if longer else ""))
    return "|".join(alternatives)


def _waiting(words: Sequence[str], others: Iterable[str]) -> list[str]:
    """A pattern for each word that, at the end of the text, may still become a longer one."""
    found = []
    for word in words:
        tails = [other[len(word) :] for other in others if other != word and other.startswith(word)]
        if tails:
            found.append(re.escape(word) + "(?:" + "|".join([r"\Z", *filter(None, [_beginnings(tails)])]) + ")")
    return found


def _set(characters: Iterable[str]) -> str:
    return re.escape("".join(sorted(set(characters))))


class Watch:
    """Literals to look for, in groups; each group may swallow framing whitespace before its literals.

    ``find`` returns a match: its start is where plain text ends. ``match.lastindex`` is the group's number from
    1 for a complete marker (``match.group(match.lastindex)`` is the literal) and ``None`` for a beginning that
    must be held back. ``stop`` is a quick test: text in which it finds nothing holds no marker and no beginning.
    ``longest`` is the length of the longest literal.
    """

    __slots__ = (
        "_ended",
        "_going_on",
        "_pads",
        "_skip_ended",
        "_skip_going_on",
        "beginnings",
        "layout",
        "longest",
        "stop",
    )

    def __init__(self, *groups: tuple[str, Iterable[str]]) -> None:
        going_on, beginnings, ended = [], [], []
        bare_going_on, bare_ended = [], []
        first: set[str] = set()
        layout: set[str] = set()
        pads: dict[str, None] = {}
        opened: set[str] = set()
        groups = tuple((pad, tuple(literals)) for pad, literals in groups)
        every = tuple(dict.fromkeys(word for _, literals in groups for word in literals if word))
        self.longest = 0
        for pad, literals in groups:
            words = [word for word in dict.fromkeys(literals) if word]
            if not words:
                # An unused group keeps its number.
                going_on.append("((?!))")
                ended.append("((?!))")
                continue
            space = pad_pattern(pad)
            first |= {word[0] for word in words}
            opened |= {word[:size] for word in words for size in range(1, len(word))}
            layout |= set(pad)
            self.longest = max(self.longest, *map(len, words))
            going_on.append(f"{space}({_complete(words, every, True)})")
            ended.append(f"{space}({_complete(words, every, False)})")
            bare_going_on.append(_complete(words, every, True))
            bare_ended.append(_complete(words, every, False))
            begun = _beginnings(words)
            if begun:
                beginnings.append(space + begun)
                bare_going_on.append(begun)
            if pad:
                beginnings += [space + waiting for waiting in _waiting(words, every)]
                pads[pad] = None
                beginnings.append(rf"[{_set(pad)}]{{1,{len(pad)}}}\Z")
        self.beginnings = frozenset(opened)
        self.layout = "".join(sorted(layout))
        self._pads = tuple((frozenset(pad), len(pad)) for pad in pads)
        self._going_on = pattern("|".join(going_on + beginnings) or "(?!)").match
        self._ended = pattern("|".join(ended) or "(?!)").match
        self._skip_going_on = _skip(_set(first), bare_going_on)
        self._skip_ended = _skip(_set(first), bare_ended)
        tests = [f"[{_set(first)}]"] if first else ["(?!)"]
        if layout - first:
            tests.append(rf"[{_set(layout - first)}]\Z")
        self.stop = pattern("|".join(tests)).search

    def find(self, text: str, pos: int, ended: bool) -> re.Match[str] | None:
        """The first marker or held beginning at or after ``pos`` (characters)."""
        skipped = (self._skip_ended if ended else self._skip_going_on)(text, pos)
        assert skipped is not None
        end = skipped.end()
        if not self._pads:
            return None if end == len(text) else self.at(text, end, ended)
        if end == len(text) and ended:
            return None
        # The search is for literals alone, since layout is everywhere; what a literal swallows stands before it.
        for start in self._starts(text, pos, end):
            if found := self.at(text, start, ended):
                return found
        return None

    def _starts(self, text: str, pos: int, end: int) -> list[int]:
        """Where a marker whose literal is at ``end`` may begin, first to last."""
        starts = {end}
        for characters, most in self._pads:
            start = end
            while start > pos and end - start < most and text[start - 1] in characters:
                start -= 1
            starts.add(start)
        return sorted(starts)

    def at(self, text: str, pos: int, ended: bool) -> re.Match[str] | None:
        """The marker or held beginning that starts exactly at ``pos``."""
        return (self._ended if ended else self._going_on)(text, pos)


def _skip(possible: str, markers: list[str]) -> Callable[[str, int], re.Match[str] | None]:
    """Runs over everything that is no marker; only where a marker may begin is one tried."""
    if not possible:
        return pattern(".*+").match
    plain = f"[^{possible}]*+"
    return pattern(f"{plain}(?:(?!{'|'.join(markers)})[{possible}]{plain})*+").match
