"""What servers are sent: the fields, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.constrained.turns.acceptor import refused
from unspool import Message, ToolCall
from unspool.constrained import (
    GrammarError,
    RemoteConstraint,
    SchemaError,
    choice,
    ebnf,
    for_llama_server,
    for_sglang,
    for_vllm,
    json_schema,
    lark,
    regex,
    turn_gbnf,
)
from unspool.formats import get_format, write

SERVERS = pytest.mark.parametrize("server", [for_vllm, for_sglang, for_llama_server, turn_gbnf])
Server = Callable[..., RemoteConstraint | None]

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "number"}},
    "required": ["n"],
    "additionalProperties": False,
}


def tool(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"type": "function", "function": {"name": "get", "strict": True, "parameters": schema}}


TOOLS = [tool(city={"type": "string"})]
CALL = Message(tool_calls=(ToolCall("", "get", '{"city": "Oslo"}'),))


def fields(made: RemoteConstraint | None) -> dict[str, Any]:
    assert made is not None
    assert json.loads(json.dumps(dict(made.fields))) == made.fields
    return dict(made.fields)


def grammar_of(made: RemoteConstraint | None) -> str:
    """The grammar among the fields, wherever a server wants it."""
    found = fields(made)
    found = found.get("structured_outputs", found)
    return str(found.get("grammar") or found["ebnf"])


class TestAnAnswerAlone:
    def test_a_schema_has_a_field_of_its_own_everywhere(self) -> None:
        given: dict[str, Any] = {"response": json_schema(SCHEMA), "reasoning": "off"}
        assert fields(for_vllm("qwen3", **given)) == {"structured_outputs": {"json": SCHEMA}}
        assert fields(for_sglang("qwen3", **given)) == {"json_schema": json.dumps(SCHEMA)}
        assert fields(for_llama_server("qwen3", **given)) == {"json_schema": SCHEMA}

    def test_so_it_is_in_a_format_without_reasoning(self) -> None:
        assert fields(for_llama_server("llama3_json", response=json_schema(SCHEMA))) == {"json_schema": SCHEMA}

    @SERVERS
    @pytest.mark.parametrize("schema", [True, {}])
    def test_a_schema_that_allows_everything_is_a_grammar(self, server: Server, schema: Any) -> None:
        grammar = grammar_of(server("hermes", response=json_schema(schema), reasoning="off"))
        assert refused(grammar, '[1, {"a": null}]') is None
        assert refused(grammar, "[1") is not None

    def test_an_expression_and_choices(self) -> None:
        assert fields(for_vllm("hermes", response=regex("a+"), reasoning="off")) == {
            "structured_outputs": {"regex": "a+"}
        }
        assert fields(for_vllm("hermes", response=choice("ab"), reasoning="off")) == {
            "structured_outputs": {"choice": ["a", "b"]}
        }
        assert fields(for_sglang("hermes", response=regex("a+"), reasoning="off")) == {"regex": "a+"}
        for server in (for_sglang, for_llama_server):
            assert refused(grammar_of(server("hermes", response=choice("ab"), reasoning="off")), "b") is None
        assert refused(grammar_of(for_llama_server("hermes", response=regex("a+"), reasoning="off")), "aa") is None

    def test_grammars_go_where_they_are_understood(self) -> None:
        gbnf, other = ebnf('root ::= "a"'), lark('start: "a"')
        for server in (for_vllm, for_sglang, for_llama_server):
            assert grammar_of(server("hermes", response=gbnf, reasoning="off")) == 'root ::= "a"'
        assert grammar_of(for_vllm("hermes", response=other, reasoning="off")) == 'start: "a"'
        for server in (for_sglang, for_llama_server):
            with pytest.raises(GrammarError, match="A Lark grammar can't be part"):
                server("hermes", response=other, reasoning="off")

    def test_what_llama_cpp_passes_over_becomes_a_grammar_or_is_refused(self) -> None:
        held = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}}}
        assert "json_schema" in fields(for_llama_server("hermes", response=json_schema(held), reasoning="off"))
        code = {"type": "string", "pattern": "^[ab]+$", "maxLength": 3}
        grammar = grammar_of(for_llama_server("hermes", response=json_schema(code), reasoning="off"))
        assert refused(grammar, '"abb"') is None
        assert refused(grammar, '"abba"') is not None
        with pytest.raises(SchemaError, match="can't calculate") as error:
            for_llama_server("hermes", response=json_schema({"type": "number", "multipleOf": 3}), reasoning="off")
        assert error.value.keyword == "multipleOf"

    def test_an_offered_schema_keeps_its_warnings(self) -> None:
        offered = json_schema({"type": "array", "uniqueItems": True}, strict=False)
        assert offered.warnings
        for server in (for_vllm, for_sglang, for_llama_server):
            made = server("hermes", response=offered, reasoning="off")
            assert made is not None
            assert any("uniqueItems" in warning for warning in made.warnings)


class TestATurn:
    @SERVERS
    def test_nothing_is_sent_where_nothing_is_held(self, server: Server) -> None:
        assert server("hermes") is None
        loose = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}]
        assert server("hermes", tools=loose) is None
        assert server("hermes", tools=TOOLS, tool_choice="none") is None

    @SERVERS
    def test_a_call_that_must_come(self, server: Server) -> None:
        grammar = grammar_of(server("qwen3_coder", tools=TOOLS, tool_choice="required"))
        assert refused(grammar, write(get_format("qwen3_coder"), CALL)) is None
        assert refused(grammar, "Hi.") is not None

    def test_calls_that_may_come(self) -> None:
        for found in (
            fields(for_vllm("hermes", tools=TOOLS))["structured_outputs"],
            fields(for_sglang("hermes", tools=TOOLS)),
        ):
            assert json.loads(found["structural_tag"])["type"] == "structural_tag"
        for made in (for_llama_server("hermes", tools=TOOLS), for_vllm("qwen3_coder", tools=TOOLS)):
            assert refused(grammar_of(made), "Hi.") is None
        assert (
            refused(grammar_of(for_llama_server("hermes", tools=TOOLS)), write(get_format("hermes"), CALL)) is None
        )

    @SERVERS
    def test_an_answer_behind_reasoning_or_beside_calls(self, server: Server) -> None:
        reasoned = grammar_of(server("qwen3", response=json_schema(SCHEMA)))
        assert refused(reasoned, '<think>\nHm.\n</think>\n\n{"n": 1.5}') is None
        assert refused(reasoned, '<think>\nHm.\n</think>\n\n{"n": "x"}') is not None
        either = grammar_of(server("qwen3", response=choice(["yes", "no"]), tools=TOOLS))
        assert refused(either, "no") is None
        assert refused(either, write(get_format("qwen3"), CALL)) is None
        assert refused(either, "maybe") is not None
        pattern = grammar_of(server("qwen3", response=regex("[0-9]{3}"), reasoning="required"))
        assert refused(pattern, "<think>\nHm.\n</think>\n\n123") is None
        assert refused(pattern, "123") is not None

    @SERVERS
    def test_an_answer_spells_no_marker_where_that_can_be_said(self, server: Server) -> None:
        text = {"type": "object", "properties": {"s": {"type": "string"}}}
        for response in (json_schema(text), regex(r'\{"s": "[^"]*"\}')):
            grammar = grammar_of(server("qwen3", response=response, tools=TOOLS, tool_choice="auto"))
            assert refused(grammar, '{"s": "a <tool"}') is None
            assert refused(grammar, '{"s": "a <tool_call>"}') is not None
        marked = grammar_of(server("qwen3", response=regex("<think>+"), tools=TOOLS))
        assert refused(marked, "<think>>") is None

    @SERVERS
    def test_an_expression_that_no_grammar_can_say_is_refused(self, server: Server) -> None:
        with pytest.raises(GrammarError, match=r"no equivalent in GBNF: the escape \\p at index 1"):
            server("qwen3", response=regex(r"\p{L}"), tools=TOOLS)

    @SERVERS
    def test_the_prompt_decides_the_start(self, server: Server) -> None:
        opened = grammar_of(server("qwen3", response=choice("ab"), prompt="<|im_start|>assistant\n<think>\n"))
        assert refused(opened, "Hm.\n</think>\n\na") is None
        assert refused(opened, "a") is not None

    @SERVERS
    def test_the_end_token_may_come_from_the_server(self, server: Server) -> None:
        grammar = grammar_of(server("muse", tools=TOOLS, tool_choice="required"))
        text = write(get_format("muse"), CALL)
        assert text.endswith("<|eot|>")
        assert refused(grammar, text) is None
        assert refused(grammar, text.removesuffix("<|eot|>")) is None

    @SERVERS
    def test_what_can_t_be_enforced_is_refused_or_said(self, server: Server) -> None:
        strict = [tool(n={"type": "number", "multipleOf": 0.5})]
        with pytest.raises(SchemaError, match="tool 'get'") as error:
            server("hermes", tools=strict, tool_choice="required")
        assert (error.value.keyword, error.value.pointer) == ("multipleOf", "/properties/n")
        loose = [{"type": "function", "function": {**strict[0]["function"], "strict": False}}]
        made = server("hermes", tools=loose, tool_choice="required")
        assert made is not None
        assert made.warnings == (
            "'multipleOf' at /properties/n of the schema of tool 'get' can't be enforced while generating: "
            "a grammar can't calculate.",
        )

    @SERVERS
    @pytest.mark.parametrize(("made", "what"), [(lark('start: "a"'), "A Lark"), (ebnf('root ::= "a"'), "An EBNF")])
    def test_grammars_are_no_part_of_a_turn(self, server: Server, made: Any, what: str) -> None:
        with pytest.raises(GrammarError, match=f"{what} grammar can't be part of a turn"):
            server("qwen3", response=made)

    @SERVERS
    def test_a_format_that_writes_no_calls_is_refused(self, server: Server) -> None:
        with pytest.raises(GrammarError, match="has no calls"):
            server("kimi_vl", tools=TOOLS, tool_choice="required")


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (
            {"type": "object", "required": ["a"]},
            {"type": "object", "required": ["a"], "properties": {"a": {}}},
        ),
        ({"type": "string", "enum": ["a", 1]}, {"enum": ["a"]}),
    ],
)
def test_what_llama_servers_converter_would_pass_over_is_said_in_words_that_it_knows(
    schema: Any, sent: Any
) -> None:
    made = for_llama_server("hermes", response=json_schema(schema), reasoning="off")
    assert fields(made) == {"json_schema": sent}


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": 5}, "4"),
        ({"$ref": "#/$defs/t", "maxLength": 1, "$defs": {"t": {"type": "string"}}}, '"abc"'),
    ],
)
def test_a_schema_that_llama_servers_converter_can_not_hold_to_is_sent_as_a_grammar(
    schema: Any, wrong: str
) -> None:
    made = for_llama_server("hermes", response=json_schema(schema), reasoning="off")
    assert refused(grammar_of(made), wrong) is not None


def test_what_neither_a_schema_nor_a_grammar_can_hold_at_llama_server_is_refused() -> None:
    with pytest.raises(SchemaError, match="minimum"):
        for_llama_server("hermes", response=json_schema({"type": "number", "minimum": 3}), reasoning="off")


def test_branches_that_are_known_to_be_disjoint_are_sent_as_any_of_them() -> None:
    branches = [{"type": "null"}, {"type": "boolean"}]
    made = for_llama_server("hermes", response=json_schema({"oneOf": branches}), reasoning="off")
    assert fields(made) == {"json_schema": {"anyOf": branches}}


@SERVERS
def test_numbers_in_two_ranges(server: Server) -> None:
    ranges = {"anyOf": [{"type": "integer", "maximum": 0}, {"type": "integer", "minimum": 10}]}
    text = grammar_of(server("pythonic", tools=[tool(n=ranges)], tool_choice="required"))
    for number, fits in ((-3, True), (0, True), (5, False), (10, True)):
        assert (refused(text, f"[get(n={number})]") is None) is fits


def test_an_answer_spells_no_marker_whatever_tools_may() -> None:
    made = for_vllm("hermes", tools=[tool(x={})], response=json_schema({"type": "object"}), reasoning="off")
    assert refused(grammar_of(made), '{"a": "b"}') is None
    assert refused(grammar_of(made), '{"a": "<tool_call>"}') is not None


@pytest.mark.parametrize(
    "x",
    [
        {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"$ref": "#/properties/y", "minLength": 3},
    ],
)
def test_where_xgrammar_would_pass_over_a_keyword_vllm_gets_no_tag(x: Any) -> None:
    made = fields(for_vllm("qwen3", tools=[tool(x=x, y={"type": "string"})]))
    assert list(made["structured_outputs"]) == ["grammar"]
