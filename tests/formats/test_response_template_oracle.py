"""The same text through transformers' own reader: the same message, or a difference that is listed here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_parsing import ResponseParser

import unspool
from tests.formats.response_templates import STYLES, TOOLS, Json
from unspool.formats.response_template import from_response_template

FORMATS = {name: from_response_template(style.template, name=name) for name, style in STYLES.items()}
Said = tuple[str | None, str | None, list[tuple[str, Any]]]


def ours(name: str, raw: str, prompt: str, size: int | None = None) -> Said:
    """What unspool makes of an output, given in pieces of ``size`` characters."""
    parser = unspool.Parser(FORMATS[name], tools=TOOLS, prompt=prompt)
    step = size or max(len(raw), 1)
    events = [event for at in range(0, len(raw), step) for event in parser.feed(raw[at : at + step])]
    message = unspool.Message.from_events(events + parser.finish())
    return message.reasoning, message.content, [(c.name, json.loads(c.arguments)) for c in message.tool_calls]


def theirs(template: Json, raw: str, prompt: str, size: int | None = None) -> Said:
    """What transformers makes of it."""
    parser = ResponseParser(template, prefix=prompt, tools=list(TOOLS))
    step = size or max(len(raw), 1)
    for at in range(0, len(raw), step):
        parser.feed(raw[at : at + step])
    message, _ = parser.finalize()
    reasoning = next(
        (message[key] for key in ("thinking", "reasoning", "reasoning_content") if key in message), None
    )
    functions = [call.get("function", call) for call in _flat(message.get("tool_calls", []))]
    return reasoning, message.get("content"), [(call["name"], call["arguments"]) for call in functions]


def _flat(calls: Any) -> list[Json]:
    return [item for call in calls for item in (_flat(call) if isinstance(call, list) else [call])]


WORDS = st.lists(st.sampled_from(("I", "see", "é", "日本", "a < b", "x > y", "1.", "🙂")), min_size=1, max_size=5)
TEXTS = WORDS.map(" ".join)
LINES = st.lists(TEXTS, min_size=1, max_size=3).map("\n".join)
CALLS: st.SearchStrategy[tuple[str, Json]] = st.one_of(
    st.tuples(
        st.just("get_weather"),
        st.fixed_dictionaries({"city": WORDS.map("".join)}, optional={"days": st.integers(-9, 99)}),
    ),
    st.tuples(st.just("get_time"), st.just({})),
    st.tuples(
        st.just("save"),
        st.fixed_dictionaries({"text": TEXTS, "sure": st.booleans(), "data": st.just({"a": [1, {"b": "c"}]})}),
    ),
)


@pytest.mark.parametrize("name", STYLES)
@given(data=st.data())
def test_what_a_model_writes_is_read_alike(name: str, data: st.DataObject) -> None:
    style = STYLES[name]
    thinks = LINES if style.prompt.endswith("<think>\n") else st.none() | LINES
    reasoning = data.draw(thinks, label="reasoning") if style.reasoning else None
    content = data.draw(st.none() | LINES, label="content")
    has_calls = bool(style.call or style.calls)
    calls = data.draw(st.lists(CALLS, max_size=3), label="calls") if has_calls else []
    raw = style.write(reasoning, content, calls)
    expected = (reasoning, content, calls)
    assert theirs(style.template, raw, style.prompt) == expected, "transformers, whole"
    assert theirs(style.template, raw, style.prompt, 3) == expected, "transformers, in pieces"
    assert ours(name, raw, style.prompt) == expected, "unspool, whole"
    assert ours(name, raw, style.prompt, 3) == expected, "unspool, in pieces"


RAISES = "ValueError"
"""In place of a message: transformers raises."""

HERMES = STYLES["hermes"]
WEATHER = ("get_weather", {"city": "Par"})


def _call(arguments: str) -> str:
    return f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>'


def _xml(inside: str) -> str:
    return f"<tool_call>\n<function=get_weather>\n{inside}</function>\n</tool_call>"


CITY = "<parameter=city>\nPar\n</parameter>\n"
UNCLOSED = '<tool_call>{"name": "get_weather", "arguments": {"city": "Pa'
DIFFERENCES: dict[str, tuple[str, str, str | Said, Said]] = {
    # What it is about: the style, the output, what transformers says of it, what unspool does.
    "a closer inside a JSON string is letters": (
        "hermes",
        _call('{"city": "</tool_call>"}'),
        RAISES,
        (None, None, [("get_weather", {"city": "</tool_call>"})]),
    ),
    "a closer inside a string of a dialect is letters": (
        "dialect",
        "@@get_weather {city:‹@@›}@@",
        RAISES,
        (None, None, [("get_weather", {"city": "@@"})]),
    ),
    "a malformed call is content, as it was written": (
        "hermes",
        "So: <tool_call>{]</tool_call> Sorry.",
        RAISES,
        (None, "So: <tool_call>{]</tool_call> Sorry.", []),
    ),
    "a call that never ends is content": ("hermes", "A" + UNCLOSED, RAISES, (None, "A" + UNCLOSED, [])),
    "a closer that the stop token cut does not matter": (
        "llama",
        '{"name": "get_weather", "parameters": {"city": "Par"}}',
        RAISES,
        (None, None, [WEATHER]),
    ),
    "all content counts, not only the last": (
        "hermes",
        "Before. " + _call('{"city": "Par"}') + " After.",
        (None, "After.", [WEATHER]),
        (None, "Before.After.", [WEATHER]),
    ),
    "layout behind a call does not erase the content before it": (
        "gemma",
        "Hi<|tool_call>call:get_time{}<tool_call|>\n",
        (None, None, [("get_time", {})]),
        (None, "Hi", [("get_time", {})]),
    ),
    "all reasoning counts, not only the last": (
        "hermes",
        "<think>A</think>B<think>C</think>",
        ("C", "B", []),
        ("AC", "B", []),
    ),
    "reasoning that the prompt opened and nothing closed is reasoning": (
        "prefilled",
        "I was cut off",
        (None, "I was cut off", []),
        ("I was cut off", None, []),
    ),
    "an opener that repeats the prompt's is framing": (
        "prefilled",
        "<think>\nHm.</think>Hi",
        ("<think>\nHm.", "Hi", []),
        ("Hm.", "Hi", []),
    ),
    "before a call that ends it, too": (
        "prefilled",
        "I call." + _xml(CITY),
        (None, "I call.", [WEATHER]),
        ("I call.", None, [WEATHER]),
    ),
    "JSON is passed on as the model wrote it": (
        "hermes",
        _call('{"days": "3"}'),
        (None, None, [("get_weather", {"days": 3})]),
        (None, None, [("get_weather", {"days": "3"})]),
    ),
    "a number is what JSON calls so": (
        "either",
        "</think>" + _xml("<parameter=days>1_000</parameter>"),
        (None, None, [("get_weather", {"days": 1000})]),
        (None, None, [("get_weather", {"days": "1_000"})]),
    ),
    "text without one element makes no call without arguments": (
        "either",
        "</think>" + _xml("Paris\n"),
        (None, None, [("get_weather", {})]),
        (None, _xml("Paris\n"), []),
    ),
    "a call cut between its elements is no call": (
        "either",
        "</think>" + _xml(CITY + "<parameter=days>")[:-24],
        (None, None, [WEATHER]),
        (None, _xml(CITY + "<parameter=days>")[:-24], []),
    ),
    "a comma at the end of a list of calls is harmless": (
        "python",
        '<|tool_call_start|>[get_weather(city="Par",)]<|tool_call_end|>',
        RAISES,
        (None, None, [WEATHER]),
    ),
    "a long run of layout is text": ("hermes", "A" + " " * 65, (None, "A", []), (None, "A" + " " * 65, [])),
    "a region of layout joins nothing": (
        "joined",
        "<t>A</t><t> </t><t>B</t>",
        ("A\n\n\n\nB", None, []),
        ("A\n\nB", None, []),
    ),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_each_difference_is_one_and_is_explained(difference: str) -> None:
    name, raw, other, own = DIFFERENCES[difference]
    style = STYLES[name]
    try:
        found: str | Said = theirs(style.template, raw, style.prompt)
    except ValueError:
        found = RAISES
    assert found == other, "transformers"
    assert ours(name, raw, style.prompt) == own, "whole"
    assert ours(name, raw, style.prompt, 1) == own, "in pieces"
    assert own != other, "no difference any more: remove it"


def test_a_prompt_that_begins_the_answer_is_no_part_of_it() -> None:
    prompt = HERMES.prompt + "The answer"
    assert theirs(HERMES.template, " is 4.", prompt) == (None, "The answer is 4.", [])
    assert ours("hermes", " is 4.", prompt) == (None, " is 4.", [])


def test_a_field_that_must_be_there_may_be_missing() -> None:
    fields = {**HERMES.template["fields"], "thinking": {"open": "<think>", "close": "</think>", "optional": False}}
    template = {**HERMES.template, "fields": fields}
    with pytest.raises(ValueError, match="thinking"):
        theirs(template, "Hello.", HERMES.prompt)
    assert unspool.parse(from_response_template(template), "Hello.").content == "Hello."


SHIPPED = {
    "qwen2": (
        "<think>\nHm.\n</think>\n\nLet me.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Par", "days": 3}}\n</tool_call>\n<tool_call>\n'
        '{"name": "get_time", "arguments": {}}\n</tool_call><|im_end|>\n<|endoftext|>'
    ),
    "qwen3_5": (
        "Hm.\n</think>\n\nLet me.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nPar\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n"
        "</function>\n</tool_call><|im_end|>\n<|endoftext|>"
    ),
    "gemma4": (
        "<|channel>thought\nHm.<channel|>Let me."
        '<|tool_call>call:get_weather{city:<|"|>Par<|"|>,days:3}<tool_call|>'
        "<|tool_call>call:get_time{}<tool_call|><|tool_response>"
    ),
}
PROMPTS = {
    "qwen2": "<|im_start|>assistant\n",
    "qwen3_5": "<|im_start|>assistant\n<think>\n",
    "gemma4": "<|turn>model\n",
}


@pytest.mark.parametrize("model", SHIPPED)
def test_the_templates_that_transformers_ships_are_read_alike(model: str) -> None:
    from transformers.cli.serving.utils import _RESPONSE_TEMPLATE_FALLBACKS as SHIPPED_TEMPLATES

    template = next(value for names, value in SHIPPED_TEMPLATES.items() if model in names)
    raw, prompt = SHIPPED[model], PROMPTS[model]
    FORMATS[model] = from_response_template(template, name=model)
    expected = ("Hm.", "Let me.", [("get_weather", {"city": "Par", "days": 3}), ("get_time", {})])
    assert theirs(template, raw, prompt) == expected
    assert theirs(template, raw, prompt, 1) == expected
    assert ours(model, raw, prompt) == expected
    assert ours(model, raw, prompt, 1) == expected
