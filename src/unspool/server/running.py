"""Responses that are being streamed: others may look at one, or cancel it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from unspool.surfaces.responses_writer import ResponseStream


class Running:
    """A response that is being streamed, as ``writer`` writes it; ``keep`` stores it when it is cancelled."""

    def __init__(self, writer: ResponseStream, keep: Callable[[], Awaitable[None]]) -> None:
        self.writer = writer
        self._keep = keep
        self._cancelled = asyncio.Event()
        self._interrupted = False
        self._waiting: asyncio.Task[object] | None = None

    def cancel(self) -> None:
        """Ends the response as it stands, and what makes it: at once, or when the client took the last frame."""
        self._cancelled.set()
        self.writer.cancel()
        if self._waiting is not None:
            self._interrupted = True
            self._waiting.cancel()
            self._waiting = None

    async def until_cancelled(self, frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The frames, or as many as there are until it is cancelled, with the end that it then has.

        One task asks for all of them.
        """
        task = asyncio.current_task()
        try:
            async with aclosing(frames):
                if not self._cancelled.is_set():
                    self._waiting = task
                    async for data in frames:
                        self._waiting = None
                        yield data
                        if self._cancelled.is_set():
                            break
                        self._waiting = task
        except asyncio.CancelledError:
            # The client may be gone at the same time.
            if not self._interrupted or task is None or task.uncancel() > 0:
                raise
        finally:
            self._waiting = None
        if self._cancelled.is_set():
            data = self.writer.close()
            await self._keep()
            yield data
