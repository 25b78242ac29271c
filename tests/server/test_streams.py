"""Streams of server-sent events, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from unspool.server.streams import EventStream


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
