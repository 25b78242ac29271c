"""One server: a task of its own that starts it, keeps it, and starts it again.

Only that task enters and leaves the session, since what the session is made of is bound to the task that entered
it. Calls go through the session from wherever they are made, each within its own time, and are cancelled on the
server when they are cancelled here. Nothing is sent twice, unless the operator said that the tool only reads.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp import Client, MCPError
from unspool import __version__
from unspool.mcp.definitions import visible
from unspool.mcp.ending import Ending
from unspool.mcp.launching import Launch
from unspool.mcp.listing import list_tools
from unspool.mcp.settings import McpConfigError, ServerConfig
from unspool.mcp.tokens import TokenError
from unspool.mcp.tools import State
from unspool.mcp.transports import transport

log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
_RELISTEN_S = 5.0
_CLOSE_S = 5.0
"""How long a session may take to end by itself."""
_RELIST_S = 0.2
_REASON_CHARACTERS = 500
_REASON_S = 1.0
_CLOSED = "Connection closed"
"""What the SDK says when the whole session is over."""
_SESSION_GONE = "Session terminated"
"""What the SDK says when an HTTP server no longer knows the session."""


class ServerGoneError(Exception):
    """The server ended before it answered; the text says why."""


class ServerDownError(Exception):
    """The server does not run, and nothing was sent to it; the text says why."""


class CallTimeoutError(Exception):
    """A call took longer than it may."""


class ServerClient:
    """A server of the operator's file, from its start to its end."""

    def __init__(
        self, server: ServerConfig, prepare: Callable[[], Launch | None], changed: Callable[[], None]
    ) -> None:
        """``prepare`` says at each start what is run; ``changed`` is called when the state or tools changed."""
        self.server = server
        self.state: State = "disabled" if server.disabled else "stopped"
        self.error: str | None = None
        self.tools: tuple[types.Tool, ...] = ()
        self._prepare = prepare
        self._changed = changed
        self._client: Client | None = None
        self._ending: Ending | None = None
        self._failures: deque[float] = deque()
        self._turn = asyncio.Event()
        """Set at each change of state, and replaced then."""
        # Made within an event loop, which there need not be yet.
        self._scope: anyio.CancelScope | None = None
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the server, and waits until it is ready or failed once."""
        if self.server.disabled or self._task is not None:
            return
        self._become("starting")
        self._scope = anyio.CancelScope()
        self._task = asyncio.create_task(self._supervise(), name=f"MCP server {self.server.name}")
        while self.state == "starting":
            await self._turn.wait()

    async def close(self) -> None:
        """Ends the server, for good. Nothing of it is left."""
        self._is_closing = True
        if self._task is not None:
            if self._ending is not None:
                # So that a server on the network is told as well.
                self._ending.because("it is ended")
                await asyncio.wait([self._task], timeout=_CLOSE_S)
            if self._scope is not None:
                self._scope.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if not self.server.disabled:
            self._become("stopped")

    async def call(
        self, name: str, arguments: dict[str, Any], *, again: bool, check: Callable[[], None]
    ) -> types.CallToolResult:
        """Calls a tool. ``again``: once more, if the server ended meanwhile.

        A server that was started again may have another tool of this name. So ``check`` is called right before
        anything is sent, when the session is there and its tools are known; what it raises, this does.

        Raises :class:`CallTimeoutError`, :class:`ServerGoneError`, :class:`ServerDownError`, ``MCPError`` for an
        error of the protocol, and ``ValueError`` for a result that is none.
        """
        try:
            return await self._call_once(name, arguments, check)
        except ServerGoneError:
            if not again:
                raise
        except MCPError as error:
            # The server refused the session, so it did nothing.
            if not _says_session_is_gone(error):
                raise
        return await self._call_once(name, arguments, check)

    async def _call_once(
        self, name: str, arguments: dict[str, Any], check: Callable[[], None]
    ) -> types.CallToolResult:
        client, ending = await self._connected()
        check()
        limits = self.server.limits
        started = anyio.current_time()

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            scope.deadline = min(anyio.current_time() + limits.call_timeout_s, started + limits.max_call_s)

        with anyio.CancelScope(deadline=started + min(limits.call_timeout_s, limits.max_call_s)) as scope:
            try:
                return await client.call_tool(name, arguments, progress_callback=progressed)
            except MCPError as error:
                if _says_session_is_gone(error):
                    self._lose(client, ending, "it no longer knows the session")
                if error.code != CONNECTION_CLOSED:
                    raise
                # Else only the answer to this call was lost.
                if str(error) == _CLOSED:
                    # What closed it is about to be known.
                    with anyio.move_on_after(_REASON_S):
                        await ending.wait()
                    self._lose(client, ending, "it closed the connection")
                raise ServerGoneError(ending.reason or str(error)) from error
        raise CallTimeoutError(f"{anyio.current_time() - started:.3g} s")

    async def _connected(self) -> tuple[Client, Ending]:
        """The session, if need be after waiting for it to be back."""
        with anyio.move_on_after(self.server.limits.connect_timeout_s):
            while True:
                if self._client is not None and self._ending is not None:
                    return self._client, self._ending
                if self.state not in ("starting", "restarting", "ready"):
                    break
                await self._turn.wait()
        raise ServerDownError(self.error or f"it is {self.state}")

    def _lose(self, client: Client, ending: Ending, reason: str) -> None:
        """No more calls through this session."""
        ending.because(reason)
        if self._client is client:
            self._client = None

    async def _supervise(self) -> None:
        failure = None
        try:
            failure = await self._keep_running()
        finally:
            self._client = self._ending = None
            self.tools = ()
            self._become("failed" if failure else "stopped", failure)

    async def _keep_running(self) -> str | None:
        """Starts the server again and again. Returns why it is given up, or nothing once it is to end."""
        assert self._scope is not None
        with self._scope:
            while True:
                final = False
                try:
                    error = await self._session()
                except Exception as failure:
                    log.debug("MCP server %s", self.server.name, exc_info=True)
                    error = reason_of(failure)
                    if self.server.transport == "http" and isinstance(_first(failure), MCPError):
                        error += ' (if it speaks SSE only, set "type": "sse")'
                    final = isinstance(failure, McpConfigError)
                self._client = self._ending = None
                if self._is_closing:
                    break
                if final or self._has_failed_enough():
                    log.error("MCP server %s has failed: %s", self.server.name, error)
                    return error
                delay = min(_FIRST_DELAY_S * 2 ** (len(self._failures) - 1), _LONGEST_DELAY_S)
                delay *= random.uniform(0.5, 1)
                log.warning("MCP server %s: %s; it is started again in %.1f s", self.server.name, error, delay)
                self._become("restarting", error)
                await anyio.sleep(delay)
        return None

    def _has_failed_enough(self) -> bool:
        """Notes a failure; whether there were too many of late."""
        now = time.monotonic()
        self._failures.append(now)
        while now - self._failures[0] > self.server.limits.restart_window_s:
            self._failures.popleft()
        return len(self._failures) > self.server.limits.restarts

    async def _session(self) -> str:
        """One session from its start to its end. Returns why it ended, or raises what kept it from starting."""
        limits = self.server.limits
        launch = self._prepare()
        ending = Ending()
        relist = asyncio.Event()

        async def heard(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                relist.set()

        said = f"it did not answer within {limits.connect_timeout_s:g} s (connect_timeout_s)"
        with anyio.CancelScope(deadline=anyio.current_time() + limits.connect_timeout_s) as scope:
            client = Client(
                transport(self.server, launch, ending),
                message_handler=heard,
                client_info=types.Implementation(name="unspool", version=__version__),
                cache=None,
            )
            try:
                async with client:
                    _take_results_as_they_are(client)
                    said = f"it did not list its tools within {limits.list_timeout_s:g} s (list_timeout_s)"
                    scope.deadline = anyio.current_time() + limits.list_timeout_s
                    self.tools = await list_tools(client, self.server)
                    scope.deadline = math.inf
                    self._client, self._ending = client, ending
                    self._become("ready")
                    await self._attend(client, ending, relist)
            except Exception as failure:
                if self._ending is None and ending.reason is None:
                    raise
                # What the end of a session breaks is said by the reason of the end.
                ending.because(reason_of(failure))
            return await ending.wait()
        raise TimeoutError(said)

    async def _attend(self, client: Client, ending: Ending, relist: asyncio.Event) -> None:
        """Keeps the list of tools up to date until the session ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_listing, client, relist)
            capability = client.server_capabilities.tools
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and capability and capability.list_changed:
                tasks.start_soon(_subscribe, client, relist)
            self._lose(client, ending, await ending.wait())
            tasks.cancel_scope.cancel()

    async def _keep_listing(self, client: Client, relist: asyncio.Event) -> None:
        """Lists the tools again whenever they changed. If that fails, what was listed before counts."""
        while True:
            await relist.wait()
            relist.clear()
            try:
                with anyio.fail_after(self.server.limits.list_timeout_s):
                    tools = await list_tools(client, self.server)
            except (MCPError, ValueError, TimeoutError) as error:
                log.warning(
                    "MCP server %s: listing its tools again failed: %s", self.server.name, reason_of(error)
                )
            else:
                if tools != self.tools:
                    self.tools = tools
                    self._become("ready")
            await anyio.sleep(_RELIST_S)

    def _become(self, state: State, error: str | None = None) -> None:
        self.state, self.error = state, error
        self._turn.set()
        self._turn = asyncio.Event()
        self._changed()


async def _subscribe(client: Client, relist: asyncio.Event) -> None:
    """Asks a server of the newer protocol to say when its tools change."""
    while True:
        try:
            async with client.listen(tools_list_changed=True) as changes:
                # What changed before this stands is not said.
                relist.set()
                async for _ in changes:
                    relist.set()
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return
        except SubscriptionLost:
            pass
        await anyio.sleep(_RELISTEN_S)


def _take_results_as_they_are(client: Client) -> None:
    """Results that don't match the tool's output schema are text to the model like any other."""

    async def accept(name: str, result: types.CallToolResult) -> None:
        return

    client.session.validate_tool_result = accept  # type: ignore[method-assign]


def _says_session_is_gone(error: MCPError) -> bool:
    return error.code == INVALID_REQUEST and str(error) == _SESSION_GONE


def _first(error: BaseException) -> BaseException:
    """The first of the errors that a group is made of, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def reason_of(error: BaseException) -> str:
    """Why something failed, in a line that has no URL and no header in it."""
    error = _first(error)
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered with status {error.response.status_code}"
    if isinstance(error, (httpx2.LocalProtocolError, httpx2.InvalidURL)):
        # Its text is what was to be sent.
        return f"nothing could be sent to it: {type(error).__name__}"
    if isinstance(error, httpx2.TransportError):
        return f"it can't be reached: {error or type(error).__name__}"
    if isinstance(error, McpConfigError):
        return str(error)[:_REASON_CHARACTERS]
    # Servers choose these words, and logs and terminals show them.
    said = (
        str(error)
        if isinstance(error, (MCPError, TimeoutError, TokenError))
        else f"{type(error).__name__}: {error}"
    )
    return " ".join(visible(said[: 2 * _REASON_CHARACTERS]).split())[:_REASON_CHARACTERS]
