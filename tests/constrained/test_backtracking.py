"""The bound on a regular expression's work, against an engine that counts."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.constrained.backtracking import most_steps

_parser: Any = importlib.import_module("re._parser")
_constants: Any = importlib.import_module("re._constants")


class Counting:
    """Searches as Python's engine does, one way after the other, and counts the characters it looks at."""

    def __init__(self, pattern: str, text: str) -> None:
        self.items = list(_parser.parse(pattern))
        self.text = text
        self.steps = 0

    def search(self) -> bool:
        return any(True for start in range(len(self.text) + 1) for _ in self.ways(self.items, start))

    def ways(self, items: list[Any], at: int) -> Iterator[int]:
        """The places at which parts that follow each other may end."""
        if not items:
            yield at
            return
        for place in self.through(items[0], at):
            yield from self.ways(items[1:], place)

    def through(self, item: Any, at: int) -> Iterator[int]:
        kind, said = item
        self.steps += 1
        if kind is _constants.SUBPATTERN:
            yield from self.ways(list(said[3]), at)
        elif kind is _constants.BRANCH:
            for each in said[1]:
                yield from self.ways(list(each), at)
        elif kind is _constants.MAX_REPEAT:
            yield from self.repeated(int(said[0]), int(said[1]), list(said[2]), at)
        elif kind is _constants.AT:
            if at == 0 if said is _constants.AT_BEGINNING else at == len(self.text):
                yield at
        elif at < len(self.text) and self.takes(kind, said, self.text[at]):
            yield at + 1

    def repeated(self, least: int, most: int, body: list[Any], at: int) -> Iterator[int]:
        if most > 0:
            for place in self.ways(body, at):
                if place > at:
                    yield from self.repeated(max(0, least - 1), most - 1, body, place)
        if least == 0:
            yield at

    def takes(self, kind: Any, said: Any, character: str) -> bool:
        if kind is _constants.LITERAL:
            return bool(said == ord(character))
        if kind is _constants.NOT_LITERAL:
            return bool(said != ord(character))
        if kind is _constants.ANY:
            return True
        assert kind is _constants.IN
        return any(self.has(each, ord(character)) for each in said)

    def has(self, part: Any, character: int) -> bool:
        kind, said = part
        return bool(said == character if kind is _constants.LITERAL else said[0] <= character <= said[1])


def group(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger patterns of smaller ones; what is repeated isn't empty, as Python's engine has its own way there."""

    def repeated(pattern: str, how: str) -> str:
        return f"(?:x{pattern}){how}" if re.fullmatch(pattern, "") else f"(?:{pattern}){how}"

    return st.one_of(
        st.lists(parts, min_size=2, max_size=3).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.builds(repeated, parts, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])),
    )


LETTERS = ["a", "b", "x", ".", "[ab]", "[^a]", "[a-c]", "a*", "b+", ".*", "[^b]+"]
PATTERNS = st.recursive(st.sampled_from(LETTERS), group, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(PATTERNS, st.booleans(), st.booleans(), st.text("abx", max_size=7))
def test_no_search_takes_more_steps(pattern: str, from_start: bool, to_end: bool, text: str) -> None:
    whole = ("^" if from_start else "") + pattern + ("$" if to_end else "")
    engine = Counting(whole, text)
    assert engine.search() == bool(re.search(whole, text))
    assert engine.steps <= 4 * most_steps(whole, len(text))


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|aa)*$", "(a*)*b", "^(a?b?)*c$", "^(?i:aa|AA|a)*$", r"^(\w+\s?)*$"]
)
def test_what_explodes_is_known_to(pattern: str) -> None:
    assert most_steps(pattern, 60) > 10**12


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        (r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$", 254),
        (r"^(/[a-z0-9_-]+)*$", 4000),
        (r"^(\d{1,3}\.){3}\d{1,3}$", 15),
        (r"^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$", 36),
        (r"^(https?)://[^\s/$.?#].[^\s]*$", 2000),
        (r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$", 100),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$", 64),
        (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", 4000),
        (r"^[^/]+$", 100_000),
        (r"^(?=.*\d)(?=.*[a-z]).{8,}$", 64),
        (r"\S", 100_000),
    ],
)
def test_what_schemas_have_is_not_taken_for_that(pattern: str, length: int) -> None:
    assert most_steps(pattern, length) < 10_000_000


@pytest.mark.parametrize("pattern", ["a?" * 100_000, "(" * 150 + "a" + ")*" * 150, "|".join(["ab"] * 1000)])
def test_looking_at_a_pattern_takes_little(pattern: str) -> None:
    calls = 0

    def counted(*_: Any) -> Callable[..., Any]:
        nonlocal calls
        calls += 1
        return counted

    sys.setprofile(counted)
    try:
        assert most_steps(pattern, 50) > 0
    finally:
        sys.setprofile(None)
    assert calls < 1_000_000
