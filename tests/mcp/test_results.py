"""Results as models read them."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.mcp.results import converted, cut, unknown_tool
from unspool.mcp.tools import ToolResult


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def resource(**said: Any) -> types.EmbeddedResource:
    return types.EmbeddedResource.model_validate({"type": "resource", "resource": {"uri": "file:///a", **said}})


LINK = types.ResourceLink(type="resource_link", name="notes", uri="file:///notes")
SOUND = types.AudioContent(type="audio", data="QUJD" * 200, mime_type="audio/wav")


@pytest.mark.parametrize(
    ("content", "structured", "expected"),
    [
        ([text("a"), text("b")], None, "a\nb"),
        ([text("a")], {"x": 1}, "a"),
        ([], {"x": "ü"}, '{"x": "ü"}'),
        ([], None, "(no output)"),
        ([text("")], None, "(no output)"),
        ([SOUND], None, "[audio audio/wav 600 B omitted]"),
        ([LINK], None, "notes (file:///notes)"),
        ([resource(text="whole")], None, "whole"),
        ([resource(blob="QUJD", mimeType="x/y")], None, "[resource file:///a x/y 3 B omitted]"),
        ([resource(blob="QUJD")], None, "[resource file:///a of an unknown type 3 B omitted]"),
    ],
)
def test_what_a_model_reads(content: list[types.ContentBlock], structured: Any, expected: str) -> None:
    result = types.CallToolResult(content=content, structured_content=structured)
    assert converted(result, 1000) == ToolResult(expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("db is down")], "Error: db is down"),
        ([text("Error executing tool x")], "Error executing tool x"),
        ([], "Error: The tool failed and did not say why."),
    ],
)
def test_a_failure_is_marked_and_its_data_is_not_shown(content: list[types.ContentBlock], expected: str) -> None:
    result = converted(types.CallToolResult(content=content, structured_content={"rows": 3}, is_error=True), 1000)
    assert (result.text, result.is_error) == (expected, True)
    assert result.error is not None
    assert result.error["type"] == "mcp_tool_execution_error"
    assert "rows" not in json.dumps(result.error)


@given(st.text(max_size=300), st.integers(min_value=60, max_value=300))
def test_a_cut_text_is_within_its_size_and_says_what_is_missing(said: str, limit: int) -> None:
    shown = cut(said, limit)
    size = len(said.encode("utf-8", "replace"))
    assert len(shown.encode()) <= limit or size <= limit
    assert shown == said if size <= limit else shown.endswith(f"[cut: the whole has {size} bytes]")


def test_an_unknown_tool_is_named() -> None:
    result = unknown_tool("list_application")
    assert result.is_error
    assert "'list_application'" in result.text
