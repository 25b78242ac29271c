"""How much work a regular expression of Python's can be, told from the expression and the length of the text.

Python's engine tries one way after the other, holds everything up meanwhile, and can't be stopped. So what might
take too long must not be begun. The bound counts ways: a choice counts where the next character doesn't decide it.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from typing import Any, TypeAlias

_parser: Any = importlib.import_module("re._parser")
_constants: Any = importlib.import_module("re._constants")

_Item: TypeAlias = tuple[Any, Any]
_Next: TypeAlias = frozenset[int] | None
"""The characters one of which must come next; ``None`` if that isn't known, empty if nothing more can fail."""

_END = -1
"""The end of the text, among such characters."""
_BREAK = ord("\n")
_LONGEST = 4096
"""How long a pattern is looked at."""
_MOST = 10**18
"""What is not told apart any more."""
_LITERALS = 512
"""How many characters a class may have to be listed."""
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_SINGLE = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
_STARTS = (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING)
_ENDS = (_constants.AT_END, _constants.AT_END_STRING)
_CATEGORIES = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
}
_AMBIGUOUS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.LOCALE
"""Flags under which characters don't stand for themselves only, or the end isn't that of the text."""


def most_steps(pattern: str, length: int) -> int:
    """At most how many steps a search for a pattern in a text of so many characters takes, up to a factor.

    Longer texts take no fewer. Raises ``re.error`` if Python can't read the pattern.
    """
    if len(pattern) > _LONGEST:
        return _MOST
    try:
        return _most_steps(pattern, length)
    except RecursionError:
        return _MOST


@lru_cache(maxsize=1024)
def _most_steps(pattern: str, length: int) -> int:
    parsed = _parser.parse(pattern)
    items = list(parsed)
    longest: int = min(length, parsed.getwidth()[1]) + 1
    places = 1 if items and items[0][0] is _constants.AT and items[0][1] in _STARTS else length + 1
    ways = _Ways(length, not parsed.state.flags & _AMBIGUOUS).of(items, frozenset())
    return min(_MOST, places * longest * _size(items) * ways)


def _size(items: list[_Item]) -> int:
    """The number of parts of an expression."""
    return sum(1 + sum(_size(each) for each in _inside(item)) for item in items)


def _inside(item: _Item) -> list[list[_Item]]:
    """What a part is made of."""
    kind, said = item
    if kind is _constants.BRANCH:
        return [list(each) for each in said[1]]
    if kind is _constants.SUBPATTERN:
        return [list(said[3])]
    if kind in _REPEATS:
        return [list(said[2])]
    if kind is _constants.ATOMIC_GROUP:
        return [list(said)]
    if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
        return [list(said[1])]
    if kind is _constants.GROUPREF_EXISTS:
        return [list(each) for each in said[1:] if each is not None]
    return []


class _Ways:
    """Counts the ways through an expression."""

    def __init__(self, length: int, known: bool) -> None:
        """``known``: whether what comes next may decide."""
        self._length = length
        self._known = known

    def of(self, items: list[_Item], after: _Next) -> int:
        """The ways through parts that come one after the other, before one of these characters."""
        ways = 1
        for number in range(len(items) - 1, -1, -1):
            ways = min(_MOST, ways * self._through(items[number], after))
            after = self._begins(items[number], after) if number else None
        return ways

    def _through(self, item: _Item, after: _Next) -> int:
        kind, said = item
        if kind in _REPEATS:
            return self._repeated(int(said[0]), int(said[1]), list(said[2]), after)
        inside = _inside(item)
        if kind is _constants.SUBPATTERN and (said[1] or said[2]):
            return _Ways(self._length, False).of(inside[0], None)
        if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
            # Once it is past, no other way through it is tried.
            after = frozenset()
        ways = [self.of(each, after) for each in inside]
        if kind is _constants.BRANCH and self._decides([self._first(each, after) for each in inside]):
            return max(ways)
        return min(_MOST, sum(ways)) if ways else 1

    def _repeated(self, least: int, most: int, body: list[_Item], after: _Next) -> int:
        most = min(most, self._length + 1)
        if len(body) == 1 and body[0][0] in _SINGLE:
            if least >= most:
                return 1
            if after is None or any(_takes(body[0], each) for each in after if each != _END):
                return most - least + 1
            # The end of the text is also before its last line break.
            return 2 if _END in after and _takes(body[0], _BREAK) else 1
        first = self._first(body, after)
        ways = self._power(self.of(body, _union([first, after])), most)
        return ways if least >= most or self._decides([first, after]) else min(_MOST, ways * (most - least + 1))

    def _power(self, ways: int, times: int) -> int:
        return 1 if ways == 1 else min(_MOST, ways ** min(times, 64))

    def _first(self, items: list[_Item], after: _Next) -> _Next:
        """What parts begin with, before one of these characters."""
        for item in reversed(items):
            after = self._begins(item, after)
        return after

    def _begins(self, item: _Item, after: _Next) -> _Next:
        """What a part begins with, or what comes after it if it may be empty."""
        if not self._known:
            return None
        kind, said = item
        if kind is _constants.LITERAL:
            return frozenset((said,))
        if kind is _constants.IN:
            return _listed(said)
        if kind is _constants.AT:
            return frozenset((_END,)) if said in _ENDS else after
        if kind is _constants.SUBPATTERN:
            return None if said[1] or said[2] else self._first(list(said[3]), after)
        if kind is _constants.BRANCH:
            return _union([self._first(list(each), after) for each in said[1]])
        if kind in _REPEATS:
            body = self._first(list(said[2]), after)
            return body if said[0] else _union([body, after])
        return None

    def _decides(self, choices: list[_Next]) -> bool:
        """Whether the next character tells which choice it is."""
        found = _union(choices)
        if found is None or {_END, _BREAK} <= found:
            return False
        return sum(len(each) for each in choices if each is not None) == len(found)


def _takes(single: _Item, character: int) -> bool:
    """Whether a part that takes one character may take this one."""
    kind, said = single
    if kind is _constants.LITERAL:
        return bool(said == character)
    if kind is _constants.NOT_LITERAL:
        return bool(said != character)
    if kind is _constants.ANY:
        return character != _BREAK
    negated = said[0][0] is _constants.NEGATE
    return negated != any(_has(each, character) for each in said[negated:])


def _union(choices: list[_Next]) -> _Next:
    found: frozenset[int] = frozenset()
    for each in choices:
        if each is None:
            return None
        found |= each
    return found


def _listed(parts: list[_Item]) -> _Next:
    """The characters of a class, if they are few."""
    found: set[int] = set()
    for kind, said in parts:
        if kind is _constants.LITERAL:
            found.add(said)
        elif kind is _constants.RANGE and said[1] - said[0] < _LITERALS:
            found.update(range(said[0], said[1] + 1))
        else:
            return None
    return frozenset(found)


def _has(part: _Item, character: int) -> bool:
    """Whether a part of a class has a character."""
    kind, said = part
    if kind is _constants.LITERAL:
        return bool(said == character)
    if kind is _constants.RANGE:
        return bool(said[0] <= character <= said[1])
    return re.match(_CATEGORIES[said], chr(character)) is not None
