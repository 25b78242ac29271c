"""Streams whose first token takes long: they begin all the same, so that clients and proxies wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import anthropic
import httpx
import pytest

from tests.server.serving import CHAT, HELLO, MESSAGES, RESPONSES, ScriptedEngine, asked, served
from tests.surfaces import chat_grammar, messages_grammar, responses_grammar
from unspool.constrained import Constraint
from unspool.engines.base import Chunk, EngineError, Sampling
from unspool.server.service import Settings
from unspool.surfaces.chat_writer import HEARTBEAT
from unspool.surfaces.messages_writer import PING

SETTINGS = Settings(heartbeat=0.01)
ANSWER = Chunk("ok", finish_reason="stop", prompt_tokens=7, completion_tokens=1)


class Slow(ScriptedEngine):
    """An engine that reads its prompt for long before it fails, or writes."""

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Waits, then follows the script."""
        await asyncio.sleep(0.3)
        async for chunk in super().stream(prompt, sampling, constraint):
            yield chunk


def streamed(engine: ScriptedEngine, path: str, **fields: object) -> bytes:
    """The body of a stream, whose status was 200."""
    body = asked(path) | fields
    with served(engine, SETTINGS) as url:
        answer = httpx.post(url + path, json=body, timeout=60)
    assert answer.status_code == 200
    return answer.content


@pytest.mark.parametrize("n", [1, 2])
def test_a_chat_begins_with_heartbeats(n: int) -> None:
    raw = streamed(Slow(ANSWER), CHAT, n=n)
    assert raw.startswith(HEARTBEAT)
    chat_grammar.read_stream(raw.replace(HEARTBEAT, b""))


def test_a_message_begins_with_heartbeats() -> None:
    raw = streamed(Slow(ANSWER), MESSAGES)
    assert raw.startswith(PING)
    begun = raw[raw.index(b"event: message_start") :]
    messages_grammar.read_stream(begun)
    assert b'"input_tokens":7' in begun.partition(b"event: content_block_start")[0]


def test_a_response_begins_with_heartbeats() -> None:
    raw = streamed(Slow(ANSWER), RESPONSES)
    before = raw.partition(b"event: response.output_item.added")[0]
    assert before.count(b"event: response.created\n") == 1
    assert before.count(b"event: response.in_progress\n") > 1
    responses_grammar.read_stream(raw)


def test_a_response_can_be_looked_at_meanwhile() -> None:
    engine = ScriptedEngine(None)
    with (
        served(engine, SETTINGS) as url,
        httpx.stream("POST", url + RESPONSES, json=asked(RESPONSES), timeout=60) as answer,
    ):
        lines = answer.iter_lines()
        created = next(line for line in lines if line.startswith("data: "))
        name = json.loads(created.removeprefix("data: "))["response"]["id"]
        assert httpx.get(f"{url}{RESPONSES}/{name}").json()["status"] == "in_progress"


def test_anthropics_client_waits_for_the_message() -> None:
    with served(Slow(ANSWER), SETTINGS) as url:
        api = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=60)
        with api.messages.stream(model="scripted", max_tokens=9, messages=HELLO) as stream:
            assert stream.get_final_text() == "ok"


def test_what_goes_wrong_then_is_an_error_in_the_stream() -> None:
    failing = Slow(EngineError("no memory"))
    *_, error, done, end = streamed(failing, CHAT).split(b"\n\n")
    assert (done, end) == (b"data: [DONE]", b"")
    assert json.loads(error.removeprefix(b"data: "))["error"]["message"] == "no memory"
    response = responses_grammar.read_stream(streamed(failing, RESPONSES))
    assert (response["status"], response["error"]["message"]) == ("failed", "no memory")
    *_, error, end = streamed(failing, MESSAGES).split(b"\n\n")
    assert end == b""
    assert json.loads(error.removeprefix(b"event: error\ndata: "))["error"]["message"] == "no memory"


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_hanging_up_meanwhile_aborts(path: str) -> None:
    engine = ScriptedEngine(None)
    with served(engine, SETTINGS) as url:
        with httpx.stream("POST", url + path, json=asked(path), timeout=60) as answer:
            assert next(answer.iter_bytes())
        assert engine.aborted.wait(20)
