from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.engines.base import Sampling
from unspool.surfaces.chat import MAX_CHOICES, MAX_STOP_STRINGS, ChatRequest, decode
from unspool.surfaces.conversation import ToolChoice
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.output_format import OutputFormat

HELLO = [{"role": "user", "content": "hello"}]


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def asked(**fields: Any) -> ChatRequest:
    return decode({"model": "m", "messages": HELLO, **fields})


def refusal(body: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        decode(body)
    return caught.value


def test_a_minimal_request_has_the_apis_defaults() -> None:
    request = asked()
    assert request == ChatRequest("m", request.conversation, Sampling())
    assert (request.n, request.stream, request.include_usage, request.include_reasoning) == (
        1,
        False,
        False,
        True,
    )
    assert request.conversation.tool_choice == ToolChoice("auto")
    assert request.conversation.parallel_tool_calls
    assert request.conversation.add_generation_prompt


def test_null_counts_as_absent_everywhere() -> None:
    names = (
        "tools tool_choice parallel_tool_calls temperature top_p top_k min_p max_tokens seed n stop "
        "max_completion_tokens stream stream_options logit_bias logprobs top_logprobs response_format "
        "reasoning reasoning_effort thinking chat_template_kwargs guided_json metadata user functions "
        "include_reasoning"
    )
    assert asked(**dict.fromkeys(names.split())) == asked()


def test_sampling_is_passed_on() -> None:
    request = asked(
        max_tokens=10,
        max_completion_tokens=20,
        temperature=0,
        top_p=0.5,
        top_k=40,
        min_p=0.1,
        presence_penalty=1,
        frequency_penalty=-1,
        repetition_penalty=1.1,
        seed=7,
        stop="END",
        logit_bias={"5": -100},
    )
    assert request.sampling == Sampling(
        max_tokens=20,
        temperature=0.0,
        top_p=0.5,
        top_k=40,
        min_p=0.1,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
        repetition_penalty=1.1,
        seed=7,
        stop=("END",),
        logit_bias={5: -100.0},
    )


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [({"max_tokens": 5}, 5), ({"max_completion_tokens": 6}, 6), ({"max_tokens": -1}, None), ({}, None)],
)
def test_both_names_of_the_token_limit_work(fields: dict[str, int], max_tokens: int | None) -> None:
    assert asked(**fields).sampling.max_tokens == max_tokens


def test_the_token_limit_under_two_names_is_not_reported_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    asked(max_tokens=10, max_completion_tokens=20)
    assert caplog.text == ""


def test_a_whole_number_may_be_written_as_a_float() -> None:
    assert asked(max_tokens=5.0).sampling.max_tokens == 5


def test_top_k_minus_one_means_off() -> None:
    assert asked(top_k=-1).sampling.top_k == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -2}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": MAX_CHOICES + 1}, "n"),
        ({"n": True}, "n"),
        ({"seed": 1 << 70}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["x"] * (MAX_STOP_STRINGS + 1)}, "stop"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"stream": "yes"}, "stream"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"model": 5}, "model"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tools": {}}, "tools"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [tool("")]}, "tools[0].function.name"),
        ({"tools": [tool("a"), tool("f", parameters=[])]}, "tools[1].function.parameters"),
        ({"tools": [tool("f", description=1)]}, "tools[0].function.description"),
        ({"tools": [tool("f")], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [tool("f")], "tool_choice": {"type": "tool"}}, "tool_choice.type"),
        ({"tools": [tool("f")], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": [tool("f")], "tool_choice": tool("g")}, "tool_choice"),
        ({"tool_choice": tool("f")}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {
                "tools": [tool("f")],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "none"}},
            },
            "tool_choice.allowed_tools.mode",
        ),
        (
            {"tools": [tool("f")], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": []}}},
            "tool_choice.allowed_tools.tools",
        ),
        ({"continue_final_message": True}, "continue_final_message"),
        (
            {
                "messages": [*HELLO, {"role": "assistant", "content": "He"}],
                "continue_final_message": True,
                "add_generation_prompt": True,
            },
            "continue_final_message",
        ),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], param: str) -> None:
    error = refusal({"model": "m", "messages": HELLO, **fields})
    assert error.param == param
    assert error.status == 400
    assert f"`{param}`" in error.message


@pytest.mark.parametrize("body", [[], "text", 5, None])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    assert "JSON object" in refusal(body).message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs"),
        ({"separate_reasoning": False}, "separate_reasoning"),
        ({"reasoning_format": "none"}, "reasoning_format"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"stop_token_ids": [1]}, "stop_token_ids"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "tools[0]"),
        ({"tools": [tool("f")], "tool_choice": {"type": "custom", "custom": {"name": "c"}}}, "tool_choice"),
    ],
)
def test_a_demand_that_cannot_be_met_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refusal({"model": "m", "messages": HELLO, **fields})
    assert (error.param, error.status, error.code) == (param, 400, "unsupported_parameter")


def test_harmless_values_of_refused_fields_pass(caplog: pytest.LogCaptureFixture) -> None:
    request = asked(
        response_format={"type": "text"},
        logprobs=False,
        guided_choice=[],
        ignore_eos=False,
        min_tokens=0,
        reasoning_budget=-1,
        reasoning_format="auto",
        separate_reasoning=True,
    )
    assert request == asked()
    assert caplog.text == ""


def test_fields_that_clients_send_by_habit_are_left_out_silently(caplog: pytest.LogCaptureFixture) -> None:
    asked(user="u", store=True, metadata={"a": "b"}, service_tier="auto", prompt_cache_key="k", verbosity="low")
    assert caplog.text == ""


def test_an_unknown_field_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asked(shiny_new_option=1)
    assert "shiny_new_option" in caplog.text


def test_usage_is_sent_only_for_streams_that_ask() -> None:
    assert asked(stream=True, stream_options={"include_usage": True}).include_usage
    assert not asked(stream=True).include_usage
    assert not asked(stream_options={"include_usage": True}).include_usage


def test_tools_get_what_templates_read_without_asking() -> None:
    request = asked(tools=[tool("f", strict=False), {"function": {"name": "g", "parameters": {"type": "object"}}}])
    first, second = request.conversation.tools
    assert first == tool("f", strict=False, parameters={"type": "object", "properties": {}})
    assert second == tool("g", parameters={"type": "object"})


@pytest.mark.parametrize(
    ("choice", "expected", "offered"),
    [
        ("auto", ToolChoice("auto"), ["f", "g"]),
        ("none", ToolChoice("none"), []),
        ("required", ToolChoice("required"), ["f", "g"]),
        ({"type": "function", "function": {"name": "g"}}, ToolChoice("named", ("g",)), ["g"]),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("g")]}},
            ToolChoice("required", ("g",)),
            ["g"],
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice("auto", ("f",)),
            ["f"],
        ),
    ],
)
def test_tool_choice_restricts_what_is_offered(choice: Any, expected: ToolChoice, offered: list[str]) -> None:
    conversation = asked(tools=[tool("f"), tool("g")], tool_choice=choice).conversation
    assert conversation.tool_choice == expected
    assert [tool["function"]["name"] for tool in conversation.offered_tools()] == offered


def test_choices_without_tools_that_demand_nothing_pass() -> None:
    assert asked(tool_choice="auto") == asked()
    assert asked(tools=[], tool_choice="none").conversation.tools == ()


def test_demands_on_the_output_are_read() -> None:
    request = asked(response_format={"type": "json_object"}, thinking_token_budget=5, include_reasoning=False)
    assert request.output == OutputFormat("json_object", "response_format")
    assert request.reasoning_budget == 5
    assert not request.include_reasoning


def test_an_assistant_message_can_be_continued() -> None:
    messages = [*HELLO, {"role": "assistant", "content": "He"}]
    conversation = asked(messages=messages, continue_final_message=True).conversation
    assert conversation.continue_final
    assert not conversation.add_generation_prompt


def test_a_recording_can_be_named() -> None:
    assert asked(metadata={"replay": "weather"}).replay == "weather"
    assert asked(metadata={"replay": 5}).replay is None


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
# Names that readers look for, so that random objects get past the first check.
named = st.dictionaries(
    st.sampled_from(
        ["type", "function", "name", "mode", "tools", "parameters", "text", "effort", "enabled", "json", "choice"]
    ),
    any_json,
)
fields = (
    "messages tools tool_choice stop n temperature max_tokens logit_bias stream_options response_format reasoning "
    "thinking metadata chat_template_kwargs reasoning_effort logprobs seed structured_outputs guided_json "
    "guided_choice reasoning_budget thinking_token_budget"
)


@given(st.dictionaries(st.sampled_from(fields.split()), any_json | named | st.lists(named, max_size=2)))
def test_no_body_raises_anything_but_an_invalid_request(body: dict[str, Any]) -> None:
    for whole in (body, {"messages": HELLO, **body}, {**body, "messages": HELLO}):
        with suppress(InvalidRequestError):
            decode(whole)
