"""From a request to constraints: what is held, what is refused, and what costs nothing the second time."""

from __future__ import annotations

from typing import Any

import pytest

import unspool
from tests.constrained.vocabularies import Letters, takes
from unspool.constrained import Constraint, ConstraintError, LLGuidanceConstraint, guidance
from unspool.constrained.base import Mask
from unspool.constrained.vocabulary import vocabulary_of
from unspool.engines.base import ConstraintFailedError
from unspool.message import Message, ToolCall
from unspool.parsing.declaration import RegionCalls
from unspool.server.constraints import Demands, Held, hold
from unspool.server.errors import describe
from unspool.surfaces.conversation import ChoiceMode, Conversation, ToolChoice, Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.output_format import OutputFormat

LETTERS = Letters(special=["<think>", "</think>", "<|im_start|>", "<|im_end|>"], end=["<|im_end|>"])
PROMPT = "<|im_start|>assistant\n"
NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
CALL = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
JSON = OutputFormat("json_schema", "response_format.json_schema.schema", NUMBER)


def tool(name: str, parameters: Any = NUMBER, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **function}}


def talk(
    *tools: Any, mode: ChoiceMode = "auto", names: tuple[str, ...] | None = None, **options: Any
) -> Conversation:
    return Conversation((Turn("user", ("Hi",)),), tools, ToolChoice(mode, names), **options)


def held(*tools: Any, format: str = "hermes", prompt: str = PROMPT, choices: int = 1, **options: Any) -> Held:
    demands = {key: options.pop(key) for key in ("output", "budget", "scope", "limit") if key in options}
    return hold(unspool.get_format(format), LETTERS, prompt, Demands(talk(*tools, **options), **demands), choices)


def constraint(*tools: Any, **options: Any) -> Constraint:
    (found,) = held(*tools, **options).constraints
    assert found is not None
    return found


def allows(text: str, *tools: Any, **options: Any) -> bool:
    """Whether a whole turn may be this text."""
    found = constraint(*tools, **options)
    ids = LETTERS.ids(text + "<|im_end|>")
    taken = takes(found, ids)
    return taken == len(ids) or (found.is_stopped and taken == len(ids) - 1)


def refusal(*tools: Any, **options: Any) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        held(*tools, **options)
    return caught.value


class TestContent:
    @pytest.mark.parametrize(
        ("kind", "value", "good", "bad"),
        [
            ("json_object", None, '{"a": [1, null]}', "[1]"),
            ("json_schema", NUMBER, '{"n": 5}', '{"n": "5"}'),
            ("regex", "[ab]+", "abba", "abc"),
            ("choice", ("yes", "no"), "no", "maybe"),
            ("lark", 'start: "a" "b"?', "ab", "b"),
            ("ebnf", 'root ::= "a" | "b"', "b", "ab"),
        ],
    )
    def test_every_kind_is_held(self, kind: Any, value: Any, good: str, bad: str) -> None:
        output = OutputFormat(kind, "x", value)
        for before in ("", "<think>\nFree, {as} ever.\n</think>\n\n"):
            assert allows(before + good, output=output)
            assert not allows(before + bad, output=output)

    @pytest.mark.parametrize(
        ("output", "part", "code"),
        [
            (OutputFormat("json_schema", "f", {"type": "strin"}), "strin", "invalid_json_schema"),
            (OutputFormat("json_schema", "f", {"$ref": "#"}), "$ref", "invalid_json_schema"),
            (OutputFormat("json_schema", "f", {"not": {}}), "'not' at the root", "invalid_json_schema"),
            (OutputFormat("json_schema", "f", False), "allows some value", "invalid_json_schema"),
            (
                OutputFormat("json_schema", "f", {"properties": {"a": {"pattern": "^hello (there$"}}}),
                "'pattern' at /properties/a",
                "invalid_json_schema",
            ),
            (OutputFormat("regex", "f", "("), "regular expression", "invalid_grammar"),
            (OutputFormat("lark", "f", "start: x"), "Lark", "invalid_grammar"),
            (OutputFormat("ebnf", "f", "root ::= ("), "EBNF", "invalid_grammar"),
        ],
    )
    def test_what_cannot_be_enforced_is_refused_with_its_place(
        self, output: OutputFormat, part: str, code: str
    ) -> None:
        error = refusal(output=output)
        assert (error.param, error.status, error.code) == ("f", 400, code)
        assert error.message.startswith("`f`: ")
        assert part in error.message

    def test_an_offered_schema_is_held_as_far_as_it_can_be(self, caplog: pytest.LogCaptureFixture) -> None:
        schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
        assert refusal(output=OutputFormat("json_schema", "f", schema)).code == "invalid_json_schema"
        found = held(output=OutputFormat("json_schema", "f", schema, strict=False))
        assert "'uniqueItems' at the root" in caplog.text
        assert found.checks
        caplog.clear()
        found.check(Message(content="[1, 2]"))
        found.check(Message(content="[1, 1", finish_reason="length"))
        found.check(Message(tool_calls=(ToolCall("", "f", "{}"),)))
        assert caplog.text == ""
        found.check(Message(content="[1, 1]"))
        assert "does not hold to its schema" in caplog.text

    def test_a_schema_that_is_held_whole_needs_no_check(self) -> None:
        assert not held(output=JSON).checks


class TestCalls:
    def test_a_call_must_come(self) -> None:
        for mode, names in (("required", None), ("named", ("f",))):
            options: dict[str, Any] = {"mode": mode, "names": names}
            assert allows(CALL, tool("f"), tool("g"), **options)
            assert not allows("Hello", tool("f"), tool("g"), **options)
            assert not allows(CALL.replace("1", '"1"'), tool("f"), tool("g"), **options)
            assert not allows(CALL.replace('"f"', '"h"'), tool("f"), tool("g"), **options)

    def test_only_allowed_tools_may_be_called(self) -> None:
        assert allows(CALL.replace('"f"', '"g"'), tool("f"), tool("g"), mode="required")
        assert not allows(CALL.replace('"f"', '"g"'), tool("f"), tool("g"), mode="required", names=("f",))
        assert not allows(CALL.replace('"f"', '"g"'), tool("f"), tool("g"), mode="named", names=("f",))

    def test_there_may_be_as_many_calls_as_are_asked_for(self) -> None:
        twice = f"{CALL}\n{CALL}"
        assert allows(twice, tool("f"), mode="required")
        assert not allows(twice, tool("f"), mode="required", parallel_tool_calls=False)
        assert not allows(twice, tool("f"), mode="named", names=("f",))

    def test_where_calls_may_come_strict_ones_are_held(self) -> None:
        strict = tool("f", strict=True)
        assert allows("Hello.", strict)
        assert allows(CALL, strict)
        assert not allows(CALL.replace("1", '"1"'), strict)

    def test_the_operator_chooses_what_other_calls_are_held_to(self) -> None:
        wrong = CALL.replace("1", '"1"')
        broken = CALL.replace("1", "1,")
        assert not Demands(talk(tool("f"))).anything
        assert allows(wrong, tool("f"), scope="envelope")
        assert not allows(broken, tool("f"), scope="envelope")
        assert not allows(wrong, tool("f"), scope="schema")

    def test_a_strict_tool_with_a_schema_that_cannot_be_enforced_is_refused(self) -> None:
        bad = tool("g", {"type": "object", "properties": {"a": {"not": {}}}}, strict=True)
        error = refusal(tool("f", strict=True), bad)
        assert (error.param, error.code) == ("tools[1].function.parameters", "invalid_json_schema")
        assert "'not' at /properties/a" in error.message
        assert "'g'" in error.message

    def test_a_tool_that_is_not_strict_is_held_as_far_as_it_can_be(self, caplog: pytest.LogCaptureFixture) -> None:
        schema = {**NUMBER, "not": {"properties": {"n": {"const": 1}}}}
        found = held(tool("f", schema), mode="required")
        assert "'not'" in caplog.text
        caplog.clear()
        found.check(Message(tool_calls=(ToolCall("", "f", '{"n": 2}'),)))
        assert caplog.text == ""
        found.check(Message(tool_calls=(ToolCall("", "f", '{"n": 1}'),)))
        assert "A call of 'f' does not hold to its tool's schema" in caplog.text

    def test_a_format_without_calls_cannot_be_made_to_call(self) -> None:
        error = refusal(tool("f"), mode="required", format="identity")
        assert (error.param, error.code) == ("tool_choice", "invalid_grammar")
        assert "'identity' has no calls" in error.message
        # Where none must come none is missed.
        assert held(tool("f", strict=True), format="identity").constraints == [None]
        assert allows('{"n": 1}', tool("f"), format="identity", output=JSON)

    def test_what_no_format_can_hold_is_the_demands_fault(self) -> None:
        form = unspool.Format("r", "", calls=RegionCalls(()))
        for demands, param in (
            (Demands(talk(tool("f", strict=True))), "tools"),
            (Demands(talk(tool("f")), JSON), JSON.param),
        ):
            with pytest.raises(InvalidRequestError, match="read from a response template") as caught:
                hold(form, LETTERS, PROMPT, demands, 1)
            assert caught.value.param == param

    def test_with_a_response_format_the_choice_decides_what_is_held(self) -> None:
        content = '{"n": 1}'
        assert allows(CALL, tool("f"), output=JSON, mode="required")
        assert not allows(content, tool("f"), output=JSON, mode="required")
        assert allows(CALL, tool("f"), output=JSON)
        assert allows(content, tool("f"), output=JSON)
        assert not allows("Hello", tool("f"), output=JSON)
        assert allows(content, tool("f"), output=JSON, mode="none")
        assert not allows(CALL, tool("f"), output=JSON, mode="none")


class TestReasoning:
    def test_a_budget_alone_forces_the_end_of_reasoning(self) -> None:
        held = constraint(budget=2, prompt=PROMPT + "<think>\n")
        assert takes(held, LETTERS.ids("abc")) == 2
        assert takes(held, LETTERS.ids("</think>\n\nAnything <at> all<|im_end|>")) > 10

    def test_a_budget_of_nothing_closes_reasoning_at_once(self) -> None:
        for output in (None, JSON):
            held = constraint(budget=0, output=output, prompt=PROMPT + "<think>\n")
            assert takes(held, LETTERS.ids("a")) == 0
        assert allows('{"n": 1}', budget=0, output=JSON)

    def test_a_budget_and_a_schema_hold_together(self) -> None:
        held = constraint(budget=3, output=JSON, prompt=PROMPT + "<think>\n")
        assert takes(held, LETTERS.ids("abcd")) == 3
        text = '</think>\n\n{"n": 12}'
        assert takes(held, LETTERS.ids(text)) == len(LETTERS.ids(text))
        assert held.is_stopped

    def test_without_reasoning_a_budget_is_ignored_with_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        found = held(format="qwen3_coder", budget=5, choices=2)
        assert found.constraints == [None, None]
        assert caplog.text.count("budget for reasoning is ignored: the format 'qwen3_coder'") == 1
        caplog.clear()
        # Nothing to switch off is nothing to warn about.
        assert held(format="qwen3_coder", budget=0).constraints == [None]
        assert caplog.text == ""


@pytest.mark.parametrize(
    ("demands", "some"),
    [
        (Demands(talk()), False),
        (Demands(talk(tool("f"))), False),
        (Demands(talk(tool("f", strict=True))), True),
        (Demands(talk(tool("f", strict=True), mode="none")), False),
        (Demands(talk(tool("f"), mode="required")), True),
        (Demands(talk(tool("f")), scope="envelope"), True),
        (Demands(talk(), scope="envelope"), False),
        (Demands(talk(), budget=0), True),
        (Demands(talk(), output=JSON), True),
    ],
)
def test_a_request_that_demands_nothing_is_told_apart(demands: Demands, some: bool) -> None:
    assert demands.anything is some


def test_each_choice_has_a_constraint_of_its_own() -> None:
    one, other = held(output=JSON, choices=2).constraints
    assert one is not None
    assert other is not None
    assert takes(one, LETTERS.ids('{"n"')) == 4
    assert takes(other, LETTERS.ids('{"n"')) == 4


def test_a_schema_that_was_seen_before_compiles_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made = vocabulary_of(LETTERS).grammars
    held(tool("f"), output=JSON)
    before = made.made
    held(tool("f"), output=OutputFormat("json_schema", "f", dict(NUMBER)), budget=5)
    held(tool("f"), output=JSON, choices=3)
    assert made.made == before


def test_a_vocabulary_that_cannot_be_read_is_a_501() -> None:
    class Unreadable:
        special: dict[int, str] = {}  # noqa: RUF012 - as tokenizers have it
        size = 3

        def decode(self, ids: Any) -> str:
            return ""

    with pytest.raises(InvalidRequestError, match="This server can't constrain its output") as caught:
        hold(unspool.get_format("hermes"), Unreadable(), PROMPT, Demands(talk(), output=JSON), 1)
    assert (caught.value.status, caught.value.code) == (501, "unsupported_parameter")


@pytest.mark.parametrize("mode", ["required", "auto"])
def test_a_tool_whose_grammar_can_not_be_compiled_is_named(
    mode: ChoiceMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    # llguidance runs out of fuel: JSON has to spell each quote of it by an escape.
    monkeypatch.setattr(guidance, "_BUILDING_FUEL", 1_000_000)
    hard = {"type": "object", "properties": {"a": {"type": "string", "pattern": '^"[^"]*"$'}}}
    tools = [tool("f", strict=True), tool("g", hard, strict=True), tool("h", strict=True)]
    with pytest.raises(InvalidRequestError, match="The grammar can't be compiled: fuel exhausted") as caught:
        held(*tools, mode=mode, output=None if mode == "required" else JSON)
    assert caught.value.param == "tools[1].function.parameters"
    assert caught.value.code == "invalid_grammar"


def test_a_grammar_that_can_not_go_on_is_the_requests_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def mask(self: LLGuidanceConstraint, out: Mask) -> bool:
        raise ConstraintError("The grammar can't go on here: too many items.")

    monkeypatch.setattr(LLGuidanceConstraint, "mask", mask)
    with pytest.raises(InvalidRequestError, match="`guided_regex`: The grammar can't go on here") as caught:
        held(output=OutputFormat("regex", "guided_regex", "a+"))
    assert (caught.value.status, caught.value.code) == (400, "invalid_grammar")


def test_a_limit_that_is_met_while_writing_is_no_failure_of_the_engine() -> None:
    chat = {"path": "/v1/chat/completions"}
    status, body = describe(chat, ConstraintFailedError("The grammar can't go on here: too many items."))
    assert status == 400
    assert body["error"]["code"] == "invalid_grammar"
    assert "can't be held any longer to what is demanded" in str(body["error"]["message"])


@pytest.mark.parametrize(
    ("limit", "most"), [(None, 4096), (8, 4096), (64, 56), (1000, 832), (1010, 832), (32_768, 28_672)]
)
def test_a_text_may_be_as_long_as_the_answer_has_room_for(limit: int | None, most: int) -> None:
    assert Demands(talk(), limit=limit).max_text == most


def test_a_text_that_would_fill_the_answer_is_ended_before() -> None:
    note = tool("f", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    call = "<tool_call>\n<function=f>\n<parameter=a>\n{}\n</parameter>\n</function>\n</tool_call>"
    long = call.format("e" * 100)
    assert allows(long, note, format="qwen3_coder", mode="required", limit=200)
    assert not allows(long, note, format="qwen3_coder", mode="required", limit=64)


def test_a_string_that_would_fill_the_answer_is_ended_before() -> None:
    note = tool("f", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    call = '<tool_call>\n{{"name": "f", "arguments": {{"a": "{}"}}}}\n</tool_call>'
    for size, fits in ((224, True), (225, False)):
        assert allows(call.format("e" * size), note, mode="required", limit=64) is fits
    assert allows(call.format("e" * 225), note, mode="required", limit=80)
