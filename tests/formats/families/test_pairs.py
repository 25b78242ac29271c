"""GLM's vision models, Ling, Laguna, Spark, IQuest, Solar Open 2, K2 Horizon: keys and values as pairs."""

from __future__ import annotations

import json

import pytest

from tests.conformance.replay import Outcome, calls
from tests.formats.families.cutting import read, tool

WEATHER = calls(("get_weather", {"city": "Paris", "days": 3}))
CITY = calls(("get_weather", {"city": "Paris"}))
TIME = calls(("get_time", {}))


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>"


# GLM vision

GLM = "<|assistant|>"


def test_boxes_are_dropped_and_their_text_is_content() -> None:
    raw = "\n<think>Hm.</think>\nIt is <|begin_of_box|>42<|end_of_box|>."
    assert read("glm4v", raw, prompt=GLM) == Outcome("Hm.", "It is 42.")


def test_an_answer_element_is_dropped_with_or_without_its_end() -> None:
    for raw in ("Hm.</think><answer>42</answer>", "Hm.</think><answer>42"):
        assert read("glm4v", raw, prompt=GLM + "<think>") == Outcome("Hm.", "42")


def test_a_box_before_a_call() -> None:
    call = f"<tool_call>get_weather\n{pair('city', 'Paris')}</tool_call>"
    raw = f"<|begin_of_box|>On it.<|end_of_box|>\n{call}"
    assert read("glm4v", raw, prompt=GLM + "\n<think></think>") == Outcome(None, "On it.", CITY)


# Ling, Laguna, Spark


@pytest.mark.parametrize("newline", ["", "\n"])
@pytest.mark.parametrize("name", ["ling3", "poolside_v1", "spark25", "spark3", "glm4v"])
def test_layout_behind_the_name_and_between_the_elements_is_optional(name: str, newline: str) -> None:
    elements = (f"<tool_call>get_weather{newline}", pair("city", "Paris"), pair("days", "3"), "</tool_call>")
    assert read(name, newline.join(elements) + f"<tool_call>get_time{newline}</tool_call>") == Outcome(
        calls=WEATHER + TIME
    )


def test_null_in_a_string_parameter_is_text() -> None:
    raw = f"<tool_call>get_weather\n{pair('city', 'null')}</tool_call>"
    assert read("spark25", raw) == Outcome(calls=calls(("get_weather", {"city": "null"})))


@pytest.mark.parametrize("orphan", ["<arg_key>days", "<arg_key>days</arg_key>", "<arg_key>days</arg_key>\n"])
def test_laguna_drops_a_key_without_a_value(orphan: str) -> None:
    raw = f"<tool_call>get_weather\n{pair('city', 'Paris')}{orphan}</tool_call>"
    assert read("poolside_v1", raw) == Outcome(calls=CITY)
    raw = f"<tool_call>get_weather\n{orphan}{pair('city', 'Paris')}</tool_call>"
    assert read("poolside_v1", raw) == Outcome(calls=CITY)


def test_a_value_ends_where_the_next_declared_key_begins() -> None:
    raw = f"<tool_call>get_weather\n<arg_key>city</arg_key><arg_value>Paris{pair('days', '3')}</tool_call>"
    assert read("poolside_v1", raw) == Outcome(calls=WEATHER)


def test_laguna_may_reason_again_behind_content() -> None:
    raw = "One.</think>\nHi.<think>Two.</think>\nHo."
    assert read("poolside_v1", raw, prompt="<assistant>\n<think>") == Outcome("One.Two.", "Hi.Ho.")


# IQuest


@pytest.mark.parametrize(("name", "tag"), [("iquest_q1", "iquest"), ("iquest_coder", "iquestcoder")])
def test_a_body_with_more_than_pairs_is_no_call(name: str, tag: str) -> None:
    call = f"<{tag}_tool_call>get_weather\n {pair('city', ' &amp; ')} \n</{tag}_tool_call>"
    prompt = "<|iquest_assistant|>"
    assert read(name, call, prompt=prompt) == Outcome(calls=calls(("get_weather", {"city": " &amp; "})))
    odd = call.replace("\n <arg", "\n and more <arg")
    assert read(name, odd, prompt=prompt) == Outcome(content=odd)


# Solar Open 2

SOLAR = (
    "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris<|tool_arg:end|>\n"
    "<|tool_arg:start|>days<|tool_arg:value|>3<|tool_arg:end|>\n<|tool_call:end|>"
)
THINKING = "<|im:start|>assistant<|im:content|><|think:start|>"


def test_a_call_inside_the_reasoning_counts_and_the_reasoning_goes_on() -> None:
    assert read("solar_open2", f"One.{SOLAR}Two.<|think:end|>Hi.", prompt=THINKING) == Outcome(
        "One.Two.", "Hi.", WEATHER
    )


@pytest.mark.parametrize(
    "text",
    ["A <|tool_call:start|> opens a call.", "Or <|tool_call:start|>get_weather\nno.", SOLAR[:70], SOLAR[:90]],
)
def test_a_mention_or_an_abandoned_call_stays_reasoning(text: str) -> None:
    assert read("solar_open2", f"{text}<|think:end|>Hi.", prompt=THINKING) == Outcome(text, "Hi.")


@pytest.mark.parametrize("missing", ["<|tool_call:end|>", "\n<|tool_call:end|>", "<|tool_arg:end|>\n"])
def test_the_next_boundary_closes_what_has_no_end(missing: str) -> None:
    raw = SOLAR.replace(missing, "", 1) + "<|tool_call:start|>get_time\n<|tool_call:end|>"
    assert read("solar_open2", raw, prompt=THINKING + "<|think:end|>") == Outcome(calls=WEATHER + TIME)


def test_a_call_without_any_end_ends_where_the_next_one_opens() -> None:
    begun = SOLAR[: SOLAR.index("<|tool_arg:end|>\n<|tool_call:end|>")]
    raw = begun + "<|tool_call:start|>get_time\n<|tool_call:end|>"
    assert read("solar_open2", raw, prompt=THINKING + "<|think:end|>") == Outcome(calls=WEATHER + TIME)
    only = SOLAR[: SOLAR.index("<|tool_arg:end|>")]
    mention = raw.replace(begun, only).replace("get_time\n", "no tool").replace("<|tool_call:end|>", SOLAR[-36:])
    [(_, arguments)] = read("solar_open2", mention, prompt=THINKING + "<|think:end|>").calls
    assert json.loads(arguments)["city"].startswith("Paris<|tool_call:start|>no tool")


def test_the_first_of_two_values_counts() -> None:
    again = "<|tool_arg:start|>city<|tool_arg:value|>Rome<|tool_arg:end|>\n"
    raw = SOLAR.replace("<|tool_call:end|>", again + "<|tool_call:end|>")
    assert read("solar_open2", raw, prompt=THINKING + "<|think:end|>") == Outcome(calls=WEATHER)


# K2 Horizon

IFM = "<|ifm|im_start|>assistant\n"


def ifm(body: str) -> str:
    return f"<ifm|tool_calls>\n<ifm|tool_call>{body}</ifm|tool_call>\n</ifm|tool_calls>"


@pytest.mark.parametrize("opener", ["think", "think_fast", "think_faster"])
@pytest.mark.parametrize("closer", ["think", "think_fast", "think_faster"])
def test_any_closer_closes_any_block(opener: str, closer: str) -> None:
    raw = f"Hm.\n</ifm|{closer}>Hi."
    assert read("k2_horizon", raw, prompt=f"{IFM}<ifm|{opener}>\n") == Outcome("Hm.", "Hi.")


CLOSED = f"{IFM}<ifm|think>\n</ifm|think>"
OBJECT = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (ifm(OBJECT), WEATHER),
        (ifm(f"\n[{OBJECT}, {OBJECT}]\n"), WEATHER * 2),
        (f"<ifm|tool_call>{OBJECT}</ifm|tool_call>", WEATHER),
        (ifm(OBJECT).replace("</ifm|tool_call>", f"</ifm|tool_call>\n<ifm|tool_call>{OBJECT}"), WEATHER * 2),
    ],
)
def test_the_body_may_be_json(raw: str, found: tuple[tuple[str, str], ...]) -> None:
    assert read("k2_horizon", raw, prompt=CLOSED) == Outcome(calls=found)


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("open", "string", "3"),
        ("open", "integer", 3),
        ("open", "odd", 3),
        ("open", "", 3),
        ("city", "integer", "3"),
    ],
)
def test_a_type_element_counts_where_the_schema_is_silent(name: str, kind: str, value: object) -> None:
    element = f"<ifm|arg_type>{kind}</ifm|arg_type>\n" if kind else ""
    key = f"<ifm|arg_key>{name}</ifm|arg_key>\n{element}<ifm|arg_value>3</ifm|arg_value>\n"
    tools = [tool("get_weather", city={"type": "string"})]
    assert read("k2_horizon", ifm(f"get_weather\n{key}"), prompt=CLOSED, tools=tools) == Outcome(
        calls=calls(("get_weather", {name: value}))
    )


def test_a_group_may_lack_its_outer_marker() -> None:
    raw = ifm("get_time\n").removeprefix("<ifm|tool_calls>\n")
    assert read("k2_horizon", raw, prompt=CLOSED) == Outcome(calls=TIME)
