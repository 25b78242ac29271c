"""MCP servers that a request brings itself, with a URL. Whether it may is the operator's choice.

Where such a server is, and what it is told, may be secrets: nothing of it is shown, repeated or kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = ("host", "content-length", "transfer-encoding", "connection")


@dataclass(frozen=True, slots=True)
class BroughtServer:
    """A server that a request brings; the paths are where its label and its URL stand in the request."""

    label: str
    label_path: str
    path: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def brought_servers(body: object) -> list[BroughtServer]:
    """The servers that a request of any API brings; raises :class:`InvalidRequestError` for one that is wrong."""
    if not isinstance(body, Mapping):
        return []
    found = []
    for i, entry in enumerate(_list(body, "tools")):
        if isinstance(entry, Mapping) and entry.get("type") == "mcp" and entry.get("server_url") is not None:
            found.append(_server(Fields(entry, f"tools[{i}]"), "server_label", "server_url", "authorization"))
    for i, entry in enumerate(_list(body, "mcp_servers")):
        if isinstance(entry, Mapping) and entry.get("url") is not None:
            found.append(_server(Fields(entry, f"mcp_servers[{i}]"), "name", "url", "authorization_token"))
    return found


def _list(body: Mapping[str, object], name: str) -> list[object]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _server(server: Fields, label: str, url: str, token: str) -> BroughtServer:
    headers = _headers(server)
    if (given := server.get(token)) is not None:
        if not _is_value(given):
            raise _unusable(server, token, "a token, as a string")
        headers["Authorization"] = f"Bearer {given}"
    where = server.get(url)
    if not isinstance(where, str) or not where:
        raise _unusable(server, url, "a URL, as a string")
    return BroughtServer(server.required_string(label), server.at(label), server.at(url), where, headers)


def _headers(server: Fields) -> dict[str, str]:
    headers = server.get("headers")
    if headers is None:
        return {}
    if not isinstance(headers, Mapping) or not all(
        _HEADER_NAME.fullmatch(name) and name.lower() not in _OURS and _is_value(value)
        for name, value in headers.items()
    ):
        raise _unusable(server, "headers", "an object of headers, all of them strings")
    return dict(headers)


def _is_value(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and value == value.strip(" ")


def _unusable(server: Fields, name: str, must: str) -> InvalidRequestError:
    """The error for a field whose value must not be repeated."""
    path = server.at(name)
    return InvalidRequestError(f"`{path}` must be {must}.", path)
