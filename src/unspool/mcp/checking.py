"""What the servers of a file would be, without starting any: what is run or reached, with what, what is refused.

Values of variables are in none of it, nor are headers, nor what a URL has besides its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from unspool.mcp.launching import launch
from unspool.mcp.policy import ANY
from unspool.mcp.settings import McpConfig, McpConfigError, ServerConfig
from unspool.mcp.tools import Policy
from unspool.mcp.variables import named_only

_OWN_FOLDER = Path("(a folder of its own, gone afterwards)")


@dataclass(frozen=True, slots=True)
class Check:
    """One server of a file."""

    name: str
    transport: str
    verdict: Literal["runs", "refused", "disabled"]
    refused: str | None = None
    """Why it is not run."""
    program: str | None = None
    """The file, with no link on the way."""
    command: str | None = None
    """The command line, with variables as the file has them."""
    environment: tuple[str, ...] = ()
    """The names of all variables that it gets."""
    cwd: str | None = None
    url: str | None = None
    headers: tuple[str, ...] = ()
    """Their names."""
    auth: str | None = None
    """Who asks which authorization server for tokens."""
    offer: str = "always"
    tools: Mapping[str, Policy] | None = None
    """What is said of tools; ``*`` is any other."""
    pinned: int | None = None
    """How many definitions are pinned, if any are."""
    warnings: tuple[str, ...] = ()


def check(config: McpConfig) -> list[Check]:
    """What there is to say of each server, in the order of the file."""
    return [_checked(server) for server in config.servers]


def _checked(server: ServerConfig) -> Check:
    rules = server.rules
    said = Check(
        server.name,
        server.transport,
        "disabled" if server.disabled else "runs",
        offer=server.offer,
        tools={ANY: "ask", **rules.policies},
        pinned=None if rules.pins is None else len(rules.pins),
    )
    if server.transport != "stdio":
        given = server.auth
        auth = None if given is None else f"tokens of {given.issuer} for {given.client_id} ({given.method})"
        return replace(said, url=_place(server.written_url), headers=tuple(server.headers), auth=auth)
    try:
        found = launch(server, _OWN_FOLDER)
    except McpConfigError as error:
        return replace(said, verdict=said.verdict if server.disabled else "refused", refused=str(error))
    return replace(
        said,
        program=str(found.program),
        command=found.shown,
        environment=tuple(sorted(found.env)),
        cwd=str(found.cwd),
        warnings=found.warnings,
    )


def _place(url: str) -> str:
    """A URL of the file without its user, password, query and fragment; variables stay names."""
    return re.sub("//[^/]*@", "//", re.split("[?#]", named_only(url))[0])
