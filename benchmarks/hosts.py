"""Servers in processes of their own, so that what they take can be told from what their clients take.

A host runs one ASGI application under uvicorn, unspool's own as ``unspool serve`` does it, and says over a pipe
how much CPU time and memory it has used. What is served is built in the new process by a function of a module,
because applications can't be sent there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from unspool.server.run import settle

Build = Callable[..., Any]
"""Makes an ASGI application; must be importable by name."""


class Figures(NamedTuple):
    """What a host has used: seconds of CPU since it started, bytes of memory, open files, tasks of its loop."""

    cpu: float
    memory: int
    files: int
    tasks: int


def memory() -> int:
    """Bytes that this process has in memory now; where the system does not say it, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def open_files() -> int:
    """How many files and sockets this process has open; 0 where the system does not say it."""
    for place in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(place):
            return len(os.listdir(place))
    return 0


class Host(AbstractContextManager["Host"]):
    """A server that runs until the ``with`` block ends."""

    def __init__(self, build: Build, *arguments: Any, send_buffer: int | None = None) -> None:
        """``send_buffer``: the bytes that the system may hold of what was sent on a connection, if not its own."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, build, arguments, send_buffer), daemon=True)
        self._process.start()
        self.pid: int = self._process.pid or 0
        theirs.close()
        # The first thing it sends; an end of file here is a server that did not start, and it said why.
        self.port: int = self._pipe.recv()

    def figures(self) -> Figures:
        """What it has used so far, after a garbage collection that is not counted."""
        self._pipe.send("figures")
        found: Figures = self._pipe.recv()
        return found

    def __exit__(self, *_: object) -> None:
        self._pipe.send("stop")
        self._process.join(20)
        if self._process.exitcode is None:
            self._process.kill()


def _serve(pipe: Connection, build: Build, arguments: tuple[Any, ...], send_buffer: int | None) -> None:
    listener = socket.socket()
    if send_buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    listener.bind(("127.0.0.1", 0))
    app = build(*arguments)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="on",
        backlog=4096,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        answering = threading.Thread(target=_answer, args=(pipe, server, asyncio.get_running_loop()), daemon=True)
        answering.start()
        if hasattr(app.state, "service"):
            settle()
        await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())


def _answer(pipe: Connection, server: uvicorn.Server, loop: asyncio.AbstractEventLoop) -> None:
    """Answers what the other end asks, in a thread that otherwise waits."""
    while not server.started:
        time.sleep(0.01)
    pipe.send(server.servers[0].sockets[0].getsockname()[1])
    collecting = 0.0
    # Whoever started this and is gone wants no server either.
    with contextlib.suppress(EOFError):
        while pipe.recv() == "figures":
            used = time.process_time()
            gc.collect()
            pipe.send(Figures(used - collecting, memory(), open_files(), len(asyncio.all_tasks(loop))))
            collecting += time.process_time() - used
    server.should_exit = True
