from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.surfaces.test_responses_writer import generations, stream, styles
from unspool.engines.base import Sampling
from unspool.events import Event
from unspool.message import Message, ToolCall
from unspool.surfaces import chat
from unspool.surfaces.chat_writer import completion
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.output_format import OutputFormat
from unspool.surfaces.responses import IGNORED, REFUSED, ResponsesRequest, decode
from unspool.surfaces.responses_items import seal
from unspool.surfaces.responses_writer import Style

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"type": "function", "name": "f", "parameters": WEATHER}
SHELL = {"type": "custom", "name": "shell", "description": "Runs a command"}
USER = {"role": "user", "content": "hello"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "18"}


def asked(**fields: Any) -> ResponsesRequest:
    return decode({"model": "m", "input": "hello", **fields})


def turns(*items: Any, **fields: Any) -> tuple[Turn, ...]:
    return asked(input=list(items), **fields).conversation().turns


def refusal(**fields: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        asked(**fields)
    return caught.value


def test_a_minimal_request_has_the_apis_defaults() -> None:
    request = asked()
    assert request.conversation() == Conversation((Turn("user", ("hello",)),))
    assert (request.model, request.sampling, request.style) == ("m", Sampling(), Style())
    assert (request.store, request.stream, request.previous, request.conversation_id) == (True, False, None, None)
    assert request.echo["temperature"] == 1.0
    assert request.echo["tool_choice"] == "auto"
    assert request.echo["text"]["format"] == {"type": "text"}


def test_null_counts_as_absent_everywhere() -> None:
    names = (
        "tools tool_choice parallel_tool_calls temperature top_p max_output_tokens stream stream_options store "
        "top_logprobs text reasoning truncation metadata user include instructions previous_response_id "
        "conversation background prompt service_tier prompt_cache_key max_tool_calls structured_outputs"
    )
    assert asked(**dict.fromkeys(names.split())) == asked()


def test_sampling_and_limits_are_passed_on_and_repeated() -> None:
    request = asked(max_output_tokens=9, temperature=0, top_p=0.5, seed=7, stop="END", top_k=3)
    assert request.sampling == Sampling(max_tokens=9, temperature=0.0, top_p=0.5, seed=7, stop=("END",), top_k=3)
    repeated = {name: request.echo[name] for name in ("max_output_tokens", "temperature", "top_p")}
    assert repeated == {"max_output_tokens": 9, "temperature": 0.0, "top_p": 0.5}


def test_instructions_come_first() -> None:
    assert turns(USER, instructions="Be brief.")[0] == Turn("system", ("Be brief.",))
    assert turns(USER, instructions=[{"role": "developer", "content": "Be brief."}])[0].role == "developer"


def test_history_stands_between_instructions_and_input() -> None:
    request = asked(instructions="Be brief.", previous_response_id="resp_1")
    history = decode({"input": [USER, {"role": "assistant", "content": "hi"}]}).items
    assert [turn.role for turn in request.conversation(history).turns] == ["system", "user", "assistant", "user"]


def test_input_may_be_left_out_when_there_is_something_before_it() -> None:
    request = decode({"previous_response_id": "resp_1"})
    assert request.items == ()
    with pytest.raises(InvalidRequestError, match="nothing before it"):
        request.conversation()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a", ("a",)),
        ([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}], ("a", "b")),
        ([], ()),
    ],
)
def test_messages_have_text_or_parts(content: Any, parts: tuple[str, ...]) -> None:
    for role in ("user", "system", "developer"):
        assert turns({"role": role, "content": content}) == (Turn(role, parts),)


def test_an_answers_items_are_one_turn() -> None:
    items: list[Any] = [
        USER,
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        CALL,
        {**CALL, "call_id": "d", "arguments": '{"x": 1}'},
        OUTPUT,
        {**OUTPUT, "call_id": "d", "output": [{"type": "input_text", "text": "19"}]},
    ]
    assert turns(*items)[1:] == (
        Turn(
            "assistant",
            ("Let me look.",),
            reasoning="hm",
            tool_calls=(ToolCall("c", "f", "{}"), ToolCall("d", "f", '{"x": 1}')),
        ),
        Turn("tool", ("18",), tool_call_id="c"),
        Turn("tool", ("19",), tool_call_id="d"),
    )


def test_two_messages_in_a_row_are_two_turns() -> None:
    said = {"role": "assistant", "content": "a"}
    assert turns(said, said) == (Turn("assistant", ("a",)),) * 2


def test_a_refusal_is_what_was_said() -> None:
    part = {"type": "refusal", "refusal": "no"}
    assert turns({"role": "assistant", "content": [part]})[0].parts == ("no",)


def test_a_cut_call_is_left_out_unless_it_was_answered() -> None:
    cut = {**CALL, "status": "incomplete"}
    assert turns(USER, cut) == (Turn("user", ("hello",)),)
    assert turns(USER, cut, OUTPUT)[1].tool_calls == (ToolCall("c", "f", "{}"),)


@pytest.mark.parametrize(
    ("item", "reasoning"),
    [
        ({"content": [{"text": "a"}, {"text": "b"}], "summary": [{"text": "s"}]}, "ab"),
        ({"summary": [{"text": "s"}, {"text": "t"}]}, "s\n\nt"),
        ({"summary": [{"text": "s"}], "encrypted_content": seal("é\ud83d")}, "é\ud83d"),
        ({"summary": [{"text": "s"}], "encrypted_content": "somebody else's"}, "s"),
        ({"summary": [], "encrypted_content": "unspool:?"}, None),
        ({}, None),
    ],
)
def test_reasoning_is_read_from_what_has_most_of_it(item: dict[str, Any], reasoning: str | None) -> None:
    (turn,) = turns({"type": "reasoning", **item})
    assert turn.reasoning == reasoning


def test_custom_tools_are_functions_with_one_text() -> None:
    called = {"type": "custom_tool_call", "call_id": "c", "name": "shell", "input": 'ls "é"'}
    request = asked(
        tools=[FUNCTION, SHELL],
        tool_choice={"type": "custom", "name": "shell"},
        input=[USER, called, {"type": "custom_tool_call_output", "call_id": "c", "output": "a.txt"}],
    )
    conversation = request.conversation()
    assert [tool["function"]["name"] for tool in conversation.tools] == ["f", "shell"]
    assert conversation.tool_choice == ToolChoice("named", ("shell",))
    assert conversation.turns[1].tool_calls == (ToolCall("c", "shell", '{"input": "ls \\"é\\""}'),)
    assert conversation.turns[2] == Turn("tool", ("a.txt",), tool_call_id="c")
    assert request.style.custom_tools == {"shell"}
    assert request.echo["tools"][1] == {**SHELL, "format": {"type": "text"}}


def test_what_clients_always_send_is_left_out_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    request = asked(tools=[{"type": "web_search"}, FUNCTION, {**SHELL, "format": form}])
    assert [tool["function"]["name"] for tool in request.conversation().tools] == ["f", "shell"]
    assert [tool["type"] for tool in request.echo["tools"]] == ["function", "custom"]
    assert request.echo["tools"][1]["format"] == form
    assert "tools[0] is left out: tools of type 'web_search' don't run here" in caplog.text


def test_items_of_foreign_tools_are_left_out_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    assert turns(USER, {"type": "web_search_call", "id": "ws_1", "status": "completed"}) == turns(USER)
    assert "input[1]" in caplog.text
    assert "web_search_call" in caplog.text


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice("required", ("f",)),
        ),
    ],
)
def test_tool_choices(choice: Any, expected: ToolChoice) -> None:
    request = asked(tools=[FUNCTION], tool_choice=choice)
    assert request.conversation().tool_choice == expected
    assert request.echo["tool_choice"] == choice


def test_tools_are_repeated_whole() -> None:
    (tool,) = asked(tools=[{"type": "function", "name": "f"}]).echo["tools"]
    assert tool == {"type": "function", "name": "f", "description": None, "parameters": None, "strict": False}


def test_reasoning_options() -> None:
    request = asked(
        reasoning={"effort": "low", "summary": "auto"}, include=["reasoning.encrypted_content"], store=False
    )
    assert request.conversation().template_kwargs == {"reasoning_effort": "low"}
    assert request.style == Style(summary=True, sealed=True)
    assert request.echo["reasoning"] == {"effort": "low", "summary": "auto"}
    assert not request.store
    assert asked(reasoning={"generate_summary": "detailed"}).style.summary
    assert not asked(include_reasoning=False).style.show_reasoning


def test_text_is_held_to_a_format_under_any_of_its_names() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    request = asked(text={"format": form})
    assert request.output == OutputFormat("json_schema", "text.format.schema", schema)
    assert request.echo["text"]["format"] == {**form, "description": None}
    json_mode = asked(text={"format": {"type": "json_object"}})
    assert json_mode.output == OutputFormat("json_object", "text.format")
    assert json_mode.echo["text"]["format"] == {"type": "json_object"}
    assert asked(guided_regex="a+").output == OutputFormat("regex", "guided_regex", "a+")
    assert asked(text={"format": {"type": "text"}}).output is None


def test_reasoning_may_have_a_budget() -> None:
    assert asked(reasoning={"max_tokens": 9}).reasoning_budget == 9
    assert asked(reasoning={"effort": "none"}).reasoning_budget == 0


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_named_by_its_id(conversation: Any) -> None:
    assert asked(conversation=conversation).conversation_id == "conv_1"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "tool", "content": "a"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": 5}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["a"]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"role": "user", "content": [{"type": "poem"}]}]}, "input[0].content[0].type"),
        ({"input": [USER, {"type": "function_call", "name": "f"}]}, "input[1].call_id"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"input": [{**CALL, "arguments": {}}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
        ({"input": [{"type": "function_call_output", "output": ""}]}, "input[0].call_id"),
        ({"input": [{"type": "reasoning", "content": [{}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
        ({"instructions": 5}, "instructions"),
        ({"instructions": [{"role": "x"}]}, "instructions[0].role"),
        ({"conversation": 5}, "conversation"),
        ({"conversation": {}}, "conversation.id"),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "conversation"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
        ({"include": "a"}, "include"),
        ({"include": [5]}, "include[0]"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"text": {"format": {}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"}, "guided_regex"),
        ({"tools": [{"name": "f"}]}, "tools[0].type"),
        ({"tools": [FUNCTION, {"type": "function"}]}, "tools[1].name"),
        ({"tools": [{**FUNCTION, "parameters": []}]}, "tools[0].parameters"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"store": "yes"}, "store"),
        ({"truncation": "some"}, "truncation"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert error.status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        *(({name: True}, name) for name in REFUSED if name != "top_logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "include[0]"),
        ({"tools": [{"type": "mcp", "server_label": "x", "server_url": "http://x"}]}, "tools[0].server_url"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
    ],
)
def test_a_demand_that_cant_be_met_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.code) == (param, "unsupported_parameter")


_TEXTS = ("prompt_cache_key", "safety_identifier", "user", "service_tier")


def test_fields_of_habit_are_left_out_silently_and_unknown_ones_with_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    habits: dict[str, Any] = {name: {} for name in IGNORED}
    asked(**{**habits, **dict.fromkeys(("max_tool_calls",), 1), **dict.fromkeys(_TEXTS, "x")})
    assert caplog.text == ""
    asked(surprise=1, truncation="auto")
    assert "surprise" in caplog.text
    assert "truncation" in caplog.text


def any_object(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kinds = ["message", "function_call", "reasoning", "function", "custom", "item_reference"]
    names = st.sampled_from(["role", "content", "call_id", "name", "arguments", "output", "summary", "text", "id"])
    objects = st.dictionaries(names, values | st.just("user"))
    return st.tuples(objects, st.sampled_from(kinds)).map(lambda drawn: {**drawn[0], "type": drawn[1]})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | any_object(inner)
)


@given(anything)
def test_no_input_breaks_the_decoder(value: Any) -> None:
    for body in (value, {"input": value}, {"input": [value]}, {"input": "a", "tools": value}):
        with suppress(InvalidRequestError):
            decode(body)


@given(generations(), styles)
def test_a_conversation_sent_back_is_the_one_that_chat_completions_would_give(
    events: list[Event], style: Style
) -> None:
    message = Message.from_events(events)
    results = [(call.id, "18") for call in message.tool_calls]
    writer = stream(Style(style.show_reasoning, style.summary, style.sealed))
    writer.write(events)
    output = json.loads(json.dumps(writer.response()["output"]))
    said = {"completion_id": "1", "created": 0, "model": "m", "include_reasoning": style.show_reasoning}
    answer = completion([message], **said)["choices"][0]["message"]  # type: ignore[arg-type]
    tool = {"name": "f", "parameters": WEATHER}
    by_chat = chat.decode(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                USER,
                *([answer] if output else []),
                *({"role": "tool", "tool_call_id": call, "content": text} for call, text in results),
                USER,
            ],
            "tools": [{"type": "function", "function": tool}],
        }
    )
    items = [{"type": "function_call_output", "call_id": call, "output": text} for call, text in results]
    by_responses = asked(
        instructions="Be brief.", input=[USER, *output, *items, USER], tools=[{"type": "function", **tool}]
    )
    assert by_responses.conversation() == by_chat.conversation
