"""Transports to servers, each with an end that is noticed: programs, streamable HTTP, and SSE as it was before.

Redirects are followed only within the origin of the operator's URL; that is the SDK's doing. Bodies that are no
event streams have a greatest size, which is ours, and nothing compressed is read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from unspool.mcp.ending import Ending
from unspool.mcp.launching import Launch
from unspool.mcp.pinned import PinnedTransport
from unspool.mcp.reading import read_content, read_tools
from unspool.mcp.settings import ServerConfig
from unspool.mcp.stdio import stdio_transport
from unspool.mcp.tokens import authentication

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams

_CONNECT_S = 30.0
_SILENCE_S = 24 * 3600.0
"""How long an event stream may be silent; calls have limits of their own."""


@asynccontextmanager
async def transport(
    server: ServerConfig, launch: Launch | None, ending: Ending
) -> AsyncIterator[TransportStreams]:
    """The streams to a server: to a local one as ``launch`` says, else to its URL."""
    _keep_urls_out_of_logs()
    async with _streams(server, launch, ending) as (incoming, outgoing):
        yield _Watched(incoming, ending, server.name), outgoing


def _streams(
    server: ServerConfig, launch: Launch | None, ending: Ending
) -> AbstractAsyncContextManager[TransportStreams]:
    if launch is not None:
        return stdio_transport(launch, server.name, ending)
    if server.transport == "http":
        return _http(server)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _http_client(server)

    return sse_client(server.url, httpx_client_factory=client)


@asynccontextmanager
async def _http(server: ServerConfig) -> AsyncIterator[TransportStreams]:
    async with (
        _http_client(server) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=server.limits.max_line
        ) as streams,
    ):
        yield streams


def _keep_urls_out_of_logs() -> None:
    """URLs and ids of sessions may be secrets, and these packages log them unless somebody set their level."""
    # What goes wrong with tokens is said by the error, and is logged there with what was answered.
    for name, level in (("httpx2", "WARNING"), ("mcp.client", "WARNING"), ("mcp.client.auth", "CRITICAL")):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)


def _http_client(server: ServerConfig) -> httpx2.AsyncClient:
    async def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        limit = server.limits.max_line
        if encoding != "identity":
            response.stream = _Bounded(response.stream, 0, f"a body in {encoding}, which was not asked for")
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(response.stream, limit, f"a body of more than {limit} bytes (max_line)")

    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **server.headers},
        timeout=httpx2.Timeout(_CONNECT_S, read=_SILENCE_S),
        auth=authentication(server),
        event_hooks={"response": [bound]},
        follow_redirects=False,
        transport=PinnedTransport(server.url, server.addresses) if server.addresses else None,
        # A proxy would go where it wants.
        trust_env=not server.addresses,
    )


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error where it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int, said: str) -> None:
        self._stream = stream
        self._limit = limit
        self._said = said

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.StreamError(f"The server sent {self._said}.")
            yield chunk

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._stream.aclose()


class _Watched:
    """What comes from a server, as it can be read; when nothing more comes, that is told."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], ending: Ending, server: str) -> None:
        self._stream = stream
        self._ending = ending
        self._server = server

    @property
    def last_context(self) -> Any:
        """Of the sender of the last message, where the transport keeps it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return self._read(await self._stream.receive())

    async def aclose(self) -> None:
        """Closes the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._read(await self._stream.__anext__())
        except StopAsyncIteration:
            self._ending.because(self._ending.reason or "it closed the connection")
            raise

    def _read(self, said: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(said, SessionMessage) and isinstance(said.message, JSONRPCResponse):
            read_tools(said.message.result, self._server)
            read_content(said.message.result)
        return said

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
