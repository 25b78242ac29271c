"""The parser's interface: what it takes, what it refuses, what it starts from."""

from __future__ import annotations

from typing import Any

import pytest

import unspool
from unspool import (
    ContentDelta,
    Finish,
    Message,
    Parser,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    get_format,
    parse,
)

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOCK: dict[str, Any] = {"type": "function", "function": {"name": "get_time"}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def test_events_as_they_become_certain() -> None:
    parser = Parser(get_format("qwen3"), tools=[WEATHER])
    assert parser.feed("<think>\nHm") == [ReasoningDelta("Hm")]
    assert parser.feed(".\n") == [ReasoningDelta(".")]
    assert parser.feed("</think>\n\nOne moment.") == [ContentDelta("One moment.")]
    assert parser.feed('\n<tool_call>\n{"name": "get_weather"') == []
    [start, first] = parser.feed(', "arguments": {"city": "Pa')
    assert isinstance(start, ToolCallStart)
    assert (start.index, start.name, start.id[:5]) == (0, "get_weather", "call_")
    assert first == ToolCallDelta(0, '{"city": "Pa')
    assert parser.feed("ris") == [ToolCallDelta(0, "ris")]
    assert parser.feed('"}}\n</tool') == [ToolCallDelta(0, '"}'), ToolCallEnd(0)]
    assert parser.feed("_call>") == []
    assert parser.finish("stop") == [Finish("tool_calls")]


def test_atomic_arguments_hold_a_call_until_it_is_complete() -> None:
    parser = Parser(get_format("qwen3"), tools=[WEATHER], arguments="atomic")
    assert [event for char in CALL[:-14] for event in parser.feed(char)] == []
    start, delta, end = parser.feed(CALL[-14:])
    assert isinstance(start, ToolCallStart)
    assert (delta, end) == (ToolCallDelta(0, '{"city": "Paris"}'), ToolCallEnd(0))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), (None, "stop"), ("eos", "stop"), ("max_tokens", "length"), ("abort", "cancelled")],
)
def test_finish_reasons_in_any_spelling(reason: str | None, expected: str) -> None:
    parser = Parser(get_format("qwen3"))
    usage = unspool.Usage(prompt_tokens=3, completion_tokens=2)
    [finish] = parser.finish(reason, usage)
    assert finish == Finish(expected, usage)  # type: ignore[arg-type]
    assert usage.total_tokens == 5


def test_finish_comes_once_and_nothing_after_it() -> None:
    parser = Parser(get_format("qwen3"))
    parser.finish("stop")
    assert parser.finish("stop") == []
    with pytest.raises(ValueError, match="finished"):
        parser.feed("more")


def test_an_unknown_finish_reason_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'tired'.*'length'"):
        Parser(get_format("qwen3")).finish("tired")


def test_a_wrong_argument_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="incremental"):
        Parser(get_format("qwen3"), arguments="whole")  # type: ignore[arg-type]


def test_misuse_is_named() -> None:
    with pytest.raises(TypeError, match=r"unspool\.get_format"):
        Parser("qwen3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="prompt must be"):
        Parser(get_format("qwen3"), prompt=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="feed takes text, not bytes"):
        Parser(get_format("qwen3")).feed(b"x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an offered tool's name, not 'sometimes'"):
        Parser(get_format("qwen3"), tools=[WEATHER], tool_choice="sometimes")


def test_only_the_first_call_without_parallel_calls() -> None:
    raw = f"{CALL}\n{CALL}\nDone."
    message = parse("qwen3", raw, tools=[WEATHER], parallel_tool_calls=False)
    assert [call.name for call in message.tool_calls] == ["get_weather"]
    assert message.content == "\nDone."
    events = Parser(get_format("qwen3"), tools=[WEATHER], parallel_tool_calls=False).feed(raw)
    assert {event.index for event in events if isinstance(event, ToolCallDelta)} == {0}


@pytest.mark.parametrize("mode", ["incremental", "atomic"])
def test_a_forced_call_may_come_as_plain_json(mode: Any) -> None:
    raw = '<think>\nWeather.\n</think>\n\n[{"name": "get_weather", "parameters": {"city": "Paris"}}]'
    parser = Parser(get_format("qwen3"), tools=[WEATHER], tool_choice="required", arguments=mode)
    message = Message.from_events(parser.feed(raw) + parser.finish("stop"))
    assert message.reasoning == "Weather."
    assert message.content is None
    assert [call.arguments for call in message.tool_calls] == ['{"city": "Paris"}']
    free = parse("qwen3", raw, tools=[WEATHER])
    assert free.tool_calls == ()


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ("auto", False),
        (None, False),
        ("required", True),
        ("get_weather", True),
        ({"type": "function", "function": {"name": "get_weather"}}, True),
        ({"type": "auto"}, False),
        ({"type": "any"}, True),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}, False),
        ({"type": "allowed_tools", "mode": "required"}, True),
    ],
)
def test_which_choices_force_a_call(choice: Any, forced: bool) -> None:
    raw = '{"name": "get_weather", "arguments": {}}'
    message = parse("qwen3", raw, tools=[WEATHER], tool_choice=choice)
    assert bool(message.tool_calls) == forced


class TestThePromptDecidesTheStart:
    def test_without_a_prompt_the_default_start_applies(self) -> None:
        assert parse("qwen3.5", "Hm.\n</think>\n\nHi").reasoning == "Hm."
        assert parse("qwen3", "Hm.").reasoning is None

    def test_only_what_follows_the_last_turn_opener_counts(self) -> None:
        prompt = "<|im_start|>user\n<think>?<|im_end|>\n<|im_start|>assistant\n"
        assert parse("qwen3", "Hi", prompt=prompt).content == "Hi"
        assert parse("qwen3", "Hi", prompt=prompt + "<think>\n").reasoning == "Hi"

    def test_a_turn_opener_of_another_template_is_known_too(self) -> None:
        assert parse("hermes", "Hm.</think>Hi", prompt="a <think> b<|assistant|><think>").reasoning == "Hm."

    def test_a_tail_without_a_turn_opener_is_all_tail(self) -> None:
        assert parse("qwen3", "Hm.", prompt="<think>\n\n</think>\n\n").content == "Hm."

    def test_layout_that_the_prompt_leaves_is_not_text(self) -> None:
        assert parse("llama3", "Hi", prompt="<|start_header_id|>assistant<|end_header_id|> \n\n").content == "Hi"

    def test_an_answer_that_the_prompt_begins_goes_on(self) -> None:
        prompt = "<|im_start|>assistant\n<think>\nHm.\n</think>\n\nThe answer is"
        assert parse("qwen3", " </think> 4.", prompt=prompt).content == " </think> 4."

    @pytest.mark.parametrize("mode", ["incremental", "atomic"])
    def test_a_call_that_the_prompt_begins_goes_on(self, mode: Any) -> None:
        prompt = '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa'
        parser = Parser(get_format("qwen3"), tools=[WEATHER], prompt=prompt, arguments=mode)
        message = Message.from_events(parser.feed('ris"}}\n</tool_call>') + parser.finish("stop"))
        assert [call.arguments for call in message.tool_calls] == ['{"city": "Paris"}']

    def test_a_call_that_the_prompt_begins_and_nothing_completes_is_reported_as_begun(self) -> None:
        prompt = '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa'
        parser = Parser(get_format("qwen3"), tools=[WEATHER], prompt=prompt)
        [start, delta, finish] = parser.finish("length")
        assert isinstance(start, ToolCallStart)
        assert (delta, finish) == (ToolCallDelta(0, '{"city": "Pa'), Finish("length"))

    @pytest.mark.parametrize("mode", ["incremental", "atomic"])
    def test_a_list_of_calls_that_the_prompt_begins_goes_on(self, mode: Any) -> None:
        parser = Parser(get_format("pythonic"), tools=[CLOCK], prompt="[get_time(),", arguments=mode)
        message = Message.from_events(parser.feed(" get_time()]") + parser.finish("stop"))
        assert [call.name for call in message.tool_calls] == ["get_time", "get_time"]

    def test_a_call_that_the_prompt_completes_is_not_the_answers(self) -> None:
        parser = Parser(get_format("qwen3"), tools=[WEATHER], prompt=CALL)
        message = Message.from_events(parser.feed(CALL) + parser.finish("stop"))
        assert len(message.tool_calls) == 1

    def test_the_end_right_after_the_prompts_opener(self) -> None:
        assert parse("qwen3.5", "", prompt="<think>") == Message(finish_reason="stop")

    def test_what_the_prompt_left_open_is_not_the_models_text(self) -> None:
        prompt = "<|im_start|>assistant\nUse <"
        assert parse("qwen3", f"{CALL}", tools=[WEATHER], prompt=prompt).content is None
        [span] = unspool.explain("qwen3", "no", tools=[WEATHER], prompt="<|im_start|>assistant\n<tool_call>")
        assert (span.start, span.end, span.kind) == (0, 2, "content")


def test_unknown_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        unspool.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        __import__("unspool.formats").formats.nonsense  # noqa: B018


def test_explain_says_what_each_character_became() -> None:
    raw = f"Hi.\n{CALL}"
    spans = unspool.explain("qwen3", raw, tools=[WEATHER])
    assert "".join(raw[span.start : span.end] for span in spans) == raw
    assert {raw[span.start : span.end]: span.kind for span in spans if span.kind != "framing"} == {
        "Hi.": "content",
        "get_weather": "name",
        '{"city": "Paris"}': "arguments",
    }


@pytest.mark.parametrize("end", ["\n</think>\n\nHi", ""])
def test_explain_of_a_call_inside_open_reasoning(end: str) -> None:
    raw = f"So:\n{CALL}{end}"
    spans = unspool.explain("qwen3.5", raw, tools=[WEATHER])
    assert "".join(raw[span.start : span.end] for span in spans) == raw
    assert any(span.kind == "arguments" for span in spans) == (not end)


def test_explain_says_why_a_call_got_lost() -> None:
    [span] = unspool.explain("qwen3", '<tool_call>{"name": ?}', tools=[WEATHER])[:1]
    assert span.kind == "content"
    assert span.note == "no call: a string is missing"


def test_layout_at_the_end_of_a_prompt_is_no_part_of_a_call_that_the_prompt_began_in_reasoning() -> None:
    prompt = "<think>\nHm.\n<tool_call>\n<function=f>\n<parameter=a>\nParis\n"
    message = unspool.parse("qwen3_5", "I think.\n</think>\nHello.", prompt=prompt, tools=[{"name": "f"}])
    assert (message.reasoning, message.content) == ("I think.", "Hello.")


@pytest.mark.parametrize(
    ("raw", "reason", "rejected"),
    [
        ('<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>', "stop", {}),
        ('<tool_call>\n{"name": 1}\n</tool_call> <tool_call>]', "stop", {"malformed": 2}),
        ('<tool_call>\n{"name": "get_wea', "stop", {"unfinished": 1}),
        ('<tool_call>\n{"name": "get_wea', "length", {"cut": 1}),
    ],
)
def test_what_was_no_call_is_counted_by_reason(raw: str, reason: str, rejected: dict[str, int]) -> None:
    parser = unspool.Parser(unspool.get_format("hermes"), tools=[WEATHER])
    parser.feed(raw)
    parser.finish(reason)
    assert parser.rejected == rejected
