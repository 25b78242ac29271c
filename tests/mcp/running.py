"""Managers that run for a test, on servers that a file names."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.mcp.files import loaded
from tests.mcp.serving import SERVERS
from unspool.mcp.manager import Manager
from unspool.mcp.tools import ToolResult

_T = TypeVar("_T")


@asynccontextmanager
async def running(folder: Path, servers: Mapping[str, Any], **environment: str) -> AsyncIterator[Manager]:
    """A manager on these servers, ended in any case."""
    manager = Manager(loaded(folder, servers, environment))
    try:
        await manager.start()
        yield manager
    finally:
        await manager.close()


def with_manager(
    folder: Path, servers: Mapping[str, Any], use: Callable[[Manager], Awaitable[_T]], **environment: str
) -> _T:
    """What comes of using a running manager."""

    async def run() -> _T:
        async with running(folder, servers, **environment) as manager:
            return await use(manager)

    return asyncio.run(run())


def call(folder: Path, servers: Mapping[str, Any], exposed: str, arguments: str = "{}") -> ToolResult:
    """The result of one call."""

    async def use(manager: Manager) -> ToolResult:
        return await manager.call_by_name(exposed, arguments, request_id="req-1")

    return with_manager(folder, servers, use)


async def until(true: Callable[[], bool]) -> None:
    """Waits for something that will come. Raises ``TimeoutError`` if it doesn't."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.02)


@contextmanager
def served(kind: str) -> Iterator[str]:
    """The URL of the ordinary server over ``http`` or ``sse``."""
    port = free_port()
    with listening(port, sys.executable, str(SERVERS / "tools.py"), kind, str(port)):
        yield f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def listening(port: int, *command: str, **environment: str) -> Iterator[None]:
    """A program, from when it takes connections at a port; killed afterwards."""
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server ended"
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait()
