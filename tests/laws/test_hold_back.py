"""Law 5: at most one possible marker waits, and plain words leave at once."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import (
    FORMATS,
    TOOLS,
    every_format,
    every_format_with_calls,
    markers,
    offered,
    reasons,
    requests,
    soups,
)
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
from unspool.parsing.declaration import NamedCalls
from unspool.parsing.grammar import openers
from unspool.parsing.signals import HEADER, HOLD

Where = Literal["content", "reasoning", "argument"]
PLACES: dict[Where, Message] = {
    "content": Message(content="HERE"),
    "reasoning": Message(reasoning="HERE"),
    "argument": Message(tool_calls=(ToolCall("", "get_weather", '{"city": "HERE"}'),)),
}


def bound(fmt: Format) -> int:
    """Most characters that may wait: a marker, with layout before it, that may yet be a whole header."""
    pads = [fmt.before_call, fmt.before_call_accepts, fmt.lead, fmt.lead_accepts]
    pads += [pad for block in fmt.reasoning for pad in (block.open_pad, block.close_pad, block.after)]
    return max(map(len, markers(fmt)), default=0) + max(map(len, pads)) + HOLD + HEADER


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


def lettered(fmt: Format) -> tuple[str, ...]:
    """Markers that begin like a word."""
    found = [*openers(fmt), *fmt.stops]
    for block in fmt.reasoning:
        found += [block.open, block.close, *block.closes_too]
    if isinstance(fmt.calls, NamedCalls) and fmt.calls.offered_only:
        found += [tool["function"]["name"] for tool in TOOLS]
    return tuple(mark for mark in found if mark and mark[0].isalpha())


def has(fmt: Format, where: Where) -> bool:
    """Whether the format has such a place."""
    return {"content": True, "reasoning": reasons(fmt), "argument": fmt.calls is not None}[where]


@pytest.mark.parametrize(
    ("name", "where"), [(name, where) for name, fmt in FORMATS.items() for where in PLACES if has(fmt, where)]
)
@given(words=st.lists(st.text("abcdefghijklmnopqrstuvwxyzABCDéßж日本", min_size=1), min_size=1, max_size=4))
def test_words_leave_at_once(name: str, where: Where, words: list[str]) -> None:
    fmt = FORMATS[name]
    parser = Parser(fmt, tools=TOOLS)
    before = write(fmt, PLACES[where])
    parser.feed(before[: before.index("HERE")])
    fed = sent = ""
    possible = lettered(fmt) if where != "argument" else ()
    for word in words:
        # A space may be the layout before a marker, so it may wait for one more character.
        for letter in word + " ":
            fed += letter
            sent += said(parser.feed(letter), where)
            out = sent.lstrip('"').rstrip()
            held = fed.rstrip().removeprefix(out).lstrip()
            assert fed.startswith(out)
            assert not held or any(mark.startswith(held) for mark in possible)


@every_format_with_calls
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
