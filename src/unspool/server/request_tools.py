"""The tools that one request has: those of the operator's servers, and of servers that it brings, where it may.

A brought server lives as long as its request. It is reached by HTTPS alone, at an origin that the operator has
named, at addresses that were looked at; its tools run by what the request says about approval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from unspool.mcp.outside import Origin, OutsideError, checked, public_addresses
from unspool.mcp.settings import Limits, McpConfig, ServerConfig, ToolRules
from unspool.mcp.tools import Catalogue, McpTool, ToolResult, ToolRunner
from unspool.server.service import Service
from unspool.server.streams import while_connected
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.mcp_brought import BroughtServer, brought_servers
from unspool.surfaces.mcp_plan import Offer

LONGEST_LABEL = 64
MOST_SERVERS = 8
"""How many servers a request may bring."""

_LIMITS = Limits(connect_timeout_s=15.0, list_timeout_s=15.0, max_tools=128, restarts=1)


@dataclass(frozen=True, slots=True)
class RequestTools:
    """What a request may use, and what runs it."""

    runner: ToolRunner | None
    offer: Offer | None


class _Both:
    """The operator's servers and a request's own, which have other names."""

    def __init__(self, own: ToolRunner | None, brought: ToolRunner, labels: frozenset[str]) -> None:
        self._own = own
        self._brought = brought
        self._labels = labels

    def catalogue(self) -> Catalogue:
        """The tools of both; the operator's keep their names."""
        own = Catalogue((), ()) if self._own is None else self._own.catalogue()
        brought = self._brought.catalogue()
        taken = {tool.exposed for tool in own.tools}
        tools = tuple(tool for tool in brought.tools if tool.exposed not in taken)
        return Catalogue((*own.tools, *tools), (*own.servers, *brought.servers))

    async def call(self, tool: McpTool, arguments: str, *, request_id: str) -> ToolResult:
        """Has the tool run where it is from."""
        runner = self._brought if tool.server in self._labels else self._own
        assert runner is not None
        return await runner.call(tool, arguments, request_id=request_id)

    async def start(self) -> None:
        """Both are started by who made them."""

    async def close(self) -> None:
        """Both are closed by who made them."""


async def tools_of(request: Request, service: Service, body: object) -> RequestTools:
    """The tools for a request with this body. What it brings is connected, and closed when it is answered.

    Raises :class:`InvalidRequestError` for a server that it may not bring.
    """
    offer = service.offer()
    origins = service.settings.mcp_request_origins
    brought = brought_servers(body) if origins else []
    if not brought:
        return RequestTools(service.runner, offer)
    labels = frozenset(server.label for server in brought)
    _check_labels(brought, offer)
    endings: AsyncExitStack = request.scope["state"]["endings"]

    async def connect() -> ToolRunner:
        configs = await asyncio.gather(*(_config(server, origins) for server in brought))
        manager = _manager(configs)
        endings.push_async_callback(manager.close)
        await manager.start()
        return manager

    manager = await while_connected(request.receive, service.traffic.aside(connect))
    runner = _Both(service.runner, manager, labels)
    always = service.settings.mcp_offer == "always"
    return RequestTools(runner, Offer(runner.catalogue(), always, labels))


def _check_labels(brought: Sequence[BroughtServer], offer: Offer | None) -> None:
    own = {state.name for state in offer.catalogue.servers} if offer else set()
    for server in brought:
        if not 0 < len(server.label) <= LONGEST_LABEL or not server.label.isprintable():
            raise InvalidRequestError(
                f"`{server.label_path}` must have 1 to {LONGEST_LABEL} printable characters.", server.label_path
            )
        if server.label in own:
            raise InvalidRequestError(
                f"`{server.path}`: there is a server {server.label!r} here already; choose another label.",
                server.path,
            )
    if len(brought) > MOST_SERVERS:
        raise InvalidRequestError(
            f"A request may bring up to {MOST_SERVERS} MCP servers; this has {len(brought)}."
        )


async def _config(server: BroughtServer, origins: Sequence[Origin]) -> ServerConfig:
    try:
        host, port = checked(server.url, origins)
        addresses = await public_addresses(host, port)
    except OutsideError as error:
        raise InvalidRequestError(
            f"`{server.path}` is not reached: {error}.", server.path, code="mcp_server_not_allowed"
        ) from None
    return ServerConfig(
        name=server.label,
        transport="http",
        url=server.url,
        headers=server.headers,
        addresses=addresses,
        offer="asked",
        rules=ToolRules(policies={"*": "allow"}),
        limits=_LIMITS,
    )


def _manager(configs: Sequence[ServerConfig]) -> ToolRunner:
    """What runs a request's own servers."""
    from unspool.mcp.manager import Manager

    return Manager(McpConfig(Path("request"), tuple(configs)))
