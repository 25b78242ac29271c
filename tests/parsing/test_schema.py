"""Types of textual values, resolved from the tool's schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.parsing.codecs.json import without_controls
from unspool.parsing.schema import JSON, STRING, Types, convert, fate, offered_tools, resolve

ROOT: dict[str, Any] = {
    "$defs": {
        "Size": {"type": "integer"},
        "Mode": {"enum": ["1", "2"]},
        "Loop": {"$ref": "#/$defs/Loop"},
        "a/b": {"type": "number"},
        "a b": {"type": "boolean"},
        "List": {"anyOf": [{"type": "array"}, {"type": "null"}]},
    }
}


def types(*names: str) -> Types:
    return frozenset(names)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": "Float"}, {"number"}),
        ({"type": "unheard of"}, set()),
        ({"type": 7}, set()),
        ({"$ref": "#/$defs/Size"}, {"integer"}),
        ({"$ref": "#/$defs/a~1b"}, {"number"}),
        ({"$ref": "#/$defs/Mode"}, {"string"}),
        ({"$ref": "#/$defs/Missing"}, set()),
        ({"$ref": "#/$defs/Size/type"}, set()),
        ({"$ref": "#/$defs/Size/type/deeper"}, set()),
        ({"$ref": "https://example.org/size"}, set()),
        ({"$ref": "#anchor"}, set()),
        ({"$ref": "#/$defs/a%20b"}, {"boolean"}),
        ({"$ref": "#/$defs/List/anyOf/1"}, {"null"}),
        ({"$ref": "#/$defs/List/anyOf/2"}, set()),
        ({"$ref": "#/$defs/Loop"}, set()),
        ({"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]}, {"integer", "null"}),
        ({"allOf": [{"type": "object"}]}, {"object"}),
        ({"enum": [1, 1.5, True, None, [], {}]}, {"integer", "number", "boolean", "null", "array", "object"}),
        ({"const": "x"}, {"string"}),
        ({"enum": ["a", 1]}, {"string", "integer"}),
        ({"type": ["string", "integer"], "enum": [1, 2]}, {"integer"}),
        ({"type": ["string", "number"], "enum": [1, 2]}, {"number"}),
        ({"type": "string", "enum": [1, 2]}, {"string"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}], "enum": [1, 2]}, {"integer"}),
        ({"anyOf": [{"type": "string"}, {"enum": [1, 2]}]}, {"string", "integer"}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}], "const": "1"}, {"string"}),
        ({"allOf": [{"type": ["string", "null"]}, {"enum": ["a"]}]}, {"string"}),
        ({"type": ["string", "integer"], "$ref": "#/$defs/Mode"}, {"string"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"properties": {}}, {"object"}),
        ({"items": {}}, {"array"}),
        (True, set()),
        ({}, set()),
    ],
)
def test_resolved_types(schema: Any, expected: set[str]) -> None:
    assert resolve(schema, ROOT) == expected


@pytest.mark.parametrize(
    ("text", "member", "expected"),
    [
        ("007", STRING, '"007"'),
        ("null", types("string"), '"null"'),
        ("null", types("string", "null"), "null"),
        ("None", types("string", "null"), '"None"'),
        ("None", types("integer", "null"), "null"),
        ("5", types("string", "integer"), "5"),
        ("05", types("string", "integer"), '"05"'),
        ("5", types("string", "number"), "5"),
        ('"a"', types("string", "integer"), '"\\"a\\""'),
        ("-007", types("integer"), "-7"),
        ("-0", types("integer"), "0"),
        ("5.0", types("integer"), "5"),
        ("1_000", types("integer"), '"1_000"'),
        ("١٢", types("integer"), '"١٢"'),
        ("1e20", types("number"), "1e20"),
        ("+.5", types("number"), "0.5"),
        ("1e999", types("number"), "1e999"),
        ("+1e999", types("number"), "1e999"),
        ("-007.", types("number"), "-7.0"),
        ("1.10", types("number"), "1.10"),
        (".", types("number"), '"."'),
        ("9" * 5000, types("integer"), "9" * 5000),
        ("9" * 5000, types("integer", "string"), "9" * 5000),
        ("[" + "9" * 5000 + "]", types("array"), "[" + "9" * 5000 + "]"),
        ("nan", types("number"), '"nan"'),
        ("True", types("boolean"), "true"),
        ("0", types("boolean"), "false"),
        ("maybe", types("boolean"), '"maybe"'),
        ('{"a": NaN}', types("object"), '"{\\"a\\": NaN}"'),
        ("{'a': None, 'b': (1,)}", types("object"), '{"a": null, "b": [1]}'),
        ("{'a': 1e999}", types("object"), '{"a": 1e999}'),
        (r"['\d']", types("array"), r'["\\d"]'),
        ("{'a': f()}", types("object"), "\"{'a': f()}\""),
        ("[1] [2]", types("array"), '"[1] [2]"'),
        ("True", types("json", "boolean"), "true"),
        ("maybe", types("json", "boolean"), '"maybe"'),
        ('"x"', types("json", "boolean"), '"x"'),
        ("[1, 2,]", types("array"), "[1, 2]"),
        ('["a\nb"]', types("array"), '["a\\nb"]'),
        ('["a\nb", 1e999, 1.10]', types("array"), '["a\\nb", 1e999, 1.10]'),
        ('["a\\\nb"]', types("array"), '["ab"]'),
        ("{1", types("object"), '"{1"'),
        ("{1, 2}", types("object"), '"{1, 2}"'),
        ("text", types("object"), '"text"'),
        ("[" * 3000, types("array"), json.dumps("[" * 3000)),
        ("3", frozenset(), "3"),
        ("by 3", frozenset(), '"by 3"'),
        ('"a"', frozenset(), '"\\"a\\""'),
        ('"a"', JSON, '"a"'),
        ("a", JSON, '"a"'),
    ],
)
def test_conversion(text: str, member: Types, expected: str) -> None:
    assert convert(text, member) == expected


@pytest.mark.parametrize(
    ("text", "member", "expected"),
    [
        ("", STRING, "text"),
        ("", types("integer"), "held"),
        ("", frozenset(), "open"),
        ("hello", types("string", "null"), "text"),
        ("nu", types("string", "null"), "open"),
        ("nu", types("string", "integer"), "text"),
        ("12", types("string", "integer"), "open"),
        ("12", types("string", "boolean"), "text"),
        (" {", frozenset(), "held"),
        ("[", types("string", "array"), "held"),
        ("[", types("string", "object"), "text"),
        ("1" * 65, frozenset(), "text"),
        (" " * 65, frozenset(), "text"),
    ],
)
def test_when_a_value_may_stream(text: str, member: Types, expected: str) -> None:
    assert fate(member, text) == expected


def test_tools_in_either_form() -> None:
    schema = {
        "allOf": [{"properties": {"n": {"type": "integer"}}, "required": ["n", 3]}],
        "properties": {"s": {"type": "string"}},
        "additionalProperties": {"type": "boolean"},
        "required": "s",
    }
    tools = offered_tools(
        [
            {"type": "function", "function": {"name": "a", "parameters": schema}},
            {"name": "b", "input_schema": {"anyOf": "nothing", "oneOf": [3]}},
            {"name": "c", "parameters": None},
        ]
    )
    assert tools["a"].type_of("n") == {"integer"}
    assert tools["a"].type_of("s") == {"string"}
    assert tools["a"].type_of("else") == {"boolean"}
    assert tools["a"].required == ("s", "n") or tools["a"].required == ("n",)
    assert tools["b"].type_of("x") == tools["c"].type_of("x") == frozenset()


def test_a_schema_that_refers_to_itself_in_many_ways_is_resolved_at_once() -> None:
    node: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/Node"} for _ in range(20)] + [{"type": "null"}]}
    root = {"$defs": {"Node": node}}
    assert resolve({"$ref": "#/$defs/Node"}, root) == {"null"}


@pytest.mark.parametrize("tool", [{"type": "function", "function": {}}, {"function": 3}, None, "get_weather"])
def test_a_tool_without_a_name_is_refused(tool: Any) -> None:
    with pytest.raises(ValueError, match=r"tools\[1\] must be a function tool with a name"):
        offered_tools([{"name": "f"}, tool])


@pytest.mark.parametrize("tools", [{"name": "f"}, "[]"])
def test_tools_that_are_no_list_are_refused(tools: Any) -> None:
    with pytest.raises(TypeError, match="must be a list of OpenAI function tools"):
        offered_tools(tools)


def test_a_string_that_never_ends_is_looked_at_once() -> None:
    assert without_controls('["a\nb", "' + '\\"\n' * 3) == '["a\\nb", "' + '\\"\\n' * 3
