"""A server with ordinary tools, over whatever transport is named: ``stdio``, or ``http`` or ``sse`` and a port."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("tools", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def environment() -> dict[str, str]:
    """Says what is in the server's environment."""
    return dict(os.environ)


@server.tool()
def place() -> dict[str, Any]:
    """Says where the server runs, as what, and with what limits."""
    umask = os.umask(0o077)
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    privileges = [line for line in lines if line.startswith("NoNewPrivs")]
    return {
        "arguments": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "umask": oct(umask),
        "privileges": "".join(privileges),
        "pid": os.getpid(),
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    }


@server.tool()
async def slow(note: str = "") -> str:
    """Never answers. Notes in a file that it was started, and that it was cancelled."""
    if note:
        Path(note).write_text("started")
    try:
        await asyncio.sleep(3600)
    finally:
        if note:
            Path(note).write_text("cancelled")
    return "late"


@server.tool()
async def steady(steps: int, seconds: float, context: Context) -> str:
    """Tells of its progress at each step."""
    for step in range(steps):
        await asyncio.sleep(seconds)
        await context.report_progress(step, steps)
    return "done"


@server.tool()
def fail() -> types.CallToolResult:
    """Fails, with data beside."""
    text = types.TextContent(type="text", text="db is down")
    return types.CallToolResult(content=[text], structured_content={"rows": 3}, is_error=True)


@server.tool()
def picture() -> types.CallToolResult:
    """Gives a picture."""
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text="look:"),
            types.ImageContent(type="image", mime_type="image/png", data="QUJD" * 1000),
        ]
    )


@server.tool()
def flood(size: int) -> str:
    """Writes much."""
    return "x" * size


class Answer(BaseModel):
    """What a person would be asked for."""

    name: str


@server.tool()
async def wonder(context: Context) -> str:
    """Asks a person."""
    answer = await context.elicit("Who are you?", Answer)
    return answer.action


@server.tool()
async def learn(name: str, context: Context) -> str:
    """Makes a tool of this name, and tells of it in the ways of both protocols."""
    server.add_tool(echo, name=name)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "learned"


@server.tool()
def crash() -> str:
    """Ends the server."""
    os._exit(3)


if __name__ == "__main__":
    kind, *port = sys.argv[1:]
    if kind == "stdio":
        server.run("stdio")
    elif kind == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(port[0]))
    else:
        server.run("sse", host="127.0.0.1", port=int(port[0]))
