"""Arguments in a format's own syntax, held to the schemas of their tools."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from mistral_common.tokens.tokenizers import tekken

import unspool
from tests.constrained.turns.held import QWEN, allows, tool, turn
from tests.constrained.turns.walks import ids_of, letters, refused
from tests.constrained.vocabularies import Letters
from tests.laws.strategies import FORMATS
from unspool.constrained import (
    ConstraintError,
    LLGuidanceConstraint,
    SchemaError,
    guidance,
    json_schema,
)
from unspool.constrained.base import new_mask


def parameters(schema: Any, *texts: str, fmt: str = "qwen3_coder") -> list[bool]:
    """Whether the value of the only parameter may be spelled so."""
    tools = [
        tool({"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False})
    ]
    plain = Letters()
    grammar = turn(fmt, plain, tools=tools, tool_choice="required")
    call = {
        "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=x>\n{}\n</parameter>\n</function>\n</tool_call>",
        "pythonic": "[f(x={})]",
        "gemma4": "<|tool_call>call:f{{x:{}}}<tool_call|>",
    }[fmt]
    return [allows(grammar, call.format(text), plain) for text in texts]


class TestSchemas:
    @pytest.mark.parametrize(
        ("schema", "good", "bad"),
        [
            ({"type": "string"}, ["a", "", "1", "{", "a\nb"], []),
            ({"type": "integer", "minimum": 5}, ["5", "77"], ["4", "x", "5.5"]),
            ({"type": "number"}, ["5", "-1.5e3"], ["x", "1."]),
            ({"type": "boolean"}, ["true"], ["True", "1"]),
            ({"enum": ["a", "ab", 1, None]}, ["a", "ab", "1", "null"], ["b", "2"]),
            ({"const": {"a": [1]}}, ['{"a": [1]}'], ["{}"]),
            ({"type": ["integer", "string"]}, ["1", "x"], []),
            ({"anyOf": [{"type": "integer", "maximum": 9}, {"type": "string"}]}, ["9", "-3", "x"], ["10"]),
            (
                {"anyOf": [{"type": "integer", "exclusiveMinimum": 9}, {"type": "string"}]},
                ["10", "x"],
                ["9", "-1"],
            ),
            ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, ["null", "true"], ["1"]),
            ({"allOf": [{"type": "integer"}, {"minimum": 3}, {"minimum": 7}]}, ["7"], ["5"]),
            ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]}, ["3"], ["1", "4"]),
            ({"allOf": [{"enum": [1, 2]}, {"enum": [True, 2.0, [1]]}]}, ["2"], ["1", "true"]),
            ({"allOf": [{"enum": [[1], [0]]}, {"enum": [[True], [0]]}]}, ["[0]"], ["[1]", "[true]"]),
            ({"enum": ["a", "bbb"], "minLength": 2}, ["bbb"], ["a"]),
            ({"enum": [1, 20], "maximum": 3}, ["1"], ["20"]),
            ({"const": "a", "enum": ["b", "a"]}, ["a"], ["b"]),
            ({"enum": ["a", 1], "anyOf": [{"type": "string"}, {"minimum": 3}]}, ["a"], ["1"]),
            (
                {"enum": [{"a": 1}, {"b": 1}], "type": "object", "properties": {"a": {}}, "required": ["a"]},
                ['{"a": 1}'],
                ['{"b": 1}'],
            ),
            ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
            ({"type": "string", "pattern": "b"}, ["abc", "b"], ["ac"]),
            ({"type": "string", "pattern": "^a|b$"}, ["ac", "cb"], ["ca", "bc"]),
            ({"type": "string", "pattern": r"^[a/$^]\.$"}, ["a.", "/.", "$."], ["ab", "a"]),
            ({"type": "string", "format": "date"}, ["2024-02-28"], ["2024-13-01", "x", "2023-02-30"]),
            (
                {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 3}},
                [r'["a\"b"]', r'["\u00e9\\"]', r'["\ud83d\ude00a"]'],
                [r'["\""]', r'["\ud83d\ude00"]', r'["\ud83da"]', r'["ab\n\n"]'],
            ),
            ({"type": "array", "items": {"type": "integer"}, "maxItems": 1}, ["[]", "[1]", "[ 1 ]"], ["[1, 2]"]),
            (
                {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},
                ['{"a": null}'],
                ["{}", '{"b": 1}', '{"a": null, "b": 1}'],
            ),
            (
                {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
                ['{"b": 1}', '{"b": 1, "a": "x"}', "{}"],
                ['{"b": "x"}'],
            ),
            ({}, ["a", "1", "[1, {}]"], []),
            ({"type": "array"}, ["[]", '[1, "a", {"b": null}]'], ["1"]),
        ],
    )
    def test_of_text_values(self, schema: Any, good: list[str], bad: list[str]) -> None:
        assert parameters(schema, *good) == [True] * len(good)
        assert parameters(schema, *bad) == [False] * len(bad)

    @pytest.mark.parametrize(
        ("schema", "good", "bad"),
        [
            ({"type": "string"}, ['"a"', r'"\n\"\\"'], ["a", "'a'"]),
            ({"type": "string", "pattern": "^a+$"}, ['"aa"'], ['"b"', r'"\u0061"']),
            (
                {"type": "string", "minLength": 2, "maxLength": 3},
                [r'"a\"b"', r'"\n\\"', '"abc"'],
                [r'"\""', '"a"', r'"ab\n\n"', '"abcd"'],
            ),
            ({"type": ["boolean", "null"]}, ["True", "None"], ["true", "null"]),
            ({"enum": ["a", True]}, ['"a"', "True"], ["a"]),
            ({"type": "array", "items": {"type": "number"}}, ["[]", "[1, 2.5]"], ["[True]"]),
            ({"type": "object", "properties": {"a": {}}}, ['{"a": [None]}', "{}"], ['{"b": 1}']),
            ({}, ["1", "None", '[{"a": "b"}]'], ["x"]),
        ],
    )
    def test_of_python_literals(self, schema: Any, good: list[str], bad: list[str]) -> None:
        assert parameters(schema, *good, fmt="pythonic") == [True] * len(good)
        assert parameters(schema, *bad, fmt="pythonic") == [False] * len(bad)

    @pytest.mark.parametrize(
        ("schema", "good", "bad"),
        [
            ({"type": "string"}, ['<|"|>a "b"<|"|>'], ['"a"', "a"]),
            ({"type": ["boolean", "null"]}, ["true", "null"], ["True"]),
            ({"type": "object", "properties": {"a": {}}}, ["{}", '{a:[1,<|"|>b<|"|>]}'], ["{b:1}"]),
            ({}, ["1", "{a:{b:null}}"], ["x"]),
        ],
    )
    def test_of_relaxed_objects(self, schema: Any, good: list[str], bad: list[str]) -> None:
        assert parameters(schema, *good, fmt="gemma4") == [True] * len(good)
        assert parameters(schema, *bad, fmt="gemma4") == [False] * len(bad)

    @pytest.mark.parametrize(
        ("schema", "keyword", "pointer"),
        [
            ({"not": {"type": "string"}}, "not", "/properties/x"),
            ({"type": "array", "items": {"uniqueItems": True}}, "uniqueItems", "/properties/x/items"),
            ({"type": "string", "pattern": "a(?=b)"}, None, ""),
            ({"type": "string", "pattern": "(^a)"}, "pattern", "/properties/x"),
            ({"type": "string", "format": "postcode"}, "format", "/properties/x"),
            ({"type": "string", "minLength": "3"}, "minLength", "/properties/x"),
            ({"$ref": "#/$defs/none"}, "$ref", "/properties/x"),
            ({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, "oneOf", "/properties/x"),
            (
                {"anyOf": [{"type": "number", "minimum": 1}, {"type": "string"}]},
                "minimum",
                "/properties/x/anyOf/0",
            ),
            ({"allOf": [{"const": 1}, {"const": 2}]}, "const", "/properties/x"),
            ({"allOf": [{"const": 1}, {"const": True}]}, "const", "/properties/x"),
            ({"type": "string", "enum": [1]}, "enum", "/properties/x"),
            ({"const": "a", "enum": ["b"]}, "const", "/properties/x"),
            (False, None, ""),
        ],
    )
    def test_what_can_not_be_enforced_is_refused_or_said(self, schema: Any, keyword: Any, pointer: str) -> None:
        whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        if keyword is None:
            # Found when it is compiled, or needs nothing: a value that can't exist is left out.
            turn("qwen3_coder", tools=[tool(whole, strict=False)], tool_choice="required")
            return
        with pytest.raises(SchemaError, match="tool 'f'") as caught:
            turn("qwen3_coder", tools=[tool(whole)], tool_choice="required")
        assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)
        relaxed = turn("qwen3_coder", tools=[tool(whole, strict=False)], tool_choice="required")
        assert relaxed.warnings
        assert f"{keyword!r} at {pointer}" in relaxed.warnings[0]

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "minimax_m3", "pythonic", "gemma4"])
    @pytest.mark.parametrize(
        ("schema", "keyword", "reason"),
        [
            ({"type": "array", "minItems": "x"}, "minItems", "no number that it could be"),
            ({"type": "array", "minItems": None}, "minItems", "no number that it could be"),
            ({"type": "array", "maxItems": 10**10}, "maxItems", "more than the 1000000000 repetitions"),
            ({"type": "array", "minItems": 3, "maxItems": 2}, "maxItems", "less than minItems"),
            ({"type": "array", "items": [{}]}, "items", "no schema"),
            ({"enum": 5}, "enum", "no list"),
            ({"type": ["integer", "string"], "minimum": "x"}, "minimum", "no number that it could be"),
            ({"type": "integer", "minimum": "5"}, "minimum", "no number that it could be"),
            ({"type": "integer", "multipleOf": 0}, "multipleOf", "no number that it could be"),
            ({"type": "integer", "minimum": 10**20}, "minimum", "integer range"),
            ({"type": "number", "minimum": 3, "maximum": 2}, "minimum", "greater than maximum"),
            ({"type": "object", "properties": [1]}, "properties", "no object"),
            ({"type": "object", "required": "a"}, "required", "no list of names"),
            ({"type": "object", "additionalProperties": 1}, "additionalProperties", "no schema"),
            ({"type": "strin"}, "type", "no type"),
            ({"type": 5}, "type", "no type"),
            ({"type": []}, "type", "no type"),
            ({"anyOf": {}}, "anyOf", "no list of schemas"),
            ({"anyOf": []}, "anyOf", "no list of schemas"),
            ({"anyOf": ["x"]}, "anyOf", "no list of schemas"),
            ({"allOf": {}}, "allOf", "no list of schemas"),
            ({"$ref": 5}, "$ref", "no text"),
            ({"$ref": "#"}, "$ref", "no finite value"),
            (5, "schema", "no schema"),
            ({"type": "string", "pattern": "a("}, "pattern", "unclosed group"),
            ({"type": "string", "pattern": r"(a)\1"}, "pattern", "backreferences"),
            ({"type": "string", "pattern": "a(?=b)"}, "pattern", "look-around"),
            ({"type": "string", "pattern": 5}, "pattern", "no text"),
            ({"type": "string", "pattern": "^a$", "minLength": 2}, "pattern", "no text"),
            ({"type": "string", "minLength": 3, "maxLength": 2}, "maxLength", "less than minLength"),
        ],
    )
    def test_what_means_nothing_is_refused_or_said(self, fmt: str, schema: Any, keyword: str, reason: str) -> None:
        whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
        with pytest.raises(SchemaError, match=f"tool 'f'.*{reason}") as caught:
            turn(fmt, Letters(), tools=[tool(whole)], tool_choice="required")
        assert (caught.value.keyword, caught.value.pointer) == (keyword, "/properties/x")
        relaxed = turn(fmt, Letters(), tools=[tool(whole, strict=False)], tool_choice="required")
        assert f"{keyword!r} at /properties/x" in relaxed.warnings[0]
        LLGuidanceConstraint(relaxed, Letters())

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "minimax_m3", "pythonic", "gemma4"])
    @pytest.mark.parametrize("schema", [{"enum": [float("nan")]}, {"const": "\ud800"}])
    def test_what_is_no_json_is_refused(self, fmt: str, schema: Any) -> None:
        tools = [tool({"type": "object", "properties": {"x": schema}}, strict=False)]
        with pytest.raises(SchemaError, match=r"tool 'f': The schema is not JSON: '\w+' at /properties/x"):
            turn(fmt, Letters(), tools=tools, tool_choice="required")

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "minimax_m3", "pythonic", "gemma4"])
    def test_what_is_nested_too_deeply_is_refused(self, fmt: str) -> None:
        nested: dict[str, Any] = {"type": "null"}
        for _ in range(100):
            nested = {"type": "array", "items": nested}
        chain = {
            f"D{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/D{n + 1}"}}} for n in range(300)
        }
        for member, defined in ((nested, {}), ({"$ref": "#/$defs/D0"}, {**chain, "D300": {}})):
            schema = {"type": "object", "properties": {"a": member}, "$defs": defined}
            with pytest.raises(SchemaError, match="The schema of tool 'f' is nested too deeply"):
                turn(fmt, Letters(), tools=[tool(schema)], tool_choice="required")

    @pytest.mark.parametrize(
        ("fmt", "schema"),
        [
            ("pythonic", {"type": "string", "pattern": "^a\nb$"}),
            ("pythonic", {"type": "string", "pattern": '^"x"$'}),
            ("qwen3_coder", {"type": "array", "items": {"type": "string", "pattern": '^"x"$'}}),
            ("qwen3_coder", {"type": "array", "items": {"type": "string", "pattern": r"^\\$"}}),
        ],
    )
    def test_a_pattern_that_no_string_can_spell_is_refused(self, fmt: str, schema: Any) -> None:
        whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
        with pytest.raises(SchemaError, match=r"'pattern' at /properties/x.*no text satisfies it"):
            turn(fmt, Letters(), tools=[tool(whole)], tool_choice="required")

    def test_of_two_quotes_the_one_is_left_that_a_pattern_does_not_need(self) -> None:
        entries = {"type": "array", "items": {"type": "string", "pattern": "^'x'$"}}
        whole = {"type": "object", "properties": {"x": entries}, "required": ["x"], "additionalProperties": False}
        grammar = turn("seed_oss", Letters(), tools=[tool(whole)], tool_choice="required")
        call = "<seed:tool_call>\n<function=f>\n<parameter=x>{}</parameter>\n</function>\n</seed:tool_call>"
        assert allows(grammar, call.format("""["'x'"]"""), Letters())
        begun = call.partition("{}")[0] + "['"
        assert str(refused(grammar, Letters(), begun)).startswith(f"token {len(begun) - 1} of")

    @pytest.mark.parametrize(
        ("pattern", "good", "bad"),
        [
            (r"^\d\w\s$", ["1a ", "9_\u2003"], ["\u0663a ", "1\xe9 "]),
            (r"^[\d.]+[\w-]$", ["1.a", "1.-"], ["\u0663a", "1\xe9"]),
            (r"^\D\W\S$", ["\u0663\xe9a"], ["1\xe9a", "aaa", "a- "]),
            (r"^[\D][\W]$", ["\u0663\xe9"], ["1\xe9", "aa"]),
            (r"^[^\d]\\d$", ["\u0663\\d"], ["1\\d", "a1"]),
        ],
    )
    def test_classes_of_characters_are_those_of_json_schema(
        self, pattern: str, good: list[str], bad: list[str]
    ) -> None:
        schema = {"type": "string", "pattern": pattern}
        assert parameters(schema, *good) == [True] * len(good)
        assert parameters(schema, *bad) == [False] * len(bad)
        held = json_schema(schema)
        for text in good + bad:
            written = json.dumps(text, ensure_ascii=False)
            constraint = LLGuidanceConstraint(held, Letters(), end_tokens=[])
            fits = all(map(constraint.accept, written.encode())) and constraint.may_end
            assert fits is (text in good), text

    def test_of_json_llguidance_decides(self) -> None:
        schema = {"type": "object", "properties": {"x": {"not": {"const": 1}}}, "required": ["x"]}
        with pytest.raises(SchemaError, match=r"tool 'f': .*'not' at /properties/x") as caught:
            turn(tools=[tool(schema)])
        assert (caught.value.keyword, caught.value.pointer) == ("not", "/properties/x")
        relaxed = turn(tools=[tool(schema, strict=False)], tool_choice="required")
        assert relaxed.warnings[0].startswith("tool 'f': 'not' at /properties/x")
        assert relaxed.call_problems("f", '{"x": 1}')
        assert relaxed.call_problems("f", '{"x": 2}') == relaxed.call_problems("g", "{}") == []

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "pythonic", "hermes", "minimax_m3", "gemma4"])
    def test_more_parameters_than_bits(self, fmt: str) -> None:
        names = [f"p{number}" for number in range(80)]
        schema = {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in names},
            "required": ["p70", "p2"],
            "additionalProperties": False,
        }
        tokenizer = letters(FORMATS[fmt])
        grammar = turn(fmt, tokenizer, tools=[tool(schema)], tool_choice="required")
        needed = ["p2", "p70"]
        # Where something stands between parameters, those that must come are first.
        first = needed if fmt in ("pythonic", "gemma4") else []
        for kept in (needed, names):
            order = [*first, *(name for name in kept if name not in first)]
            arguments = json.dumps(dict.fromkeys(order, 1))
            text = unspool.write(fmt, unspool.Message(tool_calls=(unspool.ToolCall("", "f", arguments),)))
            assert allows(grammar, text, tokenizer), text
        assert not allows(grammar, text.replace("p70", "p71"), tokenizer)

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "glm45", "minimax_m3", "pythonic", "gemma4"])
    @pytest.mark.parametrize(
        ("schema", "good", "bad"),
        [
            ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}, {"b": 2, "a": 1}], [{}]),
            (
                {"anyOf": [{"$ref": "#/$defs/A"}, {"properties": {"a": {"const": 3}}}]},
                [{"a": 1}, {}, {"a": 3}],
                [{"a": 2}],
            ),
            ({"oneOf": [{"$ref": "#/$defs/A"}]}, [{"a": 1}], [{"a": 2}, {}]),
            ({"const": {"a": 1}}, [{"a": 1}], [{"a": 2}, {"a": 1, "b": 1}, {}]),
            (
                {"enum": [{"a": 1}, {"b": 2}, {}, {"a": "x"}]},
                [{"a": 1}, {"b": 2}, {}],
                [{"a": 2}, {"a": 1, "b": 2}],
            ),
        ],
    )
    def test_what_is_said_of_the_arguments_as_a_whole(
        self, fmt: str, schema: Any, good: list[Any], bad: list[Any]
    ) -> None:
        whole = {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "additionalProperties": False,
            **schema,
            "$defs": {"A": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
        }
        tokenizer = letters(FORMATS[fmt])
        grammar = turn(fmt, tokenizer, tools=[tool(whole)], tool_choice="required")
        for arguments, fits in [*((each, True) for each in good), *((each, False) for each in bad)]:
            call = unspool.ToolCall("", "f", json.dumps(arguments))
            text = unspool.write(fmt, unspool.Message(tool_calls=(call,)))
            assert allows(grammar, text, tokenizer) is fits, text

    @pytest.mark.parametrize(
        ("schema", "keyword"),
        [
            ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf"),
            ({"type": "string"}, "type"),
            ({"enum": [1, "a"], "type": ["object", "integer", "string"]}, "type"),
        ],
    )
    def test_what_arguments_can_not_be_is_refused(self, schema: Any, keyword: str) -> None:
        for fmt in ("qwen3_coder", "pythonic", "gemma4", "minimax_m3"):
            with pytest.raises(SchemaError, match="tool 'f'") as caught:
                turn(fmt, Letters(), tools=[tool(schema)], tool_choice="required")
            assert (caught.value.keyword, caught.value.pointer) == (keyword, "")
            relaxed = turn(fmt, Letters(), tools=[tool(schema, strict=False)], tool_choice="required")
            assert f"{keyword!r} at the root" in relaxed.warnings[0]

    @pytest.mark.parametrize("fmt", ["qwen3_coder", "glm45", "minimax_m3", "pythonic", "gemma4"])
    @pytest.mark.parametrize(
        "link",
        [
            {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
            {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "type": ["object", "null"]},
            {"allOf": [{"$ref": "#/$defs/Node"}]},
        ],
    )
    def test_what_refers_to_itself_may_be_null(self, fmt: str, link: Any) -> None:
        node = {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": link},
            "required": ["value"],
            "additionalProperties": False,
        }
        schema = {
            "type": "object",
            "properties": {"x": link},
            "required": ["x"],
            "additionalProperties": False,
            "$defs": {"Node": node},
        }
        tokenizer = letters(FORMATS[fmt])
        grammar = turn(fmt, tokenizer, tools=[tool(schema)], tool_choice="required")
        for value, fits in (
            ({"value": 1}, True),
            ({"value": 1, "next": {"value": 2, "next": {"value": 3}}}, True),
            ({"value": 1, "next": {"value": 2, "next": None}}, "anyOf" in link),
            (None, "anyOf" in link),
            ({"value": 1, "next": {"value": "a"}}, False),
            ({"value": 1, "next": {"next": None}}, False),
        ):
            call = unspool.ToolCall("", "f", json.dumps({"x": value}))
            text = unspool.write(fmt, unspool.Message(tool_calls=(call,)))
            assert allows(grammar, text, tokenizer) is fits, text

    def test_in_any_order_once(self) -> None:
        plain = Letters()
        schema = {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in "abc"},
            "required": ["b"],
            "additionalProperties": False,
        }
        grammar = turn("pythonic", plain, tools=[tool(schema)], tool_choice="required")
        for arguments in ("b=1", "a=1, b=2", "c=1, b=2, a=3"):
            assert allows(grammar, f"[f({arguments})]", plain), arguments
        for arguments in ("", "a=1", "b=1, b=2", "b=1,a=2", "b=1, d=2", "b=1, "):
            assert not allows(grammar, f"[f({arguments})]", plain), arguments


def node(children: str) -> dict[str, Any]:
    """A tool whose argument is a tree: each node has this member, of such nodes."""
    entry = {"$ref": "#/$defs/node"}
    members = {"children": {"type": "array", "items": entry}, "next": entry}
    tree = {"type": "object", "properties": {children: members[children]}, "additionalProperties": False}
    whole = {"type": "object", "properties": {"x": entry}, "required": ["x"], "additionalProperties": False}
    return tool({**whole, "$defs": {"node": tree}})


@pytest.mark.parametrize("fmt", ["qwen3_coder", "glm45", "minimax_m3", "gemma4", "pythonic", "lfm2", "seed_oss"])
@pytest.mark.parametrize(
    ("children", "value"), [("children", {"children": [{}, {"children": [{}]}]}), ("next", {"next": {"next": {}}})]
)
def test_what_holds_itself(fmt: str, children: str, value: Any) -> None:
    tokenizer = letters(FORMATS[fmt])
    grammar = turn(fmt, tokenizer, tools=[node(children)], tool_choice="required", reasoning="off")
    call = unspool.ToolCall("", "f", json.dumps({"x": value}))
    assert allows(grammar, unspool.write(fmt, unspool.Message(tool_calls=(call,))), tokenizer)


@pytest.mark.parametrize("fmt", ["qwen3_coder", "glm45", "pythonic", "lfm2", "gemma4", "minimax_m3"])
@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["", None]}, ["", None]),
        ({"const": {"x": [1]}}, [{"x": [1]}]),
        ({"type": ["integer", "array"]}, [12, [1]]),
        ({"oneOf": [{"type": "number"}, {"type": "object"}]}, [1.5, {"a": 1}]),
        ({}, [[1], {"a": [None]}, "a", 1]),
    ],
)
def test_odd_values_are_allowed_as_they_are_written(fmt: str, schema: Any, values: list[Any]) -> None:
    tokenizer = letters(FORMATS[fmt])
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
    grammar = turn(fmt, tokenizer, tools=[tool(whole)], tool_choice="required", reasoning="off")
    for value in values:
        call = unspool.ToolCall("", "f", json.dumps({"x": value}))
        text = unspool.write(fmt, unspool.Message(tool_calls=(call,)))
        assert allows(grammar, text, tokenizer), text


@pytest.mark.parametrize("fmt", ["pythonic", "gemma4", "qwen3_coder"])
def test_many_optional_members_are_parted_right(fmt: str) -> None:
    tokenizer = letters(FORMATS[fmt])
    names = {f"p{number}": {"type": "integer"} for number in range(70)}
    schema = {"type": "object", "properties": names, "additionalProperties": {"type": "boolean"}}
    grammar = turn(fmt, tokenizer, tools=[tool(schema)], tool_choice="required", reasoning="off")
    for arguments in ({}, {"p3": 2}, {"p3": 2, "p60": 1}, {"p3": 2, "more": True}, {"more": True, "less": False}):
        call = unspool.ToolCall("", "f", json.dumps(arguments))
        text = unspool.write(fmt, unspool.Message(tool_calls=(call,)))
        assert allows(grammar, text, tokenizer), text


def test_arguments_are_an_object() -> None:
    with pytest.raises(SchemaError, match="arguments are an object, not 'array'") as caught:
        turn(tools=[tool({"type": "array"})], tool_choice="required")
    assert caught.value.keyword == "type"
    for schema in ({"type": ["object", "null"]}, {"type": "array"}):
        grammar = turn(tools=[tool(schema, strict=False)], tool_choice="required")
        assert not allows(grammar, '<tool_call>\n{"name": "f", "arguments": null}\n</tool_call>')
        assert allows(grammar, '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')


@pytest.mark.parametrize(
    ("fmt", "value"),
    [
        ("qwen3_coder", "</function>"),
        ("glm45", "a</tool_call>"),
        ("gemma4", '<|"|>'),
        ("minimax_m2", "</parameter>"),
    ],
)
def test_values_that_spell_a_marker_are_refused_or_left_out(fmt: str, value: str) -> None:
    tokenizer = letters(FORMATS[fmt])
    whole = {"type": "object", "properties": {"x": {"enum": [value, "b"]}}, "additionalProperties": False}
    with pytest.raises(SchemaError, match="spells a marker of this format") as caught:
        turn(fmt, tokenizer, tools=[tool(whole)], tool_choice="required")
    assert (caught.value.keyword, caught.value.pointer) == ("enum", "/properties/x")
    grammar = turn(fmt, tokenizer, tools=[tool(whole, strict=False)], tool_choice="required", reasoning="off")
    assert "spells a marker" in grammar.warnings[0]
    for said in (value, "b"):
        call = unspool.Message(tool_calls=(unspool.ToolCall("", "f", json.dumps({"x": said})),))
        assert allows(grammar, unspool.write(fmt, call), tokenizer) is (said == "b")


@pytest.mark.parametrize("fuel", [None, 2_000])
def test_a_long_text_of_bounded_length_comes_to_its_end(fuel: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if fuel is not None:
        monkeypatch.setattr(guidance, "_FUEL", fuel)
    tokenizer = tekken.Tekkenizer.from_file(Path(tekken.__file__).parents[2] / "data" / "tekken_240911.json")
    text = {"type": "object", "properties": {"x": {"type": "string", "maxLength": 2000}}, "required": ["x"]}
    grammar = turn("minimax_m3", tokenizer, tools=[tool(text)], tool_choice="required")
    lines = "".join(f"def f{n}(x):\n    if x < {n}:\n        return [x, '{n}']\n" for n in range(60))[:2000]
    call = unspool.ToolCall("", "f", json.dumps({"x": lines}))
    ids = ids_of(tokenizer, unspool.write("minimax_m3", unspool.Message(tool_calls=(call,))))
    with pytest.raises(ConstraintError, match="too many expressions") if fuel else nullcontext():
        held, mask = LLGuidanceConstraint(grammar, tokenizer, end_tokens=[]), new_mask(tokenizer.n_words)
        assert all(held.mask(mask) and held.accept(token) for token in ids)


@pytest.mark.parametrize("fmt", ["qwen3_coder", "pythonic", "gemma4"])
def test_names_that_are_only_required_have_the_schema_of_undeclared_ones(fmt: str) -> None:
    tokenizer = letters(FORMATS[fmt])
    schema = {"type": "object", "required": ["b"], "additionalProperties": {"type": "integer"}}
    grammar = turn(fmt, tokenizer, tools=[tool(schema)], tool_choice="required", reasoning="off")
    for value, fits in ((7, True), ("no integer", False)):
        call = unspool.ToolCall("", "f", json.dumps({"b": value}))
        text = unspool.write(fmt, unspool.Message(tool_calls=(call,)))
        assert allows(grammar, text, tokenizer) is fits
    for barred in ({**schema, "additionalProperties": False}, {"properties": {"b": False}, "required": ["b"]}):
        with pytest.raises(SchemaError, match="'b' is not allowed to come"):
            turn(fmt, tokenizer, tools=[tool(barred)], tool_choice="required")


@pytest.mark.parametrize("tokenizer", [None, QWEN])
def test_schemas_that_are_no_json_are_named(tokenizer: Any) -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"allOf": [deep]}
    for schema, message in (({"enum": {1}}, "not JSON"), (deep, "too deep")):
        with pytest.raises(SchemaError, match=message):
            turn(tokenizer=tokenizer, tools=[tool(schema)], tool_choice="required")
