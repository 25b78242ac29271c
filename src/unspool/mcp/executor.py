"""Running a call: arguments held against the schema, a turn among the calls that run, a limit of time and of size.

Whatever goes wrong is a result that the model can act on, and a line in the audit log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from mcp import MCPError
from unspool.constrained.validation import no_number, problems
from unspool.mcp.audit import Outcome, Record
from unspool.mcp.client import CallTimeoutError, ServerClient, ServerDownError, ServerGoneError, reason_of
from unspool.mcp.results import converted, failed
from unspool.mcp.tools import McpTool, ToolResult

_PROBLEMS = 5
_PROBLEM_CHARACTERS = 300


class BadArgumentsError(ValueError):
    """Arguments that a tool can't be called with; the text tells the model why."""


class NotRunError(Exception):
    """A call that must not run; ``result`` tells the model why."""

    def __init__(self, outcome: Outcome, result: ToolResult) -> None:
        super().__init__(result.text)
        self.outcome: Outcome = outcome
        self.result = result


class Executor:
    """Calls to all servers, so many at the same time."""

    def __init__(self, concurrency: int) -> None:
        self._turns = asyncio.Semaphore(concurrency)
        self._turns_of: dict[str, asyncio.Semaphore] = {}

    async def run(
        self, client: ServerClient, tool: McpTool, arguments: str, record: Record, check: Callable[[], None]
    ) -> ToolResult:
        """Calls a tool with a JSON text. Only a cancellation leaves it; that reaches the server.

        ``check`` raises :class:`NotRunError` if the tool must not run. It is asked at first, and again when it is
        the call's turn.
        """
        outcome: Outcome
        try:
            check()
            # In a thread, since a schema may make much work of it.
            value = await asyncio.to_thread(parsed_arguments, arguments, tool.input_schema)
            outcome, result = await self._within_limits(client, tool, value, check)
        except NotRunError as error:
            outcome, result = error.outcome, error.result
        except BadArgumentsError as error:
            outcome, result = "invalid", failed(f"{error} Nothing was run.", "invalid_arguments")
        except asyncio.CancelledError:
            record.write("cancelled")
            raise
        record.write(outcome, result.text)
        return result

    async def _within_limits(
        self, client: ServerClient, tool: McpTool, arguments: dict[str, Any], check: Callable[[], None]
    ) -> tuple[Outcome, ToolResult]:
        limits = client.server.limits
        turns = self._turns_of.setdefault(tool.server, asyncio.Semaphore(limits.concurrency))
        with anyio.move_on_after(limits.max_call_s):
            async with turns, self._turns:
                return await _called(client, tool, arguments, check)
        return "timeout", failed(f"The call of {tool.name} timed out before its turn came.", "timeout")


async def _called(
    client: ServerClient, tool: McpTool, arguments: dict[str, Any], check: Callable[[], None]
) -> tuple[Outcome, ToolResult]:
    """What came of a call that has its turn."""
    try:
        result = await client.call(tool.name, arguments, again=tool.read_only, check=check)
        converted_result = converted(result, client.server.limits.max_output)
    except NotRunError:
        raise
    except CallTimeoutError as error:
        return "timeout", failed(f"The tool {tool.name} timed out after {error}. It was cancelled.", "timeout")
    except ServerGoneError as error:
        message = (
            f"The server {tool.server} ended during the call: {error}. Whether the call had an effect is unknown."
        )
        return "lost", failed(message, "mcp_server_error")
    except ServerDownError as error:
        message = f"The server {tool.server} does not run: {error}. Nothing was run."
        return "lost", failed(message, "mcp_server_error")
    except MCPError as error:
        message = f"The server {tool.server} refused the call: {reason_of(error)}"
        return "fault", failed(message, "mcp_protocol_error", code=error.code)
    except Exception as error:
        message = f"The server {tool.server} answered with what is no result: {type(error).__name__}"
        return "fault", failed(message, "mcp_protocol_error")
    return ("error" if converted_result.is_error else "ok"), converted_result


def parsed_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a model wrote them, nothing being none. Raises :class:`BadArgumentsError`."""
    text = text if text.strip() else "{}"
    try:
        value = json.loads(text, parse_constant=no_number)
        # Half a surrogate pair, and a number beyond all bounds, can't be sent.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadArgumentsError(f"The arguments are not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise BadArgumentsError("The arguments must be a JSON object.")
    if found := problems(text, [schema]):
        said = "; ".join(each[:_PROBLEM_CHARACTERS] for each in found[:_PROBLEMS])
        raise BadArgumentsError(f"The arguments don't match the schema of the tool: {said}.")
    return value
