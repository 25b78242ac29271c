"""MCP's reference servers, as an operator would write them down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.mcp.running import free_port, listening
from tests.node import NODE, package

NPM = ("everything", "filesystem", "memory")
needs_npm = pytest.mark.skipif(
    any(package(f"@modelcontextprotocol/server-{name}") is None for name in NPM),
    reason="the reference servers for Node are not installed: make clients installs them",
)


def python(name: str, *arguments: str) -> dict[str, Any]:
    """One that is written in Python."""
    return local(sys.executable, "-m", f"mcp_server_{name}", *arguments)


def npm(name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """One that is written for Node."""
    return local(NODE, script(name), *arguments) | more


def local(command: str, *arguments: str) -> dict[str, Any]:
    """A program whose interpreter may lie where others can write, all of whose tools are allowed."""
    return {"command": command, "args": list(arguments), "trustPath": True, "tools": {"*": "allow"}}


def script(name: str) -> str:
    """The file that runs one for Node."""
    folder = package(f"@modelcontextprotocol/server-{name}")
    assert folder is not None
    return str(folder / "dist" / "index.js")


@contextmanager
def everything(transport: str) -> Iterator[str]:
    """The URL of the server that has everything, over ``http`` or ``sse``."""
    port = free_port()
    kind, path = ("streamableHttp", "mcp") if transport == "http" else ("sse", "sse")
    with listening(port, NODE, script("everything"), kind, PORT=str(port)):
        yield f"http://127.0.0.1:{port}/{path}"
