"""Connections to addresses that were looked at before, whatever the name of the host leads to by then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import httpx2


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Reaches one origin at these addresses and follows no redirect.

    The host's name stays in ``Host``, and in TLS, where the certificate must be for it: as it was looked up, since
    what a codec for international names makes of it may be another's.
    """

    def __init__(self, url: str, addresses: Sequence[str], inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._origin = _origin(httpx2.URL(url))
        self._addresses = cycle(addresses)
        self._count = len(addresses)
        self._inner = inner or httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request to the first of the addresses that answers."""
        if _origin(request.url) != self._origin:
            raise httpx2.UnsupportedProtocol("The server may only be reached at its own origin.", request=request)
        host = request.url.raw_host.decode("ascii").rstrip(".")
        for left in range(self._count - 1, -1, -1):
            request.url = request.url.copy_with(host=next(self._addresses))
            request.extensions = {**request.extensions, "sni_hostname": host}
            try:
                response = await self._inner.handle_async_request(request)
                break
            except httpx2.ConnectError:
                if not left:
                    raise
        if response.has_redirect_location:
            await response.aclose()
            raise httpx2.UnsupportedProtocol("The server answered with a redirect.", request=request)
        return response

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
