"""Turns as grammars: what may come when, which tools, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

import unspool
from tests.constrained.turns.held import CALL, PARIS, QWEN, SURE, allows, tool, turn
from tests.constrained.turns.walks import TOOLS, letters
from tests.constrained.vocabularies import Letters
from tests.laws.strategies import FORMATS
from unspool.constrained import (
    GrammarError,
    LLGuidanceConstraint,
    choice,
    json_schema,
    lark,
    regex,
)
from unspool.constrained.turns import turn_grammar
from unspool.formats.response_template import from_response_template


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


def test_answers_that_relax_to_the_same_text_keep_their_own_checks() -> None:
    tokenizer = Letters()
    for letter in "ab":
        response = json_schema({"type": "string", "pattern": f"(?={letter})"}, strict=False)
        grammar = turn(tokenizer=tokenizer, tools=None, response=response)
        assert [bool(grammar.problems(text)) for text in ('"a"', '"b"')] == [letter == "b", letter == "a"]


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
