"""The transport to a local server: one line of JSON for each message, over its input and output.

A line has a greatest length, since a server's output is not to be trusted; a longer one ends the session. What the
server writes to its error output goes into the log, a bounded number of lines a second.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import uuid
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from unspool.mcp.processes import end_processes
from unspool.mcp.reading import message_of

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from unspool.mcp.ending import Ending
    from unspool.mcp.launching import Launch

log = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_LOGGED_CHARACTERS = 2000
_LOGGED_LINES = 50
"""Of a server's error output: at once, and in each :data:`_LOGGED_SECONDS` after."""
_LOGGED_SECONDS = 10.0

Incoming: TypeAlias = SessionMessage | Exception


class LineTooLongError(Exception):
    """A line is longer than it may be."""


@asynccontextmanager
async def stdio_transport(launch: Launch, name: str, ending: Ending) -> AsyncIterator[TransportStreams]:
    """Runs a program and talks with it; afterwards neither it nor what it started is left.

    What ends the session is told to ``ending``. Raises ``OSError`` if nothing can be started.
    """
    mark = uuid.uuid4().hex
    command, environment = launch.command(mark)
    loop = asyncio.get_running_loop()
    with anyio.CancelScope(shield=True):
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=_CHUNK, loop=loop),
            *command,
            env=environment,
            cwd=launch.cwd,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    process = Process(transport, protocol, loop)
    log.info("MCP server %s runs as process %d: %s", name, process.pid, launch.shown)
    to_session, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(_read, process, to_session, launch.limits.max_line, name, ending)
            pumps.start_soon(_write, process, from_session, ending)
            pumps.start_soon(_log_errors, process, name)
            yield incoming, outgoing
            pumps.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, mark)
        transport.close()
        for stream in (to_session, incoming, outgoing, from_session):
            stream.close()


async def _end(process: Process, mark: str) -> None:
    """Closes the program's input, and ends it if that is not enough."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    async with anyio.create_task_group() as drains:
        # Who can't get rid of its output can't end by itself.
        drains.start_soon(_drain, process.stdout)
        drains.start_soon(_drain, process.stderr)
        await end_processes(process.pid, mark, lambda: process.returncode is not None)
        drains.cancel_scope.cancel()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(_CHUNK):
        pass


async def lines(stream: asyncio.StreamReader, limit: int) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends. Raises :class:`LineTooLongError`."""
    buffer = bytearray()
    while chunk := await stream.read(_CHUNK):
        searched = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", searched)) >= 0:
            if end > limit:
                raise LineTooLongError
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            searched = 0
            yield line
        if len(buffer) > limit:
            raise LineTooLongError
    if buffer:
        yield bytes(buffer)


async def _read(
    process: Process, session: MemoryObjectSendStream[Incoming], limit: int, name: str, ending: Ending
) -> None:
    assert process.stdout is not None
    quota = _Quota()
    async with session:
        try:
            async for line in lines(process.stdout, limit):
                if not line.strip():
                    continue
                try:
                    message = message_of(line)
                except ValueError:
                    quota.log(name, "wrote what is no message", line)
                    continue
                await session.send(SessionMessage(message))
            ending.because(await _how_it_ended(process))
        except LineTooLongError:
            ending.because(f"it wrote a line of more than {limit} bytes (max_line)")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


async def _write(process: Process, session: MemoryObjectReceiveStream[SessionMessage], ending: Ending) -> None:
    assert process.stdin is not None
    with suppress(anyio.ClosedResourceError):
        async for each in session:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            except (OSError, RuntimeError):
                ending.because(await _how_it_ended(process))
                return


async def _log_errors(process: Process, name: str) -> None:
    assert process.stderr is not None
    quota = _Quota()
    pending = b""
    while chunk := await process.stderr.read(_CHUNK):
        *whole, pending = (pending + chunk).split(b"\n")
        pending = pending[: 4 * _LOGGED_CHARACTERS]
        for line in whole:
            quota.log(name, "says", line)
    if pending:
        quota.log(name, "says", pending)


async def _how_it_ended(process: Process) -> str:
    with anyio.move_on_after(1):
        while process.returncode is None:
            await anyio.sleep(0.01)
    code = process.returncode
    if code is None:
        return "it closed its output"
    if code >= 0:
        return f"it ended with exit code {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"it was ended by {known.get(-code, f'signal {-code}')}"


class _Quota:
    """Lines that a server may have in the log."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._written = 0

    def log(self, name: str, does: str, line: bytes) -> None:
        """Logs a line, or nothing if there were too many."""
        now = time.monotonic()
        if now - self._began > _LOGGED_SECONDS:
            if self._written > _LOGGED_LINES:
                log.warning("MCP server %s wrote %d more lines", name, self._written - _LOGGED_LINES)
            self._began, self._written = now, 0
        self._written += 1
        if self._written <= _LOGGED_LINES:
            text = line[: 4 * _LOGGED_CHARACTERS].decode("utf-8", "replace")[:_LOGGED_CHARACTERS].rstrip()
            shown = "".join(character if character.isprintable() else "�" for character in text)
            log.info("MCP server %s %s: %s", name, does, shown)
