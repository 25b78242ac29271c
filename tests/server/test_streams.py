"""Streams of server-sent events, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from starlette.types import Send

from unspool.server.streams import DIRECT, EventStream, Frames


class Pieces(Frames[bytes]):
    """Sends the steps as they are, and what the end is given."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], end: bytes = b"", failure: bytes = b"") -> None:
        super().__init__(self._numbered(pieces), lambda piece, _: piece)
        self._end = end
        self._failure = failure
        self.error: Exception | None = None

    async def _numbered(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[tuple[int, bytes], None]:
        async with aclosing(pieces):
            async for piece in pieces:
                yield 0, piece

    def waiting(self) -> bytes:
        return b"soon"

    async def close(self) -> bytes:
        return self._end

    async def fail(self, error: Exception) -> bytes:
        self.error = error
        return self._failure


async def never() -> Any:
    await asyncio.Event().wait()


def interrupted(pieces: Pieces) -> tuple[EventStream, list[bytes], Send]:
    """A stream, the bodies that it has sent, and a way to the client on which each of them interrupts it."""
    stream = EventStream(pieces)
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            # It is being sent, so nobody waits for a step.
            bodies.append(message["body"])
            stream.interrupt()

    return stream, bodies, send


async def sent(stream: EventStream, heard: asyncio.Event) -> list[bytes]:
    """The bodies that a stream sends; ``heard`` is set with the second heartbeat."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])
            if bodies.count(b"beat") == 2:
                heard.set()

    await asyncio.wait_for(stream({"type": "http"}, never, send), 60)
    return bodies


def test_a_silent_stream_has_a_heartbeat() -> None:
    async def run() -> list[bytes]:
        heard = asyncio.Event()

        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"first"
            await heard.wait()
            yield b"last"

        return await sent(EventStream(Pieces(frames()), heartbeat=lambda: b"beat", pause=0.01), heard)

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
        bodies = asyncio.run(sent(EventStream(Pieces(frames()), heartbeat=heartbeat), asyncio.Event()))
        assert bodies == [b"a", b"b", b""]


def test_what_a_stream_waits_for_ends_with_it_even_if_it_never_begins() -> None:
    async def run() -> bool:
        first = asyncio.ensure_future(asyncio.sleep(60))

        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"never"

        async def send(message: Any) -> None:
            await asyncio.Event().wait()

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        await EventStream(Pieces(frames()), first=first)({"type": "http"}, receive, send)
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

        await EventStream(Pieces(frames()))({"type": "http", "state": {DIRECT: direct}}, never, around)

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

        await asyncio.wait_for(EventStream(Pieces(frames()), patience=0.2)({"type": "http"}, never, send), 50)
        return sent, closed

    assert asyncio.run(run(0.02)) == (6, True)
    assert asyncio.run(run(60)) == (2, True)


def test_the_end_comes_behind_the_last_step_and_a_failure_is_an_end_of_its_own() -> None:
    async def run(fails: bool) -> tuple[list[bytes], Exception | None]:
        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"a"
            if fails:
                raise ValueError("broken")

        pieces = Pieces(frames(), b"end", b"failure")
        return await sent(EventStream(pieces), asyncio.Event()), pieces.error

    assert asyncio.run(run(False)) == ([b"a", b"end", b""], None)
    bodies, error = asyncio.run(run(True))
    assert bodies == [b"a", b"failure", b""]
    assert isinstance(error, ValueError)


def test_until_there_is_a_first_step_what_can_be_said_is_said() -> None:
    async def run(waits: bool) -> list[bytes]:
        begin = asyncio.Event()

        async def frames() -> AsyncGenerator[bytes, None]:
            if waits:
                await begin.wait()
            for data in (b"a", b"b"):
                yield data

        pieces = Pieces(frames())
        first = asyncio.ensure_future(anext(pieces.steps))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, begin.set)
        return await sent(EventStream(pieces, first=first), asyncio.Event())

    assert asyncio.run(run(False)) == [b"a", b"b", b""]
    assert asyncio.run(run(True)) == [b"soon", b"a", b"b", b""]


def test_a_way_to_the_client_that_breaks_is_no_failure_of_the_answer() -> None:
    async def run() -> Exception | None:
        async def frames() -> AsyncGenerator[bytes, None]:
            yield b"a"

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                raise OSError("gone")

        pieces = Pieces(frames())
        with pytest.raises(OSError, match="gone"):
            await EventStream(pieces)({"type": "http"}, never, send)
        return pieces.error

    assert asyncio.run(run()) is None


class TestInterrupting:
    def test_a_client_that_takes_nothing_holds_up_nothing(self) -> None:
        async def run() -> tuple[list[bytes], bool]:
            closed = False

            async def frames() -> AsyncGenerator[bytes, None]:
                nonlocal closed
                try:
                    yield b"a"
                    yield b"b"
                finally:
                    closed = True

            stream, bodies, send = interrupted(Pieces(frames(), b"end"))
            await stream({"type": "http"}, never, send)
            return bodies, closed

        assert asyncio.run(run()) == ([b"a", b"end", b""], True)

    @pytest.mark.parametrize("times", [1, 2])
    def test_a_silent_answer_ends_at_once_and_only_once(self, times: int) -> None:
        async def run() -> list[bytes]:
            begun = asyncio.Event()

            async def frames() -> AsyncGenerator[bytes, None]:
                yield b"a"
                begun.set()
                await never()

            stream = EventStream(Pieces(frames(), b"end"))
            sending = asyncio.create_task(sent(stream, asyncio.Event()))
            await begun.wait()
            for _ in range(times):
                stream.interrupt()
            return await sending

        assert asyncio.run(run()) == [b"a", b"end", b""]

    def test_one_that_has_not_begun_says_nothing_but_its_end(self) -> None:
        async def run() -> list[bytes]:
            async def frames() -> AsyncGenerator[bytes, None]:
                yield b"a"

            stream = EventStream(Pieces(frames(), b"end"))
            stream.interrupt()
            return await sent(stream, asyncio.Event())

        assert asyncio.run(run()) == [b"end", b""]

    def test_a_client_that_goes_at_the_same_time_is_gone(self) -> None:
        async def run() -> list[bytes]:
            begun = asyncio.Event()

            async def frames() -> AsyncGenerator[bytes, None]:
                yield b"a"
                begun.set()
                await never()

            bodies: list[bytes] = []

            async def send(message: Any) -> None:
                if message["type"] == "http.response.body":
                    bodies.append(message["body"])

            stream = EventStream(Pieces(frames(), b"end"))
            sending = asyncio.create_task(stream._send(send, send))
            await begun.wait()
            stream.interrupt()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            return bodies

        assert asyncio.run(run()) == [b"a"]

    def test_a_client_that_goes_while_the_steps_end_is_gone(self) -> None:
        async def run() -> list[bytes]:
            ending = asyncio.Event()

            async def frames() -> AsyncGenerator[bytes, None]:
                try:
                    yield b"a"
                finally:
                    ending.set()
                    await never()

            stream, bodies, send = interrupted(Pieces(frames(), b"end"))

            async def receive() -> Any:
                await ending.wait()
                return {"type": "http.disconnect"}

            await asyncio.wait_for(stream({"type": "http"}, receive, send), 60)
            return bodies

        assert asyncio.run(run()) == [b"a"]
