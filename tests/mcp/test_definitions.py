"""Definitions of tools as they are shown to models."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from unspool.mcp import definitions
from unspool.mcp.definitions import UnusableToolError


def tool(schema: Any, description: str | None = None) -> types.Tool:
    return types.Tool(name="t", input_schema=schema, description=description)


def test_a_schema_is_one_of_an_object_and_keeps_its_own_references() -> None:
    assert definitions.schema(tool({})) == {"type": "object", "properties": {}}
    said = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/$defs/a"}, "$ref": {"type": "string"}},
        "$defs": {"a": {"type": "integer"}},
    }
    assert definitions.schema(tool(said)) == {
        "type": "object",
        "properties": said["properties"],
        "$defs": said["$defs"],
    }


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array"}, "is not one of an object"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:1/a"}}}, "refers to 'http://127.0.0.1:1/a'"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "refers to 'other.json#/a'"),
        ({"allOf": [{"$dynamicRef": "file:///etc/passwd"}]}, "refers to 'file:///etc/passwd'"),
        (deep(100), "levels deep"),
        ({"description": "x" * 70_000}, "bytes, more than"),
    ],
)
def test_a_schema_that_can_not_be_used(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableToolError, match=message):
        definitions.schema(tool(schema))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"properties": []}, {"properties": {}}),
        ({"properties": {"a": True, "b": False, "c": 5}}, {"properties": {"a": {}, "b": {"not": {}}, "c": {}}}),
        ({"required": 5, "allOf": {}, "$defs": []}, {"properties": {}}),
        ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"type": "strin"}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"type": ["string", 5]}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"type": [], "description": 5}}}, {"properties": {"a": {}}}),
        ({"properties": {"a": {"items": {"properties": [1]}}}}, {"properties": {"a": {"items": {}}}}),
        ({"properties": {"a": {"items": True}}}, {"properties": {"a": {"items": {}}}}),
        *[
            ({"properties": {"a": {"enum": [5, {"type": 1, "required": 2}]}}},) * 2,
            ({"properties": {"required": {"type": ["string", "null"]}}, "required": ["required"]},) * 2,
            ({"properties": {}, "additionalProperties": False},) * 2,
        ],
    ],
)
def test_what_no_schema_has_is_not_shown(said: dict[str, Any], shown: dict[str, Any]) -> None:
    """A server that describes one tool wrongly would break every request, where the template reads that."""
    assert definitions.schema(tool(said)) == {"type": "object", **shown}


def test_texts_have_no_hidden_characters_and_values_stay() -> None:
    hidden = "a\u200bb\U000e0041c\u202ed\x1b[0me\U000e0100f"
    said = {"properties": {"a": {"description": hidden, "enum": [hidden]}}}
    shown = definitions.schema(tool(said))["properties"]["a"]
    assert shown == {"description": "abcd[0mef", "enum": [hidden]}
    assert definitions.description(tool({}, hidden + "\n\tÄ😀")) == "abcd[0mef\n\tÄ😀"


def test_a_description_has_a_greatest_length() -> None:
    assert len(definitions.description(tool({}, "x" * 100_000))) == 8192
    assert definitions.description(tool({})) == ""


def test_a_digest_is_of_what_the_server_said() -> None:
    assert definitions.digest(tool({}, "a")) != definitions.digest(tool({}, "a\u200b"))
