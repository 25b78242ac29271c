"""Which tools of MCP servers a request may use, and under which policy.

A request names servers of the operator's file by their labels; it can't bring its own. What it says about approval
and about single tools only ever makes the operator's policy stricter.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unspool.mcp.names import exposed_names
from unspool.mcp.policy import stricter
from unspool.mcp.tools import Catalogue, McpTool, Policy
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields

log = logging.getLogger(__name__)

_BRINGS_A_SERVER = ("server_url", "connector_id", "tunnel_id")
# A server's credentials are its operator's: whoever calls it through this server has none of their own.
_CREDENTIALS = ("headers", "authorization")
_IGNORED = frozenset(
    {"server_description", "defer_loading", "allowed_callers", "type", "server_url", *_CREDENTIALS}
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server has for a request: its tools at this moment.

    ``always`` offers allowed tools to requests that name no server, too, where their server is so configured.
    ``brought`` are the labels of servers that the request has brought itself.
    """

    catalogue: Catalogue
    always: bool = True
    brought: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Planned:
    """A tool that a request may use; ``policy`` is the stricter one of the operator's and the request's."""

    tool: McpTool
    policy: Policy


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that a request names, with its tools for this request, or why there are none."""

    label: str
    tools: tuple[McpTool, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class McpPlan:
    """The tools of one request, by the names that the model sees."""

    tools: Mapping[str, Planned]
    named: tuple[NamedServer, ...]
    catalogue: Catalogue

    def functions(self) -> tuple[Mapping[str, Any], ...]:
        """The tools as the conversation has them."""
        return tuple(planned.tool.as_function() for planned in self.tools.values())

    def names_of(self, server: str, name: str | None = None) -> list[str]:
        """The names of a server's tools, or of that one which its server calls ``name``."""
        return [
            exposed
            for exposed, planned in self.tools.items()
            if planned.tool.server == server and name in (None, planned.tool.name)
        ]


def with_plan(tools: Sequence[Mapping[str, Any]], plan: McpPlan | None) -> tuple[Mapping[str, Any], ...]:
    """A request's own tools and those that the server runs, as a conversation has them."""
    return (*tools, *(plan.functions() if plan else ()))


def with_paths(paths: Sequence[str], plan: McpPlan | None) -> tuple[str, ...]:
    """Where the schemas of these tools are: in the request, or at a server."""
    return (*paths, *(map(schema_path, plan.tools) if plan else ()))


def schema_path(exposed: str) -> str:
    """Where the schema of a tool is that the server runs: nowhere in the request."""
    return f"mcp:{exposed}"


def exposed_name(catalogue: Catalogue | None, server: str, name: str) -> str:
    """The name by which the model knew a tool of an earlier call, which may be gone."""
    found = next((tool for tool in catalogue.of(server) if tool.name == name), None) if catalogue else None
    if found is not None:
        return found.exposed
    return exposed_names([(server, name)])[server, name] if server else name


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Some of a server's tools: those of these names, all but those, those that only read."""

    names: frozenset[str] | None = None
    besides: frozenset[str] = frozenset()
    read_only: bool | None = None

    def within(self, other: ToolFilter | None) -> ToolFilter:
        """Those of these that are also of ``other``, filters by name both."""
        if other is None:
            return self
        names = self.names if other.names is None else other.names
        both = names if self.names is None or names is None else self.names & names
        return ToolFilter(both, self.besides | other.besides)

    def matches(self, tool: McpTool) -> bool:
        """Whether a tool is one of them. That it only reads must be the operator's word."""
        named = (self.names is None or tool.name in self.names) and tool.name not in self.besides
        return named and self.read_only in (None, tool.read_only)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """What a request says of a server that it names.

    ``allowed`` are the tools that may be used (``None``: all). ``ask`` and ``run`` are those for which the client
    wants to be asked or not; for the others ``otherwise`` holds. ``echo`` is the entry without anything secret.
    """

    path: str
    label: str
    label_field: str
    allowed: ToolFilter | None = None
    ask: ToolFilter | None = None
    run: ToolFilter | None = None
    otherwise: Policy = "allow"
    echo: Mapping[str, Any] = field(default_factory=dict)

    def policy(self, tool: McpTool) -> Policy:
        """The stricter one of the operator's policy and this request's."""
        own = self.otherwise
        if self.ask is not None and self.ask.matches(tool):
            own = "ask"
        elif self.run is not None and self.run.matches(tool):
            own = "allow"
        if self.allowed is not None and not self.allowed.matches(tool):
            own = "deny"
        return stricter(own, tool.policy)


def read_entry(tool: Fields, offer: Offer | None = None, *, otherwise: Policy) -> ServerEntry:
    """An entry ``{"type": "mcp", ...}`` of a request's ``tools``.

    ``otherwise`` holds for tools about whose approval it says nothing.
    """
    label = tool.required_string("server_label")
    is_brought = offer is not None and label in offer.brought
    refuse_own_servers(tool, _BRINGS_A_SERVER[is_brought:])
    given = [] if is_brought else [name for name in _CREDENTIALS if tool.get(name) is not None]
    if given:
        log.warning("%s: %s left out: a server's credentials are the operator's", tool.path, " and ".join(given))
    allowed = _filter(tool, "allowed_tools")
    ask, run = _approval(tool)
    tool.report_unread(_IGNORED)
    echo = {
        "type": "mcp",
        "server_label": label,
        "server_description": tool.string("server_description"),
        "allowed_tools": tool.get("allowed_tools"),
        "require_approval": tool.get("require_approval"),
    }
    return ServerEntry(tool.path, label, tool.at("server_label"), allowed, ask, run, otherwise, echo)


def refuse_own_servers(fields: Fields, names: Sequence[str]) -> None:
    """Raises :class:`InvalidRequestError` if one of the fields brings a server of the client's own."""
    for name in names:
        if fields.get(name) is not None:
            path = fields.at(name)
            raise InvalidRequestError(
                f"`{path}`: servers that a request brings are off here. Name one that the operator of this server "
                "has configured, without a URL.",
                path,
                code="unsupported_parameter",
            )


def _filter(fields: Fields, name: str) -> ToolFilter | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, list):
        return ToolFilter(_names(fields, name))
    if not isinstance(value, Mapping):
        raise fields.wrong(name, "a list of tool names or an object with `tool_names` and `read_only`")
    shape = Fields(value, fields.at(name))
    names = None if shape.get("tool_names") is None else _names(shape, "tool_names")
    return ToolFilter(names, read_only=shape.boolean("read_only"))


def _names(fields: Fields, name: str) -> frozenset[str]:
    names = fields.items(name) or []
    if not all(isinstance(value, str) for value in names):
        raise fields.wrong(name, "a list of strings")
    return frozenset(names)


def _approval(tool: Fields) -> tuple[ToolFilter | None, ToolFilter | None]:
    """The tools that need the client's approval, and those that don't."""
    value = tool.get("require_approval")
    if value is None:
        return None, None
    if value == "always":
        return ToolFilter(), None
    if value == "never":
        return None, ToolFilter()
    if not isinstance(value, Mapping):
        raise tool.wrong("require_approval", "always, never or an object with filters of these names")
    shape = Fields(value, tool.at("require_approval"))
    return _filter(shape, "always"), _filter(shape, "never")


def make_plan(
    entries: Sequence[ServerEntry],
    offer: Offer | None,
    taken: Collection[str],
    *,
    on_failure: Literal["report", "refuse"] = "refuse",
) -> McpPlan | None:
    """The tools for a request that names these servers; ``None`` if there are none.

    ``taken`` are the names of the request's own tools, which win. A server that is not ready is refused with a
    424, or reported in the plan.
    """
    if offer is None:
        if entries:
            raise InvalidRequestError(
                f"`{entries[0].path}`: this server has no MCP servers; its operator names them with --mcp-config.",
                entries[0].path,
                code="unsupported_parameter",
            )
        return None
    by_label = _by_label(entries, offer.catalogue)
    errors = {state.name: _why_not(state.name, state.state, state.error) for state in offer.catalogue.servers}
    for label, entry in by_label.items():
        if (error := errors[label]) is not None and on_failure == "refuse":
            raise InvalidRequestError(error, entry.label_field, code="mcp_server_not_ready", status=424)
    ready = {name for name, error in errors.items() if error is None}
    unasked = {state.name for state in offer.catalogue.servers if offer.always and state.offered}
    tools: dict[str, Planned] = {}
    for tool in offer.catalogue.tools:
        named = by_label.get(tool.server)
        if tool.server not in ready or (named is None and tool.server not in unasked):
            continue
        policy = tool.policy if named is None else named.policy(tool)
        if policy == "deny" or (named is None and policy != "allow"):
            continue
        if tool.exposed in taken:
            log.warning("The MCP tool %r is left out: a tool of the request has its name", tool.exposed)
            continue
        tools[tool.exposed] = Planned(tool, policy)
    servers = tuple(
        NamedServer(label, tuple(p.tool for p in tools.values() if p.tool.server == label), errors[label])
        for label in by_label
    )
    return McpPlan(tools, servers, offer.catalogue) if tools or servers else None


def _by_label(entries: Sequence[ServerEntry], catalogue: Catalogue) -> dict[str, ServerEntry]:
    known = [state.name for state in catalogue.servers]
    by_label: dict[str, ServerEntry] = {}
    for entry in entries:
        if entry.label not in known:
            there = ", ".join(known) or "none"
            raise InvalidRequestError(
                f"`{entry.label_field}`: there is no MCP server {entry.label!r} here (there is: {there}).",
                entry.label_field,
                code="mcp_server_not_found",
            )
        if entry.label in by_label:
            raise InvalidRequestError(
                f"`{entry.label_field}`: the MCP server {entry.label!r} is named twice.", entry.label_field
            )
        by_label[entry.label] = entry
    return by_label


def _why_not(name: str, state: str, error: str | None) -> str | None:
    """Why a server's tools can't be used now."""
    if state == "ready":
        return None
    return f"The MCP server {name!r} is not ready ({state}{f': {error}' if error else ''})."
