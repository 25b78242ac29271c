"""Arguments as models write them, against a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.mcp.executor import BadArgumentsError, parsed_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a", "b"],
    "$defs": {"b": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "must be a JSON object"),
        ('"add"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"a": 1}', "'b' is a required property"),
        ('{"a": "one", "b": 2}', "/a: 'one' is not of type 'integer'"),
        ('{"a": 1, "b": -1}', "/b: -1 is less than the minimum of 0"),
        ('{"a": 1, "b": NaN}', "not JSON"),
        ('{"a": 1, "b": 1e999}', "not JSON"),
        ('{"a": 1, "b": 2, "c": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("", "'a' is a required property"),
    ],
)
def test_arguments_that_a_tool_can_not_be_called_with_are_said(arguments: str, said: str) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        parsed_arguments(arguments, SCHEMA)
    assert said in str(caught.value)


def test_what_is_said_of_bad_arguments_is_short() -> None:
    with pytest.raises(BadArgumentsError) as caught:
        parsed_arguments('{"a": "' + "x" * 100_000 + '"}', SCHEMA)
    assert len(str(caught.value)) < 2000


def test_arguments_that_match() -> None:
    assert parsed_arguments('{"a": 1, "b": 2, "c": "\\ud83d\\ude00"}', SCHEMA) == {"a": 1, "b": 2, "c": "😀"}


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parsed_arguments(text, {"type": "object"}) == {}
