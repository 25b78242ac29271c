"""Several turns of a model as one answer: it calls tools of MCP servers, reads what came of them, and goes on.

The loop stands where a single generation stands, between the service and a surface's writer. The first turn has
the request's choice of tools, the others are free, and where a limit ends the loop, the last one has no tools. A
call of the client's own tools ends the answer, behind the results of the server's tools of that turn.

What a call costs is paid even if nobody reads it, so nothing runs that the model can't read any more: a turn that
the token limit cut runs none of its calls.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from unspool.engines.base import Sampling
from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from unspool.mcp.tools import McpTool, ToolRunner
from unspool.server.generation import Generation
from unspool.server.service import Service
from unspool.server.tap import Tap
from unspool.server.toolcalls import Call, Calls
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.mcp_plan import McpPlan, NamedServer, schema_path
from unspool.surfaces.server_events import (
    AnyEvent,
    ApprovalRequested,
    LimitReason,
    LoopLimit,
    ToolsListed,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

LoopStep: TypeAlias = tuple[int, Sequence[AnyEvent]]
"""A choice's number and its next events, those of the server's own tools among them."""
Generate: TypeAlias = Callable[[Conversation, Sampling], Awaitable[Generation]]
AskClient: TypeAlias = Callable[[McpTool, str], Awaitable[str]]
"""Makes the id under which a client is asked for a call of a tool with these arguments."""


class Answer(Protocol):
    """What a writer needs of a generation, or of a loop of several."""

    @property
    def steps(self) -> AsyncGenerator[LoopStep, None]:
        """The events as they come. Closing this generator ends whatever runs."""
        ...

    @property
    def tap(self) -> Tap[Any]:
        """Where steps come from."""
        ...

    @property
    def prompt(self) -> Usage:
        """The counts of the first prompt, as far as they are known."""
        ...

    @property
    def stop_sequences(self) -> list[str | None]:
        """For each choice the stop string that ended it."""
        ...

    async def start(self) -> LoopStep:
        """The first step: what is wrong with a request shows here, before its answer begins."""
        ...

    async def events(self) -> Sequence[Sequence[AnyEvent]]:
        """All events of each choice, once there are no more."""
        ...


@dataclass(frozen=True, slots=True)
class Granted:
    """A call that the client has agreed to; ``refusal`` says why it must not run all the same."""

    approval: str
    name: str
    tool: McpTool | None
    arguments: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Manners:
    """How a surface shows the loop.

    ``ask`` makes approval requests; without it the client gets calls that need its approval as calls of its
    own. ``pauses``: a limit ends the answer, and the client sends it back to go on. ``between`` is put between
    texts of two turns, and between their thoughts. ``listed`` are the servers whose tools the client is told
    first, ``granted`` the calls that run first. ``most_calls`` is how many calls may run (``None``: any
    number).
    """

    request_id: str
    ask: AskClient | None = None
    pauses: bool = False
    between: str = ""
    listed: Sequence[NamedServer] = ()
    granted: Sequence[Granted] = ()
    most_calls: int | None = None


async def begin(
    service: Service,
    conversation: Conversation,
    sampling: Sampling,
    *,
    runner: ToolRunner | None,
    plan: McpPlan | None,
    manners: Manners,
    **options: Any,
) -> Answer:
    """A generation, or a loop of several if the server has tools for this request; nothing runs until it is
    started.

    ``options`` are those of :meth:`Service.generate`, which says what this raises.
    """
    generate: Generate = partial(service.generate, **options)
    if plan is None or runner is None:
        return await generate(conversation, sampling)
    loop = ToolLoop(service, runner, generate, conversation, sampling, plan, manners)
    await loop.prepare(partial(service.check, **options))
    return loop


@dataclass(slots=True)
class _Turn:
    """One turn, while it is read."""

    calls: dict[int, Call] = field(default_factory=dict)
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish: Finish = field(default_factory=lambda: Finish("stop"))

    def of(self, answered: str) -> list[Call]:
        """The whole calls that are answered like this."""
        return [call for call in self.calls.values() if call.complete and call.answered == answered]


class ToolLoop:
    """An answer in several turns. See :class:`Answer`."""

    def __init__(
        self,
        service: Service,
        runner: ToolRunner,
        generate: Generate,
        conversation: Conversation,
        sampling: Sampling,
        plan: McpPlan,
        manners: Manners,
    ) -> None:
        settings, own = service.settings, service.offer()
        self._service = service
        self._generate = generate
        self._conversation = conversation
        self._sampling = sampling
        self._plan = plan
        self._manners = manners
        self._calls = Calls(
            runner,
            service.traffic.metrics.tool_calls,
            request_id=manners.request_id,
            seconds=settings.mcp_timeout,
            most=manners.most_calls,
            labels=[state.name for state in own.catalogue.servers] if own else (),
        )
        self._most_turns = settings.mcp_max_turns
        self._rounds = 0
        now = asyncio.get_running_loop().time()
        self._deadline = None if settings.mcp_time_limit is None else now + settings.mcp_time_limit
        self._client_tools = {tool["function"]["name"] for tool in conversation.tools} - plan.tools.keys()
        self._ids = {call.id for turn in conversation.turns for call in turn.tool_calls}
        self._numbered = 0
        self._usage = Usage()
        self._has_said: set[type[Event]] = set()
        self._generation: Generation | None = None
        self._first: Generation | None = None
        self.steps = self._run()
        self.tap = Tap.plain(self.steps)

    async def prepare(self, check: Callable[[Conversation, Sampling], Awaitable[None]]) -> None:
        """Finds what is wrong with the request; raises as :meth:`Service.generate` does.

        ``check`` does so where there is no turn yet, since tools run first.
        """
        if self._manners.granted:
            await self._relaxed(check)
        else:
            await self._next()

    @property
    def prompt(self) -> Usage:
        """The counts of the first prompt, as far as they are known."""
        return Usage() if self._first is None else self._first.prompt

    @property
    def conversation(self) -> Conversation:
        """What the model has been told so far, its own turns among it."""
        return self._conversation

    @property
    def stop_sequences(self) -> list[str | None]:
        """The stop string that ended the last turn."""
        return [None] if self._generation is None else self._generation.stop_sequences

    async def start(self) -> LoopStep:
        """The first step."""
        return await anext(self.steps)

    async def events(self) -> list[list[AnyEvent]]:
        """All events, once there are no more."""
        gathered: list[AnyEvent] = []
        async for _, events in self.steps:
            gathered.extend(events)
        return [gathered]

    async def _next(self) -> None:
        """Prepares the next turn."""
        self._generation = await self._relaxed(self._generate)
        self._first = self._first or self._generation

    async def _relaxed(self, use: Callable[[Conversation, Sampling], Awaitable[T]]) -> T:
        """What becomes of the conversation. A tool whose schema can't be held may be called with any object."""
        parameters = {schema_path(name): name for name in self._plan.tools}
        while True:
            try:
                return await use(self._conversation, self._sampling)
            except InvalidRequestError as error:
                name = parameters.pop(error.param or "", None)
                if name is None:
                    raise
                log.warning("Calls of the MCP tool %r are not held to its schema: %s", name, error.message)
                self._conversation = _with_any_arguments(self._conversation, name)

    @staticmethod
    def _names(tools: Sequence[Any]) -> list[str]:
        return [tool["function"]["name"] for tool in tools]

    async def _run(self) -> AsyncGenerator[LoopStep, None]:
        opening: list[AnyEvent] = [
            ToolsListed(server.label, server.tools, server.error) for server in self._manners.listed
        ]
        if self._manners.granted:
            turn = _Turn()
            yield (
                0,
                [*opening, *(event for granted in self._manners.granted for event in self._grant(turn, granted))],
            )
            opening = []
            async for step in self._answers(turn):
                yield step
            self._remember(turn)
            await self._next()
        limit: LimitReason | None = None
        while True:
            assert self._generation is not None
            turn = _Turn()
            async with aclosing(self._generation.steps) as steps:
                async for _, events in steps:
                    yield 0, [*opening, *self._read(turn, events)]
                    opening = []
            self._count(turn.finish.usage)
            if (reason := self._why_cut(turn)) is not None:
                yield 0, [Finish(reason, self._usage)]
                return
            if limit is not None:
                yield 0, [LoopLimit(limit, bool(turn.content)), Finish("stop", self._usage)]
                return
            async for step in self._answers(turn):
                yield step
            if turn.of("client") or turn.of("approval") or not turn.of("server"):
                yield 0, [*await self._requests(turn), Finish(turn.finish.reason, self._usage)]
                return
            self._remember(turn)
            self._rounds += 1
            limit = self._reached()
            if limit is not None and self._manners.pauses:
                yield 0, [LoopLimit(limit, False), Finish("stop", self._usage)]
                return
            self._go_on(last=limit is not None)
            await self._next()

    def _read(self, turn: _Turn, events: Sequence[Event]) -> list[AnyEvent]:
        """What the client is told of a turn's events."""
        told: list[AnyEvent] = []
        for event in events:
            if type(event) is ContentDelta:
                if not turn.content:
                    told += self._apart(event)
                turn.content.append(event.text)
                told.append(event)
            elif type(event) is ReasoningDelta:
                if not turn.reasoning:
                    told += self._apart(event)
                turn.reasoning.append(event.text)
                told.append(event)
            elif type(event) is ToolCallStart:
                call = turn.calls[event.index] = self._begun(event)
                told += call.begin()
            elif type(event) is ToolCallDelta:
                told += turn.calls[event.index].add(event.arguments)
            elif type(event) is ToolCallEnd:
                told += turn.calls[event.index].end()
            elif type(event) is Finish:
                turn.finish = event
        return told

    def _apart(self, event: ContentDelta | ReasoningDelta) -> list[AnyEvent]:
        """What stands between the first text of a turn and that of earlier turns."""
        kind, between = type(event), self._manners.between
        is_more = kind in self._has_said
        self._has_said.add(kind)
        return [kind(between)] if is_more and between else []

    def _numbered_start(self, call_id: str, name: str) -> ToolCallStart:
        """A call with a number and an id that no other call of this answer has: a turn knows only its own."""
        while call_id in self._ids:
            call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._ids.add(call_id)
        self._numbered += 1
        return ToolCallStart(self._numbered - 1, call_id, name)

    def _begun(self, event: ToolCallStart) -> Call:
        name = event.name
        start = self._numbered_start(event.id, name)
        planned = self._plan.tools.get(name)
        if planned is None:
            if name in self._client_tools:
                return Call(start, "client")
            known = self._plan.catalogue.find(name)
            there = ", ".join(self._names(self._conversation.offered_tools()))
            why = "may not be called here" if known else "does not exist"
            return Call(start, "server", refusal=f"The tool {name!r} {why}. The tools are: {there}.")
        if name not in self._names(self._conversation.offered_tools()):
            return Call(start, "server", planned.tool, refusal=f"The tool {name!r} may not be called now.")
        if planned.policy == "allow":
            return Call(start, "server", planned.tool)
        return Call(start, "client" if self._manners.ask is None else "approval", planned.tool)

    def _grant(self, turn: _Turn, granted: Granted) -> list[AnyEvent]:
        """The events of a call that the client has agreed to, up to where it runs."""
        start = self._numbered_start(f"call_{uuid.uuid4().hex[:24]}", granted.name)
        call = Call(start, "server", granted.tool, granted.refusal, granted.approval)
        turn.calls[start.index] = call
        return [*call.begin(), *call.add(granted.arguments), *call.end()]

    async def _answers(self, turn: _Turn) -> AsyncGenerator[LoopStep, None]:
        """Runs the server's calls of a turn, until the request's time is over."""
        if not turn.of("server"):
            return
        self._service.traffic.acts()
        steps = self._service.traffic.bounded(self._results(turn))
        async with aclosing(steps):
            async for step in steps:
                yield step

    async def _results(self, turn: _Turn) -> AsyncGenerator[LoopStep, None]:
        results = self._calls.run(turn.of("server"))
        async with aclosing(results):
            async for result in results:
                yield 0, [result]

    async def _requests(self, turn: _Turn) -> list[AnyEvent]:
        """What the client is asked behind a turn."""
        requests: list[AnyEvent] = []
        for call in turn.of("approval"):
            assert self._manners.ask is not None
            assert call.tool is not None
            name = await self._manners.ask(call.tool, call.arguments)
            requests.append(ApprovalRequested(name, call.tool.server, call.tool.name, call.arguments))
        return requests

    def _remember(self, turn: _Turn) -> None:
        """Puts a turn and the results of its calls into the conversation."""
        calls = turn.of("server")
        turns = list(self._conversation.turns)
        content, reasoning = "".join(turn.content), "".join(turn.reasoning)
        if self._conversation.continue_final and self._rounds == 0 and not self._manners.granted:
            begun = turns.pop()
            content = (begun.text or "") + content
            reasoning = (begun.reasoning or "") + reasoning
        said = Turn(
            "assistant",
            (content,) if content else (),
            reasoning=reasoning or None,
            tool_calls=tuple(call.as_tool_call for call in calls),
        )
        if self._manners.granted and self._rounds == 0 and turns[-1].role == "assistant":
            # The turn that ended with the question: templates refuse two of the assistant in a row.
            begun = turns.pop()
            said = replace(begun, tool_calls=begun.tool_calls + said.tool_calls)
        turns += [said, *(call.turn() for call in calls)]
        self._conversation = replace(
            self._conversation, turns=tuple(turns), continue_final=False, add_generation_prompt=True
        )

    def _go_on(self, *, last: bool) -> None:
        """Later turns may call what they want, of what the request lets them; the last has no tools."""
        choice = self._conversation.tool_choice
        if last:
            choice = ToolChoice("none")
        elif choice.mode in ("required", "named"):
            choice = ToolChoice("auto", choice.names if choice.mode == "required" else None)
        self._conversation = replace(self._conversation, tool_choice=choice)

    def _count(self, usage: Usage | None) -> None:
        """Adds a turn's tokens, and takes them from what later turns may write."""
        usage = usage or Usage()
        total = self._usage
        self._usage = Usage(
            total.prompt_tokens + usage.prompt_tokens,
            total.completion_tokens + usage.completion_tokens,
            total.reasoning_tokens + usage.reasoning_tokens,
            total.cached_tokens + usage.cached_tokens,
        )
        if self._sampling.max_tokens is not None:
            left = self._sampling.max_tokens - usage.completion_tokens
            self._sampling = replace(self._sampling, max_tokens=max(left, 0))

    def _why_cut(self, turn: _Turn) -> Any:
        """Why nothing of a turn may run, if it is so."""
        if turn.finish.reason not in ("stop", "tool_calls"):
            return turn.finish.reason
        return "length" if turn.of("server") and self._sampling.max_tokens == 0 else None

    def _reached(self) -> LimitReason | None:
        """The limit that has been reached."""
        if self._calls.used_up:
            return "max_tool_calls"
        if self._rounds >= self._most_turns:
            return "max_turns"
        late = self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline
        return "max_seconds" if late else None


def _with_any_arguments(conversation: Conversation, name: str) -> Conversation:
    """The conversation with a tool of this name that takes any object."""
    # Templates read the properties without asking whether they are there.
    anything = {"type": "object", "properties": {}}
    tools = tuple(
        {**tool, "function": {**tool["function"], "parameters": anything}}
        if tool["function"]["name"] == name
        else tool
        for tool in conversation.tools
    )
    return replace(conversation, tools=tools)
