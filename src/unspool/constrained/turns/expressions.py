"""Regular expressions read into the algebra of :mod:`~unspool.constrained.turns.automata`.

What is read is what Rust's and ECMAScript's syntax have in common: characters, classes, groups, alternatives and
repetitions, with the flags ``i`` and ``s`` for a group. Greed makes no difference to what matches as a whole.
``\\d`` and ``\\w`` are of ASCII, as in ECMAScript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

from unspool.constrained.turns.automata import EVERY, Expressions, Ranges, complement, joined

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS = re.compile(r"\?(?:([is]*)(?:-([is]+))?:|P?<\w+>)")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|[xu]\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})")
_SETS = re.compile(r"&&|--|~~|\[")


def _ranges(spelled: str) -> Ranges:
    return joined(
        (ord(found[1]), ord(found[2] or found[1])) for found in re.finditer("(.)(?:-(.))?", spelled, re.DOTALL)
    )


_CLASSES = {"d": _ranges("0-9"), "w": _ranges("0-9A-Za-z_"), "s": _ranges(_SPACES)}
_CLASSES |= {name.upper(): complement(ranges) for name, ranges in _CLASSES.items()}


def read_expression(into: Expressions, pattern: str) -> int:
    """The number of an expression. Raises ``ValueError``, which says what of it can't be read, and where."""
    return _Reader(into, pattern).whole()


class _Reader:
    def __init__(self, into: Expressions, pattern: str) -> None:
        self._into = into
        self._pattern = pattern
        self._place = 0
        self._flags = frozenset[str]()

    def whole(self) -> int:
        found = self._choice()
        if self._place < len(self._pattern):
            self._refuse("a parenthesis that closes nothing")
        return found

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{what} at index {self._place} can't be read")

    def _next(self) -> str:
        return self._pattern[self._place : self._place + 1]

    def _take(self, text: str) -> bool:
        if self._pattern.startswith(text, self._place):
            self._place += len(text)
            return True
        return False

    def _char(self) -> str:
        char = self._next()
        if not char:
            self._refuse("the end of an expression that goes on")
        self._place += 1
        return char

    def _found(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        found = expression.match(self._pattern, self._place)
        if found is not None:
            self._place = found.end()
        return found

    def _choice(self) -> int:
        flags = self._flags
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        self._flags = flags
        return self._into.either(options)

    def _sequence(self) -> int:
        parts = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return self._into.sequence(parts)

    def _repeated(self, atom: int) -> int:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        while True:
            if self._next() in counts and self._next():
                least, most = counts[self._char()]
            elif found := self._found(_COUNT):
                least = int(found[1])
                most = least if found[2] is None else int(found[3]) if found[3] else None
                if most is not None and most < least:
                    self._refuse("a repetition that ends before it starts")
            else:
                return atom
            self._take("?")
            atom = self._into.repeat(atom, least, most)

    def _atom(self) -> int:
        if self._next() in ("^", "$"):
            self._refuse("an anchor")
        char = self._char()
        if char == "(":
            return self._group()
        if char == ".":
            return self._into.chars(EVERY if "s" in self._flags else complement(((10, 10),)))
        if char == "[":
            return self._into.chars(self._class())
        if char == "\\":
            return self._into.chars(self._escape())
        if char in "*+?{":
            self._place -= 1
            self._refuse("a repetition of nothing")
        return self._into.chars(self._cased(((ord(char), ord(char)),)))

    def _group(self) -> int:
        flags = self._flags
        if self._next() == "?":
            found = self._found(_FLAGS)
            if found is None:
                self._refuse("a group of this kind")
            self._flags = flags.union(found[1] or "").difference(found[2] or "")
        inside = self._choice()
        self._flags = flags
        if not self._take(")"):
            self._refuse("a group that is not closed")
        return inside

    def _cased(self, ranges: Iterable[tuple[int, int]]) -> Ranges:
        """Characters, in both cases where the expression has that flag."""
        ranges = tuple(ranges)
        if "i" not in self._flags:
            return joined(ranges)
        letters = [
            (max(first, start) + shift, min(last, start + 25) + shift)
            for first, last in ranges
            for start, shift in ((65, 32), (97, -32))
            if first <= start + 25 and last >= start
        ]
        return joined((*ranges, *letters))

    def _class(self) -> Ranges:
        negated = self._take("^")
        found: list[tuple[int, int]] = []
        is_first = True
        while is_first or not self._take("]"):
            if _SETS.match(self._pattern, self._place):
                self._refuse("a class made of classes")
            first = self._class_part()
            is_range = self._next() == "-" and self._pattern[self._place + 1 : self._place + 2] not in ("]", "")
            if is_range and len(first) == 1 and first[0][0] == first[0][1]:
                self._place += 1
                last = self._class_part()
                if len(last) != 1 or last[0][1] < first[0][0]:
                    self._refuse("a range of characters that ends before it starts")
                first = ((first[0][0], last[0][1]),)
            found += first
            is_first = False
        cased = self._cased(found)
        return complement(cased) if negated else cased

    def _class_part(self) -> Ranges:
        char = self._char()
        return self._escape() if char == "\\" else ((ord(char), ord(char)),)

    def _escape(self) -> Ranges:
        found = self._found(_HEX)
        if found is not None:
            code = int(found[1] or found[2] or found[3], 16)
            return self._cased(((code, code),))
        char = self._char()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum() and char not in _CONTROLS:
            self._place -= 1
            self._refuse(f"the escape \\{char}")
        code = ord(_CONTROLS.get(char, char))
        return ((code, code),)
