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


DIRECT = "send"
"""Where a request's state has the way to the client that goes past the middleware."""


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
        await _end(task, watcher)


async def begun(receive: Receive, work: Coroutine[Any, Any, T], patience: float | None) -> asyncio.Task[T]:
    """``work`` as a task, after at most ``patience`` seconds (``None``: once it is done).

    Until then it raises what ``work`` raises, and :class:`ClientGoneError` as :func:`while_connected` does.
    """
    task = asyncio.ensure_future(work)
    try:
        await while_connected(receive, asyncio.wait({task}, timeout=patience))
    except BaseException:
        await _end(task)
        raise
    if task.done():
        task.result()
    return task


async def _end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancels what still runs, and waits for its end, whatever it is."""
    given = [task for task in tasks if task is not None]
    for task in given:
        task.cancel()
    await asyncio.gather(*given, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Patience:
    """Ends the running task once what it sends was not taken for ``seconds`` (``None``: never).

    It is one timer that looks now and then, since setting one for each frame costs more than making the frame.
    """

    __slots__ = ("_loop", "_seconds", "_task", "_timer", "exhausted", "since")

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._seconds = seconds
        self.since: float | None = None
        """When it began to send what it is sending, by the event loop's clock; ``None``: it sends nothing."""
        self.exhausted = False
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        assert self._seconds is not None
        assert self._task is not None
        now = self._loop.time()
        due = (now if self.since is None else self.since) + self._seconds
        if due > now:
            self._timer = self._loop.call_at(due, self._look)
        else:
            self.exhausted = True
            self._task.cancel()

    def close(self) -> None:
        """Nothing is sent any more."""
        if self._timer is not None:
            self._timer.cancel()


class EventStream(Response):
    """Server-sent events from an async generator of frames, which is closed when the client goes away.

    ``heartbeat`` makes a frame to send whenever nothing else was sent for ``pause`` seconds (``None``: never), so
    that neither proxies nor clients take a silent model for a dead connection; proxies commonly close what is
    silent for 30 or 60 seconds. ``patience`` is in seconds, too: a client that takes nothing for so long is gone.
    ``first`` is what the generator waits for at its start; it ends with the stream, even if that never begins.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        *,
        heartbeat: Callable[[], bytes] | None = None,
        pause: float | None = None,
        patience: float | None = None,
        first: asyncio.Task[Any] | None = None,
    ) -> None:
        self.frames = frames
        self.heartbeat = heartbeat
        self.pause = pause
        self.patience = patience
        self.first = first
        self._sent = 0
        self.status_code = 200
        self.background = None
        # The last one keeps proxies such as nginx from collecting the stream.
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends everything, or as much as the client waits for."""
        try:
            with suppress(ClientGoneError):
                await while_connected(receive, self._send(send, scope.get("state", {}).get(DIRECT, send)))
        finally:
            await _end(self.first)

    async def _send(self, send: Send, direct: Send) -> None:
        """``direct`` is for all but the start, with which no middleware has anything to do."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        beating: asyncio.Task[None] | None = None
        if self.heartbeat is not None and self.pause is not None:
            beating = asyncio.create_task(self._beat(direct, self.heartbeat, self.pause))
        patience, now = _Patience(self.patience), asyncio.get_running_loop().time
        frames = self.frames
        try:
            async with aclosing(frames):
                async for data in frames:
                    self._sent += 1
                    patience.since = now()
                    await direct({"type": "http.response.body", "body": data, "more_body": True})
                    patience.since = None
            await _end(beating)
            patience.since = now()
            await direct({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if patience.exhausted:
                raise ClientGoneError from None
            raise
        finally:
            patience.close()
            await _end(beating)

    async def _beat(self, send: Send, heartbeat: Callable[[], bytes], pause: float) -> None:
        while True:
            sent = self._sent
            await asyncio.sleep(pause)
            if sent == self._sent and (frame := heartbeat()):
                await send({"type": "http.response.body", "body": frame, "more_body": True})
