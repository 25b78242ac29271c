"""All servers of the operator's file: started side by side, their tools in one catalogue, and calls of these.

What is in the catalogue is what is listed, offered and run: one set. A server that fails is said there, and holds
up no other.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mcp_types as types

from unspool.mcp import definitions
from unspool.mcp.audit import Record
from unspool.mcp.client import ServerClient
from unspool.mcp.executor import Executor, NotRunError
from unspool.mcp.launching import Launch, launch
from unspool.mcp.names import exposed_names
from unspool.mcp.policy import ANY, policy_of, reads_only, stricter
from unspool.mcp.results import failed, unknown_tool
from unspool.mcp.settings import McpConfig, ServerConfig
from unspool.mcp.tools import Catalogue, McpTool, ServerState, ToolResult

log = logging.getLogger(__name__)


class Manager:
    """Runs the tools of a file's servers, from :meth:`start` to :meth:`close`."""

    def __init__(self, config: McpConfig) -> None:
        self.config = config
        self._executor = Executor(config.concurrency)
        self._homes: Path | None = None
        self._catalogue: Catalogue | None = None
        self._warned: set[str] = set()
        self._clients = {
            server.name: ServerClient(server, self._preparation(server, number), self._forget)
            for number, server in enumerate(config.servers)
        }

    async def start(self) -> None:
        """Starts every server that is not disabled, and waits until each is ready or failed."""
        for warning in self.config.warnings:
            self._warn(warning)
        if self._homes is None:
            self._homes = Path(tempfile.mkdtemp(prefix="unspool-mcp-"))
        await asyncio.gather(*(client.start() for client in self._clients.values()))
        for client in self._clients.values():
            self._warn_of_unknown(client)

    async def close(self) -> None:
        """Ends every server. No task, process or file of them is left."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))
        if self._homes is not None:
            await asyncio.to_thread(shutil.rmtree, self._homes, ignore_errors=True)
            self._homes = None

    def catalogue(self) -> Catalogue:
        """The tools and servers of this moment. It does not change any more."""
        if self._catalogue is None:
            self._catalogue = Catalogue(self._tools(), tuple(map(_state, self._clients.values())))
        return self._catalogue

    async def call_by_name(self, exposed: str, arguments: str, *, request_id: str) -> ToolResult:
        """Calls the tool of exactly this exposed name; see :meth:`call`."""
        tool = self.catalogue().find(exposed)
        if tool is None:
            result = unknown_tool(exposed)
            Record(request_id, "", exposed, arguments).write("unknown", result.text)
            return result
        return await self.call(tool, arguments, request_id=request_id)

    async def call(self, tool: McpTool, arguments: str, *, request_id: str) -> ToolResult:
        """Calls a tool of a catalogue that may be older than the current one.

        A tool that is denied, or is treated more strictly than when the catalogue was made, is not run. That a
        tool of policy ``ask`` was agreed to is for the caller to see to; it must be the tool that it was then.
        """
        record = Record(request_id, tool.server, tool.name, arguments)
        client = self._clients.get(tool.server)
        if client is None:
            result = unknown_tool(tool.exposed)
            record.write("unknown", result.text)
            return result
        return await self._executor.run(client, tool, arguments, record, partial(self._check, client, tool))

    def _check(self, client: ServerClient, tool: McpTool) -> None:
        """Raises :class:`NotRunError` if a tool is not what it was when it was allowed."""
        current = next((each for each in self.catalogue().of(tool.server) if each.name == tool.name), None)
        if current is None:
            raise NotRunError("unknown", _gone(tool, client))
        policy = stricter(tool.policy, current.policy)
        is_another = policy == "ask" and (tool.policy != "ask" or current.digest != tool.digest)
        if policy == "deny" or is_another:
            why = "is not allowed here" if policy == "deny" else "has changed, and needs to be agreed to again"
            message = f"The tool {tool.name} of {tool.server} {why}. Nothing was run."
            raise NotRunError("refused", failed(message, "mcp_tool_refused"))

    def _preparation(self, server: ServerConfig, number: int) -> Callable[[], Launch | None]:
        """What says how a server is run, anew at each of its starts."""

        def prepare() -> Launch | None:
            if server.transport != "stdio":
                return None
            assert self._homes is not None
            home = self._homes / str(number)
            home.mkdir(mode=0o700, exist_ok=True)
            prepared = launch(server, home)
            for warning in prepared.warnings:
                self._warn(warning)
            return prepared

        return prepare

    def _forget(self) -> None:
        self._catalogue = None

    def _warn(self, warning: str) -> None:
        if warning not in self._warned:
            self._warned.add(warning)
            log.warning("%s", warning)

    def _warn_of_unknown(self, client: ServerClient) -> None:
        """Says which rules are for tools that the server doesn't have."""
        if client.state != "ready":
            return
        rules = client.server.rules
        there = {tool.name for tool in client.tools} | {ANY}
        for name in sorted({*rules.policies, *rules.read_only, *(rules.pins or ())} - there):
            self._warn(f"MCP server {client.server.name} has no tool {name!r}, which the file has a rule for")

    def _tools(self) -> tuple[McpTool, ...]:
        usable = []
        for client in self._clients.values():
            for tool in client.tools:
                try:
                    usable.append((client.server, tool, definitions.schema(tool)))
                except definitions.UnusableToolError as error:
                    self._warn(f"tool {tool.name!r} of MCP server {client.server.name} is left out: {error}")
        names = exposed_names((server.name, tool.name) for server, tool, _ in usable)
        made = [_tool(server, tool, names[server.name, tool.name], schema) for server, tool, schema in usable]
        return tuple(sorted(made, key=lambda each: each.exposed))


def _tool(server: ServerConfig, tool: types.Tool, exposed: str, schema: dict[str, object]) -> McpTool:
    annotations = definitions.claims(tool)
    digest = definitions.digest(tool)
    return McpTool(
        server=server.name,
        name=tool.name,
        exposed=exposed,
        description=definitions.description(tool),
        input_schema=schema,
        policy=policy_of(tool.name, digest, annotations, server.rules),
        annotations=annotations,
        digest=digest,
        read_only=reads_only(tool.name, annotations, server.rules),
    )


def _state(client: ServerClient) -> ServerState:
    server = client.server
    return ServerState(server.name, server.transport, client.state, client.error, server.offer == "always")


def _gone(tool: McpTool, client: ServerClient) -> ToolResult:
    """What is said of a tool that is in no catalogue any more."""
    if client.state in ("ready", "restarting"):
        return unknown_tool(tool.exposed)
    why = client.error or f"it is {client.state}"
    return failed(f"The server {tool.server} does not run: {why}. Nothing was run.", "mcp_server_error")
