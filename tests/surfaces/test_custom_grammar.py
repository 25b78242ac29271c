"""Lark grammars of custom tools: the expression matches what the grammar derives, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.constrained.vocabularies import Letters
from unspool.constrained import LLGuidanceConstraint
from unspool.constrained.turns import turn_grammar
from unspool.formats import get_format, write
from unspool.message import Message, ToolCall
from unspool.surfaces import responses
from unspool.surfaces.custom_grammar import COMMON, MAX_LENGTH, NotRegularError, from_lark, from_regex
from unspool.surfaces.custom_input import as_function, wrap
from unspool.surfaces.errors import InvalidRequestError

PATCH = r"""
start: begin hunk+ end   // what a coding agent edits files with
begin: "*** Begin" LF
end: "*** End" LF?
hunk: add_hunk | delete_hunk
    | change_hunk
add_hunk: "*** Add: " filename LF add_line+
delete_hunk: "*** Delete: " filename LF
change_hunk: "*** Change: " filename LF ("@@" | "@@ " /(.+)/)? LF -> changed
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line
%import common.LF
"""
EDIT = "*** Begin\n*** Add: a.py\n+x = 1\n+\n*** Delete: b\n*** Change: c\n@@ def\n*** End"
SUMS = r"""
start: expr
expr: term (SP ADD SP term)*
term: factor (SP "*" SP factor)*
factor: INT
SP: " "
ADD.2: "+"
%import common.INT
"""


@pytest.mark.parametrize(
    ("grammar", "accepted", "refused"),
    [
        (PATCH, [EDIT, EDIT + "\n"], [EDIT[4:], EDIT.replace("+x", "x"), "*** Begin\n*** End", EDIT + "\n\n"]),
        (SUMS, ["4", "4 + 4 * 12"], ["", "4 +", "4+4", "4 + x"]),
        ('start: "a".."c" "x"i ["y"] "z"?', ["ax", "bXyz", "cxz"], ["dx", "aY", "axzy"]),
        ('start: A~2 B~1..3\nA: /[0-9]/ | "#"\nB: "b"', ["1#b", "##bbb"], ["1b", "11", "11bbbb"]),
        ('start: A B\nA: "a" C\nB: "b"\nC: "c"\n%ignore /[ ]+/', ["acb", " ac  b "], ["a cb", "ab"]),
        ('start: word (COMMA word)*\nword: W\n%import common.WORD -> W\nCOMMA: ","', ["a", "ab,c"], ["a,", "1"]),
        (r'start: "\n\t\\\"." /a\/b/', ['\n\t\\".a/b'], ['\n\t\\"xa/b']),
        ('?start: n\n!n: "a" # b', ["a"], ["b"]),
        ("start: /ab/i\n  | /c.d/s", ["AB", "c\nd"], ["cd"]),
        ('start: ("a"\n  "b")+\n\n\nx: start', ["abab"], ["a"]),
    ],
)
def test_an_expression_matches_what_the_grammar_derives(
    grammar: str, accepted: list[str], refused: list[str]
) -> None:
    expression = re.compile(from_lark(grammar))
    assert [text for text in accepted if not expression.fullmatch(text)] == []
    assert [text for text in refused if expression.fullmatch(text)] == []


DOUBLED = "start: a\n" + "\n".join(f"{'a' * i}: {'a' * (i + 1)} {'a' * (i + 1)}" for i in range(1, 40))
DOUBLED += "\n" + "a" * 40 + ': "a"'


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ('start: "a" start | "b"', "The rule `start` leads back to itself"),
        ('start: x\nx: "(" y ")"\ny: x?', "The rule `x` leads back to itself"),
        ("start: missing", "There is no rule `missing`"),
        ('begin: "a"', "no rule `start`"),
        ("", "no rule `start`"),
        ("start: /a", "Line 1 can't be read"),
        ('start: ("a"', "Line 1 ends too early|Line 1 needs"),
        ('start: "a" )', "Line 1 has '\\)'"),
        ('start: "ab".."c"', "a range"),
        ('start: "a"..b', "a range"),
        ('start: "a"~b', "repeats something"),
        ("start: WS2\n%import common.SH_COMMENT -> WS2", "Line 2 imports"),
        ("%import python (NAME)", "Line 1 imports"),
        ("%declare A", "Line 1 has '%declare'"),
        ('start{x}: "a"', "Line 1 has 'start'"),
        ('| "a"', "Line 1 begins with"),
        ("start: a\n" + "\n".join(f"{'a' * i}: {'a' * (i + 1)}" for i in range(1, 200)), "nested too deeply"),
        (
            "start: a\n" + "\n".join(f"{'a' * i}: {'a' * (i + 1)} {'a' * (i + 1)}" for i in range(1, 40)),
            "more than",
        ),
    ],
)
def test_what_is_no_expression_is_refused_with_its_reason(grammar: str, reason: str) -> None:
    if "more than" in reason:
        grammar += "\n" + "a" * 40 + ': "a"'
        reason = f"more than {MAX_LENGTH} characters"
    with pytest.raises(NotRegularError, match=reason):
        from_lark(grammar)


def test_a_rule_is_written_out_once_however_often_it_is_named() -> None:
    rules = "\n".join(f"{'a' * i}: {'a' * (i + 1)} {'a' * (i + 1)}" for i in range(1, 60))
    assert from_lark(f'start: a "b"\n{rules}\n{"a" * 60}: ""') == "b"


def test_the_terminals_of_larks_own_library_are_expressions() -> None:
    samples = {"FLOAT": "1.5e3", "NUMBER": "12", "ESCAPED_STRING": '"a\\"b"', "NEWLINE": "\r\n\n", "CNAME": "_a1"}
    for name, expression in COMMON.items():
        assert re.compile(expression)
        if name in samples:
            assert re.fullmatch(expression, samples[name]), name


def test_anchors_around_an_expression_are_left_out() -> None:
    assert from_regex("^a+$") == "a+"
    assert from_regex(r"^a\$") == r"^a\$"
    assert from_regex("^a|b$") == "^a|b$"
    assert from_regex("a+") == "a+"


def taken(form: str, text: str) -> bool:
    """Whether the grammar of a turn lets a call with this text come."""
    words = Letters([], ["<tool_call>", "</tool_call>", "<|im_end|>"], ["<|im_end|>"])
    tool = as_function("edit", None, from_lark(PATCH))
    grammar = turn_grammar(form, words, tools=[tool], tool_choice="required", reasoning="off")
    assert grammar is not None
    constraint = LLGuidanceConstraint(grammar, words)
    call = write(get_format(form), Message(tool_calls=(ToolCall("c1", "edit", wrap(text)),)))
    return all(constraint.accept(token) for token in words.ids(call))


@pytest.mark.parametrize("form", ["hermes", "qwen3_coder", "llama3_json", "glm47", "minimax_m2"])
def test_calls_are_held_to_a_grammar_in_each_syntax(form: str) -> None:
    assert taken(form, EDIT)
    assert not taken(form, EDIT.replace("*** Add", "*** Put"))
    assert not taken(form, EDIT + "?")


def tool(**form: Any) -> dict[str, Any]:
    return {"input": "Hi", "tools": [{"type": "custom", "name": "edit", "format": form}]}


def test_a_custom_tools_grammar_is_a_strict_function() -> None:
    request = responses.decode(tool(type="grammar", syntax="regex", definition="^[a-z]+$"))
    function = request.tools[0]["function"]
    assert function["strict"] is True
    assert function["parameters"]["properties"] == {"input": {"type": "string", "pattern": "^(?:[a-z]+)$"}}
    nested = {"syntax": "lark", "definition": 'start: "a"'}
    assert responses.decode(tool(type="grammar", grammar=nested)).tools[0]["function"]["strict"] is True
    assert request.echo["tools"][0]["format"]["definition"] == "^[a-z]+$"
    assert "strict" not in responses.decode(tool(type="text")).tools[0]["function"]
    assert wrap("a") == '{"input": "a"}'


@pytest.mark.parametrize(
    ("form", "param", "code"),
    [
        (
            {"type": "grammar", "syntax": "lark", "definition": "start: start"},
            "tools[0].format.definition",
            "unsupported_value",
        ),
        ({"type": "grammar", "syntax": "gbnf", "definition": "x"}, "tools[0].format.syntax", None),
        ({"type": "grammar", "syntax": "lark"}, "tools[0].format.definition", "missing_required_parameter"),
        ({"type": "sketch"}, "tools[0].format.type", None),
    ],
)
def test_a_format_that_cant_be_held_is_refused_by_its_name(form: Any, param: str, code: str | None) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        responses.decode(tool(**form))
    assert (caught.value.param, caught.value.code, caught.value.status) == (param, code, 400)
