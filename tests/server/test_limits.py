"""What bounds clients: the queue, the time a request may take, and clients that send or read nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.server.serving import HELLO, ScriptedEngine, client, served
from unspool import Finish, Parser, get_format
from unspool.engines.base import Chunk
from unspool.server.generation import ChunkReader, Generation
from unspool.server.limits import EndedError, Traffic
from unspool.server.service import Settings

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
DONE = Chunk("ok", finish_reason="stop")


class Gated(ScriptedEngine):
    """An engine whose generations wait until ``opened`` is set before their first chunk."""

    def __init__(self) -> None:
        super().__init__(DONE)
        self.opened = threading.Event()

    async def stream(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Waits, then follows the script."""
        self.waiting.set()
        while not self.opened.is_set():
            await asyncio.sleep(0.005)
        async for chunk in super().stream(*args, **kwargs):
            yield chunk


@contextmanager
def asking(url: str, path: str = CHAT) -> Iterator[list[httpx.Response]]:
    """A request that runs beside the block; its answer is there afterwards."""
    answers: list[httpx.Response] = []
    body = {"messages": HELLO, "max_tokens": 5}
    thread = threading.Thread(target=lambda: answers.append(httpx.post(url + path, json=body, timeout=60)))
    thread.start()
    try:
        yield answers
    finally:
        thread.join()


def test_a_full_queue_is_a_503_that_says_when_to_come_back() -> None:
    engine = Gated()
    with served(engine, Settings(max_waiting=1)) as url:
        with asking(url) as answers:
            assert engine.waiting.wait(20)
            refused = httpx.post(url + CHAT, json={"messages": HELLO})
            shaped = httpx.post(url + MESSAGES, json={"messages": HELLO, "max_tokens": 5})
            with pytest.raises(openai.InternalServerError, match="Too many requests wait"):
                client(url).chat.completions.create(model="scripted", messages=HELLO)
            assert httpx.get(f"{url}/v1/models").status_code == 200
            engine.opened.set()
        assert answers[0].status_code == 200
        assert httpx.post(url + CHAT, json={"messages": HELLO}).status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
    assert int(refused.headers["retry-after"]) > 0
    assert (shaped.status_code, shaped.json()["error"]["type"]) == (503, "overloaded_error")
    assert int(shaped.headers["retry-after"]) > 0


def test_who_has_a_first_token_waits_no_more() -> None:
    engine = ScriptedEngine(Chunk("a"), None)
    with served(engine, Settings(max_waiting=1)) as url, client(url) as api:
        for _ in range(3):
            stream = api.chat.completions.create(model="scripted", messages=HELLO, stream=True)
            assert next(stream).choices


def test_a_refused_request_leaves_the_queue() -> None:
    with served(ScriptedEngine(DONE), Settings(max_waiting=1)) as url:
        for body in ({}, {"messages": HELLO, "model": "other"}, {"messages": HELLO}):
            answer = httpx.post(url + CHAT, json=body)
        assert answer.status_code == 200


def test_a_generation_ends_at_the_time_limit() -> None:
    engine = ScriptedEngine(Chunk("a"), None)
    with served(engine, Settings(time_limit=0.1)) as url:
        whole = httpx.post(url + CHAT, json={"messages": HELLO})
        shaped = httpx.post(url + MESSAGES, json={"messages": HELLO, "max_tokens": 5})
    assert (whole.status_code, whole.json()["error"]["code"]) == (504, "timeout")
    assert "0.1 seconds" in whole.json()["error"]["message"]
    assert (shaped.status_code, shaped.json()["error"]["type"]) == (504, "timeout_error")
    assert engine.closed == 2


def test_an_engines_own_timeout_is_not_ours() -> None:
    with served(ScriptedEngine(TimeoutError()), Settings(time_limit=60)) as url:
        assert httpx.post(url + CHAT, json={"messages": HELLO}).status_code == 500


@contextmanager
def connected(url: str, head: str) -> Iterator[socket.socket]:
    """A plain connection over which this much was sent."""
    address = urlsplit(url)
    assert address.hostname is not None
    with socket.create_connection((address.hostname, address.port or 80), timeout=60) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        yield connection


def test_a_body_that_does_not_come_is_a_408() -> None:
    head = f"POST {CHAT} HTTP/1.1\nhost: x\ncontent-length: 9\n\n{{"
    settings = Settings(idle_timeout=0.1, max_waiting=1)
    with served(ScriptedEngine(DONE), settings) as url, connected(url, head) as slow:
        # Who has not said yet what they want is not in the queue.
        assert httpx.post(url + CHAT, json={"messages": HELLO}).status_code == 200
        answer = slow.recv(10_000)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in answer


def test_a_client_that_does_not_read_is_given_up() -> None:
    engine = ScriptedEngine(*[Chunk("x" * 100_000)] * 1000, DONE)
    body = json.dumps({"messages": HELLO, "stream": True})
    head = f"POST {CHAT} HTTP/1.1\nhost: x\ncontent-length: {len(body)}\n\n{body}"
    with served(engine, Settings(idle_timeout=0.1)) as url, connected(url, head):
        assert engine.aborted.wait(60)


def test_what_runs_ends_when_it_must() -> None:
    async def run() -> None:
        traffic = Traffic(max_waiting=1)

        async def chunks() -> AsyncGenerator[Chunk, None]:
            yield Chunk("")
            yield Chunk("")
            await asyncio.Event().wait()

        def generation() -> Generation:
            return Generation([chunks()], [ChunkReader(Parser(get_format("hermes")), by_tokens=False)])

        followed = traffic.follow(generation())
        # Whoever asks next need not be who asked before.
        assert await anext(followed) == await asyncio.ensure_future(anext(followed)) == (0, [])
        waiting = asyncio.ensure_future(anext(followed))
        await asyncio.sleep(0)
        traffic.end()
        with pytest.raises(EndedError, match="shutting down"):
            await waiting
        later = traffic.follow(generation())
        with pytest.raises(EndedError):
            await anext(later)

    asyncio.run(run())


def logged(caplog: pytest.LogCaptureFixture, path: str = CHAT) -> dict[str, object]:
    """The fields of the only line about a request to this path, once it is there."""
    for _ in range(2000):
        found: list[dict[str, object]] = [getattr(record, "fields", {}) for record in caplog.records]
        if line := [fields for fields in found if fields.get("path") == path]:
            return line[0]
        time.sleep(0.01)
    raise AssertionError("the request was not logged")


def counted(url: str) -> set[str]:
    """The lines of the metrics that are not zero."""
    return {line for line in httpx.get(f"{url}/metrics").text.splitlines() if not line.endswith(" 0")}


@pytest.mark.parametrize("stream", [False, True])
def test_who_hangs_up_in_the_queue_is_nowhere_an_error(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    engine = Gated()
    body = json.dumps({"messages": HELLO, "stream": stream})
    head = f"POST {CHAT} HTTP/1.1\nhost: x\ncontent-length: {len(body)}\n\n{body}"
    with served(engine, Settings(max_waiting=1)) as url:
        with connected(url, head):
            assert engine.waiting.wait(20)
            assert "unspool_requests_waiting 1" in counted(url)
        line = logged(caplog)
        metrics = counted(url)
        engine.opened.set()
        assert httpx.post(url + CHAT, json={"messages": HELLO}).status_code == 200
    assert (line["status"], line["finish_reasons"], line["first_token_seconds"]) == (499, ["aborted"], None)
    assert 'unspool_generations_total{reason="aborted"} 1' in metrics
    assert f'unspool_requests_total{{path="{CHAT}",status="499"}} 1' in metrics
    assert not [
        line for line in metrics if line.startswith(("unspool_requests_waiting", "unspool_generations_running"))
    ]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_who_hangs_up_before_the_request_is_there_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    head = f"POST {CHAT} HTTP/1.1\nhost: x\ncontent-length: 9\n\n{{"
    with served(ScriptedEngine(DONE), Settings(max_waiting=1)) as url:
        with connected(url, head):
            pass
        line = logged(caplog)
        assert f'unspool_requests_total{{path="{CHAT}",status="499"}} 1' in counted(url)
    assert line["status"] == 499
    assert "finish_reasons" not in line
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_who_hangs_up_behind_the_finish_did_not_abort(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[str]:
        traffic = Traffic(max_waiting=1)
        generation = Generation([chunks()], [ChunkReader(Parser(get_format("hermes")), by_tokens=False)])
        followed = traffic.follow(generation)
        async for _, events in followed:
            if isinstance(events[-1], Finish):
                break
        await followed.aclose()
        return [
            line for line in traffic.metrics.text().splitlines() if line.startswith("unspool_generations_total")
        ]

    async def chunks() -> AsyncGenerator[Chunk, None]:
        yield Chunk("a")
        yield DONE
        await asyncio.Event().wait()

    assert asyncio.run(run()) == ['unspool_generations_total{reason="stop"} 1']
