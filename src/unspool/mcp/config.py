"""Reading the operator's file of MCP servers, as Claude Desktop, Cursor, VS Code, Cline and others write it.

JSON with comments and trailing commas, or YAML by its suffix. The file is trusted, as it says what will be run: so
nobody but root and the user that runs this may be able to change it. Whatever is wrong is said with file, server
and key; what is not known is warned of, never guessed.
"""

from __future__ import annotations

import dataclasses
import re
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from unspool.mcp.credentials import read_credentials
from unspool.mcp.entries import Entry, filled
from unspool.mcp.ownership import objection
from unspool.mcp.policy import ANY, STRICTNESS, stricter
from unspool.mcp.settings import Limits, McpConfig, McpConfigError, ServerConfig, ToolRules, Transport
from unspool.mcp.tools import Policy
from unspool.mcp.variables import expanded, read_env_file

_TRANSPORTS: dict[str, Transport] = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse"}
_SECONDS_BELOW = 10_000
"""A bare ``timeout`` is seconds in Cline and vllm-mlx, milliseconds in Claude Code: who would wait so long, or so
short?"""
_FLOATS = ("connect_timeout_s", "list_timeout_s", "max_call_s", "restart_window_s")
_WHOLES = (
    *("max_output", "max_line", "max_tools", "concurrency", "restarts", "memory", "file_size", "open_files"),
    "processes",
)
_UNUSED = ("description", "$schema", "gallery", "version")
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def load_config(path: Path, environment: Mapping[str, str]) -> McpConfig:
    """The servers of a file, with variables put in from ``environment``.

    Raises :class:`McpConfigError` for what can't be used, and ``OSError`` if the file can't be read.
    """
    path = path.absolute()
    if not stat.S_ISREG(path.stat().st_mode):
        raise McpConfigError(f"{path}: is not a regular file")
    if said := objection(path, sticky=False):
        raise McpConfigError(f"{path}: others could change what is run: {said}")
    top = Entry(_parsed(path), str(path), partial(_put_in, environment))
    key = top.one_of("mcpServers", "servers")
    if key is None:
        raise McpConfigError(f'{path}: has no "mcpServers" (or "servers")')
    said_servers = top.raw(key)
    if isinstance(said_servers, list):
        raise McpConfigError(f"{path}: {key} must be an object with a name for each server, not a list")
    servers = Entry(said_servers, f"{path}: {key}", partial(_put_in, environment))
    read = [_server(path, name, said, environment) for name, said in servers.said.items()]
    concurrency = top.whole("concurrency")
    top.raw("inputs")
    warnings = [*top.left_over(("mcpServers",)), *(warning for _, warned in read for warning in warned)]
    config = McpConfig(path, tuple(server for server, _ in read), warnings=tuple(warnings))
    return config if concurrency is None else dataclasses.replace(config, concurrency=concurrency)


def _put_in(environment: Mapping[str, str], text: str, place: str) -> str:
    return expanded(text, environment, place)


def _parsed(path: Path) -> Any:
    """What the file says, as values of JSON."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise McpConfigError(f"{path}: byte {error.start} is not UTF-8 text") from error
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            return _parsed_yaml(path, text)
        import json5
    except ImportError as error:
        raise McpConfigError(f"{path}: reading it needs {error.name}: pip install 'unspool[mcp]'") from error
    try:
        return json5.loads(text, allow_duplicate_keys=False)
    except (ValueError, RecursionError) as error:
        raise McpConfigError(f"{path}: is not JSON: {str(error).replace('<string>:', 'line ')}") from error


def _parsed_yaml(path: Path, text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Takes no key twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    said = f"{key.value!r} is there twice"
                    raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise McpConfigError(f"{path}: is not YAML: {error}") from error


def _server(path: Path, name: str, said: Any, environment: Mapping[str, str]) -> tuple[ServerConfig, list[str]]:
    place = f"{path}: server {name!r}"
    if not 0 < len(name) <= 64 or not name.isprintable():
        raise McpConfigError(f"{place}: a server's name has 1 to 64 printable characters")
    entry = Entry(said, place, partial(_put_in, environment))
    transport, url, written = _reached(entry)
    limits, warnings = _limits(entry)
    how, more = _program(entry, path.parent) if transport == "stdio" else _sent(entry, path.parent)
    server = filled(
        ServerConfig,
        {
            "name": name,
            "transport": transport,
            "url": url,
            "written_url": written,
            "disabled": _disabled(entry),
            "offer": entry.choice("offer", ("always", "asked")),
            "rules": _rules(entry),
            "limits": limits,
            **how,
        },
    )
    for key in _UNUSED:
        entry.raw(key)
    return server, [*warnings, *more, *entry.left_over()]


def _reached(entry: Entry) -> tuple[Transport, str | None, str | None]:
    """How a server is reached, and where, also as the file has it."""
    key = entry.one_of("url", "serverUrl", "httpUrl")
    said = entry.text("type", "transport")
    if said is not None:
        transport = _TRANSPORTS.get(re.sub("[-_ ]", "", said).lower())
        if transport is None:
            raise McpConfigError(f"{entry.place}: type {said!r} is not known; write stdio, http or sse")
    elif key is None and not entry.has("command"):
        raise McpConfigError(f"{entry.place}: has neither command nor url")
    elif key is not None and entry.has("command"):
        raise McpConfigError(f"{entry.place}: has both command and {key}; leave one out, or say which by type")
    else:
        transport = "http" if key is not None else "stdio"
    if transport == "stdio":
        if not entry.has("command"):
            raise McpConfigError(f"{entry.at('command')}: is missing; a stdio server is a program")
        return transport, None, None
    url = entry.text(key) if key is not None else None
    if url is None:
        raise McpConfigError(f"{entry.at('url')}: is missing; a server of type {transport} is reached by one")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise McpConfigError(f"{entry.at(str(key))}: must be an http or https URL")
    return transport, url, entry.raw(str(key))


def _disabled(entry: Entry) -> bool:
    enabled, disabled = entry.flag("enabled"), entry.flag("disabled")
    if enabled is not None and enabled is disabled:
        raise McpConfigError(f"{entry.place}: enabled and disabled contradict each other; leave one out")
    return disabled is True or enabled is False


def _sent(entry: Entry, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What requests to a server on the network are sent with, and warnings."""
    credentials, warnings = read_credentials(entry, folder)
    return {"headers": _headers(entry), "auth": credentials}, warnings


def _program(entry: Entry, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What is run, with which environment and where; nothing of it is warned of."""
    command = entry.text("command")
    if not command:
        raise McpConfigError(f"{entry.at('command')}: must not be empty")
    sha256 = entry.text("sha256")
    return {
        "command": command,
        "args": entry.texts("args"),
        "written": (entry.raw("command"), *(entry.raw("args") or ())),
        "env": _environment(entry, folder),
        "cwd": _folder(entry, "cwd", folder),
        "home": _folder(entry, "home", folder),
        "sha256": None if sha256 is None else _digest(sha256, entry.at("sha256")),
        "trust_path": entry.flag("trustPath"),
    }, []


def _environment(entry: Entry, folder: Path) -> dict[str, str]:
    file = entry.text("envFile")
    found: dict[str, str] = {}
    if file is not None:
        found |= read_env_file(folder / Path(file).expanduser(), entry.at("envFile"))
    found |= entry.named_texts("env")
    for name in found:
        if not name or "=" in name or "\0" in name:
            raise McpConfigError(f"{entry.at('env')}: {name!r} is no name of a variable")
    return found


def _folder(entry: Entry, key: str, folder: Path) -> Path | None:
    said = entry.text(key)
    if said is None:
        return None
    path = folder / Path(said).expanduser()
    if not path.is_dir():
        raise McpConfigError(f"{entry.at(key)}: {path} is not a folder")
    return path


def _headers(entry: Entry) -> dict[str, str]:
    headers = entry.named_texts("headers")
    for name, value in headers.items():
        usable = value.isprintable() and value.isascii() and value == value.strip(" ")
        if not _HEADER.fullmatch(name) or not usable:
            raise McpConfigError(
                f"{entry.at('headers')}: {name!r} is no header, or its value has other characters, "
                "or spaces around it"
            )
    return headers


def _limits(entry: Entry) -> tuple[Limits, list[str]]:
    values: dict[str, Any] = {name: entry.number(name) for name in _FLOATS}
    values |= {name: entry.whole(name) for name in _WHOLES}
    key = entry.one_of("call_timeout_s", "timeout_s", "timeout_ms", "timeout")
    warnings = []
    if key is not None and (seconds := entry.number(key)) is not None:
        if key == "timeout":
            unit = "seconds" if seconds < _SECONDS_BELOW else "milliseconds"
            warnings.append(
                f"{entry.at('timeout')}: is seconds to some and milliseconds to others; "
                f"it is read as {seconds:g} {unit}: write timeout_s or timeout_ms"
            )
            seconds = seconds if unit == "seconds" else seconds / 1000
        elif key == "timeout_ms":
            seconds /= 1000
        values["call_timeout_s"] = seconds
        values["max_call_s"] = values["max_call_s"] or max(seconds, Limits().max_call_s)
    return filled(Limits, values), warnings


def _rules(entry: Entry) -> ToolRules:
    """What is said of tools, in the words of any product. The strictest word counts."""
    policies: dict[str, Policy] = {}
    said = entry.raw("tools")
    only = entry.texts("allowedTools", "includeTools")
    if isinstance(said, dict):
        for name, policy in said.items():
            if policy not in STRICTNESS:
                raise McpConfigError(f"{entry.at('tools')}.{name}: must be one of {', '.join(STRICTNESS)}")
            policies[name] = policy
    elif said is not None:
        only += entry.texts("tools")
    listed: dict[str, Policy] = dict.fromkeys(only, "allow")
    if only:
        listed[ANY] = "deny"
    for name in entry.texts("autoApprove", "alwaysAllow"):
        if not only:
            listed[name] = "allow"
    for name in entry.texts("disabledTools", "excludeTools"):
        listed[name] = "deny"
    for name, policy in listed.items():
        policies[name] = stricter(policies.get(name, "allow"), policy)
    pins = {name: _digest(pin, f"{entry.at('pins')}.{name}") for name, pin in entry.named_texts("pins").items()}
    return filled(
        ToolRules,
        {
            "policies": policies,
            "read_only": frozenset(entry.texts("readOnlyTools")),
            "pins": pins if entry.has("pins") else None,
            "unpinned": entry.choice("unpinned", ("ask", "deny")),
        },
    )


def _digest(said: str, place: str) -> str:
    match = _DIGEST.fullmatch(said)
    if match is None:
        raise McpConfigError(f"{place}: must be a SHA-256 of 64 hexadecimal digits")
    return match[1].lower()
