"""Expressions that are read while the text still comes: the same as Python's, decided as early as can be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.parsing.delimiters import Delimiters
from unspool.parsing.expressions import ExpressionError, ended, first, going_on, names, parse, parse_or_keep, width

PATTERNS = (
    "ab",
    "a|b|ab",
    "a*b",
    "a*?b",
    "a++b",
    "a{2,3}b",
    "a{,2}b",
    "a{2}",
    "{a}b{",
    "(?:ab)?c",
    "(a)(b)c",
    "(?P<x>a+)b",
    "(?>a|ab)c",
    "a(?=b)",
    "a(?=b*c)",
    "a(?!b)",
    "a(?!bc)c?",
    "[ab]c",
    "[^a]b",
    "[]a]b",
    r"[\]a]b",
    "[^]]c",
    r"\x61\u0062",
    r"\0a|\07b",
    r"\U00000061b",
    r"\w\s\d?",
    r"a\.b|a\|b|\n|\ta",
    "a.c",
    "(?s:a.)b",
    "(?s)ab",
    "a(?#nothing)b",
    "(?:a|b)(?:c|)a",
    r"\s*<a>\s*",
    r" ?\|a",
)
ALPHABET = st.text(st.sampled_from("abc<>. \n|]{}1\x00\x07"), max_size=7)


@pytest.mark.parametrize("source", PATTERNS)
@given(text=ALPHABET, cut=st.integers(0, 7))
def test_what_is_decided_is_what_python_says_of_the_whole(source: str, text: str, cut: int) -> None:
    expression = parse(source)
    whole = re.compile(source, re.DOTALL).match(text)
    rewritten = re.compile(ended(expression), re.DOTALL).match(text)
    assert (rewritten and (rewritten.span(), rewritten.groupdict())) == (
        whole and (whole.span(), whole.groupdict())
    )
    waiting = re.compile(going_on(expression), re.DOTALL)
    found = waiting.match(text[:cut])
    unnamed = set(range(1, waiting.groups + 1)) - set(waiting.groupindex.values())
    if found is None:
        assert whole is None
    elif all(found[group] is None for group in unnamed):
        assert whole is not None
        assert (found.span(), found.groupdict()) == (whole.span(), whole.groupdict())
    if whole is not None:
        least, most = width(expression)
        assert least <= whole.end() <= most
        if begins := first(expression):
            assert re.compile("|".join(begins), re.DOTALL).match(text)


@pytest.mark.parametrize("source", PATTERNS)
@given(text=ALPHABET, cut=st.integers(0, 7))
def test_what_is_found_does_not_depend_on_the_cut(source: str, text: str, cut: int) -> None:
    expression = parse(source)
    if not width(expression)[0]:
        return
    marks = Delimiters([("it", expression, False), ("another", parse("<a"), True)])
    whole = marks.find(text, 0, True)
    begun = marks.find(text[:cut], 0, False)
    if begun is None:
        assert whole is None or whole.start >= min(cut, len(text))
    elif begun.name is None:
        assert whole is None or whole.start >= begun.start
    else:
        assert whole == begun
    if marks.stop(text) is None:
        assert marks.find(text, 0, False) is None


def test_a_repetition_has_an_end() -> None:
    assert re.compile(ended(parse(r"\s*a"))).match(" " * 64 + "a")
    assert not re.compile(ended(parse(r"\s*a"))).match(" " * 65 + "a")
    assert re.compile(ended(parse("[^>]*>"))).match("x" * 256 + ">")
    assert not re.compile(ended(parse("[^>]*>"))).match("x" * 257 + ">")
    assert re.compile(ended(parse("[^>]*>"), bounded=False)).match("x" * 257 + ">")


@pytest.mark.parametrize(
    "source", ["(?<=a)b", r"(a)\1", "(?P<x>a)(?P=x)", "^a", r"\Aa", r"\ba", "(?i)a", "(?i:a)b"]
)
def test_what_cannot_be_taken_apart_is_refused_or_kept(source: str) -> None:
    with pytest.raises(ExpressionError, match="at character"):
        parse(source)
    assert ended(parse_or_keep(source)) == source


@pytest.mark.parametrize("source", ["(", "a**", "[", "a{2,1}", r"\q", "(?P<a"])
def test_what_is_no_expression_is_refused(source: str) -> None:
    for read in (parse, parse_or_keep):
        with pytest.raises(ExpressionError, match="is no regular expression"):
            read(source)


def test_names_are_found_anywhere() -> None:
    assert names(parse("(?:(?P<a>x)|y(?=(?P<b>z)))*")) == {"a", "b"}
