"""What the loop sees of MCP."""

from __future__ import annotations

import dataclasses

import pytest

from unspool.mcp.tools import Catalogue, McpTool, ServerState, digest_of


def tool(server: str, name: str) -> McpTool:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    digest = digest_of(name, "Looks.", schema, {})
    return McpTool(server, name, f"{server}__{name}", "Looks.", schema, "ask", {}, digest, read_only=False)


SEARCHES = Catalogue(
    (tool("a", "search"), tool("b", "fetch"), tool("b", "search")),
    (
        ServerState("a", "stdio", "ready", None, offered=True),
        ServerState("b", "http", "ready", None, offered=True),
    ),
)


def test_a_tool_is_found_by_exactly_its_exposed_name() -> None:
    found = SEARCHES.find("b__search")
    assert found is not None
    assert (found.server, found.name) == ("b", "search")
    assert [SEARCHES.find(name) for name in ("search", "b__searc", "B__search", "b__search ", "")] == [None] * 5


def test_the_tools_of_a_server() -> None:
    assert [each.name for each in SEARCHES.of("b")] == ["fetch", "search"]
    assert SEARCHES.of("c") == []


def test_a_tool_as_a_function() -> None:
    assert tool("a", "search").as_function() == {
        "type": "function",
        "function": {
            "name": "a__search",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
    }


def test_a_digest_changes_with_each_part_of_the_definition_but_not_with_the_order_of_keys() -> None:
    first = digest_of("n", "d", {"type": "object", "x": 1}, {"readOnlyHint": True})
    assert first == digest_of("n", "d", {"x": 1, "type": "object"}, {"readOnlyHint": True})
    others = [
        digest_of("m", "d", {"type": "object", "x": 1}, {"readOnlyHint": True}),
        digest_of("n", "e", {"type": "object", "x": 1}, {"readOnlyHint": True}),
        digest_of("n", "d", {"type": "object", "x": 2}, {"readOnlyHint": True}),
        digest_of("n", "d", {"type": "object", "x": 1}, {"readOnlyHint": False}),
    ]
    assert len({first, *others}) == 5


def test_a_catalogue_can_not_be_changed_once_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SEARCHES.tools = ()  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        SEARCHES.tools[0].policy = "allow"  # type: ignore[misc]
