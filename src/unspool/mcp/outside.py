"""Which servers a request may bring: only at origins that the operator named, and only in public networks.

A name is resolved once, all of its addresses are looked at, and only these are connected to: a name that leads
elsewhere a moment later leads nowhere here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host."""

_HTTPS = 443
# Networks whose addresses hold one of IPv4 that is really reached, and where in them it stands.
_CARRIERS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    # Where it stands in these is for their networks to say.
    (ipaddress.IPv6Network("64:ff9b:1::/48"), None),
    (ipaddress.IPv6Network("2002::/16"), 80),
    (ipaddress.IPv6Network("2001::/32"), None),
)
# What not every version of Python knows not to be public: assignments to protocols, the relays of 6to4, what is
# written in documents, and routers' segments.
_SPECIAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20", "5f00::/16")))
_ISATAP = (0x00005EFE, 0x02005EFE)
"""What stands before an address of IPv4 that is the end of one of IPv6, in any network."""
_RESOLVE_S = 10.0
_LABEL, _NAME = 63, 253
"""How long a part of a host's name may be, and the whole."""


class OutsideError(ValueError):
    """A URL that may not be reached; the text says why, without what stands in the URL."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where servers may be: a host, or with ``any_below`` every host below it, and a port."""

    host: str
    port: int = _HTTPS
    any_below: bool = False

    def holds(self, host: str, port: int) -> bool:
        """Whether a host and port are of this origin."""
        matches = host.endswith(f".{self.host}") if self.any_below else host == self.host
        return matches and port == self.port


def read_origin(text: str) -> Origin:
    """``https://host``, ``https://host:port`` or ``https://*.host``; raises :class:`OutsideError`."""
    parts = _parts(text)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise OutsideError("an origin is a scheme, a host and perhaps a port, without a path")
    host = _host(parts)
    below = host.removeprefix("*.")
    if not below or "*" in below:
        raise OutsideError("* may only stand for all that is below a host, as in https://*.example.com")
    return Origin(below, parts.port or _HTTPS, below != host)


def checked(url: str, origins: Sequence[Origin]) -> tuple[str, int]:
    """The host and port of a URL that is at one of the origins. Raises :class:`OutsideError`."""
    parts = _parts(url)
    host, port = _host(parts), parts.port or _HTTPS
    if not any(origin.holds(host, port) for origin in origins):
        raise OutsideError(f"the operator of this server does not allow servers at {host}, port {port}")
    return host, port


async def public_addresses(host: str, port: int, resolve: Resolve | None = None) -> tuple[str, ...]:
    """The addresses of a host, every one of them in a public network. Raises :class:`OutsideError`."""
    try:
        async with asyncio.timeout(_RESOLVE_S):
            found = tuple(dict.fromkeys(await (resolve or _resolved)(host, port)))
    except (OSError, UnicodeError):
        raise OutsideError(f"the name {host} leads nowhere") from None
    if not found or not all(map(is_public, found)):
        raise OutsideError(f"the name {host} leads to an address that is not public")
    return found


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet: no loopback, private, link-local or carrier's network, and
    none that leads into one of these by way of IPv6.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if any(address in network for network in _SPECIAL):
        return False
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _CARRIERS:
            if address in network:
                return shift is not None and _carries_public(address, shift)
        if address.is_site_local:
            return False
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP and not _carries_public(address, 0):
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _carries_public(address: ipaddress.IPv6Address, shift: int) -> bool:
    return is_public(str(ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)))


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.port != 0 and url.isprintable()
    except ValueError:
        usable = False
    if not usable:
        raise OutsideError("it is not a URL")
    if parts.scheme != "https":
        raise OutsideError("only https is taken")
    if parts.username is not None or parts.password is not None:
        raise OutsideError("a URL may not hold a user or a password")
    return parts


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".").lower()
    if not host or not host.isascii() or any(character in host for character in "\\%@ \t\r\n"):
        raise OutsideError("it has no host, or one that is not written in ASCII")
    if len(host) > _NAME or not all(0 < len(label) <= _LABEL for label in host.split(".")):
        raise OutsideError("its host is no name")
    return host


async def _resolved(host: str, port: int) -> Sequence[str]:
    found: Any = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
