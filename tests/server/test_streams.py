"""Streams of server-sent events, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from unspool.server.streams import DIRECT, EventStream


async def sent(stream: EventStream, heard: asyncio.Event) -> list[bytes]:
    """The bodies that a stream sends; ``heard`` is set with the second heartbeat."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])
            if bodies.count(b"beat") == 2:
                heard.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    await asyncio.wait_for(stream({"type": "http"}, receive, send), 60)
    return bodies


def test_a_silent_stream_has_a_heartbeat() -> None:
    async def run() -> list[bytes]:
        heard = asyncio.Event()

        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"first"
            await heard.wait()
            yield b"last"

        return await sent(EventStream(frames(), heartbeat=lambda: b"beat", pause=0.01), heard)

    first, *beats, last, end = asyncio.run(run())
    assert (first, last, end) == (b"first", b"last", b"")
    assert set(beats) == {b"beat"}
    assert len(beats) >= 2


def test_a_stream_without_pauses_has_none() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        for data in (b"a", b"b"):
            await asyncio.sleep(0)
            yield data

    for heartbeat in (None, lambda: b"beat"):
        bodies = asyncio.run(sent(EventStream(frames(), heartbeat=heartbeat), asyncio.Event()))
        assert bodies == [b"a", b"b", b""]


def test_what_a_stream_waits_for_ends_with_it_even_if_it_never_begins() -> None:
    async def run() -> bool:
        first = asyncio.ensure_future(asyncio.sleep(60))

        async def frames() -> AsyncGenerator[bytes, None]:
            await first
            yield b"never"

        async def send(message: Any) -> None:
            await asyncio.Event().wait()

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        await EventStream(frames(), first=first)({"type": "http"}, receive, send)
        return first.cancelled()

    assert asyncio.run(run())


def test_frames_go_past_the_middleware_and_its_start_does_not() -> None:
    ways: dict[str, list[Any]] = {"around": [], "direct": []}

    async def run() -> None:
        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"a"

        async def around(message: Any) -> None:
            ways["around"].append(message["type"])

        async def direct(message: Any) -> None:
            ways["direct"].append(message["body"])

        async def receive() -> Any:
            await asyncio.Event().wait()

        await EventStream(frames())({"type": "http", "state": {DIRECT: direct}}, receive, around)

    asyncio.run(run())
    assert ways == {"around": ["http.response.start"], "direct": [b"a", b""]}


def test_who_takes_nothing_for_too_long_is_gone_and_who_is_slow_is_not() -> None:
    async def run(pause: float) -> tuple[int, bool]:
        sent, closed = 0, False

        async def frames() -> AsyncGenerator[bytes, None]:
            nonlocal closed
            try:
                for _ in range(4):
                    yield b"a"
            finally:
                closed = True

        async def send(message: Any) -> None:
            nonlocal sent
            if sent == 2:
                await asyncio.sleep(pause)
            sent += 1

        async def receive() -> Any:
            await asyncio.Event().wait()

        await asyncio.wait_for(EventStream(frames(), patience=0.2)({"type": "http"}, receive, send), 50)
        return sent, closed

    assert asyncio.run(run(0.02)) == (6, True)
    assert asyncio.run(run(60)) == (2, True)
