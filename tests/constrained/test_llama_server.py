"""The fields for llama-server, sent to llama.cpp's own server over HTTP, with the small default model."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import httpx
import jsonschema
import pytest

import unspool
from unspool.constrained import for_llama_server, json_schema, regex
from unspool.models import resolve

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 5},
        "unit": {"enum": ["c", "f"]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
CHAT, COMPLETION = "/v1/chat/completions", "/completion"
TOOLS = [{"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": PARAMETERS}}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(resolve().path)
    params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 1024, 1, 1
    server = xllamacpp.Server(params)
    yield server.listening_address
    del server
    gc.collect()


def answer(url: str, route: str, fields: Any) -> str:
    body = {
        "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
        "prompt": "The weather in Oslo is",
        "max_tokens": 200,
        "temperature": 1,
        "seed": 7,
        **fields,
    }
    reply = httpx.post(f"{url}{route}", json=body, timeout=120)
    assert reply.status_code == 200, reply.text
    found = reply.json()
    text: str = found["choices"][0]["message"]["content"] if "choices" in found else found["content"]
    return text


@pytest.mark.parametrize("fmt", ["hermes", "qwen3_coder", "pythonic", "mistral", "glm45"])
def test_a_call_that_must_come_is_read_and_validates(url: str, fmt: str) -> None:
    made = for_llama_server(fmt, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, reasoning="off")
    assert made is not None
    message = unspool.parse(fmt, answer(url, CHAT, made.fields), tools=TOOLS)
    (call,) = message.tool_calls
    jsonschema.validate(json.loads(call.arguments), PARAMETERS)


@pytest.mark.parametrize("route", [CHAT, COMPLETION])
@pytest.mark.parametrize(
    "schema", [PARAMETERS, {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}]
)
def test_an_answer_is_held_to_its_schema(url: str, route: str, schema: Any) -> None:
    made = for_llama_server("hermes", response=json_schema(schema), reasoning="off")
    assert made is not None
    jsonschema.validate(json.loads(answer(url, route, made.fields)), schema)


def test_an_answer_is_held_to_an_expression(url: str) -> None:
    made = for_llama_server("hermes", response=regex("[a-c]{3}-[0-9]"), reasoning="off")
    assert made is not None
    text = answer(url, COMPLETION, made.fields)
    assert (len(text), text[3]) == (5, "-")
