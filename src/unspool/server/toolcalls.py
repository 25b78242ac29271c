"""Calls of tools that the server runs: checked, bounded in time, counted, and never a failure of the request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from unspool.events import ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.mcp.audit import Record
from unspool.mcp.tools import McpTool, ToolResult, ToolRunner
from unspool.message import ToolCall, is_object
from unspool.server.metrics import Counter
from unspool.surfaces.conversation import Turn, as_error
from unspool.surfaces.server_events import (
    AnyEvent,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
)

log = logging.getLogger(__name__)

Answered: TypeAlias = Literal["server", "client", "approval"]
"""Who answers a call: the server runs it, the client gets it, or the client is asked first."""

# JSON-RPC's codes, as MCP uses them.
FAILED = -32000
INVALID = -32602
TIMED_OUT = -32001
_CODES = {"timeout": TIMED_OUT, "invalid_arguments": INVALID, "unknown_tool": INVALID}


@dataclass(slots=True)
class Call:
    """A call of a turn. ``tool`` is what it calls, if there is such a tool; ``refusal`` why it must not run."""

    start: ToolCallStart
    answered: Answered
    tool: McpTool | None = None
    refusal: str | None = None
    approval: str | None = None
    complete: bool = False
    result: ToolResult | None = None
    _pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments so far, as JSON text."""
        return "".join(self._pieces) or "{}"

    @property
    def as_tool_call(self) -> ToolCall:
        """The call as a turn has it."""
        return ToolCall(self.start.id, self.start.name, self.arguments)

    @property
    def _shown(self) -> ServerCallStart:
        start, tool = self.start, self.tool
        server, name = (tool.server, tool.name) if tool else ("", start.name)
        return ServerCallStart(start.index, start.id, server, name, self.approval)

    def begin(self) -> list[AnyEvent]:
        """What the client is told when the call begins."""
        if self.answered == "server":
            return [self._shown]
        return [self.start] if self.answered == "client" else []

    def add(self, piece: str) -> list[AnyEvent]:
        """The next piece of the arguments."""
        self._pieces.append(piece)
        if self.answered == "server":
            return [ServerCallDelta(self.start.index, piece)]
        return [ToolCallDelta(self.start.index, piece)] if self.answered == "client" else []

    def end(self) -> list[AnyEvent]:
        """The arguments are whole."""
        self.complete = True
        if self.answered == "server":
            return [ServerCallEnd(self.start.index)]
        return [ToolCallEnd(self.start.index)] if self.answered == "client" else []

    def answer(self, result: ToolResult) -> ServerCallResult:
        """What the client is told of the result."""
        self.result = result
        return ServerCallResult(self.start.index, self._shown, self.arguments, result.text, error_of(result))

    def turn(self) -> Turn:
        """What the model reads of the result."""
        result = self.result or ToolResult("(no output)")
        text = as_error(result.text) if result.is_error else result.text
        return Turn("tool", (text,), tool_call_id=self.start.id)


class Calls:
    """Runs the calls of one request.

    ``seconds`` is how long one may take, ``most`` how many may run at all (``None``: any number). ``counter``
    counts them by outcome and server, as far as it is one of ``labels``.
    """

    def __init__(
        self,
        runner: ToolRunner,
        counter: Counter,
        *,
        request_id: str,
        seconds: float,
        most: int | None,
        labels: Iterable[str],
    ) -> None:
        self._runner = runner
        self._counter = counter
        self._request_id = request_id
        self._seconds = seconds
        self._most = most
        self._labels = {"", *labels}
        self.ran = 0

    @property
    def used_up(self) -> bool:
        """Whether no other call may run."""
        return self._most is not None and self.ran >= self._most

    async def run(self, calls: Sequence[Call]) -> AsyncGenerator[ServerCallResult, None]:
        """The results, in the order of the calls. Tools that only read run side by side, others alone."""
        start = 0
        while start < len(calls):
            end = start + 1
            while end < len(calls) and _reads(calls[end - 1]) and _reads(calls[end]):
                end += 1
            tasks = [asyncio.ensure_future(self._result(call)) for call in calls[start:end]]
            try:
                for call, task in zip(calls[start:end], tasks, strict=True):
                    yield call.answer(await task)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            start = end

    async def _result(self, call: Call) -> ToolResult:
        outcome, result = await self._outcome(call)
        server, name = (call.tool.server, call.tool.name) if call.tool else ("", call.start.name)
        # Clients choose the labels of servers that they bring, without end.
        self._counter.add(1, server if server in self._labels else "(request)", outcome)
        if outcome in ("refused", "limit", "invalid"):
            # What reaches the runner has its line from there.
            record = Record(self._request_id, server, name, call.arguments)
            record.write("invalid" if outcome == "invalid" else "refused", result.text)
        return result

    async def _outcome(self, call: Call) -> tuple[str, ToolResult]:
        """How a call went, in a word for statistics, and its result."""
        tool = call.tool
        if call.refusal is not None or tool is None:
            return "refused", failure(call.refusal or f"There is no tool {call.start.name!r}.")
        if self.used_up:
            return "limit", failure(f"No more than {self._most} calls of tools may be made. Answer without tools.")
        # It counts from here on, so that calls beside it know.
        self.ran += 1
        problem = await asyncio.to_thread(argument_problem, tool, call.arguments)
        if problem is not None:
            return "invalid", failure(problem)
        return await run_tool(
            self._runner, tool, call.arguments, request_id=self._request_id, seconds=self._seconds
        )


async def run_tool(
    runner: ToolRunner, tool: McpTool, arguments: str, *, request_id: str, seconds: float
) -> tuple[str, ToolResult]:
    """How a tool's run went, in a word for statistics (``ok``, ``error``, ``timeout``), and its result."""
    try:
        async with asyncio.timeout(seconds):
            result = await runner.call(tool, arguments, request_id=request_id)
    except TimeoutError:
        return "timeout", failure(f"The tool timed out: it took longer than {seconds:g} seconds.", TIMED_OUT)
    except Exception:
        log.exception("A call of %s on the MCP server %s failed", tool.name, tool.server)
        return "error", failure("The tool could not be called; the server's log has the details.")
    if result.is_error and (result.error or {}).get("type") == "timeout":
        return "timeout", result
    return "error" if result.is_error else "ok", result


def error_of(result: ToolResult) -> Mapping[str, Any] | None:
    """A failed call's error, as the Responses API has it; ``None`` for one that went well.

    Of what a runner may say, the API knows an error of the tool, of the protocol, and of HTTP; the rest is one of
    the protocol, with JSON-RPC's code.
    """
    if not result.is_error:
        return None
    error = result.error or {"type": "mcp_tool_execution_error"}
    kind = error.get("type")
    if kind == "mcp_tool_execution_error":
        return {"type": kind, "content": error.get("content", [{"type": "text", "text": result.text}])}
    code = error.get("code", _CODES.get(str(kind), FAILED))
    if kind != "http_error":
        kind = "mcp_protocol_error"
    return {"type": kind, "code": code, "message": str(error.get("message", result.text))}


def failure(message: str, code: int = INVALID) -> ToolResult:
    """The result of a call that its server never saw or did not answer."""
    return ToolResult(message, True, {"type": "mcp_protocol_error", "code": code, "message": message})


def argument_problem(tool: McpTool, arguments: str) -> str | None:
    """What is wrong with the arguments of a call, in words that let the model mend it."""
    if not is_object(arguments):
        return "The arguments are not a JSON object."
    if find_spec("jsonschema") is None:
        # The extra for MCP brings it; a runner of somebody's own judges by itself.
        return None
    from unspool.constrained.validation import problems

    found = problems(arguments, [dict(tool.input_schema)])
    return f"The arguments do not fit the tool's schema. {' '.join(found)}" if found else None


def _reads(call: Call) -> bool:
    return call.tool is None or call.tool.read_only
