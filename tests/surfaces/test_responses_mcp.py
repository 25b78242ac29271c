from __future__ import annotations

from typing import Any

import pytest

from unspool.message import ToolCall
from unspool.surfaces.conversation import Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.responses_items import decode_items, text_item, turns_of


def ran(name: str = "now", output: str | None = "noon", **more: Any) -> dict[str, Any]:
    return {
        "type": "mcp_call",
        "id": f"mcp_{name}",
        "server_label": "time",
        "name": name,
        "arguments": "{}",
        "output": output,
        **more,
    }


def request(name: str = "now") -> dict[str, Any]:
    return {**ran(name), "type": "mcp_approval_request", "id": f"mcpr_{name}"}


def response(name: str = "now", *, approve: bool, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{name}", "approve": approve, **more}


def turns(*items: dict[str, Any]) -> tuple[Turn, ...]:
    return turns_of(decode_items(items, "input"))


def called(*names: str, said: str | None = None) -> Turn:
    calls = tuple(ToolCall(f"mcp_{name}", f"time__{name}", "{}") for name in names)
    return Turn("assistant", (said,) if said else (), tool_calls=calls)


def result(text: str, name: str = "now") -> Turn:
    return Turn("tool", (text,), tool_call_id=f"mcp_{name}")


def test_calls_come_with_their_results_before_what_was_written_next() -> None:
    said: Any = text_item("It is noon.", "assistant")
    listed = {"type": "mcp_list_tools", "server_label": "time", "tools": []}
    assert turns(listed, text_item("Let me look.", "assistant"), ran(), ran("zones", "UTC"), said) == (  # type: ignore[arg-type]
        called("now", "zones", said="Let me look."),
        result("noon"),
        result("UTC", "zones"),
        Turn("assistant", ("It is noon.",)),
    )


def test_a_call_of_the_clients_in_the_same_turn_keeps_its_place() -> None:
    asked = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    answered = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    turn, *results = turns(ran(), asked, answered)
    assert [call.name for call in turn.tool_calls] == ["time__now", "look"]
    assert results == [result("noon"), Turn("tool", ("rain",), tool_call_id="c1")]


def test_a_call_without_a_result_is_left_out() -> None:
    assert turns(ran(output=None, status="incomplete"), text_item("Hello")) == (Turn("user", ("Hello",)),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "db is down"}]}, "db is down"),
        ({"type": "mcp_tool_execution_error", "content": ["db", "is down"]}, "db\nis down"),
        ({"type": "mcp_tool_execution_error", "content": "db is down"}, "db is down"),
        ({"type": "mcp_protocol_error", "code": 1, "message": "db is down"}, "db is down"),
        ("db is down", "db is down"),
        ({}, ""),
    ],
)
def test_a_failed_call_is_an_error_to_the_model(error: Any, told: str) -> None:
    assert turns(ran(output=None, error=error))[1:] == (result(f"Error: {told}".rstrip()),)


def test_only_what_was_refused_is_told_of_an_approval() -> None:
    granted = ran(approval_request_id="mcpr_now")
    asked = [request(), request("set"), response(approve=True), response("set", approve=False, reason="no")]
    told = [turn.text for turn in turns(*asked, granted) if turn.role == "tool"]
    assert told == ["Error: the user did not allow this call: no", "noon"]
    assert turns(request(), text_item("Hello")) == (Turn("user", ("Hello",)),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "mcp_approval_response"}, "input[0].approval_request_id"),
        ({"type": "mcp_approval_response", "approval_request_id": "a"}, "input[0].approve"),
        ({"type": "mcp_approval_response", "approval_request_id": "a", "approve": "yes"}, "input[0].approve"),
        ({**ran(), "id": None}, "input[0].id"),
        ({**ran(), "arguments": {}}, "input[0].arguments"),
        ({**ran(), "output": 1}, "input[0].output"),
        ({**ran(), "approval_request_id": ["a"]}, "input[0].approval_request_id"),
        ({**request(), "server_label": None}, "input[0].server_label"),
        ({"type": "mcp_list_tools"}, "input[0].server_label"),
    ],
)
def test_a_wrong_item_is_named(item: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        turns(item)
    assert caught.value.param == param
