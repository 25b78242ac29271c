"""A marker that the token limit cuts is no text, if at least half of it is there."""

from __future__ import annotations

import pytest

import unspool
from tests.conformance.replay import Generation, Outcome, every_cut, outcomes_by_cut
from tests.parsing.malformed import TOOLS
from unspool.events import FinishReason
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format, RegionCalls
from unspool.parsing.grammar import openers

FORMATS = [bound(fmt) for fmt in unspool.formats() if not isinstance(fmt.calls, RegionCalls)]


def outcome(fmt: Format, raw: str, finish: FinishReason, prompt: str) -> Outcome:
    generation = Generation(fmt.name, raw, TOOLS, prompt=prompt, finish=finish)
    (found,) = outcomes_by_cut(generation, every_cut(raw), "incremental")
    return found


def is_markup(mark: str) -> bool:
    return len(mark) > 4 and not mark[:-1].replace(" ", "").isalnum()


def plain_openers(fmt: Format) -> list[str]:
    """Openers that are markup and don't begin with another marker."""
    others = (*openers(fmt), *fmt.stops)
    return [
        mark
        for mark in openers(fmt)
        if is_markup(mark) and not any(other != mark and mark.startswith(other) for other in others)
    ]


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if plain_openers(fmt)], ids=str)
def test_most_of_an_opener_in_content(fmt: Format) -> None:
    opener = plain_openers(fmt)[0]
    raw = "Hello" + opener[:-1]
    assert outcome(fmt, raw, "stop", "") == Outcome(None, raw)
    assert outcome(fmt, raw, "length", "") == Outcome(None, "Hello")
    assert outcome(fmt, "a < b <", "length", "") == Outcome(None, "a < b <")


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.reasoning], ids=str)
def test_most_of_a_closer_in_reasoning(fmt: Format) -> None:
    block = fmt.reasoning[0]
    prompt = "".join(fmt.turns[:1]) + block.open
    raw = "Hm" + block.close[:-1]
    kept = Outcome("Hm") if is_markup(block.close) else Outcome(raw)
    assert outcome(fmt, raw, "stop", prompt) == Outcome(raw)
    assert outcome(fmt, raw, "length", prompt) == kept


def test_letters_are_a_word_whatever_they_begin() -> None:
    fmt = unspool.get_format("phi4_mini")
    assert outcome(fmt, "from functool", "length", "") == Outcome(None, "from functool")


WEATHER = [{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]
AS_TEXT = {
    "gigachat3": "a message that is opened as text is told from letters only by what follows",
    "rwkv": "the opener is words and layout",
    "step3": "the second half of a closer of two markers",
}
"""Formats of which a cut marker behind a call is text, if it does not come by id."""


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.calls and fmt.name not in AS_TEXT], ids=str)
def test_any_part_of_a_marker_behind_a_call(fmt: Format) -> None:
    call = unspool.ToolCall("", "get_weather", '{"city": "Paris"}')
    text = unspool.write(fmt, unspool.Message(tool_calls=(call, call)))
    for end in range(len(text)):
        parser = unspool.Parser(fmt, tools=WEATHER)
        read = unspool.Message.from_events(parser.feed(text[:end]) + parser.finish("length"))
        assert not (read.tool_calls and read.content), text[:end]


def test_a_reasoning_opener_at_the_start() -> None:
    assert outcome(bound(unspool.get_format("hermes")), "<think", "length", "") == Outcome()
    assert outcome(bound(unspool.get_format("hermes")), "<th", "length", "") == Outcome(None, "<th")


@pytest.mark.parametrize(
    ("raw", "content"),
    [
        ("<|channel|>final<|message|>Hello<|retur", "Hello"),
        ("<|channel|>final<|message|>Hello<|end|><|start", "Hello"),
        ("<|channel|>final<|message|>a <", "a <"),
    ],
)
def test_in_channels(raw: str, content: str) -> None:
    assert outcome(bound(unspool.get_format("gpt_oss")), raw, "length", "") == Outcome(None, content)
