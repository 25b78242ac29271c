"""Seed-OSS, Step, Nemotron, Granite 4.2, MiMo, MiniCPM-V: what their models write beside their templates."""

from __future__ import annotations

import json

import pytest

import unspool
from tests.conformance.replay import Outcome, calls
from tests.formats.families.cutting import read, tool
from unspool import ContentDelta, Message, ReasoningDelta, ToolCall
from unspool.formats import write

THINKING = "<|im_start|>assistant\n<think>\n"
WEATHER = calls(("get_weather", {"city": "Paris"}))
BLOCK = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"


def test_mimo_values_are_verbatim() -> None:
    raw = BLOCK.replace("\nParis\n", "\n a &lt; b\n\n")
    assert read("mimo", raw) == Outcome(calls=calls(("get_weather", {"city": "\n a &lt; b\n\n"})))


@pytest.mark.parametrize(
    ("name", "closer"),
    [
        ("nemotron_v3", "\n</think>\n"),
        ("nemotron_v3", "</think>"),
        ("granite_thinking", "\n</think>\n"),
        ("granite_thinking", "</think>"),
        ("nemotron_v3_super", "</think>"),
    ],
)
def test_both_spellings_of_the_nemotron_closer_are_read(name: str, closer: str) -> None:
    assert read(name, f"Hm.{closer}Hi.", prompt=THINKING) == Outcome("Hm.", "Hi.")
    assert read(name, f"Hm.{closer}{BLOCK}\n", prompt=THINKING) == Outcome("Hm.", None, WEATHER)


def test_granite_takes_more_newlines_behind_the_closer_as_framing() -> None:
    assert read("granite_thinking", "Hm.\n</think>\n\nHi.", prompt=THINKING) == Outcome("Hm.", "Hi.")
    assert read("nemotron_v3", "Hm.\n</think>\n\nHi.", prompt=THINKING) == Outcome("Hm.", "\nHi.")


def test_python_s_constants_are_typed_by_schema() -> None:
    raw = BLOCK.replace("city", "flag").replace("Paris", "True")
    tools = [tool("get_weather", flag={"type": "boolean"})]
    assert read("nemotron_v3", raw, prompt="<think></think>", tools=tools) == Outcome(
        calls=calls(("get_weather", {"flag": True}))
    )


def test_adjacent_step_calls_need_no_layout() -> None:
    assert read("step5", f"Hm.\n</think>\nOn it.{BLOCK}{BLOCK}", prompt=THINKING) == Outcome(
        "Hm.", "On it.", WEATHER * 2
    )


def test_a_call_that_the_token_limit_cut_is_no_call() -> None:
    raw = "Hm.\n</think>\nOn it." + BLOCK[: BLOCK.index("ris")]
    assert read("step3p5", raw, prompt=THINKING, finish="length") == Outcome("Hm.", "On it.")


SEED = "<seed:tool_call>\n<function=f>\n<parameter=o>{}</parameter>\n</function>\n</seed:tool_call>"


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "object"}, "{'a': [1, None], 'b': 'it\\'s'}", {"a": [1, None], "b": "it's"}),
        ({}, "{'a': [1, None]}", {"a": [1, None]}),
        ({}, "None", None),
        ({}, "True", True),
        ({}, "Nothing", "Nothing"),
        ({"type": ["string", "null"]}, "None", None),
        ({"type": "string"}, "None", "None"),
        ({"type": ["string", "integer"]}, "{'a': 1}", "{'a': 1}"),
    ],
)
def test_seed_s_values_are_python_literals(schema: dict[str, object], text: str, value: object) -> None:
    raw = SEED.replace("{}", text)
    assert read("seed_oss", raw, tools=[tool("f", o=schema)]) == Outcome(calls=calls(("f", {"o": value})))


def test_seed_writes_python_literals() -> None:
    call = ToolCall("", "f", json.dumps({"o": {"a": [1, None]}}))
    prompt = "<seed:bos>assistant\n"
    assert write("seed_oss", Message(tool_calls=(call,)), prompt=prompt) == SEED.replace("{}", "{'a': [1, None]}")


def test_seed_s_notes_on_its_budget_are_reasoning_without_their_markers() -> None:
    raw = "Hm.<seed:cot_budget_reflect>5 of 9 used.</seed:cot_budget_reflect> So.</seed:think>\nHi.\n"
    assert read("seed_oss", "<seed:think>" + raw) == Outcome("Hm.5 of 9 used. So.", "Hi.")
    prompt = "<seed:bos>assistant\n<seed:think><seed:cot_budget_reflect>"
    raw = "The budget is 0.</seed:cot_budget_reflect></seed:think>\nHi."
    assert read("seed_oss", raw, prompt=prompt) == Outcome("The budget is 0.", "Hi.")


# MiniCPM-V's filter

FILTERED = [
    (r"a\nb", "a\nb"),
    (r"a\\nb", r"a\\nb"),
    (r"`a\nb` c\nd", "`a\\nb` c\nd"),
    (r"```py\nx = '`'\n``` c\nd", "```py\\nx = '`'\\n``` c\nd"),
    (r"$\nu$ a\nb", "$\\nu$ a\nb"),
    (r"$$\nu$\nu$$ a\nb", "$$\\nu$\\nu$$ a\nb"),
    (r"\(\nu\) a\nb \[\neq\] c\nd", "\\(\\nu\\) a\nb \\[\\neq\\] c\nd"),
    (r"$5\nand $ 6\nmore", "$5\nand $ 6\nmore"),
    (r"`$`\n", "`$`\n"),
    (r"$`$\n", "$`$\n"),
    (r"\t stays, as does a last \ ".strip(), "\\t stays, as does a last \\"),
]


@pytest.mark.parametrize(("raw", "text"), FILTERED)
def test_escaped_newlines_are_mended_outside_code_and_formulas(raw: str, text: str) -> None:
    closed = THINKING + "\n</think>\n\n"
    assert read("minicpm_v", raw, prompt=closed) == Outcome(None, text)
    assert read("minicpm_v", raw, prompt=THINKING) == Outcome(text)


def test_arguments_and_what_surrounds_them_keep_their_order() -> None:
    raw = "Hm.\\\n</think>\n\nOn it.\\\n\n" + BLOCK.replace("Paris", r"a\nb") + r"\nDone\n"
    assert read("minicpm_v", raw, prompt=THINKING) == Outcome(
        "Hm.\\", "On it.\\\nDone\n", calls(("get_weather", {"city": r"a\nb"}))
    )
    parser = unspool.Parser(unspool.get_format("minicpm_v"), prompt=THINKING)
    events = parser.feed("Hm.\\") + parser.feed("\n</think>\n\nOn\\") + parser.feed("nit.")
    assert events == [ReasoningDelta("Hm."), ReasoningDelta("\\"), ContentDelta("On"), ContentDelta("\nit.")]
