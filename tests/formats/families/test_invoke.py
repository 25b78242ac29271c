"""MiniCPM5, MiniMax-M2, Step3, dots, GigaChat 3.5: elements with the names in attributes."""

from __future__ import annotations

import pytest

import unspool
from tests.conformance.replay import Outcome, calls
from tests.formats.families.cutting import read
from unspool import Message, ToolCall
from unspool.formats import write

WEATHER = calls(("get_weather", {"city": "Paris", "days": 3}))
TIME = calls(("get_time", {}))

# MiniCPM5

CPM = '<function name="get_weather"><param name="city">{}</param></function>'


@pytest.mark.parametrize(
    ("text", "city"),
    [
        ("<![CDATA[a\n</param></function> b]]>", "a\n</param></function> b"),
        ("<![CDATA[a ]]> b]]>", "a ]]> b"),
        ("<![CDATA[]]>", ""),
        ("a &lt; b\n", "a &lt; b\n"),
        ("a <![CDATA[b]]>", "a <![CDATA[b]]>"),
    ],
)
def test_a_value_may_stand_in_a_verbatim_section(text: str, city: str) -> None:
    assert read("minicpm5", CPM.format(text)) == Outcome(calls=calls(("get_weather", {"city": city})))


def test_the_writer_uses_the_section_where_tags_need_it() -> None:
    message = Message(tool_calls=(ToolCall("", "get_weather", '{"city": "a</param>"}'),))
    assert write("minicpm5", message).endswith(CPM.format("<![CDATA[a</param>]]>"))


def test_a_verbatim_section_may_lack_the_element_s_closer() -> None:
    raw = '<function name="get_weather"><param name="city"><![CDATA[Paris]]></function>'
    assert read("minicpm5", raw) == Outcome(calls=calls(("get_weather", {"city": "Paris"})))


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_verbatim_section_without_end_is_no_call(finish: unspool.events.FinishReason) -> None:
    raw = '<function name="get_weather"><param name="city"><![CDATA[Par]'
    assert read("minicpm5", raw, finish=finish) == Outcome(content=raw if finish == "stop" else None)


def test_collapsed_tags_are_read() -> None:
    raw = '<functionname="get_weather"><paramname="city">Paris</param><param name=days>3</param></function>'
    assert read("minicpm5", raw) == Outcome(calls=WEATHER)


# MiniMax-M2 and dots

M2 = (
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>'
)
CLOSED = "]~b]ai\n<think>\n\n</think>\n\n"


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_the_quotes_of_attributes_may_be_single_or_missing(quote: str) -> None:
    assert read("minimax_m2", M2.replace('"', quote), prompt=CLOSED) == Outcome(calls=WEATHER)


def test_several_blocks_and_text_around_them() -> None:
    raw = f"One.\n{M2}\nTwo.\n{M2}\nThree."
    assert read("minimax_m2", raw, prompt=CLOSED) == Outcome(None, "One.\nTwo.\nThree.", WEATHER * 2)


@pytest.mark.parametrize("missing", ["</minimax:tool_call>", "</invoke>\n", "<minimax:tool_call>\n"])
def test_a_missing_tag_is_no_loss(missing: str) -> None:
    assert read("minimax_m2", M2.replace(missing, ""), prompt=CLOSED) == Outcome(calls=WEATHER)


def test_a_call_ends_reasoning_that_was_never_closed() -> None:
    assert read("minimax_m2", f"Hm.\n{M2}", prompt="]~b]ai\n<think>\n") == Outcome("Hm.", None, WEATHER)


@pytest.mark.parametrize("name", ["minimax_m2_append_think", "minimax-append-think", "minimax"])
def test_the_parsers_of_engines_that_differ_only_in_their_output_are_one_format(name: str) -> None:
    assert unspool.get_format(name).name == "minimax_m2"


def test_dots_takes_json_bodies() -> None:
    raw = '<dots_function_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n'
    assert read("dots", raw + "</dots_function_call>") == Outcome(calls=WEATHER)
    raw = '<dots_function_call>\n<invoke name="get_weather">{"city": "Paris", "days": 3}</invoke>\n'
    assert read("dots", raw + "</dots_function_call>") == Outcome(calls=WEATHER)


# Step3

STEP = (
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">\n'
    '<steptml:parameter name="city">Paris</steptml:parameter>\n'
    '<steptml:parameter name="days">3</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>'
)
SECTION = "<｜tool_calls_begin｜>\n{}\n<｜tool_calls_end｜>"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("function<｜tool_sep｜>", ""),
        ("function<｜tool_sep｜>", "function<｜tool_sep｜>\n"),
        ("<｜tool_call_begin｜>function<｜tool_sep｜>", ""),
        ("<｜tool_call_end｜>", ""),
        ("<｜tool_call_end｜>", "\n<｜tool_call_end｜>"),
        ("</steptml:invoke>", ""),
    ],
)
def test_the_markers_around_a_step_call_may_differ(written: str, seen: str) -> None:
    raw = SECTION.format(STEP.replace(written, seen))
    assert read("step3", raw, prompt="<think>\n</think>") == Outcome(calls=WEATHER)


# GigaChat 3.5


def test_gcml_values_say_what_is_a_string() -> None:
    raw = (
        "Hm.</think>\n\n<｜GCML｜tool_calls>\n"
        '<｜GCML｜invoke name="get_weather">\n'
        '<｜GCML｜parameter name="city" string="true">3</｜GCML｜parameter>\n'
        '<｜GCML｜parameter name="note" string="false">{"a": [1]}</｜GCML｜parameter>\n'
        "</｜GCML｜invoke>\n</｜GCML｜tool_calls><|message_sep|>"
    )
    assert read("gigachat35", raw, prompt="<think>") == Outcome(
        "Hm.", None, calls(("get_weather", {"city": "3", "note": {"a": [1]}}))
    )
