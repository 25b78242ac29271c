"""When a session is over, and why: told by its transport, waited for by its supervisor."""

from __future__ import annotations

import anyio


class Ending:
    """The end of one session. Its first reason counts."""

    def __init__(self) -> None:
        self._over = anyio.Event()
        self.reason: str | None = None

    def because(self, reason: str) -> None:
        """Says why the session is over."""
        if self.reason is None:
            self.reason = reason
        self._over.set()

    async def wait(self) -> str:
        """The reason, once there is one."""
        await self._over.wait()
        return self.reason or "the connection was closed"
