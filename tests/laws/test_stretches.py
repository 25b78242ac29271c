"""What a parser sleeps through is what it would say awake, piece by piece, the first time and from memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from tests.conftest import examples
from tests.laws.strategies import FORMATS, every_format, offered, points, requests, soups, split
from tests.laws.vocabulary import Vocabulary
from unspool import ContentDelta, Event, Parser, ReasoningDelta, ToolCallStart
from unspool.parsing import stretches


def anonymous(events: Sequence[Event]) -> list[Event]:
    return [replace(event, id="") if isinstance(event, ToolCallStart) else event for event in events]


def steps(feed: Callable[[Any], list[Event]], pieces: Sequence[Any]) -> list[list[Event]]:
    return [anonymous(feed(piece)) for piece in pieces]


@every_format
@settings(max_examples=examples(30))
@given(data=st.data())
def test_asleep_a_parser_says_what_it_says_awake(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    pieces = split(data.draw(soups(fmt), label="text"), data.draw(points, label="points"))
    request = offered(data.draw(requests(fmt), label="request"))
    awake = Parser(fmt, trace=True, **request)
    expected = [*steps(awake.feed, pieces), anonymous(awake.finish("stop"))]
    vocabulary = Vocabulary({})
    tokens = [[vocabulary.ordinary(piece.encode())] for piece in pieces if piece.isascii() and piece]
    for _ in range(3):
        asleep = Parser(fmt, **request)
        assert [*steps(asleep.feed, pieces), anonymous(asleep.finish("stop"))] == expected
        if len(tokens) == len(pieces):
            asleep = Parser(fmt, tokenizer=vocabulary, **request)
            assert [*steps(asleep.feed_tokens, tokens), anonymous(asleep.finish("stop"))] == expected


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only three moves are kept."""
    monkeypatch.setattr(stretches, "_MOST_MOVES", 3)
    stretches.stretch.cache_clear()


def test_what_is_forgotten_is_found_out_again(few: None) -> None:
    pieces = ["word", "\n", "\n", "<", "t", "wo", " \n", "x", "<tool", "_", "call", "?", "\n"] * 3
    vocabulary = Vocabulary({})
    tokens = [[vocabulary.ordinary(piece.encode())] for piece in pieces]
    for _ in range(3):
        parser = Parser(unspool.get_format("hermes"), tools=[{"function": {"name": "f"}}], tokenizer=vocabulary)
        said = [event for token in tokens for event in parser.feed_tokens(token)] + parser.finish("stop")
        text = "".join(event.text for event in said if isinstance(event, ContentDelta | ReasoningDelta))
        assert text == "".join(pieces)


def test_long_pieces_and_those_of_whoever_feeds_text_are_not_remembered() -> None:
    stretches.stretch.cache_clear()
    parser = Parser(unspool.get_format("hermes"), tools=[{"function": {"name": "f"}}])
    for number in range(50):
        assert parser.feed(f"word {number}") == [ContentDelta(f"word {number}")]
        assert parser.feed(" " * (number + 40) + "\n") != [ContentDelta("")]
        parser.feed(".")
    state = parser._reader.state
    assert state is not None
    assert set(state.moves) <= {"."}


@pytest.mark.parametrize("trace", [False, True])
def test_layout_is_let_go_as_soon_as_no_marker_can_swallow_it(trace: bool) -> None:
    """The close of the reasoning may have a newline before it, the end of the turn has none."""
    parser = Parser(unspool.get_format("step3p5"), trace=trace)
    said = [parser.feed(piece) for piece in ("a", "\n", "<", "|im_", "end|>", "b")]
    assert said[:4] == [[ReasoningDelta("a")], [], [], [ReasoningDelta("\n")]]
    assert said[4:] == [[], [ReasoningDelta("<|im_end|>"), ReasoningDelta("b")]]
