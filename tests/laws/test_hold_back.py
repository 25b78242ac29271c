"""Law 5: at most one possible marker waits, and plain words leave at once."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import FORMATS, TOOLS, every_format, markers, offered, reasons, requests, soups
from unspool import (
    ContentDelta,
    Event,
    Format,
    Message,
    Parser,
    ReasoningDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.formats import write
from unspool.parsing.reader import HEADER, HOLD

Where = Literal["content", "reasoning", "argument"]
PLACES: dict[Where, Message] = {
    "content": Message(content="HERE"),
    "reasoning": Message(reasoning="HERE"),
    "argument": Message(tool_calls=(ToolCall("", "get_weather", '{"city": "HERE"}'),)),
}


def bound(fmt: Format) -> int:
    """Most characters that may wait: a marker, with layout before it, that may yet be a whole header."""
    pads = [fmt.before_call, fmt.before_call_accepts, fmt.lead]
    pads += [pad for block in fmt.reasoning for pad in (block.open_pad, block.close_pad, block.after)]
    return max(map(len, markers(fmt))) + max(map(len, pads)) + HOLD + HEADER


@every_format
@given(data=st.data())
def test_what_waits_is_bounded(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    parser = Parser(fmt, **offered(data.draw(requests(fmt), label="request")))
    for char in text * 3:
        parser.feed(char)
        reader = parser._reader
        assert len(reader.text) - reader.pos <= bound(fmt)


def said(events: list[Event], where: Where) -> str:
    texts = []
    for event in events:
        match event:
            case ContentDelta(text) if where == "content":
                texts.append(text)
            case ReasoningDelta(text) if where == "reasoning":
                texts.append(text)
            case ToolCallDelta(_, text) if where == "argument":
                texts.append(text)
            case _:
                raise AssertionError(f"{event} in {where}")
    return "".join(texts)


@pytest.mark.parametrize(
    ("name", "where"),
    [(name, where) for name, fmt in FORMATS.items() for where in PLACES if where != "reasoning" or reasons(fmt)],
)
@given(words=st.lists(st.text("abcdefghijklmnopqrstuvwxyzABCDéßж日本", min_size=1), min_size=1, max_size=4))
def test_words_leave_at_once(name: str, where: Where, words: list[str]) -> None:
    fmt = FORMATS[name]
    parser = Parser(fmt, tools=TOOLS)
    before = write(fmt, PLACES[where])
    parser.feed(before[: before.index("HERE")])
    fed = sent = ""
    for word in words:
        # A space may be the layout before a marker, so it may wait for one more character.
        for letter in word + " ":
            fed += letter
            sent += said(parser.feed(letter), where)
            assert sent.lstrip('"').rstrip() == fed.rstrip()


@every_format
def test_words_and_what_they_are_part_of_add_up(name: str) -> None:
    fmt = FORMATS[name]
    parser = Parser(fmt, tools=TOOLS)
    text = write(fmt, PLACES["argument"]).replace("HERE", "a b c")
    sent = [e.arguments for char in text for e in parser.feed(char) if isinstance(e, ToolCallDelta)]
    assert json.loads("".join(sent)) == {"city": "a b c"}
    assert len(sent) > 4


def test_a_closer_in_two_pieces_counts_when_it_is_complete() -> None:
    tools = [
        {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
    ]
    parser = Parser(FORMATS["deepseek_v3"], tools=tools)
    parser.feed("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>")
    parser.feed("<")
    assert any(isinstance(event, ToolCallEnd) for event in parser.feed("｜tool▁call▁end｜>"))
