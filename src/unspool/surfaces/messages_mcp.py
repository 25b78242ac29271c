"""The Messages API: what a request says of MCP servers.

A ``mcp_toolset`` among the tools names a server of the operator's; ``mcp_servers`` may, too, but can't bring one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from unspool.surfaces.errors import unsupported
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import Offer, ServerEntry, ToolFilter, refuse_own_servers

log = logging.getLogger(__name__)


def decode_servers(fields: Fields, offer: Offer | None) -> list[ServerEntry]:
    """The servers that ``mcp_servers`` names, with the tools that it lets be used."""
    entries = []
    for i, value in enumerate(fields.items("mcp_servers") or []):
        server = Fields(value, f"mcp_servers[{i}]")
        label = server.required_string("name")
        is_brought = offer is not None and label in offer.brought
        refuse_own_servers(server, () if is_brought else ("url",))
        if not is_brought and server.get("authorization_token") is not None:
            log.warning("%s: authorization_token left out: credentials are the operator's", server.path)
        allowed = None
        configuration = server.fields("tool_configuration")
        if configuration is not None:
            names = configuration.items("allowed_tools")
            if names is not None:
                if not all(isinstance(name, str) for name in names):
                    raise configuration.wrong("allowed_tools", "a list of strings")
                allowed = ToolFilter(frozenset(names))
            if configuration.boolean("enabled") is False:
                allowed = ToolFilter(frozenset())
        entries.append(ServerEntry(server.path, label, server.at("name"), allowed))
    return entries


def read_toolset(tool: Fields, servers: Sequence[ServerEntry]) -> ServerEntry:
    """An entry ``{"type": "mcp_toolset", ...}`` of a request's ``tools``.

    What the same request says of the server among its ``servers`` holds, too.
    """
    if tool.get("tools") is not None:
        raise unsupported(tool.at("tools"), "a list of tools that the client keeps")
    label = tool.required_string("mcp_server_name")
    default = tool.fields("default_config")
    enabled = default is None or default.boolean("enabled") is not False
    said: dict[str, bool] = {}
    for name, value in (tool.mapping("configs") or {}).items():
        config = Fields(value, f"{tool.at('configs')}.{name}")
        if (own := config.boolean("enabled")) is not None:
            said[name] = own
    if enabled:
        allowed = ToolFilter(besides=frozenset(name for name, own in said.items() if not own))
    else:
        allowed = ToolFilter(frozenset(name for name, own in said.items() if own))
    for server in servers:
        if server.label == label:
            allowed = allowed.within(server.allowed)
    return ServerEntry(tool.path, label, tool.at("mcp_server_name"), allowed)
