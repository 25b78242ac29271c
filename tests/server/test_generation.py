from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

import unspool
from tests.server.serving import ScriptedEngine
from unspool.engines.base import Chunk, EngineError, Sampling
from unspool.events import ContentDelta, Event, Finish, ReasoningDelta
from unspool.message import Message
from unspool.server.generation import ChunkReader, Generation


def reader(prompt: str = "<think>\n") -> ChunkReader:
    return ChunkReader(unspool.Parser(unspool.get_format("hermes"), prompt=prompt), by_tokens=False)


def end(text: str = "", prompt_tokens: int = 0, completion_tokens: int = 0, cached_tokens: int = 0) -> Chunk:
    return Chunk(text, (), "stop", prompt_tokens, completion_tokens, cached_tokens)


def generation(*engines: ScriptedEngine) -> Generation:
    return Generation([engine.stream("", Sampling()) for engine in engines], [reader("") for _ in engines])


def message(*chunks: Chunk) -> Message:
    read = reader()
    events: list[Event] = []
    for chunk in chunks:
        events += read.read(chunk)[1]
    return Message.from_events(events)


def test_the_last_chunk_brings_the_engines_counts() -> None:
    whole = message(Chunk("Hi"), end(prompt_tokens=10, completion_tokens=2, cached_tokens=3))
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.cached_tokens) == (10, 2, 3)


@pytest.mark.parametrize(
    ("chunks", "completion", "reasoning"),
    [
        (["a", "b", "\n</think>\n\n", "c", "d"], 5, 2),
        (["a", "b", "\n</think>\n\n", "c", "d"], 50, 20),
        (["a", "b"], 3, 3),
        (["\n</think>\n\n", "c", "d"], 4, 0),
        (["aaaa\n</think>\n\nbbbb"], 10, 5),
    ],
)
def test_reasoning_tokens_are_those_of_reasoning_chunks(
    chunks: list[str], completion: int, reasoning: int
) -> None:
    whole = message(*map(Chunk, chunks), end(completion_tokens=completion))
    assert whole.usage is not None
    assert whole.usage.reasoning_tokens == reasoning


def test_token_ids_are_read_as_tokens() -> None:
    class Vocabulary:
        special = {2: "</think>"}  # noqa: RUF012

        def piece(self, token_id: int) -> bytes:
            return {0: b"a</think>", 1: b"b", 2: b"</think>"}[token_id]

        def decode(self, token_ids: list[int]) -> str:
            return b"".join(map(self.piece, token_ids)).decode()

    parser = unspool.Parser(unspool.get_format("hermes"), prompt="<think>\n", tokenizer=Vocabulary())
    read = ChunkReader(parser, by_tokens=True)
    events = [*read.read(Chunk("a</think>", (0,)))[1], *read.read(Chunk("</think>", (2,)))[1]]
    events += [*read.read(Chunk("b", (1,)))[1], *read.read(end("", completion_tokens=4))[1]]
    whole = Message.from_events(events)
    assert (whole.reasoning, whole.content) == ("a</think>", "b")
    assert whole.usage is not None
    assert whole.usage.reasoning_tokens == 1


@pytest.mark.parametrize("reason", ["error", "cancelled"])
def test_an_engine_that_ends_early_is_an_error(reason: str) -> None:
    with pytest.raises(EngineError, match=reason):
        reader().read(Chunk("", finish_reason=reason))  # type: ignore[arg-type]


def test_choices_arrive_side_by_side_and_complete() -> None:
    engines = [ScriptedEngine(Chunk(f"{name}1"), Chunk(f"{name}2"), end()) for name in "abc"]
    events = asyncio.run(generation(*engines).events())
    assert [Message.from_events(choice).content for choice in events] == ["a1a2", "b1b2", "c1c2"]


@pytest.mark.parametrize("count", [1, 3])
def test_closing_closes_every_stream(count: int) -> None:
    engines = [ScriptedEngine(Chunk("a"), None) for _ in range(count)]

    async def run() -> None:
        running = generation(*engines)
        async with aclosing(running.steps):
            await running.start()

    asyncio.run(run())
    assert [engine.closed for engine in engines] == [1] * count


@pytest.mark.parametrize("count", [1, 2])
def test_a_failure_at_the_start_closes_every_stream(count: int) -> None:
    engines = [ScriptedEngine(EngineError("no")), *(ScriptedEngine(None) for _ in range(count - 1))]
    with pytest.raises(EngineError, match="no"):
        asyncio.run(generation(*engines).start())
    assert [engine.closed for engine in engines] == [1] * count


@pytest.mark.parametrize("script", [[], [Chunk("a")]])
def test_an_engine_that_never_says_why_it_ended_is_an_error(script: list[Chunk]) -> None:
    async def run() -> None:
        running = generation(ScriptedEngine(*script))
        await running.start()
        await running.events()

    with pytest.raises(EngineError, match="without a reason"):
        asyncio.run(run())


def test_a_started_generation_goes_on_with_the_second_step() -> None:
    async def run() -> list[tuple[int, list[Event]]]:
        running = generation(ScriptedEngine(Chunk("a"), end("b")))
        return [await running.start(), *[step async for step in running.steps]]

    steps = asyncio.run(run())
    events = [event for _, events in steps for event in events]
    assert [event for event in events if not isinstance(event, Finish)] == [
        ContentDelta("a"),
        ContentDelta("b"),
    ]


def test_any_async_iterator_is_a_stream() -> None:
    class Plain:
        def __init__(self) -> None:
            self.left = [end("b"), Chunk("a")]

        def __aiter__(self) -> AsyncIterator[Chunk]:
            return self

        async def __anext__(self) -> Chunk:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    events = asyncio.run(Generation([Plain()], [reader("")]).events())
    assert Message.from_events(events[0]).content == "ab"
    assert not any(isinstance(event, ReasoningDelta) for event in events[0])
