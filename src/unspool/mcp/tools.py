"""What the server's loop sees of MCP: tools in frozen catalogues, results, and what runs them.

Standard library only. A catalogue never changes: a request in flight keeps its own, whatever its servers do
meanwhile. Names are compared whole, never guessed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Policy: TypeAlias = Literal["allow", "ask", "deny"]
"""Whether a tool runs at once, only once a client agreed, or never."""
State: TypeAlias = Literal["starting", "ready", "restarting", "failed", "stopped", "disabled"]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of one server, as the model sees it and as its server knows it."""

    server: str
    """The server's label: its key in the operator's file."""
    name: str
    """The tool's name on the wire."""
    exposed: str
    """The name that the model sees: ``^[a-zA-Z0-9_-]{1,64}$``, unique in a catalogue."""
    description: str
    input_schema: Mapping[str, Any]
    policy: Policy
    """The operator's, after pins and annotations made it stricter."""
    annotations: Mapping[str, Any]
    digest: str
    """See :func:`digest_of`."""
    read_only: bool
    """By the operator's word, not by the server's: such a tool may run beside others."""

    def as_function(self) -> dict[str, Any]:
        """The tool as a function tool of OpenAI's Chat Completions."""
        function = {"name": self.exposed, "description": self.description, "parameters": dict(self.input_schema)}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server of the operator's file is. There are no secrets in it."""

    name: str
    transport: str
    state: State
    error: str | None
    """Why it failed, is restarted or is disabled."""
    offered: bool
    """Whether its allowed tools are offered to requests that don't name it."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools and servers of one moment, in an order that depends on their names only."""

    tools: tuple[McpTool, ...]
    servers: tuple[ServerState, ...]

    def find(self, exposed: str) -> McpTool | None:
        """The tool of exactly this exposed name."""
        return next((tool for tool in self.tools if tool.exposed == exposed), None)

    def of(self, server: str) -> list[McpTool]:
        """The tools of a server, by its label."""
        return [tool for tool in self.tools if tool.server == server]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call."""

    text: str
    """What the model reads, within its limits."""
    is_error: bool = False
    error: Mapping[str, Any] | None = None
    """For ``mcp_call.error`` of the Responses API: its ``type`` and ``message`` or ``content``."""


class ToolRunner(Protocol):
    """What runs tools. :class:`unspool.mcp.manager.Manager` is one."""

    def catalogue(self) -> Catalogue:
        """What there is now."""
        ...

    async def call(self, tool: McpTool, arguments: str, *, request_id: str) -> ToolResult:
        """Runs a tool with arguments as the model wrote them, a JSON text.

        It never raises for what a tool or a server does: that is an error result. Cancelling it cancels the call
        on the server.
        """
        ...

    async def start(self) -> None:
        """Starts every server; one that fails is said in the catalogue and holds up no other."""
        ...

    async def close(self) -> None:
        """Ends every server and leaves nothing behind."""
        ...


def digest_of(name: str, description: str, schema: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    """A tool's definition as SHA-256 in hexadecimal: what an operator pins, so that a changed tool is noticed."""
    definition = {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
