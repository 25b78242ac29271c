"""llm-comply's checks of the three APIs, and the published descriptions of them that come with it.

The Open Responses checks are those of its specification's own suite, written again: that suite is no package. What
does not pass is listed here with its reason; an entry that passes again fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import llm_comply
import pytest
from jsonschema import Draft202012Validator
from llm_comply import runner
from llm_comply.cli import _SPEC_FILES, _get_tests
from llm_comply.config import ComplianceConfig
from llm_comply.schema import SSE_EVENT_TO_SCHEMA, SpecLoader

from tests.server.serving import WEATHER, served
from unspool.engines.replay import Recording, ReplayEngine

FORMATS = ("open-responses", "openai-chat", "anthropic")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
PLAIN = "<think>\nHm.\n</think>\n\nHello there."
RECORDINGS = (
    Recording("plain", PLAIN, model="gpt-5"),
    Recording("call", CALL, model="gpt-5", match="TOOLS"),
    Recording("claude", PLAIN, model="claude-sonnet-4"),
    Recording("claude call", CALL, model="claude-sonnet-4", match="TOOLS"),
    Recording("all", f"<think>\nHm.\n</think>\n\nI look.\n{CALL}\n{CALL}"),
    Recording("cut", f'{CALL}\n<tool_call>\n{{"name": "get_weather", "arguments": {{"ci', finish_reason="length"),
    Recording("long", "<think>\nHm.\n</think>\n\nHello th", finish_reason="length"),
)
NAMED = [recording.id for recording in RECORDINGS]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if tools %}TOOLS{% endif %}"
NAMES = "the stream has the names that OpenAI's own clients know, response.reasoning_text.*"
IMAGES = "images are refused before anything is generated"
MODEL = "a request may leave the model out"

UNCITED = ": {'type': 'text', 'text': "
"""What is wrong with a text that has no ``citations``: the description demands them, the API itself leaves them
out, and Vercel's client does not take null."""

EXCEPTIONS: Mapping[str, str] = {
    "streaming-response": NAMES,
    "streaming-usage": NAMES,
    "image-input": IMAGES,
    "error-handling": MODEL,
    "chat-image-input": IMAGES,
    "chat-error-handling": MODEL,
    "anth-image-input": IMAGES,
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    # Some checks are only for models that are known to reason.
    engine = ReplayEngine(RECORDINGS, chunking="chars:4", chat_template=TEMPLATE, model_id="replay")
    with served(engine) as url:
        yield url


def described(api: str) -> Path:
    return Path(str(llm_comply.__file__)).parent / "specs" / str(_SPEC_FILES[api])


class Description:
    """A published description, as JSON Schema."""

    def __init__(self, api: str) -> None:
        self._components = _with_nulls(json.loads(described(api).read_text("utf-8"))["components"])

    def problems(self, value: Any, schema: str) -> list[str]:
        """What of a value is not as described."""
        whole = {"$ref": f"#/components/schemas/{schema}", "components": self._components}
        return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]

    def of_type(self, union: str, kind: str) -> str:
        """The name of the event in a union that has this type."""
        schemas = self._components["schemas"]
        names = [ref["$ref"].rpartition("/")[2] for ref in schemas[union].get("anyOf") or schemas[union]["oneOf"]]
        (name,) = [name for name in names if kind in _constants(schemas[name]["properties"]["type"])]
        return str(name)


def _constants(schema: Mapping[str, Any]) -> list[Any]:
    return schema.get("enum") or [schema["const"]]


def _with_nulls(value: Any) -> Any:
    """A description with the older spelling of "or null" in the newer one."""
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {name: _with_nulls(item) for name, item in value.items()}
    return {"anyOf": [schema, {"type": "null"}]} if schema.pop("nullable", None) is True else schema


@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver:DeprecationWarning")
@pytest.mark.parametrize(("api", "case"), [(api, case) for api in FORMATS for case in _get_tests(api)])
def test_checks_pass_or_their_reason_is_known(url: str, api: str, case: Any) -> None:
    model = "claude-sonnet-4" if api == "anthropic" else "gpt-5"
    config = ComplianceConfig(f"{url}/v1", "none", model=model, ignore_errors=[UNCITED])
    result = runner.TestRunner(config, [case], SpecLoader(str(described(api)))).run_one(case)
    assert result.status.value != "skipped"
    assert bool(result.errors) == (case.id in EXCEPTIONS), result.errors
    assert not [warning for warning in result.warnings if "compact" not in case.id]
    if EXCEPTIONS.get(case.id) == NAMES:
        assert all("response.reasoning_text." in error for error in result.errors)


def test_exceptions_are_about_checks_that_there_are() -> None:
    assert EXCEPTIONS.keys() <= {case.id for api in FORMATS for case in _get_tests(api)}


def frames(url: str, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """A stream's events."""
    answer = httpx.post(url + path, json={**body, "stream": True})
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("recording", NAMED)
def test_chat_completions_are_as_described(url: str, recording: str) -> None:
    described = Description("openai-chat")
    body = {"model": recording, "messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER]}
    whole = httpx.post(f"{url}/v1/chat/completions", json=body).json()
    assert described.problems(whole, "CreateChatCompletionResponse") == []
    for frame in frames(url, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}):
        assert described.problems(frame, "CreateChatCompletionStreamResponse") == [], frame
    refused = httpx.post(f"{url}/v1/chat/completions", json={"model": recording}).json()
    assert described.problems(refused, "ErrorResponse") == []


@pytest.mark.parametrize("recording", NAMED)
@pytest.mark.parametrize("summary", [None, "auto"])
def test_responses_are_as_described(url: str, recording: str, summary: str | None) -> None:
    described, others = Description("open-responses"), Description("openai-chat")
    tool = {"type": "function", "strict": False, "description": "Weather.", **WEATHER["function"]}
    body = {"model": recording, "input": "Hi", "tools": [tool], "reasoning": {"summary": summary}}
    whole = httpx.post(f"{url}/v1/responses", json=body).json()
    assert described.problems(whole, "ResponseResource") == []
    assert others.problems(whole, "Response") == []
    for frame in frames(url, "/v1/responses", body):
        # What is streamed of a summary has OpenAI's names, as what is streamed of reasoning has.
        if frame["type"].startswith("response.reasoning_summary_text."):
            assert others.problems(frame, others.of_type("ResponseStreamEvent", frame["type"])) == [], frame
        else:
            kind = frame["type"] = frame["type"].replace("reasoning_text", "reasoning")
            assert described.problems(frame, SSE_EVENT_TO_SCHEMA[kind]) == [], frame


def cited(answer: dict[str, Any]) -> dict[str, Any]:
    """A message or an event of one, with the ``citations`` that texts have by its description alone."""
    for block in (*answer.get("content", ()), answer.get("content_block", {})):
        if block.get("type") == "text":
            assert "citations" not in block
            block["citations"] = None
    return answer


@pytest.mark.parametrize("recording", NAMED)
def test_messages_are_as_described(url: str, recording: str) -> None:
    described = Description("anthropic")
    tool = {"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]}
    body = {
        "model": recording,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [tool],
        "thinking": {"type": "adaptive"},
    }
    whole = httpx.post(f"{url}/v1/messages", json=body).json()
    assert described.problems(cited(whole), "Message") == []
    for frame in frames(url, "/v1/messages", body):
        cited(frame)
        if frame["type"] != "ping":
            kind = described.of_type("MessageStreamEvent", frame["type"])
            assert described.problems(frame, kind) == [], frame
    refused = httpx.post(f"{url}/v1/messages", json={"model": recording}).json()
    assert described.problems(refused, "ErrorResponse") == []
