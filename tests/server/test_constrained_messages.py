"""Demands on a real model over the Messages API: what comes back holds, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import jsonschema
import pytest

from tests.server import constrained_runs
from tests.server.constrained_runs import THINKING, SharedEngine
from tests.server.serving import served
from unspool.server.service import Settings

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def engine() -> Iterator[SharedEngine]:
    with constrained_runs.loaded(2048) as engine:
        yield engine


def client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def api(engine: SharedEngine) -> Iterator[anthropic.Anthropic]:
    with served(engine) as url:
        yield client(url)


def options(**more: Any) -> Any:
    question = [{"role": "user", "content": "What is the weather in Paris?"}]
    extra = {"seed": 1, **more.pop("extra_body", {})}
    return {"model": "default", "messages": question, "max_tokens": 400, "extra_body": extra, **more}


def whole(api: anthropic.Anthropic, **more: Any) -> Any:
    return api.messages.create(**options(**more))


def streamed(api: anthropic.Anthropic, **more: Any) -> Any:
    with api.messages.stream(**options(**more)) as stream:
        return stream.get_final_message()


def tool(name: str, **more: Any) -> Any:
    return {"name": name, "input_schema": SCHEMA, **more}


both = pytest.mark.parametrize("answer", [whole, streamed])


@both
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "any", "disable_parallel_tool_use": True}, {"weather", "news"}),
        ({"type": "tool", "name": "news"}, {"news"}),
    ],
)
def test_a_call_that_must_come(
    api: anthropic.Anthropic, answer: Any, choice: dict[str, Any], names: set[str]
) -> None:
    message = answer(api, tools=[tool("weather"), tool("news")], tool_choice=choice)
    (call,) = message.content
    assert message.stop_reason == "tool_use"
    assert call.name in names
    jsonschema.validate(call.input, SCHEMA)


@both
def test_text_that_is_held_to_a_schema(api: anthropic.Anthropic, answer: Any) -> None:
    message = answer(api, output_config={"format": {"type": "json_schema", "schema": SCHEMA}})
    assert message.stop_reason == "end_turn"
    jsonschema.validate(json.loads(message.content[0].text), SCHEMA)


@both
@pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 16}, {"type": "disabled"}])
def test_a_budget_ends_the_thinking(engine: SharedEngine, answer: Any, thinking: dict[str, Any]) -> None:
    held = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    with served(engine, Settings(chat_template=THINKING)) as url:
        message = answer(client(url), extra_body={"thinking": thinking}, **held)
    kinds = [block.type for block in message.content]
    assert kinds == (["text"] if thinking["type"] == "disabled" else ["thinking", "text"])
    jsonschema.validate(json.loads(message.content[-1].text), SCHEMA)
    assert message.usage.output_tokens_details.thinking_tokens <= 32


@pytest.mark.parametrize(
    ("demand", "place"),
    [
        ({"tools": [tool("f", strict=True, input_schema={"type": "object", "not": {}})]}, "tools[0].input_schema"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"uniqueItems": True}}}},
            "output_config.format.schema",
        ),
    ],
)
def test_what_cannot_be_enforced_is_a_400_that_names_its_place(
    api: anthropic.Anthropic, demand: Any, place: str
) -> None:
    for stream in (True, False):
        with pytest.raises(anthropic.BadRequestError) as caught:
            whole(api, stream=stream, **demand)
        assert f"`{place}`" in caught.value.message
