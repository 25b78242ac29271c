"""The engine thread: many requests, one ``llama_decode`` after another.

Every step decodes one batch: the next token of each request that is generating, and as much of the new
prompts as fits beside them (continuous batching). To the scheduler a request is only a list of tokens of
which some are in its slot: reading a prompt, generating, and recomputing after an eviction are one thing.

Only this thread touches the context. Requests come in through a queue, results go out to each request's event
loop once per step, and a request is cancelled by setting its flag. Whatever happens here, every request ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from unspool.constrained.base import ConstraintError
from unspool.engines.base import Chunk, ConstraintFailedError, EngineError, EngineFinish
from unspool.engines.llamacpp.context import Context
from unspool.engines.llamacpp.model import Tokenizer
from unspool.engines.llamacpp.output import Output
from unspool.engines.llamacpp.sampler import Sampler
from unspool.engines.llamacpp.slots import Slot, Slots

_logger = logging.getLogger("unspool.llamacpp")

Item: TypeAlias = Chunk | EngineError

# While others generate, prompts get this part of a batch at most: a whole batch of prompt takes seconds on a
# small machine, and the others would stand still.
_PROMPT_SHARE = 4


@dataclass(slots=True, eq=False)
class Request:
    """One generation: ``tokens`` are the prompt and then what was generated, at most ``limit`` of them.

    Chunks, the last with a finish reason, or an error arrive in ``inbox``, in the event loop that made the
    request. Setting ``cancelled`` ends it within one step; nothing more is delivered then.
    """

    tokens: list[int]
    limit: int
    sampler: Sampler
    output: Output
    inbox: asyncio.Queue[Item] = field(default_factory=asyncio.Queue)
    home: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    cancelled: bool = False
    prompt_tokens: int = field(init=False)
    generated: int = 0
    cached_tokens: int | None = None
    slot: Slot | None = None

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)


class BatchLoop:
    """Runs requests over a context, which it owns from :meth:`start` on and frees when it ends."""

    def __init__(self, context: Context, tokenizer: Tokenizer, slots: Slots) -> None:
        self._context = context
        self._tokenizer = tokenizer
        self._slots = slots
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._outbox: dict[asyncio.AbstractEventLoop, list[tuple[Request, Item]]] = {}
        self._submitted: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        # A request is either seen by the thread or refused: both happen under this lock.
        self._gate = threading.Lock()
        self._refusal: str | None = None
        self._thread = threading.Thread(target=self._run, name="unspool-llamacpp", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queues a request. Raises :class:`EngineError` once the thread has ended."""
        with self._gate:
            if self._refusal is not None:
                raise EngineError(self._refusal)
            self._submitted.put(request)

    def close(self) -> None:
        """Ends every request as cancelled and waits for the thread."""
        self._submitted.put(None)
        self._thread.join()

    # The rest runs in the thread.

    def _run(self) -> None:
        failure: EngineError | None = None
        try:
            while self._receive():
                self._step()
                self._flush()
        except Exception as error:
            _logger.debug("The engine thread failed", exc_info=True)
            failure = EngineError(f"The engine failed and must be started again: {error}")
        with self._gate:
            self._refusal = str(failure) if failure else "The engine is closed; start a new one."
        while not self._submitted.empty():
            if (request := self._submitted.get()) is not None:
                self._waiting.append(request)
        for request in [*self._running, *self._waiting]:
            if failure is None:
                self._end(request, "cancelled")
            else:
                self._fail(request, failure)
        self._flush()
        self._context.close()

    def _receive(self) -> bool:
        """Takes what was submitted, and waits for it if there is nothing else to do; false: stop."""
        while True:
            try:
                request = self._submitted.get(block=not self._running and not self._waiting)
            except queue.Empty:
                return True
            if request is None:
                return False
            self._waiting.append(request)

    def _step(self) -> None:
        """Decodes one batch and delivers what came out of it."""
        self._drop_cancelled()
        self._admit()
        plan = self._plan()
        if not plan:
            return
        complete: list[tuple[Request, int]] = []
        for request, slot, tokens in plan:
            start = len(slot.cached)
            reaches_end = start + len(tokens) == len(request.tokens)
            row = 0
            for position, token in enumerate(tokens, start):
                row = self._context.add(
                    token, position, slot.number, reaches_end and position + 1 == len(request.tokens)
                )
            if reaches_end:
                complete.append((request, row))
        self._context.decode()
        for _, slot, tokens in plan:
            slot.cached += tokens
        for request, row in complete:
            self._generate(request, row)

    def _drop_cancelled(self) -> None:
        for request in [request for request in self._running if request.cancelled]:
            self._release(request)
        if any(request.cancelled for request in self._waiting):
            self._waiting = deque(request for request in self._waiting if not request.cancelled)

    def _admit(self) -> None:
        """Gives slots to waiting requests, first come first served, while their tokens fit."""
        while self._waiting and self._slots.any_free:
            # One more than it has now, or it would be evicted again at once.
            needed = sum(len(request.tokens) + 1 for request in [*self._running, self._waiting[0]])
            if self._running and needed > self._context.cells:
                return
            request = self._waiting.popleft()
            request.slot = self._slots.take(request.tokens)
            if request.cached_tokens is None:
                request.cached_tokens = len(request.slot.cached)
            self._running.append(request)

    def _plan(self) -> list[tuple[Request, Slot, list[int]]]:
        """The tokens to decode next, per request, evicting others until they fit."""
        while True:
            todo = [
                (request, request.slot, len(request.tokens) - len(request.slot.cached))
                for request in self._running
                if request.slot is not None
            ]
            generating = sum(count == 1 for *_, count in todo)
            budget = self._context.batch_size - generating
            if generating:
                budget = min(budget, math.ceil(self._context.batch_size / _PROMPT_SHARE))
            plan = []
            for request, slot, count in todo:
                if count > 1:
                    count = min(count, budget)
                    budget -= count
                if count:
                    start = len(slot.cached)
                    plan.append((request, slot, request.tokens[start : start + count]))
            if sum(len(tokens) for *_, tokens in plan) <= self._slots.room:
                return plan
            if not self._slots.clear_idle():
                self._evict(self._running[-1])

    def _evict(self, request: Request) -> None:
        """Takes the slot of a request away; it goes on as the first waiting one, recomputing its tokens."""
        slot = request.slot
        self._release(request)
        if slot is not None:
            self._slots.clear(slot)
        self._waiting.appendleft(request)

    def _generate(self, request: Request, row: int) -> None:
        """Chooses and delivers the next token of one request; an error here ends that request only."""
        if request.cancelled:
            return
        try:
            logits = self._context.logits(row)
            request.sampler.adjust(logits)
            token = request.sampler.pick(logits)
            request.sampler.accept(token)
        except ConstraintError as error:
            self._fail(request, ConstraintFailedError(str(error)))
            return
        except Exception as error:
            _logger.debug("A request failed", exc_info=True)
            self._fail(request, EngineError(f"The next token could not be chosen: {error}"))
            return
        request.generated += 1
        if token in self._tokenizer.eog:
            self._end(request, "stop")
            return
        request.tokens.append(token)
        text, ids = request.output.push(token, self._tokenizer.piece(token))
        if request.output.stopped or request.sampler.is_complete:
            self._end(request, "stop", text, ids)
        elif len(request.tokens) >= request.limit:
            self._end(request, "length", text, ids)
        elif ids:
            self._post(request, _chunk(request, text, ids))

    def _end(self, request: Request, reason: EngineFinish, text: str = "", ids: tuple[int, ...] = ()) -> None:
        """Delivers the rest and the counts, and frees the slot."""
        rest, rest_ids = request.output.finish()
        if ids and rest and request.output.stopped:
            # Text of a token that a stop string cut has no ids and must not travel with other tokens' ids.
            self._post(request, _chunk(request, text, ids))
            text, ids = "", ()
        self._post(
            request,
            Chunk(
                text + rest,
                ids + rest_ids,
                reason,
                request.prompt_tokens,
                request.generated,
                request.cached_tokens or 0,
                request.output.stop_sequence,
            ),
        )
        self._release(request)

    def _fail(self, request: Request, error: EngineError) -> None:
        self._post(request, error)
        self._release(request)

    def _release(self, request: Request) -> None:
        """Frees the slot of a request, if it has one."""
        if request.slot is not None:
            self._slots.give_back(request.slot)
            request.slot = None
            self._running.remove(request)

    def _post(self, request: Request, item: Item) -> None:
        self._outbox.setdefault(request.home, []).append((request, item))

    def _flush(self) -> None:
        """Hands all results of a step over, with one wake-up per event loop."""
        for home, mail in self._outbox.items():
            try:
                home.call_soon_threadsafe(_deliver, mail)
            except RuntimeError:  # the event loop is closed: nobody will read this or set the flag
                for request, _ in mail:
                    request.cancelled = True
        self._outbox.clear()


def _chunk(request: Request, text: str, ids: tuple[int, ...]) -> Chunk:
    """A chunk that is not the last."""
    return Chunk(text, ids, prompt_tokens=request.prompt_tokens, cached_tokens=request.cached_tokens or 0)


def _deliver(mail: Iterable[tuple[Request, Item]]) -> None:
    for request, item in mail:
        request.inbox.put_nowait(item)
