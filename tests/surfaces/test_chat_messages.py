from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.message import ToolCall
from unspool.surfaces.chat_messages import decode_messages
from unspool.surfaces.conversation import Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields


def turns(*messages: Any) -> tuple[Turn, ...]:
    return decode_messages(Fields({"messages": list(messages)}))


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_every_role_is_read() -> None:
    roles = ["system", "developer", "user", "assistant", "tool"]
    assert [turn.role for turn in turns(*({"role": role, "content": "x"} for role in roles))] == roles


def test_content_may_be_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]
    (turn,) = turns({"role": "user", "content": parts})
    assert turn == Turn("user", ("a", "b", "c"))
    assert turn.text == "a\nb\nc"


def test_what_the_server_emits_can_be_sent_back() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "why",
        "reasoning": "why",
        "tool_calls": [call("f", '{"a": 1}')],
    }
    assert turns(message) == (
        Turn("assistant", reasoning="why", tool_calls=(ToolCall("call_1", "f", '{"a": 1}'),)),
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "why"},
        {"reasoning_content": "why"},
        {"reasoning_content": "", "reasoning": "why"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "w"}, {"type": "x"}, {"text": "hy"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]},
        {"content": [{"type": "thinking", "thinking": "why"}]},
    ],
)
def test_reasoning_comes_back_under_any_of_its_names(fields: dict[str, Any]) -> None:
    assert turns({"role": "assistant", **fields}) == (Turn("assistant", reasoning="why"),)


def test_a_result_names_its_call() -> None:
    (turn,) = turns({"role": "tool", "tool_call_id": "call_1", "content": "18"})
    assert turn == Turn("tool", ("18",), tool_call_id="call_1")
    assert turns({"role": "tool", "tool_call_id": "call_1", "content": None})[0].text is None


def test_the_apis_older_spellings_are_read() -> None:
    asking = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    answer = {"role": "function", "name": "f", "content": "18"}
    assert turns(asking, answer) == (
        Turn("assistant", tool_calls=(ToolCall("call_0", "f", "{}"),)),
        Turn("tool", ("18",), name="f"),
    )


@pytest.mark.parametrize(
    ("arguments", "text"), [('{"a":1}', '{"a":1}'), ({"a": "é"}, '{"a": "é"}'), ("", "{}"), (None, "{}")]
)
def test_arguments_become_json_text(arguments: Any, text: str) -> None:
    (turn,) = turns({"role": "assistant", "tool_calls": [call("f", arguments)]})
    assert turn.tool_calls[0].arguments == text


def test_a_call_without_an_id_gets_one() -> None:
    (turn,) = turns({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]})
    assert turn.tool_calls == (ToolCall("call_0", "f", "{}"),)


def test_an_empty_answer_and_a_refusal_come_back() -> None:
    assert turns({"role": "assistant"}) == (Turn("assistant"),)
    assert turns({"role": "assistant", "content": None, "refusal": "no"}) == (Turn("assistant", ("no",)),)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (5, "messages[0]"),
        ({}, "messages[0].role"),
        ({"role": "robot", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": [5]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
        ({"role": "assistant", "content": [{"type": "thinking"}]}, "messages[0].content[0].thinking"),
        ({"role": "assistant", "reasoning": 5}, "messages[0].reasoning"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, "messages[0].tool_calls[0]"),
        (
            {"role": "assistant", "tool_calls": [call("f", 5)]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        ({"role": "tool", "tool_call_id": 5, "content": ""}, "messages[0].tool_call_id"),
    ],
)
def test_a_wrong_message_is_named(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        turns(message)
    assert caught.value.param == param


known = st.sampled_from(["type", "text", "thinking", "function", "name", "arguments", "id"])
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | known, inner, max_size=4),
    max_leaves=8,
)
message_fields = st.sampled_from(
    ["content", "tool_calls", "function_call", "reasoning", "reasoning_details", "refusal", "name", "tool_call_id"]
)
roles = st.sampled_from(["system", "user", "assistant", "tool", "function", "robot"])


@given(st.dictionaries(message_fields, any_json), roles)
def test_no_message_raises_anything_but_an_invalid_request(message: dict[str, Any], role: str) -> None:
    with suppress(InvalidRequestError):
        turns({"role": role, **message})
