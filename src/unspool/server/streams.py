"""Answers that end when the client goes away.

Whoever disconnects must not keep the engine busy: work for a request runs beside a watcher of its connection,
and is cancelled when that closes, be it queued, in prefill or in the middle of a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class ClientGoneError(Exception):
    """The client closed the connection before its answer was complete."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``; cancels it and raises :class:`ClientGoneError` when the client goes.

    The request's body must have been read: what arrives on ``receive`` then can only be the disconnect.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        task.cancel()
        watcher.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def begun(receive: Receive, work: Coroutine[Any, Any, T], patience: float | None) -> asyncio.Task[T]:
    """``work`` as a task, after at most ``patience`` seconds (``None``: once it is done).

    Until then it raises what ``work`` raises, and :class:`ClientGoneError` as :func:`while_connected` does.
    """
    task = asyncio.ensure_future(work)
    try:
        await while_connected(receive, asyncio.wait({task}, timeout=patience))
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    if task.done():
        task.result()
    return task


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events from an async generator of frames, which is closed when the client goes away.

    ``heartbeat`` makes a frame to send whenever nothing else was sent for ``pause`` seconds (``None``: never), so
    that neither proxies nor clients take a silent model for a dead connection; proxies commonly close what is
    silent for 30 or 60 seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        *,
        heartbeat: Callable[[], bytes] | None = None,
        pause: float | None = None,
    ) -> None:
        self.frames = frames
        self.heartbeat = heartbeat
        self.pause = pause
        self._sent = 0
        self.status_code = 200
        self.background = None
        # The last one keeps proxies such as nginx from collecting the stream.
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends everything, or as much as the client waits for."""
        with suppress(ClientGoneError):
            await while_connected(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        beating: asyncio.Future[None] | None = None
        if self.heartbeat is not None and self.pause is not None:
            beating = asyncio.ensure_future(self._beat(send, self.heartbeat, self.pause))
        try:
            async with aclosing(self.frames):
                async for data in self.frames:
                    self._sent += 1
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            if beating is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, send: Send, heartbeat: Callable[[], bytes], pause: float) -> None:
        while True:
            sent = self._sent
            await asyncio.sleep(pause)
            if sent == self._sent and (frame := heartbeat()):
                await send({"type": "http.response.body", "body": frame, "more_body": True})
