"""Law 6: no text raises, whatever it is and however it comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import (
    FORMATS,
    TOOLS,
    WRITTEN,
    every_format,
    markers,
    offered,
    pieces,
    points,
    requests,
    soups,
    split,
)
from tests.laws.test_append_only import check_order
from tests.laws.vocabulary import Vocabulary
from unspool import Message, Parser, ToolCall
from unspool.formats import write

FINISHES = ("stop", "length", "tool_calls", "content_filter", "error", "cancelled", None)


@every_format
@given(data=st.data())
def test_no_text_raises(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    anything = st.lists(soups(fmt) | st.text(st.characters(codec=None), max_size=20), max_size=3).map("".join)
    text = data.draw(anything, label="text")
    parser = Parser(fmt, **offered(data.draw(requests(fmt), label="request")))
    events = [event for piece in split(text, data.draw(points, label="points")) for event in parser.feed(piece)]
    check_order(events + parser.finish(data.draw(st.sampled_from(FINISHES), label="finish")))


@every_format
@given(data=st.data())
def test_no_tokens_raise(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    vocabulary = Vocabulary.of(fmt)
    for mark in markers(fmt):
        vocabulary.ordinary(mark.encode())
        vocabulary.ordinary(mark.encode()[:-1])
    drawn = st.lists(pieces(fmt), max_size=12).map(lambda texts: [text.encode("utf-8", "replace") for text in texts])
    for piece in data.draw(drawn, label="pieces"):
        vocabulary.ordinary(piece[1:])
        vocabulary.ordinary(piece)
    for half in ("🙂".encode()[:2], "🙂".encode()[2:], b"\xff", b"\xed\xa0\x80", b"\x00", b""):
        vocabulary.ordinary(half)
    ids = data.draw(st.lists(st.integers(0, vocabulary.size - 1), max_size=40), label="ids")
    request = offered(data.draw(requests(fmt), label="request"))
    parser = Parser(fmt, tokenizer=vocabulary, **request)
    events = [event for group in split(ids, data.draw(points, label="points")) for event in parser.feed_tokens(group)]
    check_order(events + parser.finish(data.draw(st.sampled_from(FINISHES), label="finish")))


MONSTERS: dict[str, Callable[[], str]] = {
    "lists": lambda: "[" * 5000,
    "objects": lambda: '{"a":' * 5000,
    "tuples": lambda: "(" * 5000,
    "an escape a character": lambda: "\\" * 5001,
    "a number": lambda: "9" * 6000,
    "an exponent": lambda: "1e" + "9" * 400,
    "zeros": lambda: "0" * 6000,
    "quotes": lambda: '"' * 999,
    "both quotes": lambda: "'\"" * 999,
    "signs": lambda: "-" * 2000,
    "whitespace": lambda: " \n" * 1000,
    "surrogates": lambda: "\ud800\udfff" * 99,
    "nothing": lambda: "\x00" * 999,
}


@every_format
@pytest.mark.parametrize("monster", MONSTERS)
def test_no_monster_raises(name: str, monster: str) -> None:
    fmt = FORMATS[name]
    text = MONSTERS[monster]()
    inside = write(fmt, WRITTEN[-1])
    typed = write(fmt, Message(tool_calls=(ToolCall("", "save", '{"data": 1, "items": 1, "ratio": 1, "note": 1}'),)))
    for before, after in (("", ""), *((whole[:cut], whole[cut:]) for whole in (inside, typed) for cut in _places(whole))):
        for closing in ("", after):
            parser = Parser(fmt, tools=TOOLS, prompt="")
            events = parser.feed(before) + parser.feed(text) + parser.feed(closing)
            check_order(events + parser.finish("stop"))


def _places(text: str) -> list[int]:
    """Where a call is open, its name is next, a value or a string is next, or inside one."""
    marks = ("save", "text", "a\n", "a\\n", "data", "1")
    return sorted({found for mark in marks if (found := text.find(mark)) >= 0} | {text.rfind("1"), len(text) // 2})
