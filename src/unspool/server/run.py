"""The application on a socket, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

from unspool.server.limits import Traffic

_LAST_WORDS = 3
"""Seconds in which answers that were ended must reach their clients."""
_COLLECT_AFTER = 20_000
"""Objects after which the garbage collector looks at new ones; 700 are three requests."""


def settle() -> None:
    """Has the garbage collector pass over what is there now, and run more seldom.

    What was loaded lives as long as the server, and looking through it again and again cost a request more than
    its prompt and its parser did.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])


class Server(uvicorn.Server):
    """Ends by a normal return on a signal, where uvicorn's own way is to send it again and die of it.

    Nobody is accepted from then on. What runs may finish for ``grace`` seconds, and is then ended as its API ends
    what went wrong. A second interrupt ends everything at once. ``announce`` is called once it listens.
    """

    def __init__(
        self, config: uvicorn.Config, traffic: Traffic, grace: float, announce: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._traffic = traffic
        self._grace = grace

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Listens for the signals that end it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts what is served, and listens."""
        await super().startup(sockets)
        settle()
        if self._announce is not None and self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Waits for what runs, and ends what takes too long."""
        ending = asyncio.get_running_loop().call_later(self._grace, self._traffic.end)
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()


async def run_server(app: Starlette, listener: socket.socket, announce: Callable[[], None] | None = None) -> None:
    """Serves an application of :func:`unspool.server.app.create_app` until it is interrupted.

    ``announce`` is called once it listens.
    """
    service = app.state.service
    grace: float = service.settings.shutdown_timeout
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=math.ceil(grace) + _LAST_WORDS,
    )
    await Server(config, service.traffic, grace, announce).serve(sockets=[listener])
