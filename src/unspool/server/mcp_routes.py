"""The routes about MCP servers: which there are, what tools they have, and a call of one without a model.

A call passes the same gate as a model's: the same policy, the same limits, the same counters. Nothing here starts,
changes or tries a server, since that would be running a program for whoever asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.mcp.audit import Record
from unspool.mcp.tools import Catalogue, McpTool, ToolRunner
from unspool.server.errors import json_response, request_id_of
from unspool.server.routes import read_json
from unspool.server.service import Service
from unspool.server.streams import while_connected
from unspool.server.toolcalls import argument_problem, error_of, failure, run_tool
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields


class McpApi:
    """The MCP servers of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.routes = [
            Route("/v1/mcp/servers", self.servers, methods=["GET"]),
            Route("/v1/mcp/tools", self.tools, methods=["GET"]),
            Route("/v1/mcp/execute", self.execute, methods=["POST"]),
        ]

    async def servers(self, request: Request) -> Response:
        """``GET /v1/mcp/servers``."""
        catalogue = self._catalogue()
        data = [
            {
                "name": state.name,
                "transport": state.transport,
                "state": state.state,
                "error": state.error,
                "offered": state.offered and self._service.settings.mcp_offer == "always",
                "tools": len(catalogue.of(state.name)),
            }
            for state in catalogue.servers
        ]
        return json_response({"object": "list", "data": data})

    async def tools(self, request: Request) -> Response:
        """``GET /v1/mcp/tools``; ``?server=NAME`` for those of one server."""
        server = request.query_params.get("server")
        tools = self._catalogue().tools
        data = [_shown(tool) for tool in tools if server in (None, tool.server)]
        return json_response({"object": "list", "data": data})

    async def execute(self, request: Request) -> Response:
        """``POST /v1/mcp/execute``: runs a tool; one that asks needs ``approved``, a denied one never runs."""
        service = self._service
        fields = Fields(await read_json(request, service.settings.max_body))
        runner = service.runner
        if runner is None:
            raise InvalidRequestError(
                "This server has no MCP servers; its operator names them with --mcp-config.",
                code="mcp_not_configured",
                status=404,
            )
        name, server = fields.required_string("name"), fields.string("server")
        arguments = _arguments(fields)
        approved = fields.boolean("approved") is True
        fields.report_unread(())
        tool = _find(name, server, runner.catalogue())
        request_id = request_id_of(request.scope) or ""
        if tool is None:
            Record(request_id, server or "", name, arguments).write("unknown")
            self._count("", "refused")
            raise _not_found(name, server)
        refusal = _refusal(tool, approved=approved)
        if refusal is not None:
            Record(request_id, tool.server, tool.name, arguments).write("refused")
            self._count(tool.server, "refused")
            raise refusal
        work = partial(self._run, runner, tool, arguments, request_id)
        return json_response(await while_connected(request.receive, service.traffic.aside(work)))

    async def _run(self, runner: ToolRunner, tool: McpTool, arguments: str, request_id: str) -> dict[str, Any]:
        problem = argument_problem(tool, arguments)
        if problem is not None:
            outcome, result = "invalid", failure(problem)
            Record(request_id, tool.server, tool.name, arguments).write("invalid", result.text)
        else:
            self._service.traffic.acts()
            seconds = self._service.settings.mcp_timeout
            outcome, result = await run_tool(runner, tool, arguments, request_id=request_id, seconds=seconds)
        self._count(tool.server, outcome)
        return {
            "object": "mcp.result",
            "server": tool.server,
            "name": tool.name,
            "output": result.text,
            "is_error": result.is_error,
            "error": error_of(result),
        }

    def _count(self, server: str, outcome: str) -> None:
        self._service.traffic.metrics.tool_calls.add(1, server, outcome)

    def _catalogue(self) -> Catalogue:
        runner = self._service.runner
        return Catalogue((), ()) if runner is None else runner.catalogue()


def _shown(tool: McpTool) -> dict[str, Any]:
    return {
        "name": tool.exposed,
        "server": tool.server,
        "tool": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
        "annotations": dict(tool.annotations),
        "policy": tool.policy,
        "read_only": tool.read_only,
        "digest": tool.digest,
    }


def _find(name: str, server: str | None, catalogue: Catalogue) -> McpTool | None:
    """The tool of a name as the list has it, or as its server does if that is named; names match exactly."""
    if server is None:
        return catalogue.find(name)
    tools = catalogue.of(server)
    return next(
        (tool for tool in tools if tool.exposed == name), next((tool for tool in tools if tool.name == name), None)
    )


def _not_found(name: str, server: str | None) -> InvalidRequestError:
    where = "" if server is None else f" of the MCP server {server!r}"
    return InvalidRequestError(
        f"`name`: there is no tool {name!r}{where}. GET /v1/mcp/tools lists what there is.",
        "name",
        code="mcp_tool_not_found",
        status=404,
    )


def _arguments(fields: Fields) -> str:
    """The arguments as JSON text, which is how models write them."""
    value = fields.get("arguments")
    if isinstance(value, str):
        return value
    if value is None:
        return "{}"
    if not isinstance(value, Mapping):
        raise fields.wrong("arguments", "a JSON object, or one as text")
    try:
        return json.dumps(value)
    except RecursionError:
        raise fields.wrong("arguments", "a JSON object that is not nested this deeply") from None


def _refusal(tool: McpTool, *, approved: bool) -> InvalidRequestError | None:
    """Why a tool may not run, if it is so."""
    if tool.policy == "deny":
        return InvalidRequestError(
            f"`name`: the operator of this server has denied the tool {tool.exposed!r}.",
            "name",
            code="mcp_tool_denied",
            status=403,
        )
    if tool.policy == "ask" and not approved:
        return InvalidRequestError(
            f"`approved`: the tool {tool.exposed!r} runs only with a user's approval; send true once you have it.",
            "approved",
            code="approval_required",
            status=403,
        )
    return None
