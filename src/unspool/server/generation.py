"""One request's generation: an engine's chunks become events.

Each choice has a stream of the engine and a parser; the work per token is one ``feed``. Closing a generation
closes its streams, which aborts the engine within one token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from unspool.engines.base import Chunk, EngineError
from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from unspool.message import Message
from unspool.server.tap import Tap

Step: TypeAlias = tuple[int, list[Event]]
"""A choice's number and its next events."""


class ParserLike(Protocol):
    """What a generation needs of ``unspool.Parser``."""

    def feed(self, text: str) -> list[Event]:
        """Events of the next text."""
        ...

    def feed_tokens(self, token_ids: Sequence[int]) -> list[Event]:
        """Events of the next tokens."""
        ...

    def finish(self, reason: FinishReason) -> list[Event]:
        """The last events; ends with one :class:`Finish`."""
        ...


class ChunkReader:
    """Feeds one choice's chunks to its parser and counts.

    Reasoning tokens are an approximation: a chunk's tokens (with those of silent chunks before it, such as a
    held-back marker) count as reasoning if its events are; in a chunk with both kinds they are divided by
    length of text. So markers count towards what they open. Where no chunk has token ids, each counts as one
    token, and the result is scaled to the engine's own total.
    """

    __slots__ = (
        *("_exact", "_feed", "_feed_tokens", "_guessed", "_parser", "_pending", "_reasoning", "_told"),
        *("finished", "index", "on_finish", "prompt", "stop_sequence"),
    )

    def __init__(self, parser: ParserLike, *, by_tokens: bool) -> None:
        self.index = 0
        """The choice's number."""
        self._parser = parser
        self._feed = parser.feed
        self._feed_tokens = parser.feed_tokens if by_tokens else None
        # Tokens behind the last chunk that had events: few, so that counting them makes no new numbers.
        self._pending = 0
        self._reasoning = 0.0
        self._guessed = 0
        self._exact = False
        self.finished = False
        self.on_finish: Callable[[Finish], None] | None = None
        """Is called with the choice's end, before anybody else knows of it."""
        self._told = False
        self.prompt = Usage()
        """The counts of the prompt, as far as the engine has said."""
        self.stop_sequence: str | None = None
        """The stop string that ended the choice, once one did."""

    def read(self, chunk: Chunk) -> Step:
        """The step of a chunk; the last chunk's ends with a :class:`Finish` that has the usage.

        Raises :class:`EngineError` if the chunk says that the engine failed.
        """
        if not self._told and chunk.prompt_tokens:
            self._told = True
            self.prompt = Usage(chunk.prompt_tokens, cached_tokens=chunk.cached_tokens)
        count = 1
        if tokens := chunk.token_ids:
            events = self._feed(chunk.text) if self._feed_tokens is None else self._feed_tokens(tokens)
            self._exact = True
            count = len(tokens)
        elif chunk.text:
            events = self._feed(chunk.text)
            self._guessed += 1
        else:
            events, count = [], 0
        # Nearly every chunk is one piece of text, and counted without a call.
        if len(events) == 1:
            if type(events[0]) is ReasoningDelta:
                self._reasoning += count + self._pending
            if self._pending:
                self._pending = 0
        else:
            self._pending += count
            if events:
                self._count(events)
        if chunk.finish_reason is not None:
            events = self._finish(chunk, events)
        return self.index, events

    @property
    def rejected(self) -> Counter[str]:
        """What the parser took for a call that was none, by reason; a plugin's parser doesn't tell."""
        return Counter(getattr(self._parser, "rejected", {}))

    def _count(self, events: Sequence[Event]) -> None:
        pending, self._pending = self._pending, 0
        reasoning = sum(len(event.text) for event in events if type(event) is ReasoningDelta)
        if reasoning:
            self._reasoning += pending * reasoning / (reasoning + sum(map(_other_text, events)))

    def _finish(self, chunk: Chunk, events: list[Event]) -> list[Event]:
        reason = chunk.finish_reason
        if reason is None or reason in ("error", "cancelled"):
            raise EngineError(f"The engine ended the generation early: {reason}.")
        self.finished = True
        self.stop_sequence = chunk.stop_sequence
        last = self._parser.finish(reason)
        self._count(last)
        scale = 1 if self._exact else chunk.completion_tokens / max(self._guessed, 1)
        usage = Usage(
            prompt_tokens=chunk.prompt_tokens,
            completion_tokens=chunk.completion_tokens,
            reasoning_tokens=min(round(self._reasoning * scale), chunk.completion_tokens),
            cached_tokens=chunk.cached_tokens,
        )
        ended = [replace(event, usage=usage) if type(event) is Finish else event for event in last]
        if self.on_finish is not None and type(finish := ended[-1]) is Finish:
            self.on_finish(finish)
        return [*events, *ended]


def _other_text(event: Event) -> int:
    if isinstance(event, ContentDelta):
        return len(event.text)
    if isinstance(event, ToolCallDelta):
        return len(event.arguments)
    return len(event.name) if isinstance(event, ToolCallStart) else 0


class Generation:
    """All choices of one request, as one sequence of steps.

    ``check`` is called with each finished message, in a thread, before the steps end.
    """

    def __init__(
        self,
        streams: Sequence[AsyncIterator[Chunk]],
        readers: Sequence[ChunkReader],
        check: Callable[[Message], None] | None = None,
    ) -> None:
        self._streams = streams
        self._readers = readers
        for index, reader in enumerate(readers):
            reader.index = index
        self._check = check
        self._gathered: list[list[Event]] = [[] for _ in readers]
        step: Callable[[Any], Step] = readers[0].read if len(streams) == 1 else self._read_one
        self._step = step
        self.tap: Tap[Step] = Tap(
            streams[0] if len(streams) == 1 else _merge(streams), step if check is None else self._read_and_gather
        )
        """What the engine sends; :meth:`end` comes behind it, :meth:`close` however it ends."""
        self.steps = self._run()
        """The events as they come. Closing this generator aborts the engine; it raises what the engine raises."""

    @property
    def rejected(self) -> Counter[str]:
        """How often text that began like a call was none, by reason, as far as parsers tell."""
        return sum((reader.rejected for reader in self._readers), Counter())

    def on_finish(self, call: Callable[[Finish], None]) -> None:
        """Has each choice's end told to ``call``, before anybody else knows of it."""
        for reader in self._readers:
            reader.on_finish = call

    @property
    def finished(self) -> bool:
        """Whether all choices have ended by themselves."""
        return all(reader.finished for reader in self._readers)

    @property
    def prompt(self) -> Usage:
        """The counts of the prompt, which all choices share, as far as the engine has said."""
        return self._readers[0].prompt

    @property
    def stop_sequences(self) -> list[str | None]:
        """For each choice the stop string that ended it, ``None`` if none did or it has not ended."""
        return [reader.stop_sequence for reader in self._readers]

    async def start(self) -> Step:
        """The first step: what is wrong with a request shows here, before its answer begins."""
        return await anext(self.steps)

    async def events(self) -> list[list[Event]]:
        """All events of each choice, once everything is generated."""
        gathered: list[list[Event]] = [[] for _ in self._readers]
        async for index, events in self.steps:
            gathered[index].extend(events)
        return gathered

    async def end(self) -> None:
        """What is due behind the last step. Raises :class:`EngineError` if a choice has no end, and what the check
        raises.
        """
        if not self.finished:
            raise EngineError("The engine's output ended without a reason.")
        if self._check is not None:
            for events in self._gathered:
                await asyncio.to_thread(self._check, Message.from_events(events))

    async def close(self) -> None:
        """Aborts the engine, if it still runs."""
        for stream in (self.tap.source, *self._streams):
            close: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _read_one(self, item: tuple[int, Chunk]) -> Step:
        index, chunk = item
        return self._readers[index].read(chunk)

    def _read_and_gather(self, item: Any) -> Step:
        index, events = step = self._step(item)
        self._gathered[index].extend(events)
        return step

    async def _run(self) -> AsyncGenerator[Step, None]:
        try:
            async for item in self.tap.source:
                yield self.tap.read(item)
            await self.end()
        finally:
            await self.close()


async def _merge(streams: Sequence[AsyncIterator[Chunk]]) -> AsyncGenerator[tuple[int, Chunk], None]:
    """Chunks of several streams in the order in which they arrive."""

    async def following(index: int) -> tuple[int, Chunk | None]:
        return index, await anext(streams[index], None)

    waiting = {asyncio.ensure_future(following(index)) for index in range(len(streams))}
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: task.result()[0]):
                index, chunk = task.result()
                if chunk is not None:
                    waiting.add(asyncio.ensure_future(following(index)))
                    yield index, chunk
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
