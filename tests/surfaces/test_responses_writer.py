from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.surfaces.responses_grammar import events_of, read_stream
from tests.surfaces.server_strategies import TOOL, any_server_event
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
from unspool.message import Message
from unspool.surfaces.errors import openai_error
from unspool.surfaces.responses_items import turns_of
from unspool.surfaces.responses_writer import ResponseStream, Style
from unspool.surfaces.server_events import (
    AnyEvent,
    ApprovalRequested,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
    ToolsListed,
)

HEAD: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "org/model"}

any_text = st.text(st.characters(exclude_categories=()), max_size=6)
any_index = st.integers(0, 3)
any_name = st.sampled_from(["", "f", "shell"])
any_model_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(ContentDelta, any_text),
    st.builds(ReasoningDelta, any_text),
    st.builds(ToolCallStart, any_index, any_text, any_name),
    st.builds(ToolCallDelta, any_index, any_text | st.just('{"input":"a\\u00e9"}')),
    st.builds(ToolCallEnd, any_index),
    st.builds(Finish, st.sampled_from(get_args(FinishReason)), st.none() | st.just(Usage(3, 4, 1, 2))),
)
any_event: st.SearchStrategy[AnyEvent] = any_model_event | any_server_event
styles = st.builds(
    Style, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([frozenset(), frozenset({"shell"})])
)


def stream(style: Style | None = None) -> ResponseStream:
    return ResponseStream(HEAD, clock=lambda: 1700000001.5, style=style)


def written(*events: AnyEvent, style: Style | None = None) -> dict[str, Any]:
    writer = stream(style)
    return read_stream(writer.write(events) + writer.close())


@given(st.lists(st.lists(any_event, max_size=4), max_size=30), styles)
def test_any_events_make_a_legal_stream_that_folds_to_the_whole_response(
    batches: list[list[AnyEvent]], style: Style
) -> None:
    writer = stream(style)
    assert writer.heartbeat() == b""
    response = read_stream(
        b"".join(writer.write(batch) + writer.heartbeat() for batch in batches) + writer.close()
    )
    whole = stream(style)
    whole.write([event for batch in batches for event in batch])
    whole.close()
    assert response == whole.response() == writer.response()
    assert (
        writer.heartbeat()
        + writer.write([ContentDelta("late")])
        + writer.close()
        + writer.error(openai_error("late"))
        == b""
    )


@given(st.lists(any_event, max_size=20), st.integers(0, 20))
def test_an_error_ends_any_stream_legally(events: list[AnyEvent], after: int) -> None:
    writer = stream()
    data = writer.write(events[:after]) + writer.error(openai_error("broken", "server_error"))
    data += writer.write(events[after:]) + writer.close()
    response = read_stream(data)
    assert response["status"] == "failed" or any(isinstance(event, Finish) for event in events[:after])


@given(st.lists(any_event, max_size=20), st.integers(0, 20))
def test_a_cancelled_stream_ends_legally(events: list[Event], after: int) -> None:
    writer = stream()
    data = writer.write(events[:after])
    writer.cancel()
    data += writer.write(events[after:]) + writer.close()
    response = read_stream(data)
    assert response["status"] == "cancelled" or any(isinstance(event, Finish) for event in events[:after])


@st.composite
def generations(draw: st.DrawFn) -> list[Event]:
    """What a parser can say: calls one after the other, text and reasoning anywhere between them."""
    events: list[Event] = []
    for index, kind in enumerate(draw(st.lists(st.sampled_from(["reasoning", "content", "call"]), max_size=6))):
        pieces = draw(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3))
        if kind == "reasoning":
            events += map(ReasoningDelta, pieces)
        elif kind == "content":
            events += map(ContentDelta, pieces)
        else:
            events += [ToolCallStart(index, f"call_{index}", "f"), ToolCallDelta(index, '{"a":')]
            events += [ToolCallDelta(index, json.dumps(pieces[0]) + "}"), ToolCallEnd(index)]
    return [*events, Finish(draw(st.sampled_from(["stop", "length"])), Usage(9, 8, 7))]


@given(generations(), styles)
def test_what_was_written_comes_back_as_the_turn_that_the_model_wrote(events: list[Event], style: Style) -> None:
    message = Message.from_events(events)
    turns = turns_of(written(*events, style=Style(True, style.summary, style.sealed))["output"])
    if not (message.reasoning or message.content or message.tool_calls):
        assert turns == ()
        return
    (turn,) = turns
    assert turn.reasoning == message.reasoning
    assert "".join(turn.parts) == (message.content or "")
    assert len(turn.parts) <= 1
    assert turn.tool_calls == message.tool_calls


def test_text_is_written_as_the_api_writes_it() -> None:
    writer = stream()
    data = writer.write([ContentDelta("Hel")])
    # What happens behind the finish can still be told, so its end waits.
    assert not writer.write([ContentDelta("lo"), Finish("stop", Usage(3, 2, 0, 1))]) + writer.heartbeat()
    events = events_of(data + writer.close())
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[4] == {
        "type": "response.output_text.delta",
        "sequence_number": 4,
        "item_id": "msg_1_0",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hel",
        "logprobs": [],
    }
    response = events[-1]["response"]
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    assert response["output"] == [
        {"id": "msg_1_0", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    ]
    assert response["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }
    assert response["completed_at"] == 1700000001


def test_reasoning_and_parallel_calls_are_items_one_after_the_other() -> None:
    response = written(
        ReasoningDelta("hm"),
        ToolCallStart(0, "call_a", "f"),
        ToolCallEnd(0),
        ToolCallStart(1, "call_b", "g"),
        ToolCallDelta(1, '{"x":1}'),
        ToolCallEnd(1),
        Finish("tool_calls"),
    )
    assert response["status"] == "completed"
    reasoning, *calls = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert reasoning["summary"] == []
    assert [(call["call_id"], call["name"], call["arguments"], call["status"]) for call in calls] == [
        ("call_a", "f", "{}", "completed"),
        ("call_b", "g", '{"x":1}', "completed"),
    ]


@pytest.mark.parametrize(
    ("events", "status", "items"),
    [
        ([Finish("stop")], "completed", []),
        ([ContentDelta("a")], "completed", ["completed"]),
        ([ContentDelta("a"), Finish("length")], "incomplete", ["incomplete"]),
        ([ReasoningDelta("a"), Finish("length")], "incomplete", ["incomplete"]),
        ([ToolCallStart(0, "c", "f"), Finish("length")], "incomplete", ["incomplete"]),
        ([ToolCallStart(0, "c", "f"), Finish("stop")], "completed", ["incomplete"]),
        (
            [ToolCallStart(0, "c", "f"), ContentDelta("a")],
            "completed",
            ["incomplete", "completed"],
        ),
        (
            [ToolCallStart(0, "c", "f"), ToolCallEnd(0), ToolCallStart(1, "d", "f"), Finish("length")],
            "incomplete",
            ["completed", "incomplete"],
        ),
        ([ContentDelta("no"), Finish("content_filter")], "incomplete", ["incomplete"]),
        ([ContentDelta("half"), Finish("error")], "failed", ["incomplete"]),
        ([ContentDelta("half"), Finish("cancelled")], "failed", ["incomplete"]),
    ],
)
def test_the_status_says_what_the_client_must_know(events: list[Event], status: str, items: list[str]) -> None:
    response = written(*events)
    assert response["status"] == status
    assert [item["status"] for item in response["output"]] == items


def test_the_reason_of_an_incomplete_response_is_named() -> None:
    assert written(Finish("length"))["incomplete_details"] == {"reason": "max_output_tokens"}
    assert written(Finish("content_filter"))["incomplete_details"] == {"reason": "content_filter"}


def test_a_cut_calls_arguments_are_not_completed() -> None:
    (call,) = written(ToolCallStart(0, "c", "f"), ToolCallDelta(0, '{"a":'), Finish("length"))["output"]
    assert call["arguments"] == '{"a":'


def test_a_summary_repeats_the_reasoning_for_clients_that_show_nothing_else() -> None:
    events: list[Event] = [ReasoningDelta("be"), ReasoningDelta("cause"), ContentDelta("so")]
    reasoning, _ = written(*events, style=Style(summary=True))["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "because"}]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "because"}]


def test_reasoning_can_be_kept_back() -> None:
    output = written(ReasoningDelta("why"), ContentDelta("so"), style=Style(show_reasoning=False))["output"]
    assert [item["type"] for item in output] == ["message"]


def test_a_custom_tools_text_is_taken_out_of_its_arguments_while_they_stream() -> None:
    writer = stream(Style(custom_tools=frozenset({"shell"})))
    pieces = ['{"inp', 'ut": "ls', " \\", "n-l", '"}']
    data = writer.write([ToolCallStart(0, "c", "shell"), *(ToolCallDelta(0, piece) for piece in pieces)])
    data += writer.write([ToolCallEnd(0)]) + writer.close()
    (call,) = read_stream(data)["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", "ls \n-l")
    deltas = [event["delta"] for event in events_of(data) if event["type"].endswith("input.delta")]
    assert deltas == ["ls", " ", "\n-l"]


def test_half_a_surrogate_pair_is_sent_as_an_escape() -> None:
    assert b'"delta":"a\\ud83d"' in stream().write([ContentDelta("a\ud83d")])


def server_call(index: int, *pieces: str) -> list[AnyEvent]:
    """A call of the server's, up to where its tool runs."""
    start = ServerCallStart(index, f"call_{index}", "time", "now")
    return [start, *(ServerCallDelta(index, piece) for piece in pieces), ServerCallEnd(index)]


def server_result(index: int, text: str = "noon", error: dict[str, Any] | None = None) -> ServerCallResult:
    return ServerCallResult(index, ServerCallStart(index, f"call_{index}", "time", "now"), "{}", text, error)


def test_calls_of_the_server_are_open_side_by_side_while_they_run() -> None:
    writer = stream()
    data = writer.write([ToolsListed("time", (TOOL,)), *server_call(0, '{"zone":', '"UTC"}'), *server_call(1)])
    assert [item["type"] for item in writer.response()["output"]] == ["mcp_list_tools"]
    failure = {"type": "mcp_tool_execution_error", "content": "no clock"}
    data += writer.write([server_result(0), server_result(1, "no clock", failure), ContentDelta("Noon.")])
    data += writer.close()
    assert [event["type"].removeprefix("response.") for event in events_of(data)][2:-3] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
        "mcp_call.failed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
    ]
    listed, first, second, _ = read_stream(data)["output"]
    assert listed["tools"][0]["name"] == "now"
    assert (first["status"], first["output"], first["arguments"]) == ("completed", "noon", '{"zone":"UTC"}')
    assert (second["status"], second["error"], second["arguments"]) == ("failed", failure, "{}")


def test_a_call_without_a_result_is_incomplete() -> None:
    response = written(*server_call(0, "{}"), Finish("length"))
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(("answered", "status"), [(True, "completed"), (False, "incomplete")])
def test_a_limit_of_the_loop_is_said(answered: bool, status: str) -> None:
    response = written(*server_call(0, "{}"), server_result(0), LoopLimit("max_turns", answered))
    assert (response["status"], response["mcp_limit"]) == (status, "max_turns")


def test_an_approval_is_asked_for_in_an_item_of_its_own() -> None:
    response = written(ApprovalRequested("mcpr_x", "time", "now", '{"zone":"UTC"}'), Finish("stop"))
    assert response["status"] == "completed"
    assert response["output"] == [
        {
            "id": "mcpr_x",
            "type": "mcp_approval_request",
            "name": "now",
            "server_label": "time",
            "arguments": '{"zone":"UTC"}',
        }
    ]
