"""Servers on the network that do something wrong, and how they are come back to."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from tests.mcp.running import running, served, until
from unspool.mcp.client import reason_of
from unspool.mcp.manager import Manager
from unspool.mcp.tools import ToolResult

Answer: TypeAlias = Callable[[dict[str, Any]], bytes]


def answered(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An HTTP response."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


JSON = "Content-Type: application/json"


def plain(request: dict[str, Any], text: str = "fine") -> bytes:
    """What a server of the older protocol answers."""
    if "id" not in request:
        return answered(b"", status="202 Accepted")
    results: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": text}]},
    }
    said: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    method = request["method"]
    said |= {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "No"}}
    return answered(json.dumps(said).encode(), JSON)


async def on_network(
    folder: Path, answer: Answer, use: Callable[[Manager, list[bytes]], Awaitable[None]], **more: Any
) -> None:
    """Uses a manager on a server that answers so; with the heads of the requests that came."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
        is_message = head.startswith(b"POST")
        writer.write(answer(json.loads(body)) if is_message else answered(b"", status="405 No"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    entry = {"url": f"http://127.0.0.1:{port}/mcp", "tools": {"*": "allow"}, "connect_timeout_s": 5, **more}
    try:
        async with running(folder, {"s": entry}) as manager:
            await use(manager, heads)
    finally:
        server.close()
        await server.wait_closed()


async def work(manager: Manager) -> ToolResult:
    return await manager.call_by_name("s__work", "", request_id="r")


def test_headers_of_the_file_are_sent(tmp_path: Path) -> None:
    async def use(manager: Manager, heads: list[bytes]) -> None:
        assert (await work(manager)).text == "fine"
        assert all(b"\r\nauthorization: bearer k" in head.lower() for head in heads)
        assert len(heads) >= 4

    asyncio.run(on_network(tmp_path, plain, use, headers={"Authorization": "Bearer ${K:-k}"}))


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
def test_a_redirect_to_another_origin_is_not_followed(tmp_path: Path, status: str) -> None:
    async def run() -> None:
        asked: list[bytes] = []

        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readline())
            writer.close()

        elsewhere = await asyncio.start_server(other, "127.0.0.1", 0)
        port = elsewhere.sockets[0].getsockname()[1]

        async def use(manager: Manager, heads: list[bytes]) -> None:
            (state,) = manager.catalogue().servers
            assert state.state == "restarting"
            assert "not followed" in str(state.error)

        def answer(request: dict[str, Any]) -> bytes:
            return answered(b"", f"Location: http://127.0.0.1:{port}/mcp", status=status)

        try:
            await on_network(tmp_path, answer, use, headers={"Authorization": "Bearer k"})
        finally:
            elsewhere.close()
        assert asked == []

    asyncio.run(run())


def test_a_body_that_is_too_long_does_not_pass(tmp_path: Path) -> None:
    async def use(manager: Manager, heads: list[bytes]) -> None:
        result = await work(manager)
        assert result.is_error
        assert "more than 100000 bytes (max_line)" in result.text
        assert manager.catalogue().servers[0].state == "ready"

    asyncio.run(on_network(tmp_path, lambda request: plain(request, "x" * 200_000), use, max_line=100_000))


def test_a_compressed_body_is_not_read(tmp_path: Path) -> None:
    def answer(request: dict[str, Any]) -> bytes:
        said = plain(request)
        if request["method"] != "tools/call":
            return said
        body = gzip.compress(said.partition(b"\r\n\r\n")[2] + b" " * 50_000_000)
        return answered(body, JSON, "Content-Encoding: gzip")

    async def use(manager: Manager, heads: list[bytes]) -> None:
        result = await work(manager)
        assert result.is_error
        assert "gzip" in result.text

    asyncio.run(on_network(tmp_path, answer, use))


def test_a_status_is_told_without_the_url(tmp_path: Path) -> None:
    async def use(manager: Manager, heads: list[bytes]) -> None:
        (state,) = manager.catalogue().servers
        assert str(state.error).startswith("it answered with status 401 and wants a token")
        assert "s3cret" not in str(state.error)

    def answer(request: dict[str, Any]) -> bytes:
        raise AssertionError("nothing is posted")

    async def run() -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answered(b"", status="401 Unauthorized"))
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse?key=s3cret"
        try:
            async with running(tmp_path, {"s": {"type": "sse", "url": url}}) as manager:
                await use(manager, [])
        finally:
            server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "failure",
    [
        httpx2.LocalProtocolError("Illegal header value b'Bearer s3cret '"),
        httpx2.InvalidURL("Invalid port: 's3cret'"),
    ],
)
def test_what_could_not_be_sent_is_not_told(failure: Exception) -> None:
    said = reason_of(ExceptionGroup("a", [failure]))
    assert said == f"nothing could be sent to it: {type(failure).__name__}"


def test_a_server_that_speaks_only_the_older_transport_is_said_to(tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with running(tmp_path, {"s": {"url": url}}) as manager:
            (state,) = manager.catalogue().servers
            assert str(state.error).endswith('(if it speaks SSE only, set "type": "sse")')

    with served("sse") as url:
        asyncio.run(run(url))


def test_a_session_that_the_server_forgot_is_begun_anew(tmp_path: Path) -> None:
    sessions: list[str] = []
    forgot: list[bool] = []

    def answer(request: dict[str, Any]) -> bytes:
        said = plain(request)
        if request["method"] == "initialize":
            sessions.append(f"session-{len(sessions)}")
            head, _, body = said.partition(b"\r\n\r\n")
            return head + f"\r\nMcp-Session-Id: {sessions[-1]}".encode() + b"\r\n\r\n" + body
        if request["method"] == "tools/call" and not forgot:
            forgot.append(True)
            return answered(b"", status="404 Not Found")
        return said

    async def use(manager: Manager, heads: list[bytes]) -> None:
        assert (await work(manager)).text == "fine"
        assert sessions == ["session-0", "session-1"]

    asyncio.run(on_network(tmp_path, answer, use))


def test_a_session_is_ended_on_the_server_as_well(tmp_path: Path) -> None:
    seen: list[list[bytes]] = []

    def answer(request: dict[str, Any]) -> bytes:
        said = plain(request)
        return said.replace(b"\r\n\r\n", b"\r\nMcp-Session-Id: s1\r\n\r\n", 1)

    async def use(manager: Manager, heads: list[bytes]) -> None:
        assert (await work(manager)).text == "fine"
        heads.append(b"-")
        seen.append(heads)

    asyncio.run(on_network(tmp_path, answer, use))
    (heads,) = seen
    (ended,) = heads[heads.index(b"-") + 1 :]
    assert ended.startswith(b"DELETE")
    assert b"mcp-session-id: s1" in ended.lower()


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_that_is_gone_is_noticed_and_said(tmp_path: Path, kind: str) -> None:
    async def run() -> None:
        with served(kind) as url:
            entry = {"type": kind, "url": url, "tools": {"*": "allow"}, "connect_timeout_s": 3, "restarts": 50}
            manager_context = running(tmp_path, {"s": entry})
            manager = await manager_context.__aenter__()
        try:
            result = await manager.call_by_name("s__echo", '{"text": "on"}', request_id="r")
            assert result.is_error
            await until(lambda: manager.catalogue().servers[0].state == "restarting")
        finally:
            await manager_context.__aexit__(None, None, None)

    asyncio.run(run())
