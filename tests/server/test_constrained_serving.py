"""Demands on a real model, over HTTP with the official client: what comes back holds, whole and streamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest

from tests.server import constrained_runs
from tests.server.constrained_runs import THINKING, SharedEngine
from tests.server.serving import client, served
from tests.surfaces.chat_grammar import read_stream
from unspool.constrained.vocabulary import vocabulary_of
from unspool.server.service import Settings

QUESTION: Any = [{"role": "user", "content": "What is the weather in Paris?"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 2},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
UNENFORCEABLE = {"type": "array", "items": {"type": "integer"}, "maxItems": 3, "uniqueItems": True}


def tool(name: str, **function: Any) -> Any:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **function}}


def json_schema(schema: Any, **more: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **more}}


@pytest.fixture(scope="module")
def engine() -> Iterator[SharedEngine]:
    with constrained_runs.loaded(2048) as engine:
        yield engine


@pytest.fixture(scope="module")
def api(engine: SharedEngine) -> Iterator[openai.OpenAI]:
    with served(engine) as url, client(url) as api:
        yield api.with_options(timeout=120)


@pytest.fixture(scope="module")
def thinking(engine: SharedEngine) -> Iterator[openai.OpenAI]:
    with served(engine, Settings(chat_template=THINKING)) as url, client(url) as api:
        yield api.with_options(timeout=120)


def whole(api: openai.OpenAI, **options: Any) -> Any:
    options = {"messages": QUESTION, "seed": 1, "max_tokens": 400, **options}
    (choice,) = api.chat.completions.create(model="default", **options).choices
    return choice


def streamed(api: openai.OpenAI, **options: Any) -> Any:
    options = {"messages": QUESTION, "seed": 1, "max_tokens": 400, **options}
    with api.chat.completions.stream(model="default", **options) as stream:
        for _ in stream:
            pass
        (choice,) = stream.current_completion_snapshot.choices
    return choice


both = pytest.mark.parametrize("answer", [whole, streamed])


@both
def test_a_schema(api: openai.OpenAI, answer: Any) -> None:
    choice = answer(api, response_format=json_schema(SCHEMA, strict=True))
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), SCHEMA)


@both
def test_any_json_object(api: openai.OpenAI, answer: Any) -> None:
    # What a small model puts into one has no end, so only its beginning is sure.
    choice = answer(api, response_format={"type": "json_object"}, max_tokens=40)
    assert choice.message.content.lstrip().startswith("{")
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


@both
@pytest.mark.parametrize(
    ("demand", "pattern"),
    [
        ({"guided_regex": "[a-z]{3,9}!"}, "[a-z]{3,9}!"),
        ({"structured_outputs": {"regex": "[0-9]{4}"}}, "[0-9]{4}"),
        ({"structured_outputs": {"choice": ["sunny", "rainy"]}}, "sunny|rainy"),
        ({"guided_grammar": 'root ::= "It is " [a-z]+ "."'}, r"It is [a-z]+\."),
        ({"structured_outputs": {"grammar": 'start: "a" "b"?'}}, "ab?"),
        ({"structured_outputs": {"json": {"enum": [1, "x"]}}}, '1|"x"'),
    ],
)
def test_texts(api: openai.OpenAI, answer: Any, demand: Any, pattern: str) -> None:
    choice = answer(api, extra_body=demand)
    assert choice.finish_reason == "stop"
    assert re.fullmatch(pattern, choice.message.content)


@both
def test_a_call_that_must_come(api: openai.OpenAI, answer: Any) -> None:
    choice = answer(api, tools=[tool("weather"), tool("news")], tool_choice="required", parallel_tool_calls=False)
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    (call,) = choice.message.tool_calls
    assert call.function.name in ("weather", "news")
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


@both
def test_a_named_function_is_called_once(api: openai.OpenAI, answer: Any) -> None:
    named = {"type": "function", "function": {"name": "news"}}
    choice = answer(api, tools=[tool("weather"), tool("news")], tool_choice=named)
    assert [call.function.name for call in choice.message.tool_calls] == ["news"]


@both
def test_only_allowed_tools_are_called(api: openai.OpenAI, answer: Any) -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "news"}}]}
    choice = answer(
        api,
        tools=[tool("weather"), tool("news")],
        tool_choice={"type": "allowed_tools", "allowed_tools": allowed},
    )
    assert {call.function.name for call in choice.message.tool_calls} == {"news"}


def test_where_a_call_must_come_a_response_format_does_not_hold_it(api: openai.OpenAI) -> None:
    demand = {
        "tools": [tool("weather", strict=True)],
        "parallel_tool_calls": False,
        "response_format": json_schema({"type": "null"}),
    }
    assert whole(api, tool_choice="required", **demand).finish_reason == "tool_calls"
    assert whole(api, tool_choice="none", **demand).message.content == "null"
    message = whole(api, tool_choice="auto", **demand).message
    assert message.content == "null" or message.tool_calls


@both
@pytest.mark.parametrize("budget", [0, 16])
@pytest.mark.parametrize("demand", [{}, {"response_format": json_schema(SCHEMA)}], ids=["free", "schema"])
def test_a_budget_ends_the_reasoning(
    thinking: openai.OpenAI, engine: SharedEngine, answer: Any, budget: int, demand: Any
) -> None:
    # Free text has to come to an end, but not before it has begun.
    free = {} if demand else {"max_tokens": 40, "logit_bias": dict.fromkeys(engine.tokenizer.eog, -100)}
    choice = answer(thinking, extra_body={"thinking_token_budget": budget}, **demand, **free)
    reasoning = getattr(choice.message, "reasoning", None)
    assert choice.message.content
    assert "</think>" not in choice.message.content
    if budget:
        # The model is too small to end it by itself.
        assert 8 <= len(vocabulary_of(engine.tokenizer).encode((reasoning or "").encode())) <= budget + 4
    else:
        assert reasoning is None
    if demand:
        jsonschema.validate(json.loads(choice.message.content), SCHEMA)


@pytest.mark.parametrize(
    "field",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 0}},
        {"reasoning": {"max_tokens": 0}},
        {"reasoning_budget": 0},
        {"chat_template_kwargs": {"thinking_budget": 0}},
        {"reasoning_effort": "none"},
        {"enable_thinking": False},
    ],
    ids=lambda field: next(iter(field)),
)
def test_every_spelling_of_a_budget_reaches_the_engine(thinking: openai.OpenAI, field: Any) -> None:
    message = whole(thinking, max_tokens=12, extra_body=field).message
    assert message.content
    assert getattr(message, "reasoning", None) is None


def test_without_a_budget_reasoning_goes_on(thinking: openai.OpenAI) -> None:
    choice = whole(thinking, max_tokens=24, response_format=json_schema(SCHEMA))
    assert (choice.finish_reason, choice.message.content) == ("length", None)
    assert choice.message.reasoning


def test_several_choices_each_hold(api: openai.OpenAI) -> None:
    answer = api.chat.completions.create(
        model="default", messages=QUESTION, n=3, seed=1, extra_body={"guided_regex": "[a-z]{5}"}
    )
    assert len(answer.choices) == 3
    assert all(re.fullmatch("[a-z]{5}", choice.message.content or "") for choice in answer.choices)


def test_limits_and_stop_strings_go_on_working(api: openai.OpenAI) -> None:
    letters = {"extra_body": {"guided_regex": "[a-z]{200}"}}
    assert whole(api, max_tokens=3, **letters).finish_reason == "length"
    text = whole(api, max_tokens=12, **letters).message.content
    stopped = whole(api, max_tokens=12, stop=[text[4:6]], **letters)
    assert (stopped.finish_reason, stopped.message.content) == ("stop", text[: text.index(text[4:6])])


@pytest.mark.parametrize(
    ("demand", "param", "part"),
    [
        (
            {"response_format": json_schema({"type": "object", "properties": {"a": {"type": "strin"}}})},
            "response_format.json_schema.schema",
            "strin",
        ),
        ({"response_format": json_schema({"$ref": "#"})}, "response_format.json_schema.schema", "$ref"),
        (
            {"response_format": json_schema({"properties": {"a": {"pattern": "^hello (there$"}}})},
            "response_format.json_schema.schema",
            "'pattern' at /properties/a",
        ),
        ({"response_format": json_schema(UNENFORCEABLE)}, "response_format.json_schema.schema", "'uniqueItems'"),
        ({"extra_body": {"guided_json": UNENFORCEABLE}}, "guided_json", "'uniqueItems'"),
        ({"extra_body": {"guided_regex": "("}}, "guided_regex", "regular expression"),
        (
            {"tools": [tool("f", strict=True, parameters={"type": "object", "not": {}})]},
            "tools[0].function.parameters",
            "'not' at the root",
        ),
    ],
)
def test_what_cannot_be_enforced_is_a_400_before_anything_is_sent(
    api: openai.OpenAI, demand: Any, param: str, part: str
) -> None:
    for stream in (True, False):
        with pytest.raises(openai.BadRequestError) as caught:
            api.chat.completions.create(model="default", messages=QUESTION, stream=stream, **demand)
        error: Any = caught.value.body
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert error["code"] in ("invalid_json_schema", "invalid_grammar")
        assert part in error["message"]


def test_an_offered_schema_is_held_as_far_as_it_can_be(
    api: openai.OpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"type": "array", "items": {"enum": [1]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    choice = whole(api, response_format=json_schema(schema, strict=False))
    assert json.loads(choice.message.content) == [1, 1]
    assert "can't be enforced while generating" in caplog.text
    assert "does not hold to its schema" in caplog.text


def test_a_second_request_with_the_same_schema_compiles_nothing(api: openai.OpenAI, engine: SharedEngine) -> None:
    compiled = vocabulary_of(engine.tokenizer).grammars
    demand: Any = {"max_tokens": 1, "response_format": json_schema({"const": "seen before"})}
    before = compiled.made
    whole(api, **demand)
    assert compiled.made > before
    before = compiled.made
    whole(api, **demand)
    streamed(api, **demand)
    assert compiled.made == before


def test_the_stream_of_a_held_answer_follows_the_contract(api: openai.OpenAI) -> None:
    with api.chat.completions.with_streaming_response.create(
        model="default",
        messages=QUESTION,
        stream=True,
        tools=[tool("weather")],
        tool_choice="required",
        parallel_tool_calls=False,
    ) as answer:
        (heard,) = read_stream(answer.read()).choices
    assert heard.finish_reason == "tool_calls"


def test_a_few_random_demands_validate(engine: SharedEngine) -> None:
    assert [wrong for _, _, found in constrained_runs.runs(engine, 3) for wrong in found] == []
