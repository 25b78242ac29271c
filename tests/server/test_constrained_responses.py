"""Demands on a real model over the Responses API: what comes back holds, whole and streamed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from tests.server import constrained_runs
from tests.server.serving import client, served


class Answer(BaseModel):
    """What the model is held to."""

    model_config = ConfigDict(extra="forbid")
    city: Literal["Paris", "Oslo"]
    rain: bool


FUNCTION: Any = {"type": "function", "name": "news", "parameters": Answer.model_json_schema(), "strict": True}
# Left to itself, the small model thinks until its tokens are spent.
ASKED: Any = {
    "model": "default",
    "input": "Weather?",
    "max_output_tokens": 400,
    "reasoning": {"effort": "none"},
    "extra_body": {"seed": 1},
}
UNENFORCEABLE = {"type": "array", "items": {"type": "integer"}, "maxItems": 3, "uniqueItems": True}


@pytest.fixture(scope="module")
def api() -> Iterator[openai.OpenAI]:
    with constrained_runs.loaded(2048) as engine, served(engine) as url, client(url) as api:
        yield api.with_options(timeout=120)


def whole(api: openai.OpenAI, **options: Any) -> Any:
    return api.responses.create(**{**ASKED, **options})


def streamed(api: openai.OpenAI, **options: Any) -> Any:
    with api.responses.stream(**{**ASKED, **options}) as stream:
        for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                return event.response
    return None


both = pytest.mark.parametrize("answer", [whole, streamed])


@both
def test_a_schema(api: openai.OpenAI, answer: Any) -> None:
    form = {"type": "json_schema", "name": "answer", "schema": Answer.model_json_schema(), "strict": True}
    response = answer(api, text={"format": form})
    assert response.status == "completed"
    Answer.model_validate_json(response.output[-1].content[0].text, strict=True)
    assert response.text.format.name == "answer"


def test_the_clients_own_parsing(api: openai.OpenAI) -> None:
    response = api.responses.parse(**ASKED, text_format=Answer)
    assert isinstance(response.output_parsed, Answer)


@both
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "news"}])
def test_a_call_that_must_come(api: openai.OpenAI, answer: Any, choice: Any) -> None:
    response = answer(api, tools=[FUNCTION], tool_choice=choice, parallel_tool_calls=False)
    (call,) = response.output
    assert (call.type, call.name, call.status) == ("function_call", "news", "completed")
    Answer.model_validate(json.loads(call.arguments), strict=True)


@both
def test_a_custom_tool_that_must_be_called(api: openai.OpenAI, answer: Any) -> None:
    shell: Any = {"type": "custom", "name": "shell"}
    response = answer(api, tools=[shell], tool_choice={"type": "custom", "name": "shell"}, max_output_tokens=60)
    (call,) = response.output
    assert (call.type, call.name) == ("custom_tool_call", "shell")
    assert not call.input.startswith('{"input"')


LISTING = """
start: line+
line: ("add" | "drop") " " NAME LF
NAME: /[a-z]{1,4}/
%import common.LF
"""


@both
@pytest.mark.parametrize(
    ("syntax", "definition"), [("lark", LISTING), ("regex", r"(?:(?:add|drop) [a-z]{1,4}\n)+")]
)
def test_a_custom_tool_with_a_grammar(api: openai.OpenAI, answer: Any, syntax: str, definition: str) -> None:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    tool: Any = {"type": "custom", "name": "edit", "format": form}
    response = answer(api, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=150)
    (call,) = response.output
    assert (call.type, call.name) == ("custom_tool_call", "edit")
    lines = call.input.splitlines(keepends=True)
    # The small model may well write lines until its tokens are spent.
    whole_lines = lines if call.status == "completed" else lines[:-1]
    assert whole_lines
    assert all(re.fullmatch(r"(?:add|drop) [a-z]{1,4}\n", line) for line in whole_lines)
    assert response.tools[0].format.definition == definition


FORMAT = {"type": "json_schema", "name": "a", "schema": UNENFORCEABLE}
TOOL = {**FUNCTION, "parameters": {"type": "object", "properties": {"a": UNENFORCEABLE}}}


@pytest.mark.parametrize(
    ("demand", "param"),
    [
        ({"text": {"format": FORMAT}}, "text.format.schema"),
        ({"tools": [TOOL]}, "tools[0].parameters"),
        # What is left out counts, too.
        ({"tools": [{"type": "web_search"}, TOOL]}, "tools[1].parameters"),
    ],
)
def test_what_cant_be_held_to_is_refused_by_its_own_name(api: openai.OpenAI, demand: Any, param: str) -> None:
    for stream in (True, False):
        with pytest.raises(openai.BadRequestError, match="uniqueItems") as caught:
            whole(api, stream=stream, **demand)
        assert caught.value.param == param
        assert f"`{param}`" in str(caught.value)


def test_an_expression_that_the_engine_does_not_know_is_refused(api: openai.OpenAI) -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "(?=a)[a-z]+"}
    with pytest.raises(openai.BadRequestError) as caught:
        whole(api, tools=[{"type": "custom", "name": "edit", "format": form}])
    assert (caught.value.param, caught.value.code) == ("tools[0].format", "unsupported_value")
