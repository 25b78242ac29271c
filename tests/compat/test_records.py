"""The values: records are dicts with attributes, with what parsers use of pydantic models."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from unspool.compat import (
    ChatCompletionRequest,
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)

TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def test_both_ways_of_reading_give_the_same() -> None:
    function = DeltaFunctionCall(name="f", arguments="{")
    delta = DeltaMessage(content="a", tool_calls=[DeltaToolCall(index=0, id="x", function=function)])
    assert delta.tool_calls[0].function is delta["tool_calls"][0]["function"]
    called: dict[str, Any] = delta
    assert called["tool_calls"][0]["function"]["name"] == "f"
    assert json.loads(json.dumps(delta)) == {
        "content": "a",
        "tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{"}}],
    }


def test_what_was_not_set_is_no_key_and_reads_as_its_default() -> None:
    delta = DeltaMessage()
    assert (delta.role, delta.content, delta.reasoning) == (None, None, None)
    assert "content" not in delta
    assert bool(delta)
    assert delta.tool_calls == []
    delta.tool_calls.append(DeltaToolCall(index=1))
    assert delta.tool_calls[0].index == 1
    with pytest.raises(AttributeError, match="DeltaMessage has no nothing"):
        _ = delta.nothing


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="DeltaToolCall needs index"):
        DeltaToolCall(id="x")  # type: ignore[call-arg]


def test_attributes_can_be_set_and_unknown_ones_are_kept() -> None:
    delta = DeltaMessage(role="assistant")
    delta.content = "a"
    delta.extra = 1
    delta["reasoning"] = "b"
    assert delta == {"role": "assistant", "content": "a", "extra": 1, "reasoning": "b"}
    assert delta.reasoning == "b"
    del delta.content
    assert delta.content is None


def test_the_older_name_of_reasoning() -> None:
    delta = DeltaMessage(reasoning_content="a")  # type: ignore[call-arg]
    assert (delta.reasoning, delta.reasoning_content) == ("a", "a")
    assert delta == {"reasoning": "a"}


def test_dicts_become_records_where_a_record_belongs() -> None:
    call = DeltaToolCall(index=0, function={"name": "f"})  # type: ignore[arg-type]
    assert isinstance(call.function, DeltaFunctionCall)
    request = ChatCompletionRequest(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}})
    assert request.tools is not None
    assert request.tools[0].function.parameters == {"type": "object"}
    assert request.tool_choice.function.name == "f"
    assert isinstance(request, dict)
    assert request["tools"] == [TOOL]


def test_a_call_may_be_flat() -> None:
    flat: Any = {"id": "1", "name": "f", "arguments": "{}"}
    found = ExtractedToolCallInformation(tools_called=True, tool_calls=[flat])
    call = found.tool_calls[0]
    assert call == ToolCall(id="1", function=FunctionCall(name="f", arguments="{}"))
    assert (call.name, call["name"], call.get("arguments"), call.get("more", 1)) == ("f", "f", "{}", 1)
    with pytest.raises(KeyError):
        call["more"]


def test_a_call_without_an_id_gets_one() -> None:
    function = FunctionCall(name="f", arguments="{}")
    assert ToolCall(function=function).id != ToolCall(function=function).id
    assert ToolCall(function=function)["type"] == "function"


def test_dumping() -> None:
    delta = DeltaMessage(content="a", tool_calls=[DeltaToolCall(index=0, function=DeltaFunctionCall(name="f"))])
    function = {"name": "f", "arguments": None}
    call = {"index": 0, "id": None, "type": None, "function": function}
    assert delta.model_dump() == {"role": None, "content": "a", "reasoning": None, "tool_calls": [call]}
    short = {"content": "a", "tool_calls": [{"index": 0, "function": {"name": "f"}}]}
    assert delta.model_dump(exclude_none=True) == short
    assert delta.model_dump(exclude_unset=True) == short
    assert delta.model_dump(exclude_defaults=True) == short
    assert delta.model_dump(include={"content"}) == {"content": "a"}
    assert "content" not in delta.model_dump(exclude={"content"})
    assert type(delta.model_dump()["tool_calls"][0]) is dict
    assert "tool_calls" not in DeltaMessage(content="a").model_dump()
    assert json.loads(delta.model_dump_json(exclude_none=True)) == short
    assert delta.dict() == delta.model_dump()


def test_reading_and_copying() -> None:
    delta = DeltaMessage.model_validate({"content": "a", "tool_calls": [{"index": 0}]})
    assert delta.tool_calls[0].index == 0
    assert DeltaMessage.model_validate(delta) is delta
    assert DeltaMessage.model_validate_json('{"content": "a"}') == DeltaMessage(content="a")
    assert delta.model_fields_set == {"content", "tool_calls"}
    changed = delta.model_copy(update={"content": "b"})
    assert (changed.content, delta.content) == ("b", "a")
    assert copy.deepcopy(delta) == pickle.loads(pickle.dumps(delta)) == delta
    assert repr(DeltaMessage(content="a")) == "DeltaMessage(content='a')"
