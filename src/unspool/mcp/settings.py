"""What the operator's file says, read: servers, how each is run or reached, its limits, rules for its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from unspool.mcp.tools import Policy

Transport: TypeAlias = Literal["stdio", "http", "sse"]
Offer: TypeAlias = Literal["always", "asked"]
AuthMethod: TypeAlias = Literal["client_secret_basic", "client_secret_post", "private_key_jwt"]


class McpConfigError(ValueError):
    """The file can't be used; the text names the file, the server and the key, and says what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server may use. Times are in seconds, sizes in bytes."""

    connect_timeout_s: float = 30.0
    """For the start of a server up to its answer."""
    list_timeout_s: float = 30.0
    call_timeout_s: float = 60.0
    """For a call; what the server says of its progress starts it anew."""
    max_call_s: float = 600.0
    """For a call, whatever its progress, and the wait for its turn."""
    max_output: int = 64 * 1024
    """The UTF-8 of what the model reads of a result."""
    max_line: int = 4 * 1024 * 1024
    """One message of the server."""
    max_tools: int = 512
    concurrency: int = 4
    """Calls at the same time."""
    restarts: int = 5
    """How often a server may fail within ``restart_window_s`` before it is given up."""
    restart_window_s: float = 600.0
    memory: int | None = None
    """Address space of each process of a local server."""
    file_size: int | None = None
    open_files: int = 4096
    processes: int | None = None
    """Processes of the user that a local server runs as."""


@dataclass(frozen=True, slots=True)
class ToolRules:
    """What the operator says of a server's tools, by their names on the wire; ``*`` is any other."""

    policies: Mapping[str, Policy] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    pins: Mapping[str, str] | None = None
    """Digests of definitions. With pins, a tool without one, or with another, is ``unpinned``."""
    unpinned: Policy = "ask"


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """What a server's tokens are had with, by OAuth's grant for programs. The secret is not in its ``repr``."""

    client_id: str
    issuer: str
    """The authorization server's own name for itself, a URL: the secret is sent to no other."""
    secret: str = field(repr=False)
    """For ``private_key_jwt``, a private key in PEM."""
    method: AuthMethod = "client_secret_basic"
    algorithm: str = "RS256"
    """What a private key signs with, as JOSE names it."""
    scope: str | None = None
    """What is asked for, instead of what the server would like."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """A server of the file. What may be a secret is not in its ``repr``."""

    name: str
    transport: Transport
    disabled: bool = False
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    written: tuple[str, ...] = ()
    """The command and its arguments as the file has them, before variables were put in: these can be shown."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All that is in the server's environment besides the base."""
    cwd: Path | None = None
    home: Path | None = None
    """Its ``HOME``; a folder that is gone afterwards if nothing is said."""
    sha256: str | None = None
    """What the program's file must be."""
    trust_path: bool = False
    """Runs the program even if others may write where it lies."""
    url: str = field(default="", repr=False)
    written_url: str = field(default="", repr=False)
    """The URL as the file has it, before variables were put in."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: ClientCredentials | None = None
    addresses: tuple[str, ...] = ()
    """The only ones that are connected to, if there are any."""
    offer: Offer = "always"
    rules: ToolRules = field(default_factory=ToolRules)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The whole file."""

    path: Path
    servers: tuple[ServerConfig, ...]
    """In the order of the file."""
    concurrency: int = 16
    """Calls at the same time, to all servers."""
    warnings: tuple[str, ...] = ()
    """What was not understood, or how it was."""
