"""Responses that are being streamed: others may look at one, or cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from unspool.surfaces.responses_writer import ResponseStream


class Running:
    """A response that is being streamed, as ``writer`` writes it."""

    def __init__(self, writer: ResponseStream) -> None:
        self.writer = writer
        self._cancelled = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Ends the response as it stands, and what makes it: at once, or when the client took the last frame."""
        self._cancelled.set()
        self.writer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()

    async def until_cancelled(self, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The frames, or as many as there are until it is cancelled, with the end that it then has."""
        async with aclosing(frames):
            while (data := await self._next(frames)) is not None:
                yield data
        if self._cancelled.is_set():
            yield self.writer.close()

    async def _next(self, frames: AsyncGenerator[bytes, None]) -> bytes | None:
        """The next frame; ``None`` if there is none, or if it is cancelled meanwhile."""
        if self._cancelled.is_set():
            return None
        task = self._waiting = asyncio.current_task()
        try:
            return await anext(frames, None)
        except asyncio.CancelledError:
            # The client may be gone at the same time.
            if not self._cancelled.is_set() or task is None or task.uncancel() > 0:
                raise
            return None
        finally:
            self._waiting = None
