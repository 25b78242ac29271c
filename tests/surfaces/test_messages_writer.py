from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.surfaces.messages_grammar import CALLS, Stream, read_stream
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
from unspool.surfaces.encoding import embed
from unspool.surfaces.errors import messages_error
from unspool.surfaces.messages_writer import MessageStream, message, usage_object
from unspool.surfaces.server_events import (
    AnyEvent,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
)

IDENTITY: dict[str, Any] = {"message_id": "msg_1", "model": "org/model"}

any_text = st.text(st.characters(exclude_categories=()), max_size=6)
any_index = st.integers(0, 3)
any_event: st.SearchStrategy[AnyEvent] = any_server_event | st.one_of(
    st.builds(ContentDelta, any_text),
    st.builds(ReasoningDelta, any_text),
    st.builds(ToolCallStart, any_index, any_text, any_text),
    st.builds(ToolCallDelta, any_index, any_text | st.sampled_from(["{", "}", '"a":', "1"])),
    st.builds(ToolCallEnd, any_index),
    st.builds(Finish, st.sampled_from(get_args(FinishReason)), st.none() | st.just(Usage(3, 4, 1, 2))),
)
calls = st.dictionaries(st.text(max_size=3), st.integers() | any_text, max_size=3)


@st.composite
def legal_events(draw: st.DrawFn) -> list[Event]:
    """What a parser says: text, reasoning and whole calls in any order, perhaps a cut call, and a finish."""
    events: list[Event] = []
    for index in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["content", "reasoning", "call"]))
        if kind != "call":
            delta = ContentDelta if kind == "content" else ReasoningDelta
            events += [delta(text) for text in draw(st.lists(any_text, max_size=3))]
            continue
        arguments = draw(st.just("") | calls.map(json.dumps))
        cut = draw(st.integers(0, len(arguments)))
        events.append(ToolCallStart(index, f"call_{index}", draw(st.text(min_size=1, max_size=4))))
        events += [ToolCallDelta(index, piece) for piece in (arguments[:cut], arguments[cut:])]
        events.append(ToolCallEnd(index))
    if draw(st.booleans()):
        events += [ToolCallStart(9, "call_9", "cut"), ToolCallDelta(9, '{"a')]
    return [*events, Finish(draw(st.sampled_from(["stop", "length", "content_filter"])), Usage(9, 5, 2, 3))]


def in_batches(writer: MessageStream, events: list[Event], dice: Any) -> bytes:
    data = b""
    while events:
        size = dice.randint(1, 3)
        data += writer.write(events[:size])
        events = events[size:]
    return data


def written(*events: AnyEvent, stop_sequence: str | None = None, **options: Any) -> Stream:
    writer = MessageStream(**IDENTITY, **options)
    return read_stream(writer.write(events) + writer.close(stop_sequence))


def whole(*events: AnyEvent, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(message(events, **IDENTITY, **options))
    return body


@given(st.lists(st.lists(any_event, max_size=4), max_size=12))
def test_any_events_make_a_legal_stream(batches: list[list[AnyEvent]]) -> None:
    writer = MessageStream(**IDENTITY)
    data = b"".join(writer.write(events) for events in batches) + writer.close()
    stream = read_stream(data)
    failed = any(isinstance(e, Finish) and e.reason in ("error", "cancelled") for es in batches for e in es)
    assert failed or stream.error is None
    assert writer.write([ContentDelta("late")]) + writer.close() + writer.error({}) == b""


@given(st.lists(any_event, max_size=20), st.integers(0, 20))
def test_an_error_ends_any_stream_legally(events: list[AnyEvent], after: int) -> None:
    writer = MessageStream(**IDENTITY)
    data = writer.write(events[:after]) + writer.error(messages_error("broken", "api_error"))
    data += writer.write(events[after:]) + writer.close()
    assert read_stream(data).error is not None


@given(st.lists(any_event, max_size=20), st.booleans())
def test_any_events_make_one_message_with_the_blocks_of_the_stream(events: list[AnyEvent], shown: bool) -> None:
    events = [e for e in events if not (isinstance(e, Finish) and e.reason in ("error", "cancelled"))]
    body = whole(*events, show_thinking=shown)
    streamed = written(*events, show_thinking=shown).folded()
    blocks = [block for block in body["content"] if block["type"] not in CALLS]
    assert blocks == [block for block in streamed["content"] if block["type"] not in CALLS]
    assert {**body, "content": None} == {**streamed, "content": None}


@given(legal_events(), st.none() | st.just("END"), st.randoms(use_true_random=False))
def test_a_whole_message_is_the_folded_stream(events: list[Event], stop: str | None, dice: Any) -> None:
    writer = MessageStream(**IDENTITY)
    stream = read_stream(in_batches(writer, list(events), dice) + writer.close(stop))
    assert whole(*events, stop_sequence=stop) == stream.folded(without_cut_calls=True)
    assert stream.text("text") == "".join(e.text for e in events if isinstance(e, ContentDelta))
    assert stream.text("thinking") == "".join(e.text for e in events if isinstance(e, ReasoningDelta))


def test_one_call_after_reasoning_is_written_as_the_api_writes_it() -> None:
    writer = MessageStream(**IDENTITY, prompt=Usage(10, cached_tokens=4))
    events: list[Event] = [
        ReasoningDelta("Hm"),
        ReasoningDelta("."),
        ToolCallStart(0, "call_a", "get_weather"),
        ToolCallDelta(0, '{"city":'),
        ToolCallDelta(0, '"Paris"}'),
        ToolCallEnd(0),
        Finish("stop", Usage(10, 7, 3, 4)),
    ]
    data = writer.write(events) + writer.close()
    said = [json.loads(frame.split("\ndata: ")[1]) for frame in data.decode().split("\n\n")[:-1]]
    assert said[0]["message"]["usage"]["input_tokens"] == 6
    signature = said[5]["delta"].pop("signature")
    assert signature
    empty = {"type": "input_json_delta", "partial_json": ""}
    assert said[1:] == [
        {"type": "ping"},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {
                "type": "tool_use",
                "id": "call_a",
                "name": "get_weather",
                "caller": {"type": "direct"},
                "input": {},
            },
        },
        {"type": "content_block_delta", "index": 1, "delta": empty},
        {"type": "content_block_delta", "index": 1, "delta": {**empty, "partial_json": '{"city":'}},
        {"type": "content_block_delta", "index": 1, "delta": {**empty, "partial_json": '"Paris"}'}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "tool_use",
                "stop_sequence": None,
                "stop_details": None,
                "container": None,
            },
            "usage": {
                "input_tokens": 6,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 4,
                "output_tokens": 7,
                "output_tokens_details": {"thinking_tokens": 3},
                "server_tool_use": None,
            },
        },
        {"type": "message_stop"},
    ]


START, END = ToolCallStart(0, "c", "f"), ToolCallEnd(0)


@pytest.mark.parametrize(
    ("events", "stop", "reason"),
    [
        ([Finish("stop")], None, "end_turn"),
        ([Finish("stop")], "END", "stop_sequence"),
        ([Finish("tool_calls")], None, "end_turn"),
        ([START, Finish("stop")], None, "end_turn"),
        ([START, Finish("length")], None, "max_tokens"),
        ([START, END, Finish("stop")], None, "tool_use"),
        ([START, END, Finish("stop")], "END", "tool_use"),
        ([START, END, Finish("length")], None, "max_tokens"),
        ([START, END, ToolCallStart(1, "d", "g"), Finish("length")], None, "max_tokens"),
        ([ContentDelta("no"), Finish("content_filter")], None, "refusal"),
        ([ContentDelta("the engine forgot to finish")], None, "end_turn"),
    ],
)
def test_the_stop_reason_says_what_the_client_must_know(
    events: list[Event], stop: str | None, reason: str
) -> None:
    for body in (written(*events, stop_sequence=stop).folded(), whole(*events, stop_sequence=stop)):
        assert body["stop_reason"] == reason
        assert body["stop_sequence"] == ("END" if reason == "stop_sequence" else None)


def test_a_cut_calls_input_streams_as_far_as_it_got_and_is_not_in_a_whole_message() -> None:
    events: list[Event] = [ContentDelta("a"), START, ToolCallDelta(0, '{"a":'), Finish("length")]
    assert written(*events).calls() == [("f", '{"a":')]
    assert whole(*events)["content"] == [{"type": "text", "text": "a"}]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert written(START, END).calls() == [("f", "{}")]
    call = {"type": "tool_use", "id": "c", "name": "f", "caller": {"type": "direct"}, "input": {}}
    assert whole(START, END)["content"] == [call]


def test_a_call_may_end_after_the_text_that_follows_it() -> None:
    events: list[Event] = [START, ToolCallDelta(0, '{"a":1}'), ContentDelta("text"), END, Finish("stop")]
    stream = written(*events)
    assert (stream.calls(), stream.folded()["stop_reason"]) == ([("f", '{"a":1}')], "tool_use")
    assert whole(*events)["content"] == stream.folded()["content"]


def test_a_call_that_lost_a_piece_is_not_complete() -> None:
    events: list[Event] = [START, ToolCallDelta(0, "{"), ContentDelta("text"), ToolCallDelta(0, "}"), END]
    assert written(*events).folded()["stop_reason"] == "end_turn"
    assert [block["type"] for block in whole(*events)["content"]] == ["text"]


@pytest.mark.parametrize("reason", ["error", "cancelled"])
def test_a_failed_generation_ends_with_an_error_and_no_end(reason: FinishReason) -> None:
    stream = written(ContentDelta("half"), Finish(reason))
    assert stream.error is not None
    assert stream.error["type"] == "api_error"
    assert not stream.stopped


def test_omitted_thinking_leaves_its_block_and_its_signature() -> None:
    events: list[Event] = [ReasoningDelta("why"), ContentDelta("because"), Finish("stop")]
    shown, hidden = written(*events).folded(), written(*events, show_thinking=False).folded()
    assert shown["content"][0]["thinking"] == "why"
    assert hidden["content"][0] == {**shown["content"][0], "thinking": ""}
    assert whole(*events, show_thinking=False)["content"] == hidden["content"]


def test_different_thinking_has_a_different_signature() -> None:
    one, other = (whole(ReasoningDelta(text))["content"][0]["signature"] for text in ("one", "other"))
    assert one != other


def test_usage_counts_what_was_reused_apart() -> None:
    assert usage_object(Usage(10, 5, 2, 4)) == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
        "server_tool_use": None,
    }


@pytest.mark.parametrize(
    ("arguments", "embedded"),
    [
        ('{"a": 1.50, "a": 1e999}', b'{"a": 1.50, "a": 1e999}'),
        ('{"a": "\u00e9"}', '{"a": "\u00e9"}'.encode()),
        ('{"a": "\ud83d"}', b'{"a": "\\ud83d"}'),
        ('{"a": "\\ud83d"}', b'{"a": "\\ud83d"}'),
        ('{"a": NaN}', b"{}"),
        ("", b"{}"),
        ("[1]", b"{}"),
        ('["\ud83d"]', b"{}"),
        ('{"a":', b"{}"),
        ('{"a":' * 200_000 + "1" + "}" * 200_000, b"{}"),
    ],
)
def test_input_is_embedded_as_it_was_written(arguments: str, embedded: bytes) -> None:
    assert embed(arguments) == embedded


def test_half_a_surrogate_pair_is_sent_as_an_escape() -> None:
    events: list[Event] = [ReasoningDelta("\ud83d"), ContentDelta("a\ud83d")]
    assert b'"text":"a\\ud83d"' in MessageStream(**IDENTITY).write(events)
    assert whole(*events)["content"][1]["text"] == "a\ud83d"


def test_a_call_of_the_server_and_its_result_are_blocks() -> None:
    first, second = (ServerCallStart(index, f"call_{index}", "time", "now") for index in (0, 1))
    events: list[AnyEvent] = [
        ContentDelta("Let me look."),
        first,
        ServerCallDelta(0, '{"zone": '),
        ServerCallDelta(0, '"UTC"}'),
        ServerCallEnd(0),
        second,
        ServerCallEnd(1),
        ServerCallResult(0, first, "", "noon"),
        ServerCallResult(1, second, "", "no clock", {"type": "mcp_tool_execution_error", "content": "no clock"}),
        ContentDelta("Noon."),
        Finish("stop"),
    ]
    body = written(*events).folded()
    assert [block["type"] for block in body["content"]] == [
        "text",
        "mcp_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_result",
        "text",
    ]
    assert body["content"][1] == {
        "type": "mcp_tool_use",
        "id": "call_0",
        "name": "now",
        "server_name": "time",
        "input": {"zone": "UTC"},
    }
    assert body["content"][2]["input"] == {}
    assert body["content"][4] == {
        "type": "mcp_tool_result",
        "tool_use_id": "call_1",
        "is_error": True,
        "content": [{"type": "text", "text": "no clock"}],
    }
    assert body["stop_reason"] == "end_turn"
    assert whole(*events) == body


@pytest.mark.parametrize(("answered", "reason"), [(False, "pause_turn"), (True, "end_turn")])
def test_a_message_pauses_at_the_limit(answered: bool, reason: str) -> None:
    assert whole(LoopLimit("max_turns", answered), Finish("stop"))["stop_reason"] == reason
