"""Events of tools that the server runs, in any order, for the property tests of the writers."""

from __future__ import annotations

from hypothesis import strategies as st

from unspool.mcp.tools import McpTool, digest_of
from unspool.surfaces.server_events import (
    ApprovalRequested,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
    ServerEvent,
    ToolsListed,
)

TOOL = McpTool(
    server="time",
    name="now",
    exposed="time__now",
    description="The time.",
    input_schema={"type": "object", "properties": {"zone": {"type": "string"}}},
    policy="allow",
    annotations={},
    digest=digest_of("now", "The time.", {}, {}),
    read_only=True,
)
_index = st.integers(0, 3)
_text = st.text(st.characters(exclude_categories=()), max_size=6)
_start = st.builds(
    ServerCallStart, _index, st.sampled_from(["call_a", "call_b"]), st.sampled_from(["time", ""]), st.just("now")
)
_error = st.none() | st.just({"type": "mcp_tool_execution_error", "content": "no"})
any_server_event: st.SearchStrategy[ServerEvent] = st.one_of(
    st.builds(ToolsListed, st.just("time"), st.just((TOOL,)), st.none()),
    st.just(ToolsListed("time", (), "The MCP server 'time' is not ready.")),
    _start,
    st.builds(ServerCallDelta, _index, _text),
    st.builds(ServerCallEnd, _index),
    st.builds(ServerCallResult, _index, _start, _text, _text, _error),
    st.builds(ApprovalRequested, st.sampled_from(["mcpr_1", "mcpr_2"]), st.just("time"), st.just("now"), _text),
    st.builds(LoopLimit, st.sampled_from(["max_turns", "max_tool_calls"]), st.booleans()),
)
