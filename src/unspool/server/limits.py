"""Bounds on what waits and how long anything takes, so that no client can take the server from the others.

A request waits from the moment its body is complete until its first token. How many run together is the engine's
matter; how many may wait is bounded here. A client must send its body, and take its answer, without long pauses.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unspool.events import Finish
from unspool.server.errors import UnavailableError, refusal
from unspool.server.generation import Generation, Step
from unspool.server.metrics import Metrics
from unspool.server.streams import ClientGoneError
from unspool.server.tap import Tap
from unspool.surfaces.errors import InvalidRequestError

T = TypeVar("T")

GENERATING = frozenset({"/v1/chat/completions", "/v1/messages", "/v1/responses"})
"""The paths whose requests wait for the engine."""

_RETRY_AFTER = 5
"""Seconds after which a client that was sent away may come back."""


class OverloadedError(UnavailableError):
    """As many requests wait as may."""

    def __init__(self) -> None:
        super().__init__(
            "Too many requests wait for the model; try again later.", 503, "overloaded", retry_after=_RETRY_AFTER
        )


class TimeLimitError(UnavailableError):
    """A generation took longer than the operator allows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request took longer than this server allows ({seconds:g} seconds).", 504, "timeout")


class EndedError(UnavailableError):
    """The server shuts down and can't wait for the end of a generation."""

    def __init__(self) -> None:
        super().__init__("The server is shutting down; try again later.", 503, "shutting_down")


@dataclass(slots=True, eq=False)
class Ticket:
    """A request on its way. ``arrived`` is in seconds of the event loop's clock."""

    arrived: float
    waits: bool = False
    first_token: float | None = None
    """Seconds from its arrival."""
    ends: list[str] = field(default_factory=list)
    """Why its generations ended."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    acted: bool = False
    """It has run tools: whoever sends it again has them run again."""


_TICKET: ContextVar[Ticket | None] = ContextVar("ticket", default=None)


class _Watch:
    """Ends the wait for a step at a time of the event loop's clock, or when it is told to.

    It is one timer for a whole generation, since one for each step (``asyncio.timeout``) costs more than a step.
    Whoever takes the steps from ``tap`` instead ends that wait.
    """

    __slots__ = ("_before", "_cancelled", "_tap", "_timer", "expired", "waiting")

    def __init__(self, deadline: float | None, tap: Tap[Any] | None = None) -> None:
        self._tap = tap
        self._timer = None if deadline is None else asyncio.get_running_loop().call_at(deadline, self.expire)
        self._cancelled: asyncio.Task[object] | None = None
        self._before = 0
        self.expired = False
        self.waiting: asyncio.Task[object] | None = None
        """The task that waits for a step now, if one does."""

    def expire(self) -> None:
        """The time is over."""
        if not self.expired:
            self.expired = True
            if self._tap is not None:
                self._tap.end()
            if (task := self.waiting) is not None:
                self._cancelled, self._before = task, task.cancelling()
                task.cancel()

    def ended(self) -> bool:
        """Whether a cancellation is from here; who else cancels the task before it hears of it has precedence."""
        task = self._cancelled
        return task is not None and task.uncancel() <= self._before

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()


class Traffic:
    """All requests that are in the server.

    ``max_waiting`` is how many may wait for their first token; ``time_limit`` is in seconds from a request's
    arrival to the end of its generation.
    """

    def __init__(self, max_waiting: int, time_limit: float | None = None) -> None:
        self.max_waiting = max_waiting
        self.time_limit = time_limit
        self.waiting = 0
        self.running = 0
        self.metrics = Metrics(lambda: self.waiting, lambda: self.running)
        self._ended = False
        self._watches: set[_Watch] = set()

    def check(self) -> None:
        """Raises :class:`OverloadedError` if nobody else may wait."""
        if self.waiting >= self.max_waiting:
            raise OverloadedError

    def enter(self, ticket: Ticket) -> None:
        """The request waits from now on. Raises :class:`OverloadedError`."""
        self.check()
        self.waiting += 1
        ticket.waits = True

    def leave(self, ticket: Ticket) -> None:
        """The request waits no more, if it did."""
        if ticket.waits:
            ticket.waits = False
            self.waiting -= 1

    def end(self) -> None:
        """Ends what still runs with :class:`EndedError`, and whatever starts later."""
        self._ended = True
        for watch in self._watches:
            watch.expire()

    def follow(self, generation: Generation) -> AsyncGenerator[Step, None]:
        """The steps of a generation for the request of this task, counted, until its time is over.

        It knows as much of steps that are taken from the generation's tap.
        """
        ticket = _TICKET.get() or Ticket(_now())
        return self._followed(generation, ticket)

    def acts(self) -> None:
        """The request of this task runs tools."""
        if (ticket := _TICKET.get()) is not None:
            ticket.acted = True

    async def aside(self, work: Callable[[], Awaitable[T]]) -> T:
        """What comes of what a request does before it generates, or instead, until its time is over.

        Meanwhile it takes no place among those who wait, and behind it a new one. Raises :class:`OverloadedError`.
        """
        ticket = _TICKET.get() or Ticket(_now())
        waits = ticket.waits

        async def steps() -> AsyncGenerator[T, None]:
            yield await work()

        async with aclosing(self.bounded(steps())) as bounded:
            (result,) = [each async for each in bounded]
        if waits:
            self.enter(ticket)
        return result

    async def bounded(self, steps: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The steps of what a request does besides generating, until its time is over; it waits for no token."""
        ticket = _TICKET.get() or Ticket(_now())
        self.leave(ticket)
        watch, loop = self._watched(ticket), asyncio.get_running_loop()
        try:
            async with aclosing(steps):
                if watch.expired:
                    raise self._why()
                watch.waiting = current_task(loop)
                async for step in steps:
                    watch.waiting = None
                    yield step
                    if watch.expired:
                        raise self._why()
                    watch.waiting = current_task(loop)
        except asyncio.CancelledError:
            if watch.ended():
                raise self._why() from None
            raise
        finally:
            self._watches.discard(watch)
            watch.close()

    async def _followed(self, generation: Generation, ticket: Ticket) -> AsyncGenerator[Step, None]:
        tap = generation.tap
        watch, loop = self._watched(ticket, tap), asyncio.get_running_loop()
        generation.on_finish(partial(self._finish, ticket))
        begun = ticket.first_token is not None
        self.running += 1
        try:
            try:
                if watch.expired:
                    raise self._why()
                watch.waiting = current_task(loop)
                async for item in tap.source:
                    watch.waiting = None
                    step = tap.read(item)
                    if not begun:
                        begun = True
                        self._begin(ticket)
                    yield step
                    if watch.expired:
                        raise self._why()
                    watch.waiting = current_task(loop)
                await generation.end()
            finally:
                await generation.close()
        except asyncio.CancelledError:
            if watch.ended():
                self._break(ticket, "error")
                raise self._why() from None
            self._abort(ticket, generation)
            raise
        except Exception:
            self._break(ticket, "error")
            raise
        except GeneratorExit:
            self._abort(ticket, generation)
            raise
        finally:
            self.running -= 1
            self._watches.discard(watch)
            watch.close()
            self.metrics.duration.observe(_now() - ticket.arrived)
            self.metrics.reject(generation.rejected)

    def _watched(self, ticket: Ticket, tap: Tap[Any] | None = None) -> _Watch:
        watch = _Watch(None if self.time_limit is None else ticket.arrived + self.time_limit, tap)
        self._watches.add(watch)
        if self._ended:
            watch.expire()
        return watch

    def _begin(self, ticket: Ticket) -> None:
        self.leave(ticket)
        ticket.first_token = _now() - ticket.arrived
        self.metrics.first_token.observe(ticket.first_token)

    def _finish(self, ticket: Ticket, finish: Finish) -> None:
        ticket.ends.append(finish.reason)
        if finish.usage is not None:
            ticket.prompt_tokens += finish.usage.prompt_tokens
            ticket.completion_tokens += finish.usage.completion_tokens
        self.metrics.finished(finish)

    def _abort(self, ticket: Ticket, generation: Generation) -> None:
        # Whoever leaves behind the last finish has everything.
        if not generation.finished:
            self._break(ticket, "aborted")

    def _break(self, ticket: Ticket, reason: str) -> None:
        ticket.ends.append(reason)
        self.metrics.generations.add(1, reason)

    def _why(self) -> UnavailableError:
        return EndedError() if self._ended or self.time_limit is None else TimeLimitError(self.time_limit)


def _now() -> float:
    return asyncio.get_running_loop().time()


class Limits:
    """Keeps requests in bounds; ``idle_timeout`` is in seconds without a sign of the client, if it is bounded."""

    def __init__(self, app: ASGIApp, traffic: Traffic, idle_timeout: float | None) -> None:
        self.app = app
        self.traffic = traffic
        self.idle_timeout = idle_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 503."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        ticket = scope.setdefault("state", {})["ticket"] = Ticket(_now())
        queues = scope["method"] == "POST" and scope["path"] in GENERATING
        if queues:
            try:
                # Before its body is read, and once more behind it: only then it takes a place.
                self.traffic.check()
            except OverloadedError as error:
                await refusal(scope, error)(scope, receive, send)
                return
        enter: Callable[[Ticket], None] | None = self.traffic.enter if queues else None
        token = _TICKET.set(ticket)
        try:
            async with AsyncExitStack() as endings:
                # What lives as long as its request, and must end however that does.
                scope["state"]["endings"] = endings
                await self.app(scope, self._receiver(receive, ticket, enter), self._sender(send))
        finally:
            _TICKET.reset(token)
            self.traffic.leave(ticket)

    def _receiver(self, receive: Receive, ticket: Ticket, enter: Callable[[Ticket], None] | None) -> Receive:
        complete = False

        async def receive_in_time() -> Message:
            nonlocal complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(self.idle_timeout):
                    message = await receive()
            except TimeoutError:
                raise InvalidRequestError(
                    f"Nothing of the request's body came for {self.idle_timeout:g} seconds.",
                    code="request_timeout",
                    status=408,
                ) from None
            complete = not message.get("more_body", False)
            if complete and enter is not None and message["type"] == "http.request":
                enter(ticket)
            return message

        return receive_in_time

    def _sender(self, send: Send) -> Send:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self.idle_timeout):
                    await send(message)
            except TimeoutError:
                raise ClientGoneError from None

        return send_in_time
