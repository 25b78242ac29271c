"""Turns as grammars: what may come when, which tools, which schemas, and what is refused."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from mistral_common.tokens.tokenizers import tekken

import unspool
from tests.constrained.turns.walks import TOOLS, ids_of, letters, refused
from tests.constrained.vocabularies import Letters
from tests.laws.strategies import FORMATS
from unspool.constrained import (
    ConstraintError,
    GrammarError,
    LLGuidanceConstraint,
    SchemaError,
    choice,
    guidance,
    json_schema,
    lark,
    regex,
)
from unspool.constrained.base import new_mask
from unspool.constrained.turns import TurnGrammar, turn_grammar
from unspool.formats.response_template import from_response_template

PARIS = '{"city": "Paris", "unit": "c"}'
CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS}}}\n</tool_call>'
SURE = '<tool_call>\n{"name": "get", "arguments": {"sure": true}}\n</tool_call>'
QWEN = Letters(special=("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>"), end=("<|im_end|>",))
"""As Qwen3's tokenizer: its markers are tokens."""


def tool(schema: Any, name: str = "f", strict: bool = True) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}


def turn(fmt: str = "hermes", tokenizer: Any = QWEN, *, tools: Any = TOOLS, **options: Any) -> TurnGrammar:
    grammar = turn_grammar(fmt, tokenizer, tools=tools, **options)
    assert grammar is not None
    return grammar


def allows(grammar: TurnGrammar, text: str, tokenizer: Any = QWEN) -> bool:
    return refused(grammar, tokenizer, text) is None


class TestChoices:
    @pytest.mark.parametrize("choice", ["auto", "none", None, {"type": "auto"}, {"type": "none"}])
    def test_what_is_free_has_no_grammar(self, choice: Any) -> None:
        tools = [tool({}, strict=False)]
        assert turn_grammar("hermes", QWEN, tools=tools, tool_choice=choice) is None
        assert turn_grammar("hermes", QWEN, tool_choice=choice) is None
        assert turn_grammar("hermes", QWEN, tools=TOOLS, tool_choice="none") is None

    def test_auto_is_text_or_calls(self) -> None:
        grammar = turn()
        for text in (
            "Hello.",
            "",
            CALL,
            f"Let me see.\n{CALL}",
            f"{CALL}\n{SURE}",
            f"<think>\nHm.\n</think>\n\n{CALL}",
        ):
            assert allows(grammar, text), text
        for text in (f"{CALL}\nDone.", "<tool_call>\n{}", "Hello.<think>", "<think>Hm."):
            assert not allows(grammar, text), text

    @pytest.mark.parametrize("choice", ["required", "any", {"type": "required"}, {"type": "any"}])
    def test_a_call_may_have_to_come(self, choice: Any) -> None:
        grammar = turn(tool_choice=choice)
        for text in (CALL, f"{CALL}\n{SURE}", f"<think>\nHm.\n</think>\n\n{CALL}"):
            assert allows(grammar, text), text
        for text in ("Hello.", "", f"Let me see.\n{CALL}"):
            assert not allows(grammar, text), text

    @pytest.mark.parametrize(
        "choice",
        [
            "get",
            {"type": "function", "function": {"name": "get"}},
            {"type": "function", "name": "get"},
            {"type": "tool", "name": "get"},
        ],
    )
    def test_a_named_tool_is_called_once(self, choice: Any) -> None:
        grammar = turn(tool_choice=choice)
        assert allows(grammar, SURE)
        for text in (CALL, f"{SURE}\n{SURE}", f"{SURE}\n{CALL}", "Hello."):
            assert not allows(grammar, text), text

    @pytest.mark.parametrize("nested", [True, False])
    def test_allowed_tools(self, nested: bool) -> None:
        listed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "get"}}]}
        choice = {"type": "allowed_tools", **({"allowed_tools": listed} if nested else listed)}
        grammar = turn(tool_choice=choice)
        assert allows(grammar, f"{SURE}\n{SURE}")
        assert not allows(grammar, CALL)
        auto = turn(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"name": "get"}]})
        assert allows(auto, "Hello.")
        assert allows(auto, SURE)
        assert not allows(auto, CALL)

    def test_calls_may_have_to_be_single(self) -> None:
        grammar = turn(tool_choice="required", parallel_tool_calls=False)
        assert allows(grammar, CALL)
        assert not allows(grammar, f"{CALL}\n{SURE}")

    @pytest.mark.parametrize(
        ("tools", "choice", "message"),
        [
            (TOOLS, "nothing", r"names 'nothing', which is not among the tools \(get_weather, get, save"),
            (TOOLS, {"type": "function", "function": {"name": "x"}}, "names 'x'"),
            ([], "required", "there are no tools"),
            (None, {"type": "any"}, "there are no tools"),
            ([{"type": "function", "function": {"name": ""}}], "auto", r"tools\[0\] must be a function tool"),
            ([3], "auto", r"tools\[0\] must be a function tool"),
        ],
    )
    def test_what_can_not_be_chosen_is_named(self, tools: Any, choice: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            turn_grammar("hermes", QWEN, tools=tools, tool_choice=choice)

    def test_the_operator_chooses_what_other_calls_are_held_to(self) -> None:
        tools = [tool({"type": "object", "properties": {"n": {"type": "integer"}}}, strict=False)]
        wrong = '<tool_call>\n{"name": "f", "arguments": {"n": "x"}}\n</tool_call>'
        assert turn_grammar("hermes", QWEN, tools=tools) is None
        assert allows(turn(tools=tools, constrain="envelope"), wrong)
        assert not allows(turn(tools=tools, constrain="schema"), wrong)
        assert not allows(turn(tools=tools, constrain="envelope"), '<tool_call>\n{"name": "g", "arguments": {}}\n')
        # Beside a strict tool, a call of another is held to its form.
        both = [*tools, tool({"type": "object", "additionalProperties": False}, "g")]
        assert allows(turn(tools=both), wrong)
        assert not allows(turn(tools=both), wrong.replace('"f"', '"g"'))

    def test_a_second_request_makes_nothing(self) -> None:
        tokenizer = Letters()
        first = turn(tokenizer=tokenizer, tool_choice="required")
        assert turn(tokenizer=tokenizer, tool_choice="required") is first
        assert turn(tokenizer=tokenizer, tool_choice="auto") is not first


class TestReasoning:
    def test_off_auto_and_required(self) -> None:
        thought = f"<think>\nHm.\n</think>\n\n{CALL}"
        for reasoning, with_it, without in (("auto", True, True), ("off", False, True), ("required", True, False)):
            grammar = turn(tool_choice="required", reasoning=reasoning)
            assert allows(grammar, thought) is with_it
            assert allows(grammar, CALL) is without

    def test_the_prompt_decides_where_it_starts(self) -> None:
        opened = "<|im_start|>assistant\n<think>\n"
        grammar = turn("qwen3_thinking", prompt=opened, tool_choice="required")
        assert allows(grammar, f"Hm.\n</think>\n\n{CALL}")
        assert not allows(grammar, CALL)
        off = turn("qwen3_thinking", prompt=opened, tool_choice="required", reasoning="off")
        assert allows(off, f"\n</think>\n\n{CALL}")
        assert not allows(off, f"Hm.\n</think>\n\n{CALL}")
        closed = turn("qwen3_thinking", prompt=f"{opened}\n</think>\n\n", tool_choice="required")
        assert allows(closed, CALL)

    def test_where_there_is_none_it_can_not_be_demanded(self) -> None:
        with pytest.raises(GrammarError, match="'llama3_json' can't reason here"):
            turn("llama3_json", tool_choice="required", reasoning="required")

    def test_a_call_that_the_prompt_begins_goes_on(self) -> None:
        for name, begun in (("functionary_v3", ">>>"), ("hermes", "<tool_call>")):
            tokenizer = letters(FORMATS[name])
            prompt = unspool.get_format(name).turns[0] + begun
            message = unspool.Message(tool_calls=(unspool.ToolCall("", "get_weather", PARIS),))
            text = unspool.write(name, message, prompt=prompt)
            assert not text.startswith(begun)
            grammar = turn(name, tokenizer, prompt=prompt, tool_choice="required")
            assert allows(grammar, text, tokenizer)
        with pytest.raises(GrammarError, match="The prompt ends with '<tool_call>'"):
            turn(prompt="<|im_start|>assistant\n<tool_call>", tool_choice="none", response=regex("a"))


class TestResponse:
    @pytest.mark.parametrize(
        ("response", "good", "bad"),
        [
            (json_schema({"type": "object", "properties": {"a": {"type": "null"}}}), '{"a": null}', '{"a": 1}'),
            (regex("[ab]+"), "abba", "c"),
            (choice(["yes", "no"]), "no", "maybe"),
            (lark('start: "x" y\ny: "y"'), "xy", "xx"),
        ],
    )
    def test_content_is_held_and_reasoning_free(self, response: Any, good: str, bad: str) -> None:
        grammar = turn(tools=None, response=response)
        for before in ("", "<think>\nA <b> c {\n</think>\n\n"):
            assert allows(grammar, before + good)
            assert not allows(grammar, before + bad)

    def test_beside_tools_a_call_may_come_instead(self) -> None:
        response = regex("[ab]+")
        auto = turn(response=response)
        assert allows(auto, "ab")
        assert allows(auto, CALL)
        assert not allows(auto, f"ab\n{CALL}")
        assert not allows(auto, "Hello.")
        required = turn(response=response, tool_choice="required")
        assert allows(required, CALL)
        assert not allows(required, "ab")
        none = turn(response=response, tool_choice="none")
        assert allows(none, "ab")
        assert not allows(none, CALL)

    def test_in_a_channel(self) -> None:
        tokenizer = Letters(special=("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"))
        grammar = turn("gpt_oss", tokenizer, tools=None, response=regex("[ab]+"))
        for text in (
            "<|channel|>final<|message|>ab",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>ab",
        ):
            assert allows(grammar, text, tokenizer)
            assert not allows(grammar, text + "c", tokenizer)

    def test_in_a_frame(self) -> None:
        tokenizer = letters(FORMATS["ernie45"])
        grammar = turn("ernie45", tokenizer, tools=None, response=regex("[ab]+"), prompt="")
        assert allows(grammar, "<response>\nab\n</response>\n", tokenizer)
        assert not allows(grammar, "ab", tokenizer)

    def test_what_it_can_not_enforce_is_carried_on(self) -> None:
        response = json_schema({"not": {"const": 1}}, strict=False)
        grammar = turn(tools=None, response=response)
        assert grammar.warnings == response.warnings
        assert grammar.problems("1")


class TestText:
    def test_markers_that_readers_know_by_id_are_letters_elsewhere(self) -> None:
        ids = [*b"Say <tool_call> or <think>."]
        parser = unspool.Parser(unspool.get_format("hermes"), tools=TOOLS, tokenizer=QWEN)
        message = unspool.Message.from_events(parser.feed_tokens(ids) + parser.finish())
        assert message.content == "Say <tool_call> or <think>."
        held = LLGuidanceConstraint(turn(), QWEN)
        assert all(map(held.accept, ids))

    def test_other_markers_can_not_be_spelled(self) -> None:
        plain = Letters()
        assert not allows(turn(tokenizer=plain), "Say <tool_call> or so.", plain)
        assert not allows(turn(tokenizer=plain), "<think>a</think>b</think>", plain)
        assert allows(turn(tokenizer=plain), "Say <tool_cal> or so.", plain)
        coder = turn("qwen3_coder", plain, tool_choice="required")
        call = "<tool_call>\n<function=get_weather>\n<parameter=city>\n{}\n</parameter>\n<parameter=unit>\nc\n"
        call += "</parameter>\n</function>\n</tool_call>"
        assert allows(coder, call.format("a </para> b"), plain)
        assert not allows(coder, call.format("a </parameter> b"), plain)


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


def test_a_response_template_says_nothing_about_writing() -> None:
    fmt = from_response_template({"start_anchor": "<bot>", "fields": {"content": {}}})
    with pytest.raises(GrammarError, match="how an output is read and not how"):
        turn_grammar(fmt, QWEN, response=regex("a"))


def test_a_format_without_calls_has_none_to_demand() -> None:
    name = next(name for name, fmt in FORMATS.items() if fmt.calls is None)
    with pytest.raises(GrammarError, match="has no calls"):
        turn(name, tool_choice="required")


@pytest.mark.parametrize(
    ("fmt", "name", "key", "message"),
    [
        ("qwen3_coder", "a b", "x", "The tool 'a b' can't be called: .name: 'a b' can't be written"),
        ("pythonic", "f", "a b", "The tool 'f' can't be called: 'a b' is no Python keyword"),
        ("kimi_k2", "f\n", "x", "The tool 'f.n' can't be called: .name"),
    ],
)
def test_names_that_no_call_can_have_are_named(fmt: str, name: str, key: str, message: str) -> None:
    tools = [tool({"type": "object", "properties": {key: {"type": "string"}}}, name)]
    with pytest.raises(GrammarError, match=re.escape(message).replace(r"\.n", ".+")):
        turn(fmt, tools=tools)


def test_a_channel_that_the_prompt_begins_goes_on() -> None:
    tokenizer = letters(FORMATS["gpt_oss"])
    for begun, rest in (
        ("<|channel|>", "final<|message|>ab"),
        ("<|channel|>analysis<|message|>", "Hm.<|end|><|start|>assistant<|channel|>final<|message|>ab"),
        ("<|channel|>analysis<|message|>Hm", ".<|end|><|start|>assistant<|channel|>final<|message|>ab"),
    ):
        prompt = f"<|start|>assistant{begun}"
        grammar = turn("gpt_oss", tokenizer, tools=None, response=regex("[ab]+"), prompt=prompt)
        assert allows(grammar, rest, tokenizer), begun
        assert not allows(grammar, "<|channel|>final<|message|>ab", tokenizer), begun


def test_reasoning_may_have_to_come_in_its_channel() -> None:
    tokenizer = letters(FORMATS["gpt_oss"])
    grammar = turn("gpt_oss", tokenizer, reasoning="required")
    final = "<|channel|>final<|message|>ab"
    assert not allows(grammar, final, tokenizer)
    for first in ("analysis", "commentary"):
        text = f"<|channel|>{first}<|message|>Hm.<|end|><|start|>assistant{final}"
        assert allows(grammar, text, tokenizer) is (first == "analysis")


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


@pytest.mark.parametrize(
    ("prompt", "rest"),
    [
        ("<tool_call>", CALL.removeprefix("<tool_call>")),
        ("Ok.\n<tool_call>\n", CALL.removeprefix("<tool_call>\n")),
        ('<think>\n\n</think>\n\n<tool_call>\n{"name": "get', CALL[len('<tool_call>\n{"name": "get') :]),
        ("Let me", f" see.\n{CALL}"),
    ],
)
def test_what_the_prompt_begins_goes_on(prompt: str, rest: str) -> None:
    plain = Letters()
    grammar = turn(tokenizer=plain, prompt=f"<|im_start|>assistant\n{prompt}", tool_choice="required")
    assert allows(grammar, rest, plain)
    assert not allows(grammar, CALL, plain) or prompt == "Let me"
    assert not allows(grammar, f"<think>\nHm.\n</think>\n\n{CALL}", plain)


@pytest.mark.parametrize("prompt", ['<tool_call>\n{"name": "get", "arguments": {"s', "<tool_call>\nx"])
def test_a_call_of_which_too_much_is_there_can_not_go_on(prompt: str) -> None:
    with pytest.raises(GrammarError, match="The prompt ends with"):
        turn(tokenizer=Letters(), prompt=f"<|im_start|>assistant\n{prompt}", tool_choice="required")


def test_reasoning_that_the_prompt_closed_can_not_be_demanded() -> None:
    with pytest.raises(GrammarError, match="the prompt has closed it"):
        turn(prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n", reasoning="required")


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


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"type": "allowed_tools", "mode": "required", "tools": []},
        {"type": "allowed_tools", "mode": "bogus", "tools": ["get"]},
        {"type": "allowed_tools", "allowed_tools": 3},
    ],
)
def test_choices_that_are_none(choice: Any) -> None:
    with pytest.raises(ValueError, match="tool_choice must"):
        turn(tool_choice=choice)


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


def test_answers_that_relax_to_the_same_text_keep_their_own_checks() -> None:
    tokenizer = Letters()
    for letter in "ab":
        response = json_schema({"type": "string", "pattern": f"(?={letter})"}, strict=False)
        grammar = turn(tokenizer=tokenizer, tools=None, response=response)
        assert [bool(grammar.problems(text)) for text in ('"a"', '"b"')] == [letter == "b", letter == "a"]


@pytest.mark.parametrize("tokenizer", [None, QWEN])
def test_schemas_that_are_no_json_are_named(tokenizer: Any) -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"allOf": [deep]}
    for schema, message in (({"enum": {1}}, "not JSON"), (deep, "too deep")):
        with pytest.raises(SchemaError, match=message):
            turn(tokenizer=tokenizer, tools=[tool(schema)], tool_choice="required")


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "function": "get"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"function": "get"}]},
    ],
)
def test_a_name_need_not_be_wrapped(choice: Any) -> None:
    assert allows(turn(tool_choice=choice), SURE)


def test_the_same_warning_is_said_once() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"not": {"type": "null"}}}}}
    warnings = turn("seed_oss", tools=[tool(schema, strict=False)], tool_choice="required").warnings
    assert len(set(warnings)) == len(warnings) > 0
