"""Expressions and automata against Python's own matcher, on random texts."""

from __future__ import annotations

import random
import re

import pytest

from unspool.constrained.base import GrammarError
from unspool.constrained.turns.automata import EVERY, Expressions, State, complement, joined
from unspool.constrained.turns.expressions import read_expression

PATTERNS = [
    "",
    "a+b*",
    "(?i:true|no)+",
    "[^a-c]{2,3}|x",
    "(?:ab|ba){1,2}c?",
    r"\s*\[(?s:.*)",
    r"[\]a-b]x\.y",
    "a(?:b|)c",
    "(a|b)*?abb",
    r"\d{1,3}-(?P<rest>0[1-9]|1[0-2])",
    r"(?i:[a-c]|\x41)[^]a]+",
    r".\W\S",
    r"(?s:a.(?-s:.))",
    r"[a-]{2}",
    r"(?:a?){3}b",
    r"[\d-]+",
]


def accepts(states: list[State], text: str) -> bool:
    """Whether an automaton takes a text as a whole."""
    place = 0
    for char in text:
        targets = [to for chars, to in states[place].moves if any(low <= ord(char) <= high for low, high in chars)]
        assert len(targets) < 2
        if not targets:
            return False
        place = targets[0]
    return states[place].accepts


def texts(seed: str) -> list[str]:
    chance = random.Random(seed)
    letters = "abcxy.[]- 0115tTrRuUeE\n"
    return ["".join(chance.choices(letters, k=chance.randint(0, 6))) for _ in range(1500)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_automaton_takes_what_the_expression_matches(pattern: str) -> None:
    into = Expressions()
    number = read_expression(into, pattern)
    states, others = into.automaton(number), into.automaton(into.without(number))
    for text in texts(pattern):
        matches = re.fullmatch(pattern, text) is not None
        assert accepts(states, text) is matches, text
        assert accepts(others, text) is not matches, text


@pytest.mark.parametrize(
    ("one", "other"), [("a*b?", ".b"), (".*a.*", ".*b.*"), ("(?:ab)*", "a.*b|"), ("a{2}", "b{2}")]
)
def test_both_is_what_matches_each(one: str, other: str) -> None:
    into = Expressions()
    states = into.automaton(into.both([read_expression(into, one), read_expression(into, other)]))
    for text in texts(one + other):
        matches = re.fullmatch(one, text) and re.fullmatch(other, text)
        assert (bool(states) and accepts(states, text)) is bool(matches)


def test_runs_of_characters_have_a_run_in_common() -> None:
    into = Expressions()
    length, letters = read_expression(into, "(?s:.{2,4})"), read_expression(into, '[^"]{3,}')
    both = into.both([length, letters])
    assert into.is_plain(both)
    assert both == read_expression(into, '[^"]{3,4}')
    assert into.both([length, read_expression(into, "a{5,}")]) == into.never


def test_the_shortest_text_ends_with_the_first_marker() -> None:
    into = Expressions()
    marked = into.sequence([into.any, into.either([into.text("</a>"), into.text("<b>")]), into.any])
    free = into.sequence([into.without(marked), into.text("</a>")])
    states = into.automaton(free, shortest=True)
    assert accepts(states, "x < y </ a </a>")
    assert accepts(states, "<</a>")
    assert not accepts(states, "x</a>y</a>")
    assert not accepts(states, "x<b></a>")
    assert not accepts(states, "x</a")


def test_what_matches_nothing_has_no_states() -> None:
    into = Expressions()
    assert into.automaton(into.both([into.text("a"), into.text("b")])) == []
    assert into.without(into.without(into.text("a"))) == into.text("a")
    assert into.automaton(into.without(into.any)) == []


def test_too_many_states_are_refused() -> None:
    into = Expressions()
    number = into.both([into.repeat(into.text("ab"), 0, 5000), into.without(into.text("abab"))])
    with pytest.raises(GrammarError, match="more than 2000 states"):
        into.automaton(number)


def test_ranges() -> None:
    assert joined([(5, 7), (1, 2), (3, 3), (6, 9)]) == ((1, 3), (5, 9))
    assert complement(EVERY) == ()
    assert complement(complement(((5, 7), (9, 0x10FFFF)))) == ((5, 7), (9, 0x10FFFF))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a^b", "an anchor at index 1 can't be read"),
        ("(?=a)", "a group of this kind at index 1"),
        (r"\p{L}", r"the escape \\p at index 1"),
        (r"(a)\1", r"the escape \\1 at index 4"),
        (r"\bword", r"the escape \\b at index 1"),
        ("[a&&b]", "a class made of classes at index 2"),
        ("[[:alpha:]]", "a class made of classes at index 1"),
        ("[b-a]", "a range of characters that ends before it starts at index 4"),
        ("*a", "a repetition of nothing at index 0"),
        ("a{3,2}", "a repetition that ends before it starts at index 6"),
        ("(a", "a group that is not closed at index 2"),
        ("a)", "a parenthesis that closes nothing at index 1"),
        ("[a", "the end of an expression that goes on at index 2"),
        ("a\\", "the end of an expression that goes on at index 2"),
    ],
)
def test_what_can_t_be_read_is_said_with_its_place(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_expression(Expressions(), pattern)


def test_code_points_are_read_in_every_spelling() -> None:
    into = Expressions()
    assert len({read_expression(into, each) for each in ("é", r"\xe9", r"\u00e9", r"\x{e9}", r"\u{E9}")}) == 1
