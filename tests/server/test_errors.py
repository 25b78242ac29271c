"""What goes wrong behind the decoders, in the words of the API that was asked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.serving import CHAT, MESSAGES, RESPONSES, ScriptedEngine, asked, served
from unspool.engines.base import ContextOverflowError, EngineError, SamplingError

BROKEN = "{{ raise_exception('no such role') }}"
CASES = [
    (CHAT, SamplingError("stop", "too long."), "stop"),
    (MESSAGES, SamplingError("stop", "too long."), "stop_sequences"),
    (CHAT, SamplingError("max_tokens", "too many."), "max_tokens"),
    (RESPONSES, SamplingError("max_tokens", "too many."), "max_output_tokens"),
]


def refused(engine: ScriptedEngine, path: str) -> dict[str, Any]:
    """The error of a request that is refused."""
    with served(engine) as url:
        answer = httpx.post(url + path, json=asked(path), timeout=60)
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.mark.parametrize(("path", "error", "field"), CASES)
def test_a_setting_is_named_as_in_the_request(path: str, error: EngineError, field: str) -> None:
    said = refused(ScriptedEngine(error), path)
    assert said["message"] == f"`{field}`: {error}"
    assert said.get("param", field) == field


@pytest.mark.parametrize(("path", "field"), [(CHAT, "messages"), (RESPONSES, "input"), (MESSAGES, None)])
def test_what_is_wrong_with_the_prompt_is_wrong_with_its_field(path: str, field: str | None) -> None:
    for engine in (ScriptedEngine(ContextOverflowError(36000, 32768)), ScriptedEngine(template=BROKEN)):
        assert refused(engine, path).get("param") == field


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/messages/count_tokens"])
def test_so_it_is_when_tokens_are_counted(path: str) -> None:
    root = path.rpartition("/")[0]
    body = {name: value for name, value in asked(root).items() if name not in ("stream", "max_tokens")}
    with served(ScriptedEngine(template=BROKEN)) as url:
        error = httpx.post(url + path, json=body).json()["error"]
    assert error.get("param", "input") == "input"
    assert "no such role" in error["message"]
