"""Law 6: no text raises, whatever it is and however it comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import (
    FORMATS,
    TOOLS,
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
    for text in data.draw(st.lists(pieces(fmt), max_size=12), label="pieces"):
        vocabulary.ordinary(text.encode("utf-8", "replace")[1:])
        vocabulary.ordinary(text.encode("utf-8", "replace"))
    for half in ("🙂".encode()[:2], "🙂".encode()[2:], b"\xff", b"\xed\xa0\x80", b"\x00", b""):
        vocabulary.ordinary(half)
    ids = data.draw(st.lists(st.integers(0, vocabulary.size - 1), max_size=40), label="ids")
    groups = split(ids, data.draw(points, label="points"))
    parser = Parser(fmt, tokenizer=vocabulary, **offered(data.draw(requests(fmt), label="request")))
    events = [event for group in groups for event in parser.feed_tokens(group)]
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
    calls = (
        ToolCall("", "save", '{"text": "a", "data": 11, "items": 11, "ratio": 11, "note": 11}'),
        ToolCall("", "get_weather", '{"days": 11}'),
    )
    for call in calls:
        text = write(fmt, Message(tool_calls=(call,)) if fmt.calls else Message(content="text 11"))
        # Where a name is next, a string, and each value; inside a number.
        marks = (call.name, "text", '"a"', "data", "11", "1, ", "1}", "1<")
        cuts = {place for mark in marks for place in _all_places(text, mark)} | {0, len(text) // 2, len(text)}
        for cut in cuts:
            for closing in ("", text[cut:]):
                parser = Parser(fmt, tools=TOOLS, prompt="")
                events = parser.feed(text[:cut]) + parser.feed(MONSTERS[monster]()) + parser.feed(closing)
                check_order(events + parser.finish("stop"))


def _all_places(text: str, mark: str) -> list[int]:
    return [place for place in range(len(text)) if text.startswith(mark, place)]
