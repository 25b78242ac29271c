"""The items of the Responses API for tools that the server runs: what they look like, and what clients send of
them.

``mcp_list_tools`` and ``mcp_call`` say what happened; ``mcp_approval_request`` asks the client, who answers with
an ``mcp_approval_response``.
"""

from __future__ import annotations

from typing import Any

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
