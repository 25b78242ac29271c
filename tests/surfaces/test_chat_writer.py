from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.surfaces.chat_grammar import Stream, read_stream
from tests.surfaces.server_strategies import any_server_event
from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from unspool.message import Message, ToolCall
from unspool.surfaces.chat_writer import ChatStream, completion, server_side
from unspool.surfaces.errors import openai_error
from unspool.surfaces.server_events import (
    AnyEvent,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
)

IDENTITY: dict[str, Any] = {"completion_id": "chatcmpl-1", "created": 1700000000, "model": "org/model"}

any_text = st.text(st.characters(exclude_categories=()), max_size=6)
any_index = st.integers(0, 3)
any_event: st.SearchStrategy[AnyEvent] = any_server_event | st.one_of(
    st.builds(ContentDelta, any_text),
    st.builds(ReasoningDelta, any_text),
    st.builds(ToolCallStart, any_index, any_text, any_text),
    st.builds(ToolCallDelta, any_index, any_text),
    st.builds(ToolCallEnd, any_index),
    st.builds(Finish, st.sampled_from(get_args(FinishReason)), st.none() | st.just(Usage(3, 4, 1, 2))),
)


def written(*events: AnyEvent, usage: bool = False, **options: Any) -> Stream:
    writer = ChatStream(**IDENTITY, include_usage=usage, **options)
    return read_stream(writer.write(events) + writer.close(), usage=usage)


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(any_event, max_size=4)), max_size=30), st.booleans())
def test_any_events_make_a_legal_stream(batches: list[tuple[int, list[AnyEvent]]], usage: bool) -> None:
    writer = ChatStream(**IDENTITY, choices=3, include_usage=usage)
    data = b"".join(writer.write(events, index) for index, events in batches) + writer.close()
    stream = read_stream(data, usage=usage)
    if stream.error is None:
        assert len(stream.choices) == 3
    assert writer.write([ContentDelta("late")]) + writer.close() + writer.error({}) == b""


@given(st.lists(any_event, max_size=20), st.integers(0, 20))
def test_an_error_ends_any_stream_legally(events: list[AnyEvent], after: int) -> None:
    writer = ChatStream(**IDENTITY)
    data = writer.write(events[:after]) + writer.error(openai_error("broken", "server_error"))
    data += writer.write(events[after:]) + writer.close()
    stream = read_stream(data)
    assert stream.error is not None
    assert [heard.finish_reason for heard in stream.choices] in ([], [None]) or any(
        isinstance(event, Finish) for event in events[:after]
    )


calls = st.lists(
    st.tuples(st.text(min_size=1, max_size=5), st.lists(any_text, max_size=4)).map(
        lambda drawn: (drawn[0], drawn[1])
    ),
    max_size=3,
)


@given(any_text, any_text, calls, st.sampled_from(["stop", "length"]), st.randoms(use_true_random=False))
def test_a_legal_generation_arrives_complete(
    reasoning: str, content: str, drawn: list[tuple[str, list[str]]], reason: FinishReason, dice: Any
) -> None:
    events: list[Event] = [*map(ReasoningDelta, reasoning), *map(ContentDelta, content)]
    for index, (name, pieces) in enumerate(drawn):
        events += [ToolCallStart(index, f"call_{index}", name)]
        events += [ToolCallDelta(index, piece) for piece in pieces] + [ToolCallEnd(index)]
    events.append(Finish(reason))
    writer = ChatStream(**IDENTITY)
    data = b""
    while events:
        size = dice.randint(1, 3)
        data += writer.write(events[:size])
        events = events[size:]
    (heard,) = read_stream(data + writer.close()).choices
    assert (heard.reasoning, heard.content) == (reasoning, content)
    assert heard.calls == [
        {"id": f"call_{index}", "name": name, "arguments": "".join(pieces) or "{}"}
        for index, (name, pieces) in enumerate(drawn)
    ]
    assert heard.finish_reason == ("length" if reason == "length" else "tool_calls" if drawn else "stop")


def test_one_call_is_written_as_the_api_writes_it() -> None:
    writer = ChatStream(**IDENTITY)
    events: list[Event] = [
        ToolCallStart(0, "call_a", "get_weather"),
        ToolCallDelta(0, '{"city":'),
        ToolCallDelta(0, '"Paris"}'),
        ToolCallEnd(0),
        Finish("stop"),
    ]
    data = writer.write(events) + writer.close()
    chunks = [json.loads(line[6:])["choices"][0] for line in data.decode().split("\n\n")[:-2]]
    deltas = [(chunk["delta"], chunk["finish_reason"]) for chunk in chunks]
    first = {"index": 0, "id": "call_a", "type": "function"}
    assert deltas == [
        ({"role": "assistant", "content": None}, None),
        ({"tool_calls": [{**first, "function": {"name": "get_weather", "arguments": ""}}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]}, None),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]}, None),
        ({}, "tool_calls"),
    ]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([Finish("stop")], "stop"),
        ([Finish("tool_calls")], "stop"),
        ([ToolCallStart(0, "c", "f"), Finish("stop")], "stop"),
        ([ToolCallStart(0, "c", "f"), Finish("length")], "length"),
        ([ToolCallStart(0, "c", "f"), ToolCallEnd(0), Finish("stop")], "tool_calls"),
        ([ToolCallStart(0, "c", "f"), ToolCallEnd(0), Finish("length")], "length"),
        (
            [ToolCallStart(0, "c", "f"), ToolCallEnd(0), ToolCallStart(1, "d", "g"), Finish("stop")],
            "tool_calls",
        ),
        ([ContentDelta("no"), Finish("content_filter")], "content_filter"),
        ([ContentDelta("the engine forgot to finish")], "stop"),
    ],
)
def test_the_finish_reason_says_what_the_client_must_know(events: list[Event], reason: str) -> None:
    assert written(*events).choices[0].finish_reason == reason


def test_a_cut_calls_arguments_are_not_completed() -> None:
    (heard,) = written(ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a":'), Finish("length")).choices
    assert heard.calls == [{"id": "c", "name": "f", "arguments": '{"a":'}]


@pytest.mark.parametrize("reason", ["error", "cancelled"])
def test_a_failed_generation_ends_with_an_error_and_no_finish(reason: FinishReason) -> None:
    stream = written(ContentDelta("half"), Finish(reason))
    assert stream.error is not None
    assert stream.error["type"] == "server_error"
    assert stream.choices[0].finish_reason is None


def test_events_that_fit_nowhere_are_left_out() -> None:
    (heard,) = written(
        ToolCallDelta(0, "before its start"),
        ToolCallEnd(0),
        ToolCallStart(5, "c", "f"),
        ToolCallStart(5, "c", "f"),
        ToolCallDelta(5, "{}"),
        ToolCallEnd(5),
        ToolCallDelta(5, "after its end"),
        Finish("stop"),
        ContentDelta("after the end"),
        Finish("length"),
    ).choices
    assert heard.calls == [{"id": "c", "name": "f", "arguments": "{}"}]
    assert (heard.content, heard.finish_reason) == ("", "tool_calls")


def test_usage_is_sent_only_when_asked_and_summed_over_choices() -> None:
    writer = ChatStream(**IDENTITY, choices=2, include_usage=True)
    data = writer.write([Finish("stop", Usage(10, 5, 2, 4))], 1)
    data += writer.write([Finish("stop", Usage(10, 7, 3, 4))]) + writer.close()
    assert read_stream(data, usage=True).usage == {
        "prompt_tokens": 10,
        "completion_tokens": 12,
        "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    assert b"usage" not in ChatStream(**IDENTITY).close()


def test_reasoning_can_be_kept_back_or_sent_under_one_name() -> None:
    events: list[Event] = [ReasoningDelta("thinking"), ContentDelta("done"), Finish("stop")]
    (heard,) = written(*events, include_reasoning=False).choices
    assert (heard.reasoning, heard.content) == ("", "done")
    data = ChatStream(**IDENTITY, reasoning_fields=("reasoning",)).write(events)
    assert b'"delta":{"reasoning":"thinking"}' in data
    assert b"reasoning_content" not in data


def test_half_a_surrogate_pair_is_sent_as_an_escape() -> None:
    data = ChatStream(**IDENTITY).write([ContentDelta("a\ud83d")])
    assert b'"content":"a\\ud83d"' in data
    body = completion([Message(content="\udc00")], **IDENTITY)
    assert body["choices"][0]["message"]["content"] == "\udc00"


def test_a_whole_message_has_what_the_stream_has() -> None:
    message = Message("why", None, (ToolCall("c", "f", ""),), "stop", Usage(1, 2))
    (choice,) = completion([message], **IDENTITY)["choices"]
    assert choice == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "reasoning_content": "why",
            "reasoning": "why",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        "logprobs": None,
        "finish_reason": "tool_calls",
    }


def test_a_whole_message_leaves_out_what_is_absent() -> None:
    body = completion([Message("hidden", "text")], include_reasoning=False, **IDENTITY)
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": "text",
        "refusal": None,
        "annotations": [],
    }
    assert body["usage"]["total_tokens"] == 0


def test_calls_of_the_server_are_told_of_at_the_end_and_never_as_calls_of_the_client() -> None:
    start = ServerCallStart(0, "call_1", "time", "now")
    failure = {"type": "mcp_tool_execution_error", "content": "no clock"}
    events: list[AnyEvent] = [
        start,
        ServerCallDelta(0, "{}"),
        ServerCallEnd(0),
        ServerCallResult(0, start, "{}", "no clock", failure),
        LoopLimit("max_turns", True),
        ContentDelta("It is noon."),
        Finish("stop"),
    ]
    (heard,) = written(*events).choices
    assert (heard.content, heard.calls, heard.finish_reason) == ("It is noon.", [], "stop")
    told = {"id": "call_1", "server_label": "time", "name": "now", "arguments": "{}", "output": None}
    assert heard.server == {"mcp_calls": [{**told, "error": failure}], "mcp_limit": "max_turns"}
    assert server_side(events) == heard.server
