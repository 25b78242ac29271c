"""Answers that end when the client goes away.

Whoever disconnects must not keep the engine busy: work for a request runs beside a watcher of its connection,
and is cancelled when that closes, be it queued, in prefill or in the middle of a stream.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unspool.server.tap import Tap

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


_LOOKS = 8
"""How often within a time somebody looks whether it is over. It is noticed at most two looks later."""


class _Sending:
    """How far a stream is with sending; ends its task once something was not taken for ``seconds``.

    Who sends leaves a mark, and who wants to know how long ago that was looks for it now and then: a clock that is
    read for each frame, or a timer that is set, costs more than making the frame. ``seconds`` ``None``: the client
    may take as long as it likes.
    """

    __slots__ = (
        *("_ended", "_seconds", "_since", "_task", "_timer"),
        *("busy", "exhausted", "interrupted", "marked", "reading", "send"),
    )

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._ended: bool | None = None
        self.busy = False
        """Whether the client has yet to take something."""
        self.marked = False
        """Whether something began to be sent since somebody looked."""
        self.exhausted = False
        self.interrupted = False
        """Whether no other step is wanted."""
        self.reading = False
        """Whether it reads steps, so that an interruption may cancel the task while it sends nothing."""

    def start(self, send: Send) -> None:
        """The running task sends from now on."""
        self._task = asyncio.current_task()
        self._since = asyncio.get_running_loop().time()
        self.send = send
        self.reading = True
        self._look()

    async def put(self, data: bytes, *, more: bool = True) -> None:
        """Sends this; nothing if there is more to come and this is none."""
        if data or not more:
            self.marked = self.busy = True
            await self.send({"type": "http.response.body", "body": data, "more_body": more})
            self.busy = False

    def rest(self) -> float:
        """For how many seconds nothing began to be sent; of what did since the last look, when is not known."""
        now = asyncio.get_running_loop().time()
        if self.marked:
            self.marked = False
            self._since = now
        return now - self._since

    def interrupt(self) -> None:
        """No other step is wanted."""
        self.interrupted = True
        if self.reading and not self.busy and self._task is not None:
            self.reading = False
            self._task.cancel()

    def ended(self) -> bool:
        """Whether a cancellation is the interruption's; the client may be gone at the same time."""
        if self._ended is None:
            task = None if self.reading or self.exhausted else self._task
            self._ended = task is not None and task.uncancel() == 0
        return self._ended

    def close(self) -> None:
        """Nothing is sent any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._seconds is None:
            return
        if self.rest() >= self._seconds and self.busy and self._task is not None:
            self.exhausted = True
            self._task.cancel()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._seconds / _LOOKS, self._look)


class Frames(ABC, Generic[T]):
    """What a client is sent of an answer: the frames of its steps, and of its end.

    A step is a choice's number and its next events. ``steps`` is closed when the client goes away, or nothing more
    is wanted of it; behind the first, steps come from ``tap`` where there is one. ``write`` makes the frames of a
    choice's next events, no bytes if there is nothing to say, and is not asked about no events.
    """

    def __init__(
        self,
        steps: AsyncGenerator[tuple[int, T], None],
        write: Callable[[T, int], bytes],
        tap: Tap[tuple[int, T]] | None = None,
    ) -> None:
        self.steps = steps
        self.write = write
        self.tap = tap or Tap.plain(steps)

    def waiting(self) -> bytes:
        """What can be sent before there is a first step."""
        return b""

    @abstractmethod
    async def close(self) -> bytes:
        """The end, behind the last step."""

    @abstractmethod
    async def fail(self, error: Exception) -> bytes:
        """The end, if the steps raised this."""


class EventStream(Response):
    """An answer as server-sent events.

    ``heartbeat`` makes a frame to send whenever nothing else was sent for ``pause`` seconds (``None``: never), so
    that neither proxies nor clients take a silent model for a dead connection; proxies commonly close what is
    silent for 30 or 60 seconds. ``patience`` is in seconds, too: a client that takes nothing for so long is gone.
    ``first`` is the first step; it ends with the stream, even if that never begins.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: Frames[Any],
        *,
        heartbeat: Callable[[], bytes] | None = None,
        pause: float | None = None,
        patience: float | None = None,
        first: asyncio.Task[Any] | None = None,
    ) -> None:
        self.frames = frames
        self.heartbeat = heartbeat
        self.pause = pause
        self.first = first
        self._sending = _Sending(patience)
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

    def interrupt(self) -> None:
        """Ends the answer as if there were no other step: at once, or when the client took the last frame."""
        self._sending.interrupt()

    async def _send(self, send: Send, direct: Send) -> None:
        """``direct`` is for all but the start, with which no middleware has anything to do."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        frames, sending = self.frames, self._sending
        sending.start(direct)
        beating = self._beating(direct)
        try:
            try:
                async with aclosing(frames.steps):
                    if await self._begin():
                        async with self._tapped():
                            write, read = frames.write, frames.tap.read
                            # Each token goes through here, where every frame of Python's that it passes counts.
                            async for item in frames.tap.source:
                                index, events = read(item)
                                if events and (data := write(events, index)):
                                    sending.marked = sending.busy = True
                                    await direct({"type": "http.response.body", "body": data, "more_body": True})
                                    sending.busy = False
                                if sending.interrupted:
                                    break
            except asyncio.CancelledError:
                if not sending.ended():
                    raise
                end = frames.close()
            except Exception as error:
                if sending.busy:
                    raise
                end = frames.fail(error)
            else:
                end = frames.close()
            sending.reading = False
            last = await end
            await _end(beating)
            await sending.put(last)
            await sending.put(b"", more=False)
        except asyncio.CancelledError:
            if sending.exhausted:
                raise ClientGoneError from None
            raise
        finally:
            sending.close()
            await _end(beating)

    @asynccontextmanager
    async def _tapped(self) -> AsyncIterator[None]:
        """Around what reads from the tap: the generator of steps gets to know what comes of it."""
        steps, tap, sending = self.frames.steps, self.frames.tap, self._sending
        tap.interrupt = sending.interrupt
        try:
            yield
        except asyncio.CancelledError:
            if not tap.over or not sending.ended():
                raise
        except Exception as error:
            if tap.rests and not sending.busy:
                await steps.athrow(error)
            raise
        finally:
            tap.interrupt = None
        if tap.rests and (tap.over or not sending.interrupted):
            await anext(steps, None)

    async def _begin(self) -> bool:
        """Sends the first step; whether others are wanted."""
        sending = self._sending
        if self.first is not None and not sending.interrupted:
            if not self.first.done():
                await sending.put(self.frames.waiting())
            index, events = await self.first
            await sending.put(self.frames.write(events, index))
            if self.frames.tap.over:
                await anext(self.frames.steps, None)
        return not sending.interrupted

    def _beating(self, direct: Send) -> asyncio.Task[None] | None:
        """The heartbeat, if the stream has one."""
        if self.heartbeat is None or self.pause is None:
            return None
        return asyncio.create_task(self._beat(direct, self.heartbeat, self.pause))

    async def _beat(self, direct: Send, heartbeat: Callable[[], bytes], pause: float) -> None:
        sending = self._sending
        while True:
            await asyncio.sleep(pause / _LOOKS)
            if sending.rest() >= pause and not sending.busy and (frame := heartbeat()):
                sending.marked = True
                await direct({"type": "http.response.body", "body": frame, "more_body": True})
