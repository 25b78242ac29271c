"""The items of the Responses API for tools that the server runs: what they look like, and what clients send of
them.

``mcp_list_tools`` and ``mcp_call`` say what happened; ``mcp_approval_request`` asks the client, who answers with
an ``mcp_approval_response``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unspool.surfaces.conversation import as_error
from unspool.surfaces.fields import Fields
from unspool.surfaces.server_events import ServerCallResult, ServerCallStart, ToolsListed


def call_item(call: ServerCallStart) -> dict[str, Any]:
    """The fields of a call's item when it begins."""
    return {
        "name": call.name,
        "server_label": call.server,
        "arguments": "",
        "output": None,
        "error": None,
        "approval_request_id": call.approval,
    }


def end_of_call(result: ServerCallResult) -> tuple[str, dict[str, Any]]:
    """How a call ended, as its last event says it, and what this makes of its item."""
    if result.error is None:
        return "completed", {"status": "completed", "output": result.text}
    return "failed", {"status": "failed", "error": dict(result.error)}


def listing_item(listed: ToolsListed, item_id: str) -> dict[str, Any]:
    """The tools of a server, or why they can't be had."""
    return {
        "id": item_id,
        "type": "mcp_list_tools",
        "server_label": listed.server,
        "tools": [
            {
                "name": tool.name,
                "input_schema": dict(tool.input_schema),
                "description": tool.description,
                "annotations": dict(tool.annotations) or None,
            }
            for tool in listed.tools
        ],
        "error": listed.error,
    }


def decode_mcp_item(kind: str, item: Fields) -> Mapping[str, Any] | None:
    """A checked item of one of these types that a client sends; ``None`` for a type that nobody knows."""
    if kind == "mcp_approval_response":
        item.required_string("approval_request_id")
        if item.boolean("approve") is None:
            raise item.missing("approve")
        item.string("reason")
    elif kind == "mcp_list_tools":
        item.required_string("server_label")
        item.items("tools")
    elif kind in ("mcp_call", "mcp_approval_request"):
        for name in ("id", "name"):
            item.required_string(name)
        for name in ("server_label", "arguments"):
            if item.string(name) is None:
                raise item.missing(name)
        if kind == "mcp_call":
            for name in ("output", "approval_request_id"):
                item.string(name)
    else:
        return None
    return {"type": kind, **{name: value for name, value in item.body.items() if value is not None}}


def denials(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What the model is told of calls that the client refused, by the id of what it was asked."""
    told = {}
    for item in items:
        if item["type"] == "mcp_approval_response" and not item["approve"]:
            reason = item.get("reason")
            because = f": {reason}" if reason else "."
            told[item["approval_request_id"]] = as_error(f"the user did not allow this call{because}")
    return told


def past_call(item: Mapping[str, Any], denied: Mapping[str, str]) -> str | None:
    """What the model is told of an earlier call of the server's; ``None`` for an item that is none."""
    if item["type"] == "mcp_approval_request":
        return denied.get(item["id"])
    if item["type"] != "mcp_call":
        return None
    error = item.get("error")
    if error is None:
        return str(item.get("output") or "")
    return as_error(error_text(error))


def error_text(error: Any) -> str:
    """The words of a call's error, which is an object or, from elsewhere, a text."""
    if not isinstance(error, Mapping):
        return str(error)
    content = error.get("content", error.get("message"))
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return str(content or "")
