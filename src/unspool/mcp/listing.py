"""Listing a server's tools: page by page, in a bounded number, in an order that depends on their names only."""

from __future__ import annotations

import logging

import mcp_types as types
from mcp_types import METHOD_NOT_FOUND

from mcp import Client, MCPError
from unspool.mcp.settings import ServerConfig

log = logging.getLogger(__name__)

_MAX_PAGES = 100


async def list_tools(client: Client, server: ServerConfig) -> tuple[types.Tool, ...]:
    """All tools of a server, as it describes them. Of tools with the same name the first counts.

    Raises what the SDK raises for a server that can't list them; one that has no tools has none.
    """
    found: dict[str, types.Tool] = {}
    again: set[str] = set()
    cursors: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and cursor is None:
                return ()
            raise
        for tool in page.tools:
            if found.setdefault(tool.name, tool) is not tool:
                again.add(tool.name)
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in cursors or len(found) > server.limits.max_tools:
            break
        cursors.add(cursor)
    if again:
        log.warning(
            "MCP server %s lists %.100r more than once, and %d others; the first counts",
            server.name,
            min(again),
            len(again) - 1,
        )
    if cursor is not None:
        log.warning("MCP server %s lists its tools without an end; what came so far counts", server.name)
    tools = sorted(found.values(), key=lambda tool: tool.name)
    if len(tools) > server.limits.max_tools:
        log.warning("MCP server %s has more tools than max_tools; the others are left out", server.name)
    return tuple(tools[: server.limits.max_tools])
