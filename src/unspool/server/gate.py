"""Which web pages may reach the server: checks of ``Host`` and ``Origin``.

A browser lets any page send requests to this machine. A page of a foreign origin could make the model work, though
not read its answer; one whose own name is made to point here (DNS rebinding) could read it as well. The first
shows in ``Origin``, the second in ``Host``. Clients that are no browser are not affected: they send no ``Origin``,
and the host's real name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from unspool.server.errors import json_response, shaped
from unspool.surfaces.errors import openai_error

_RESERVED = (".localhost", ".internal")
"""Ends of names that the public DNS never has (RFC 6761; ICANN's resolution of 2024-07-29), so no page has one."""


class Gate:
    """Answers 403 to requests for a foreign name, and to those from pages of a foreign origin.

    ``hosts`` are the names that the server is called by, besides addresses and those of this machine; empty, any
    name is taken. ``origins`` are whose pages may call, besides the server's own. ``*`` is any of either.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str]) -> None:
        self.app = app
        self.hosts = {host.lower() for host in hosts}
        self.origins = {origin.lower().rstrip("/") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 403."""
        refused = self._refused(Headers(scope=scope)) if scope["type"] == "http" else None
        if refused is None:
            await self.app(scope, receive, send)
            return
        body = openai_error(refused[0], "permission_error", code=refused[1])
        await json_response(shaped(scope, 403, body), 403)(scope, receive, send)

    def _refused(self, headers: Headers) -> tuple[str, str] | None:
        """What is wrong and its code."""
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if not self._is_ours(host):
            return f"The server is not known as {host!r}; --allow-host makes it so.", "host_not_allowed"
        if not origin or "*" in self.origins or origin in self.origins or _same(origin, host):
            return None
        return f"Pages of {origin!r} may not call this server; --allow-origin lets them.", "origin_not_allowed"

    def _is_ours(self, host: str) -> bool:
        if not self.hosts or "*" in self.hosts or not host:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.hosts or name == "localhost" or name.endswith(_RESERVED) or _is_address(name)


def _is_address(name: str) -> bool:
    """Whether it is an IP address, to which no DNS can make a name point."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: str, host: str) -> bool:
    """Whether a page came from the server that it calls."""
    return bool(host) and origin.partition("://")[2] == host
