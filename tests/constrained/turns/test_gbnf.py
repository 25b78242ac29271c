"""Turns in GBNF, read by llama.cpp itself: what is written is allowed, what is allowed is read as valid calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.conftest import EXPLORE
from tests.constrained.turns import walks
from tests.constrained.turns.acceptor import refused, walk
from tests.laws.strategies import FORMATS, every_format, every_format_with_calls, is_bare, markers, reasons
from unspool import Message, Parser, ToolCall
from unspool.constrained import GrammarError, ebnf, json_schema, turn_gbnf
from unspool.constrained.turns.gbnf import characters, quoted, to_gbnf
from unspool.constrained.turns.nodes import (
    EMPTY,
    Free,
    Many,
    Member,
    Members,
    Node,
    Ref,
    Regex,
    Response,
    Seq,
    Text,
    Tree,
    Word,
    alt,
    seq,
    stoppable,
)
from unspool.formats import write

SCHEMAS: dict[str, Mapping[str, Any]] = {
    "get_weather": walks.SCHEMAS["get_weather"],
    "look": {
        "type": "object",
        "properties": {
            "what": walks.SCHEMAS["get"]["properties"]["what"],
            "kind": walks.SCHEMAS["get"]["properties"]["kind"],
            "code": {"type": "string", "pattern": "^[a-c]{1,4}$"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/entry"}, "maxItems": 2},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": walks.SCHEMAS["get"]["$defs"],
    },
    "anything": {"type": "object"},
}
TOOLS = [
    {"type": "function", "function": {"name": name, "strict": True, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
_ARGUMENTS = [
    ("get_weather", {"city": "Paris", "unit": "c"}),
    ("get_weather", {"city": "Größe 🙂", "days": 14, "unit": "f", "tags": ["a b", "c"], "at": {"lat": -1.5}}),
    ("look", {"what": 50, "kind": 1, "code": "abca", "list": [{"a": "x"}, {"a": "", "in": {"a": "y"}}]}),
    ("look", {"what": "New Yo", "kind": None, "list": []}),
    ("anything", {}),
]
CALLS = [ToolCall("", name, json.dumps(arguments)) for name, arguments in _ARGUMENTS]


@cache
def held(name: str, choice: str) -> str:
    """The grammar of a turn of a format."""
    made = turn_gbnf(FORMATS[name], tools=TOOLS, tool_choice=choice)
    assert made is not None
    assert made.warnings == ()
    return str(made.fields["grammar"])


@every_format_with_calls
def test_what_is_written_is_allowed(name: str) -> None:
    fmt = FORMATS[name]
    messages = [(Message(tool_calls=(call,)), choice) for call in CALLS for choice in ("auto", "required")]
    messages += [
        (Message(tool_calls=tuple(CALLS[:3])), "required"),
        (Message(tool_calls=(CALLS[0],)), "get_weather"),
    ]
    messages.append((Message(content="Hi there."), "auto"))
    if not (is_bare(fmt) or fmt.calls_first):
        messages.append((Message(content="Hi there.", tool_calls=(CALLS[4],)), "auto"))
    if reasons(fmt):
        messages.append((Message(reasoning="So < it > is.", tool_calls=(CALLS[0],)), "required"))
    for message, choice in messages:
        text = write(fmt, message)
        assert refused(held(name, choice), text) is None


@every_format_with_calls
def test_what_is_not_a_valid_call_is_refused(name: str) -> None:
    for arguments in (
        '{"city": "Paris"}',
        '{"city": "Paris", "days": 15, "unit": "c"}',
        '{"city": "P", "unit": "k"}',
    ):
        text = write(FORMATS[name], Message(tool_calls=(ToolCall("", "get_weather", arguments),)))
        assert refused(held(name, "required"), text) is not None
    text = write(FORMATS[name], Message(tool_calls=tuple(CALLS[:2])))
    assert refused(held(name, "get_weather"), text) is not None, "a named tool is called once"


@every_format_with_calls
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_what_is_allowed_is_read_as_valid_calls(name: str, choice: str) -> None:
    grammar = held(name, choice)
    for seed in range(2 * max(EXPLORE, 1)):
        text = walk(grammar, (name, choice, seed), markers(FORMATS[name]))
        if text is None:
            continue
        parser = Parser(FORMATS[name], tools=TOOLS, tool_choice=choice)
        message = Message.from_events(parser.feed(text) + parser.finish("stop"))
        for call in message.tool_calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        if choice == "required":
            assert message.tool_calls
            assert message.content is None


ANSWER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["n"],
    "additionalProperties": False,
}


@every_format
@pytest.mark.parametrize("tools", [None, TOOLS], ids=["alone", "beside calls"])
def test_an_answer_is_read_as_content_that_validates(name: str, tools: Any) -> None:
    fmt = FORMATS[name]
    made = turn_gbnf(fmt, response=json_schema(ANSWER), tools=tools)
    assert made is not None
    grammar = made.fields["grammar"]
    assert refused(grammar, write(fmt, Message(content='{"n": 5, "text": "a < b"}'))) is None
    for seed in range(2 * max(EXPLORE, 1)):
        text = walk(grammar, (name, seed), markers(fmt))
        if text is None:
            continue
        parser = Parser(fmt, tools=tools)
        message = Message.from_events(parser.feed(text) + parser.finish("stop"))
        if not message.tool_calls:
            # A text filter makes newlines of escaped ones, also of those in JSON.
            value = json.loads(message.content or "", strict=not fmt.text_filter)
            jsonschema.validate(value, ANSWER)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "gpt_oss", "pythonic", "gemma4"])
def test_llguidance_reads_it_too(name: str) -> None:
    assert ebnf(held(name, "auto"))


def grammar(node: Node, response: Node | None = None, **rules: Node) -> str:
    return to_gbnf(Tree(node, rules), response)


def test_texts_and_classes_are_escaped() -> None:
    assert quoted('a"\\\n\x00é\u2028') == r'"a\"\\\n\x00é\u2028"'
    assert quoted("\x01a\x02g") == r'"\x01" "a\x02g"'
    assert characters(((40, 50), (93, 94), (97, 99))) == r"[(-,.-2a-c\]-\x5E-]"
    assert characters(((0x20, 0x85), (0xA0, 0xA0))) == r"[ -,.-\x85\xA0-]"
    assert characters(((0, 59), (61, 0x10FFFF))) == "[^<]"
    assert characters(((0, 0x10FFFF),)) == r"[^\x00]"
    odd = "".join(map(chr, range(1, 0x250))) + "\U0001f642"
    assert refused(grammar(Text(odd)), odd) is None
    for char in odd:
        assert refused(grammar(Regex((rf"[{chr(92)}x{{{ord(char):x}}}]",))), char) is None
        assert refused(grammar(Regex((rf"[^{chr(92)}x{{{ord(char):x}}}]",))), char) is not None


def test_free_text_ends_at_its_closer_and_spells_no_marker() -> None:
    free = grammar(seq(Free(("<b>",), "\n", "</a>"), "!"))
    assert refused(free, "x </ <</a>!") is None
    for text in ("x</a>", "<b></a>!", "</a></a>!", "x"):
        assert refused(free, text) is not None
    held = grammar(Free(("<b>",), "\n", "</a>", ("[a-z]+",), ("x.*",)))
    assert refused(held, "abc\n</a>") is None
    for text in ("abc</a>", "xyz\n</a>", "A\n</a>"):
        assert refused(held, text) is not None


def test_members_come_in_order_and_only_those_that_are_needed_must() -> None:
    members = (Member(Word("a")), Member(Word("b"), required=True), Member(Word("c")))
    for separator, texts in (
        (Text(","), ("b", "a,b", "b,c,x,x", "a,b,c,x", "b,x")),
        (EMPTY, ("b", "abcx", "bxx")),
    ):
        held = grammar(Members(members, separator, Word("x")))
        for text in texts:
            assert refused(held, text) is None
        for text in ("", "a", f"b{'' if separator == EMPTY else ','}a", "b,", "bb", "ac"):
            assert refused(held, text) is not None
    free = grammar(Members((Member(Word("a")), Member(Word("b"))), Text(",")))
    assert [text for text in ("", "a", "b", "a,b", "b,a", ",b") if refused(free, text) is None] == [
        "",
        "a",
        "b",
        "a,b",
    ]
    assert refused(grammar(Members((), Text(","))), "") is None
    assert refused(grammar(Members((), Text(","), Word("x"))), "x,x") is None


@pytest.mark.parametrize(
    ("least", "most", "counts"),
    [(0, None, {0, 1, 2, 3}), (2, None, {2, 3}), (0, 2, {0, 1, 2}), (1, 1, {1}), (0, 0, {0})],
)
def test_repetitions(least: int, most: int | None, counts: set[int]) -> None:
    for separator in (EMPTY, Text(",")):
        held = grammar(Many(Word("a"), separator, least, most))
        joined = {count: ("" if separator == EMPTY else ",").join("a" * count) for count in range(4)}
        assert {count for count, text in joined.items() if refused(held, text) is None} == counts


def test_rules_may_hold_themselves_and_an_answer_is_put_in_its_place() -> None:
    nested = grammar(Ref("a_list"), a_list=seq("[", alt((Ref("a_list"), Text("1"))), "]"))
    assert refused(nested, "[[[1]]]") is None
    assert refused(nested, "[[1]") is not None
    answered = grammar(seq("<", Response(), ">"), alt((Word("yes"), Word("no"))))
    assert refused(answered, "<no>") is None
    with pytest.raises(GrammarError, match="nothing that it is held to"):
        grammar(Response())


def test_an_expression_that_gbnf_can_t_say_is_refused() -> None:
    with pytest.raises(GrammarError, match=r"no equivalent in GBNF: the escape \\p"):
        grammar(Regex((r"\p{L}",)))
    with pytest.raises(GrammarError, match="contradicts itself"):
        grammar(Regex(("a", "b")))


def test_a_turn_may_stop_before_its_end_token() -> None:
    stops = ("<|end|>",)
    free = Free(("<|end|>",), closer="<|end|>")
    tree = alt((seq("a", free), seq("b", "c<|end|>"), Text("d<|end|>"), Seq((Text("e"), Ref("f")))))
    held = grammar(stoppable(tree, stops), f=Text("g"))
    for text in ("a x", "a x<|end|>", "bc", "bc<|end|>", "d", "eg"):
        assert refused(held, text) is None
    assert refused(held, "a<|end|>x") is not None
