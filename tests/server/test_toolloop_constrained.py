"""The loop with a real model, whose calls are held to the schemas of the server's tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.server import constrained_runs
from tests.server.constrained_runs import SharedEngine
from tests.server.toolrunner import FakeRunner, connected, tool

QUESTION: Any = [{"role": "user", "content": "What time is it in Rome?"}]
SCHEMA = {
    "type": "object",
    "properties": {"zone": {"enum": ["UTC", "CET"]}},
    "required": ["zone"],
    "additionalProperties": False,
}
DEEP: dict[str, Any] = {"type": "object"}
for _ in range(200):
    DEEP = {"type": "object", "properties": {"zone": DEEP}}


@pytest.fixture(scope="module")
def engine() -> Iterator[SharedEngine]:
    with constrained_runs.loaded(2048) as engine:
        yield engine


def asked(api: openai.OpenAI, **options: Any) -> Any:
    return api.with_options(timeout=120).chat.completions.create(
        model="default",
        messages=QUESTION,
        temperature=0,
        max_completion_tokens=120,
        parallel_tool_calls=False,
        **options,
    )


def test_a_call_that_must_come_comes_once_and_fits(engine: SharedEngine) -> None:
    runner = FakeRunner(tool("now", schema=SCHEMA))
    with connected(runner, engine=engine) as api:
        response = asked(api, tool_choice="required")
    name, arguments = runner.ran[0]
    assert name == "now"
    assert json.loads(arguments)["zone"] in ("UTC", "CET")
    assert response.choices[0].message.mcp_calls[0]["output"] == "noon"
    assert response.usage.completion_tokens <= 120


def test_a_schema_that_cant_be_held_lets_any_object_through(
    engine: SharedEngine, caplog: pytest.LogCaptureFixture
) -> None:
    runner = FakeRunner(tool("now", schema=DEEP))
    with connected(runner, engine=engine) as api:
        asked(api, tool_choice="required")
    assert [name for name, _ in runner.ran[:1]] == ["now"]
    assert "Calls of the MCP tool 'time__now' are not held to its schema" in caplog.text


def test_what_can_not_be_demanded_shows_before_an_approved_tool_runs(engine: SharedEngine) -> None:
    runner = FakeRunner(tool("now", schema=SCHEMA))
    named: Any = {"model": "default", "tools": [{"type": "mcp", "server_label": "time"}]}
    must: Any = {"tool_choice": "required", "max_output_tokens": 120, "parallel_tool_calls": False}
    with connected(runner, engine=engine) as api:
        create: Any = api.with_options(timeout=120).responses.create
        asking = create(**named, **must, input=QUESTION)
        asked = asking.output[-1]
        assert asked.type == "mcp_approval_request"
        agreed = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
        form = {"type": "json_schema", "name": "deep", "schema": DEEP}
        with pytest.raises(openai.BadRequestError) as caught:
            create(**named, previous_response_id=asking.id, input=[agreed], text={"format": form})
    assert caught.value.param == "text.format.schema"
    assert runner.ran == []
