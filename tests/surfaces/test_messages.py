from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.engines.base import Sampling
from unspool.surfaces import chat
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.messages import (
    IGNORED,
    MAX_STOP_SEQUENCES,
    REFUSED,
    MessagesRequest,
    decode,
    decode_count,
)
from unspool.surfaces.output_format import OutputFormat

HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
BODY: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": HELLO}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": SCHEMA, **more}


def asked(**fields: Any) -> MessagesRequest:
    return decode({**BODY, **fields})


def refusal(body: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        decode(body)
    return caught.value


def test_a_minimal_request_has_the_apis_defaults() -> None:
    assert asked() == MessagesRequest(
        model="m",
        conversation=Conversation((Turn("user", ("hello",)),)),
        sampling=Sampling(max_tokens=9),
        stream=False,
        show_thinking=True,
    )


def test_null_counts_as_absent() -> None:
    names = "system tools tool_choice thinking output_config output_format temperature top_p top_k stream"
    assert asked(stop_sequences=None, **dict.fromkeys(names.split())) == asked()


def test_sampling_is_read() -> None:
    fields = {"temperature": 0, "top_p": 0.5, "top_k": 7, "stop_sequences": ["a", "b"], "seed": 3}
    assert asked(**fields).sampling == Sampling(9, temperature=0.0, top_p=0.5, top_k=7, seed=3, stop=("a", "b"))
    assert asked(top_k=-1).sampling.top_k == 0
    assert asked(stream=True).stream


def test_a_tool_is_what_it_is_to_chat_completions() -> None:
    function = {"name": "f", "description": "Does it.", "parameters": SCHEMA}
    chats = chat.decode({"messages": HELLO, "tools": [{"type": "function", "function": function}]})
    more = {"cache_control": {"type": "ephemeral"}, "eager_input_streaming": True, "input_examples": []}
    for kind in ({}, {"type": "custom"}, {"type": None}):
        conversation = asked(tools=[tool("f", description="Does it.", **kind, **more)]).conversation
        assert conversation == chats.conversation


def test_a_tool_without_parameters_has_an_empty_schema() -> None:
    (found,) = asked(tools=[{"name": "f", "input_schema": {}}]).conversation.tools
    assert found["function"]["parameters"] == {"type": "object", "properties": {}}
    assert "description" not in found["function"]


def test_a_strict_tool_is_strict() -> None:
    (found,) = asked(tools=[tool("f", strict=True)]).conversation.tools
    assert found["function"]["strict"] is True


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "g"}, ToolChoice("named", ("g",))),
        ({"type": "none"}, ToolChoice("none")),
        (None, ToolChoice("auto")),
    ],
)
def test_the_choice_of_tools_is_read(choice: dict[str, Any] | None, expected: ToolChoice) -> None:
    conversation = asked(tools=[tool("f"), tool("g")], tool_choice=choice).conversation
    assert (conversation.tool_choice, conversation.parallel_tool_calls) == (expected, True)
    if choice is not None:
        single = {**choice, "disable_parallel_tool_use": True}
        assert not asked(tools=[tool("f"), tool("g")], tool_choice=single).conversation.parallel_tool_calls


def test_a_last_message_of_the_assistant_is_continued() -> None:
    prefill = {"role": "assistant", "content": "The answer is ("}
    conversation = asked(messages=[*HELLO, prefill]).conversation
    assert (conversation.continue_final, conversation.add_generation_prompt) == (True, False)
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    assert not asked(messages=[*HELLO, call]).conversation.continue_final


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"enable_thinking": True, "thinking": True}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": {"type": "adaptive"}}, {}),
        ({"thinking": {"type": "between_tools"}}, {}),
        ({"output_config": {"effort": "low"}}, {"reasoning_effort": "low"}),
        ({"output_config": {"effort": "ultra"}}, {"reasoning_effort": "max"}),
        (
            {"chat_template_kwargs": {"x": 1}, "output_config": {"effort": "low"}},
            {"x": 1, "reasoning_effort": "low"},
        ),
    ],
)
def test_what_is_said_of_thinking_reaches_the_template(fields: dict[str, Any], kwargs: dict[str, Any]) -> None:
    assert asked(**fields).conversation.template_kwargs == kwargs


@pytest.mark.parametrize(
    ("thinking", "budget"),
    [
        (None, None),
        ({"type": "enabled", "budget_tokens": 2048}, 2048),
        ({"type": "enabled"}, None),
        ({"type": "disabled"}, 0),
        ({"type": "adaptive"}, None),
    ],
)
def test_thinking_has_a_budget(thinking: dict[str, Any] | None, budget: int | None) -> None:
    assert asked(thinking=thinking).reasoning_budget == budget


def test_the_text_can_be_held_to_a_schema() -> None:
    shape = {"type": "json_schema", "schema": SCHEMA}
    found = OutputFormat("json_schema", "output_config.format.schema", SCHEMA)
    assert asked(output_config={"format": shape}).output == found
    assert asked(output_format=shape).output == replace(found, param="output_format.schema")
    assert refusal({**BODY, "output_format": shape, "output_config": {"format": shape}}).param == "output_format"


def test_thinking_can_be_omitted() -> None:
    assert not asked(thinking={"type": "adaptive", "display": "omitted"}).show_thinking
    assert asked(thinking={"type": "adaptive", "display": "summarized"}).show_thinking


def test_counting_needs_no_limit() -> None:
    body = {"model": "m", "messages": HELLO, "system": "Be brief.", "tools": [tool("f")]}
    counted = decode_count(body)
    assert counted.model == "m"
    assert counted.conversation == asked(**body).conversation
    with pytest.raises(InvalidRequestError, match="messages"):
        decode_count({})


def test_a_tool_as_openai_spells_it_is_told_how_it_is_spelled_here() -> None:
    said = {"type": "function", "function": {"name": "f", "parameters": {}}}
    error = refusal({**BODY, "tools": [said]})
    assert error.param == "tools[0].type"
    assert "has `name` and `input_schema`" in str(error)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"model": 5}, "model"),
        ({"messages": None}, "messages"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"top_k": 0.5}, "top_k"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"stop_sequences": ["x"] * (MAX_STOP_SEQUENCES + 1)}, "stop_sequences"),
        ({"stream": "yes"}, "stream"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [tool("f"), {"type": "web_search_20250305", "name": "web_search"}]}, "tools[1]"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {}}, "tool_choice.type"),
        ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [tool("f")], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": "hard"}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -2}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": 5}}, "thinking.display"),
        ({"output_config": {"effort": 5}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"output_config": {"format": {"type": "json_schema", "schema": 5}}}, "output_config.format.schema"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"output_config": {"format": {}}}, "output_config.format.type"),
        ({"output_format": {"type": "regex"}}, "output_format.type"),
        ({"mcp_servers": [{"type": "url"}]}, "mcp_servers[0].name"),
        ({"mcp_servers": [{"type": "url", "name": "x", "url": "http://x"}]}, "mcp_servers[0].url"),
        ({"mcp_servers": [{"name": "x"}]}, "mcp_servers[0]"),
        (
            {"mcp_servers": [{"name": "x", "tool_configuration": {"allowed_tools": [1]}}]},
            "mcp_servers[0].tool_configuration.allowed_tools",
        ),
        ({"tools": [{"type": "mcp_toolset"}]}, "tools[0].mcp_server_name"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, "tools[0]"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x", "tools": []}]}, "tools[0].tools"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x", "configs": {"a": 1}}]}, "tools[0].configs.a"),
        ({"container": "c"}, "container"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    error = refusal({**BODY, **fields})
    assert (error.param, error.status) == (param, 400)
    assert f"`{param}`" in error.message


def test_a_body_that_is_no_object_is_refused() -> None:
    bodies: tuple[object, ...] = (None, [], "x")
    for body in bodies:
        assert "must be a JSON object" in refusal(body).message


def test_what_is_ignored_is_said_only_of_unknown_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asked(
            **dict.fromkeys(IGNORED - {"metadata"}, "x"),
            metadata={"user_id": "u"},
            **{name: [] for name in REFUSED},
        )
    assert caplog.records == []
    asked(novelty=1)
    assert "novelty" in caplog.text


def test_a_recording_can_be_asked_for() -> None:
    assert asked(metadata={"replay": "r"}).replay == "r"
    assert asked(metadata={"replay": ""}).replay is None


NAMES = (
    "model max_tokens messages system tools tool_choice thinking output_config output_format stop_sequences "
    "temperature top_p top_k metadata stream mcp_servers chat_template_kwargs"
)
names = st.sampled_from(NAMES.split())
words = st.sampled_from(
    ["type", "name", "any", "tool", "enabled", "effort", "format", "input_schema", "role", "user"]
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | words, inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(names, any_json, max_size=4))
def test_no_body_raises_anything_but_an_invalid_request(fields: dict[str, Any]) -> None:
    for read in (decode, decode_count):
        with suppress(InvalidRequestError):
            read({**BODY, **fields})
