from __future__ import annotations

from typing import Any

import pytest

from unspool.mcp.tools import ToolResult
from unspool.server.toolcalls import error_of

TEXT = [{"type": "text", "text": "down"}]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (None, {"type": "mcp_tool_execution_error", "content": TEXT}),
        ({"type": "mcp_tool_execution_error"}, {"type": "mcp_tool_execution_error", "content": TEXT}),
        (
            {"type": "mcp_tool_execution_error", "content": "x"},
            {"type": "mcp_tool_execution_error", "content": "x"},
        ),
        (
            {"type": "mcp_protocol_error", "message": "m", "code": -1},
            {"type": "mcp_protocol_error", "code": -1, "message": "m"},
        ),
        ({"type": "timeout", "message": "m"}, {"type": "mcp_protocol_error", "code": -32001, "message": "m"}),
        ({"type": "unknown_tool", "message": "m"}, {"type": "mcp_protocol_error", "code": -32602, "message": "m"}),
        ({"type": "mcp_server_error"}, {"type": "mcp_protocol_error", "code": -32000, "message": "down"}),
        ({"type": "http_error", "code": 502, "message": "m"}, {"type": "http_error", "code": 502, "message": "m"}),
    ],
)
def test_an_error_is_one_that_the_api_knows(error: dict[str, Any] | None, shown: dict[str, Any]) -> None:
    """Strict clients know three types, each with fields of its own."""
    assert error_of(ToolResult("down", True, error)) == shown


def test_what_went_well_has_no_error() -> None:
    assert error_of(ToolResult("noon", False, {"type": "timeout"})) is None
