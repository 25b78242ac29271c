"""Streams that take their steps past the generator that counts them: it knows of every end all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.server.serving import ScriptedEngine
from unspool import Parser, get_format
from unspool.engines.base import Chunk, EngineError, Sampling
from unspool.events import ContentDelta, Event
from unspool.server.generation import ChunkReader, Generation
from unspool.server.limits import EndedError, TimeLimitError, Traffic
from unspool.server.streams import EventStream, Frames

DONE = Chunk("ok", finish_reason="stop")
Took = Callable[[bytes], Awaitable[None]]


class Said(Frames[list[Event]]):
    """Sends the text of what is said, and how it ended."""

    def __init__(self, generation: Generation) -> None:
        super().__init__(generation.steps, self._text, generation.tap)

    def _text(self, events: list[Event], _: int) -> bytes:
        return "".join(event.text for event in events if isinstance(event, ContentDelta)).encode()

    async def close(self) -> bytes:
        return b"end"

    async def fail(self, error: Exception) -> bytes:
        return type(error).__name__.encode()


class Case:
    """A stream of what an engine says, to a client that takes it."""

    def __init__(
        self, *script: Any, time_limit: float | None = None, engine: ScriptedEngine | None = None
    ) -> None:
        self.engine = engine or ScriptedEngine(*script)
        self.traffic = Traffic(max_waiting=1, time_limit=time_limit)
        parser = Parser(get_format("hermes"), prompt="")
        stream = self.engine.stream("", Sampling())
        self.generation = Generation([stream], [ChunkReader(parser, by_tokens=False)])
        self.generation.steps = self.traffic.follow(self.generation)
        self.stream = EventStream(Said(self.generation), first=asyncio.ensure_future(self.generation.start()))
        self.bodies: list[bytes] = []
        self.took: Took | None = None
        self.gone = asyncio.Event()

    async def run(self, took: Took | None = None) -> list[bytes]:
        """The bodies that were sent; ``took`` is awaited with each."""
        self.took = took

        async def receive() -> Any:
            await self.gone.wait()
            return {"type": "http.disconnect"}

        await asyncio.wait_for(self.stream({"type": "http"}, receive, self.send), 60)
        return self.bodies

    async def send(self, message: Any) -> None:
        """The way to the client."""
        if message["type"] == "http.response.body":
            self.bodies.append(message["body"])
            if self.took is not None:
                await self.took(message["body"])

    async def silence(self) -> None:
        """Until nothing more comes of the engine."""
        while not self.engine.waiting.is_set():
            await asyncio.sleep(0)

    @property
    def ends(self) -> list[str]:
        """How generations ended, as the metrics have it."""
        lines = self.traffic.metrics.text().splitlines()
        return [line for line in lines if line.startswith("unspool_generations_total")]


def counted(reason: str) -> list[str]:
    """The metrics of one generation that ended like this."""
    return [f'unspool_generations_total{{reason="{reason}"}} 1']


def test_an_answer_that_ends_by_itself() -> None:
    async def run() -> Case:
        case = Case(Chunk("a"), Chunk("b"), DONE)
        await case.run()
        return case

    case = asyncio.run(run())
    assert case.bodies == [b"a", b"b", b"ok", b"end", b""]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("stop"), 0, 1)


@pytest.mark.parametrize("script", [[EngineError("no")], [Chunk("", finish_reason="error")], []])
def test_what_goes_wrong_behind_the_first_step_is_an_error(script: list[Any]) -> None:
    async def run() -> Case:
        case = Case(Chunk("a"), *script)
        await case.run()
        return case

    case = asyncio.run(run())
    assert case.bodies == [b"a", b"EngineError", b""]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("error"), 0, 1)


def test_a_silent_engine_is_given_up_when_the_time_is_over() -> None:
    async def run() -> Case:
        case = Case(Chunk("a"), Chunk("b"), None, time_limit=0.1)
        await case.run()
        return case

    case = asyncio.run(run())
    assert case.bodies == [b"a", b"b", TimeLimitError.__name__.encode(), b""]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("error"), 0, 1)


class Hasty(ScriptedEngine):
    """An engine that has all its chunks at once, so that whoever reads it is never suspended."""

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Chunk]:
        """Follows the script, without a turn of the event loop."""
        try:
            for chunk in self.script:
                assert isinstance(chunk, Chunk)
                yield chunk
        finally:
            self.closed += 1


@pytest.mark.parametrize("kind", [ScriptedEngine, Hasty])
@pytest.mark.parametrize("before", [[b"a"], [b"a", b"b"]])
def test_time_that_is_over_while_the_client_takes_something(
    before: list[bytes], kind: type[ScriptedEngine]
) -> None:
    async def run() -> Case:
        case = Case(engine=kind(Chunk("a"), Chunk("b"), Chunk("c"), DONE))

        async def took(body: bytes) -> None:
            if body == before[-1]:
                case.traffic.end()
            # Here a cancellation that nobody wants any more would show.
            await asyncio.sleep(0)

        await case.run(took)
        return case

    case = asyncio.run(run())
    assert case.bodies == [*before, EndedError.__name__.encode(), b""]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("error"), 0, 1)


@pytest.mark.parametrize("end", [[], [b"end", b""]])
def test_a_client_that_goes_has_aborted_and_so_has_who_interrupts(end: list[bytes]) -> None:
    async def run() -> Case:
        case = Case(Chunk("a"), Chunk("b"), None)
        sending = asyncio.ensure_future(case.run())
        await case.silence()
        if end:
            case.stream.interrupt()
        else:
            case.gone.set()
        await sending
        return case

    case = asyncio.run(run())
    assert case.bodies == [b"a", b"b", *end]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("aborted"), 0, 1)


def test_a_client_that_goes_when_the_time_is_over_is_gone() -> None:
    async def run() -> Case:
        case = Case(Chunk("a"), Chunk("b"), None)
        sending = asyncio.ensure_future(case.stream._send(case.send, case.send))
        await case.silence()
        case.traffic.end()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        return case

    case = asyncio.run(run())
    assert case.bodies == [b"a", b"b"]
    assert (case.ends, case.traffic.running, case.engine.closed) == (counted("aborted"), 0, 1)
