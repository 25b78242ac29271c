"""Families whose messages are routed by a header: what they write besides their templates' own outputs."""

from __future__ import annotations

import json
from typing import Any, ClassVar, get_args

import pytest

import unspool
from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut
from tests.samples.test_samples import TOOLS
from unspool import Message, ToolCall
from unspool.formats import write
from unspool.parsing.channels import call_markers
from unspool.parsing.declaration import ChannelCalls

PARIS = ("get_weather", {"city": "Paris"})
TIME: tuple[str, dict[str, Any]] = ("get_time", {})
RAW = "the text itself"

SPACED = "<|channel|> analysis<|message|> Hm.<|end|><|start|> assistant"
SPACED_CALL = ' to=functions.get_weather<|channel|> commentary <|constrain|>  json<|message|> {"city": "Paris"}'
ATEM = '<atem:invoke name="{}">\n<atem:parameter name="city">Paris</atem:parameter>\n</atem:invoke>\n'
BOTH = (
    "<atem:function_calls>\n"
    + ATEM.format("get_weather")
    + '<atem:invoke name="get_time">\n</atem:invoke>\n</atem:function_calls>'
)
JSON_BLOCK = '<|content_invoke_tool_json|>{"name":"get_weather","args":{"city":"Paris"}}'
NEXT = "<|begin|>assistant"
SOLAR = '<|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>get_weather<|tool_call:args|>{"city": "Paris"}'
NO_ID = SOLAR.replace("a1b2c3d4e5<|tool_call:name|>", "")
ROLE = "<|im_start|>assistant"
LIST = ' -> tool/function_call\n[{"name": "get_weather", "arguments": {"city": "Paris"}}]'
BEAM = " to=get_weather<|channel|>analysis <|constrain|>xml<|message|>"
CITY = '<rfl:parameter name="city">\nParis\n</rfl:parameter>'


def section(*names: str) -> str:
    return "<atem:function_calls>\n" + "".join(map(ATEM.format, names)) + "</atem:function_calls>"


Case = tuple[str, str, Outcome]


def case(
    fmt: str,
    raw: str,
    *found: tuple[str, dict[str, Any]],
    reasoning: str | None = None,
    content: str | None = None,
) -> Case:
    return fmt, raw, Outcome(reasoning, raw if content == RAW else content, calls(*found))


LLMJP4 = [
    case("llmjp4", f"{SPACED}<|channel|> final<|message|> 42.", reasoning="Hm.", content="42."),
    case("llmjp4", f" {SPACED}<|channel|> final<|message|>  42.<|end|>", reasoning="Hm.", content=" 42."),
    case("llmjp4", f"{SPACED}{SPACED_CALL}<|call|>", PARIS, reasoning="Hm."),
    case(
        "llmjp4",
        f"{SPACED_CALL}<|end|><|start|> assistant to=functions.get_time<|channel|> commentary<|message|> {{}}",
        PARIS,
        TIME,
    ),
    case(
        "llmjp4",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>42.",
        reasoning="Hm.",
        content="42.",
    ),
    case("llmjp4", "No header at all.", content=RAW),
    case("llmjp4", "<|channel|> final<|message|>"),
]

INKLING = [
    case("inkling", f"get_weather{JSON_BLOCK}<|end_message|>", PARIS),
    case("inkling", JSON_BLOCK, PARIS),
    case("inkling", f"another_name{JSON_BLOCK}<|end_message|><|content_model_end_sampling|>", PARIS),
    case("inkling", f"<|message_model|>get_weather{JSON_BLOCK}<|end_message|>", PARIS),
    case("inkling", f"get_weather{JSON_BLOCK} and more<|end_message|>", PARIS),
    case(
        "inkling",
        "<|content_thinking|>A<|end_message|><|content_text|>B<|end_message|>\n<|message_model|><|content_thinking|>C",
        reasoning="AC",
        content="B",
    ),
    case("inkling", "f<|content_invoke_tool_text|>free text<|end_message|>", content="free text"),
    case("inkling", "<|content_tool_error|>no such tool<|end_message|>", content="no such tool"),
    case("inkling", "<|content_text|>a<|content_thinking|>b", content="a<|content_thinking|>b"),
    case("inkling", 'f<|content_invoke_tool_json|>{"name":"f","args":3}', content=RAW),
    case(
        "inkling", "f<|content_invoke_tool_json|>text<|end_message|>", content="f<|content_invoke_tool_json|>text"
    ),
    case("inkling", "Hello there", content=RAW),
    case("inkling", "Hello", content=RAW),
    case("inkling", "word<|end_message|>", content="word"),
    case("inkling", "word<|message_model|><|content_text|>Hi", content="wordHi"),
    case("inkling", "x" * 300 + "<|content_text|>", content=RAW),
    case("inkling", "<|end_message|><|message_model|><|content_text|>Hi", content="Hi"),
]

MUSE = [
    case(
        name,
        f" to=self<|message|>{section('x')}<|eom|><|start|>assistant to=user<|message|>Use {section('x')}.<|eot|>",
        reasoning=section("x"),
        content=f"Use {section('x')}.",
    )
    for name in ("muse", "muse_glimmer")
] + [
    case("muse", "<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Hi", reasoning="Hm.", content="Hi"),
    case("muse_glimmer", "<|message|>Hi<|eot|>", content="Hi"),
    case(
        "muse", " to=developer<|message|>secret<|eom|><|start|>assistant to=commentary<|message|>So", content="So"
    ),
    case("muse", f" to=get_weather<|message|>{section('get_weather')}", PARIS),
    case("muse", f" to=get_weather<|message|>{section('get_weather.get_weather')}<|eot|>", PARIS),
    case("muse", f" to=weather<|message|>{section('weather.get_weather')}<|eot|>", PARIS),
    case("muse", f" to=f<|message|>{section('f.f')}<|eot|>", ("f", {"city": "Paris"})),
    case("muse", f" to=f<|message|>{section('a.b.a.b')}<|eot|>", ("a.b", {"city": "Paris"})),
    case("muse", f" to=f<|message|>{section('other.f')}<|eot|>", ("other.f", {"city": "Paris"})),
    case("muse", f" to=get_weather<|message|>\n{BOTH}\n<|eot|>", PARIS, TIME),
    case(
        "muse",
        f" to=get_weather<|message|>{section('get_weather')}\n{section('get_weather')}<|eot|>",
        PARIS,
        PARIS,
    ),
    case(
        "muse",
        f" to=get_weather<|message|>{section('get_weather')} so <|eom|><|start|>assistant to=user<|message|>Hi",
        PARIS,
        content="Hi",
    ),
    case("muse", f" to=get_weather<|message|>{ATEM.format('get_weather')}<|eot|>", PARIS),
    case(
        "muse",
        " to=get_weather<|message|>"
        + section("get_weather").removesuffix("</atem:function_calls>")
        + f"<|eom|><|start|>assistant to=get_time<|message|>{section('get_weather')}<|eot|>",
        PARIS,
        PARIS,
    ),
    case(
        "muse",
        ' to=get_weather<|message|><atem:function_calls>\n<atem:invoke name="get_weather">\n'
        '<atem:parameter name="city">Paris</atem:parameter><|eom|><|start|>assistant to=user<|message|>Hi',
        PARIS,
        content="Hi",
    ),
    case(
        "muse",
        " to=get_time<|message|><atem:function_calls><|eom|><|start|>assistant to=user<|message|>Hi",
        content=" to=get_time<|message|><atem:function_calls>Hi",
    ),
    case("muse", " to=get_time<|message|>now", content=RAW),
    case("muse", " to=get_time<|message|>", content=RAW),
    case(
        "muse",
        f" to=get_weather<|message|>{section('get_weather')}<atem:function_calls>no",
        PARIS,
        content="<atem:function_calls>no",
    ),
]

IN_CONTENT = [
    case("muse_glimmer", f" to=user<|message|>{section('get_weather')}<|eot|>", PARIS),
    case("muse_glimmer", f"<|message|>{BOTH}\n", PARIS, TIME),
    case("muse_glimmer", f" to=user<|message|>{section('unknown')}<|eot|>", content=section("unknown")),
    case("muse_glimmer", f" to=user<|message|>{section('get_weather')}!", content=section("get_weather") + "!"),
    case("muse_glimmer", f" to=user<|message|>{section()}", content=section()),
    case("muse_glimmer", f" to=user<|message|>{section('get_weather')[:-5]}", content=section("get_weather")[:-5]),
    case("muse_glimmer", f" to=self<|message|>{section('get_weather')}", reasoning=section("get_weather")),
    case("muse", f" to=user<|message|>{section('get_weather')}", content=section("get_weather")),
]

BEAMS = [
    case("beam", f"{BEAM}{CITY}<|call|>", PARIS),
    case("beam", f"{BEAM}{CITY}", PARIS),
    case(
        "beam",
        f'{BEAM}<rfl:parameter name="city">\nParis\n<rfl:parameter name="days">\n3\n</rfl:parameter><|call|>',
        ("get_weather", {"city": "Paris", "days": 3}),
    ),
    case("beam", f"{BEAM}{CITY.removesuffix('</rfl:parameter>')}<|call|>", PARIS),
    case(
        "beam",
        f"{BEAM}{CITY.removesuffix('</rfl:parameter>')}<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
        PARIS,
        content="Hi",
    ),
    case("beam", f"{BEAM}{CITY}<|end|>Hi", PARIS, content="Hi"),
    case("beam", f"{BEAM}{CITY}<|start|>assistant to=get_time<|message|>", PARIS, TIME),
    case("beam", f"{BEAM}words<|call|>", content=f"{BEAM}words"),
    case("beam", f'{BEAM}<rfl:parameter name="city">\nPar', content=RAW),
    case(
        "beam",
        f"{BEAM}{CITY.replace('Paris', '<rfl:parameter')}<|call|>",
        ("get_weather", {"city": "<rfl:parameter"}),
    ),
    case("beam", " to=unknown<|channel|>analysis<|message|><|call|>", ("unknown", {})),
    case("beam", "<|channel|>final to=user<|message|>Hi", content="Hi"),
    case("beam", "<|channel|>analysis to=assistant<|message|>Hm.", reasoning="Hm."),
    case(
        "beam",
        f"{BEAM}{CITY.replace('Paris', 'Paris</rfl:parameter> or <|call|> x')}<|call|>",
        ("get_weather", {"city": "Paris</rfl:parameter> or <|call|> x"}),
    ),
]

SOLARS = [
    case("solar_open", f"<|tool_calls|>{SOLAR}<|tool_call:end|><|calls|>", PARIS),
    case("solar_open", f"<|tool_calls|>{SOLAR}<|tool_call:end|>", PARIS),
    case("solar_open", f"<|tool_calls|>{SOLAR}<|calls|>", PARIS),
    case("solar_open", f"<|tool_calls|>{SOLAR}\n{SOLAR}<|tool_call:end|><|flush|>", PARIS, PARIS),
    case("solar_open", f"<|tool_calls|>{SOLAR.replace('a1b2c3d4e5', '')}<|tool_call:end|>", PARIS),
    case("solar_open", f"<|tool_calls|>{NO_ID}<|tool_call:end|>", PARIS),
    case(
        "solar_open",
        f"<|tool_calls|>{SOLAR}<|tool_call:end|><|end|>{NEXT}<|tool_calls|>{SOLAR}<|tool_call:end|><|calls|>",
        PARIS,
        PARIS,
    ),
    case(
        "solar_open",
        f"<|think|>A<|end|>{NEXT}<|tool_calls|>{SOLAR}<|tool_call:end|><|calls|>{NEXT}<|think|>B",
        PARIS,
        reasoning="AB",
    ),
    case("solar_open", f"<|tool_calls|><|calls|>{NEXT}<|tool_calls|>{SOLAR}", PARIS, content="<|tool_calls|>"),
    case("solar_open", "<|tool_calls|>none<|calls|>", content="<|tool_calls|>none"),
    case("solar_open", f"<|tool_calls|>{SOLAR[:-1]}]<|tool_call:end|>", content=RAW),
    case("solar_open", "Hello.<|end|>", content="Hello."),
    case("solar_open", "<|flush|>"),
]

HYPERCLOVAX = [
    case("hyperclovax", f"{LIST}<|im_end|><|stop|>", PARIS),
    case("hyperclovax", LIST, PARIS),
    case("hyperclovax", ' -> tool/function_call\n{"name": "get_weather", "input": {"city": "Paris"}}', PARIS),
    case(
        "hyperclovax",
        ' -> tool/function_call\n{"name": "get_weather", "parameters": {"city": "Paris"}}'
        '\n{"name": "get_time", "input": {}}',
        PARIS,
        TIME,
    ),
    case(
        "hyperclovax",
        f"/think\nA<|im_end|>\n{ROLE}\nB<|im_end|>\n{ROLE}{LIST}<|im_end|>",
        PARIS,
        reasoning="A",
        content="B",
    ),
    case("hyperclovax", "\n\nHi<|im_end|><|endofturn|>", content="\nHi"),
    case("hyperclovax", "\nHi<|im_end|>\n", content="Hi"),
    case("hyperclovax", "Hi", content="Hi"),
    case("hyperclovax", "/thinking", content=RAW),
    case("hyperclovax", " -> tool/function_call\nnone", content=RAW),
    case("hyperclovax", " -> tool/function_call\n[]<|im_end|><|stop|>"),
]

ALL = LLMJP4 + INKLING + MUSE + IN_CONTENT + BEAMS + SOLARS + HYPERCLOVAX


def cuts(raw: str) -> Any:
    """All cuts of a short text, some of a long one."""
    return (
        every_cut(raw)
        if len(raw) < 200
        else iter([(raw,), tuple(raw), (raw[:-5], raw[-5:]), (raw[:30], raw[30:])])
    )


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize(("fmt", "raw", "expected"), ALL, ids=[f"{c[0]} {c[1][:70]!r}" for c in ALL])
def test_what_the_families_write(fmt: str, raw: str, expected: Outcome, mode: ArgumentMode) -> None:
    assert outcomes_by_cut(Generation(fmt, raw, TOOLS), cuts(raw), mode).keys() == {expected}


@pytest.mark.parametrize(
    ("fmt", "raw"),
    [
        ("llmjp4", SPACED_CALL[:-3]),
        ("inkling", JSON_BLOCK[:-3]),
        ("inkling", JSON_BLOCK[:30]),
        ("muse", f" to=get_weather<|message|>{section('get_weather')[:60]}"),
        ("muse_glimmer", f" to=user<|message|>{section('get_weather')[:60]}"),
        ("beam", f"{BEAM}{CITY[:-20]}"),
        ("beam", f"{BEAM}{CITY}"),
        ("beam", BEAM),
        ("solar_open", f"<|tool_calls|>{SOLAR[:-3]}"),
        ("solar_open", f"<|tool_calls|>{SOLAR[:25]}"),
        ("hyperclovax", LIST[:-3]),
    ],
)
def test_a_call_cut_by_the_token_limit_is_nothing(fmt: str, raw: str) -> None:
    for mode in get_args(ArgumentMode):
        assert outcomes_by_cut(Generation(fmt, raw, TOOLS, finish="length"), cuts(raw), mode).keys() == {Outcome()}


@pytest.mark.parametrize(
    ("fmt", "raw", "content"),
    [
        ("inkling", f"{JSON_BLOCK}<|end_message|>", JSON_BLOCK),
        ("muse", f" to=get_time<|message|>{section()}<|eot|>", f" to=get_time<|message|>{section()}"),
        ("muse_glimmer", f" to=user<|message|>{section('get_weather')}<|eot|>", section("get_weather")),
        ("solar_open", f"<|tool_calls|>{SOLAR}<|calls|>", f"<|tool_calls|>{SOLAR}"),
        ("hyperclovax", f"{LIST}<|im_end|>", LIST),
    ],
)
def test_without_tools_calls_are_content(fmt: str, raw: str, content: str) -> None:
    assert outcomes_by_cut(Generation(fmt, raw), cuts(raw), "incremental").keys() == {Outcome(None, content)}


@pytest.mark.parametrize(
    ("fmt", "prompt", "raw", "expected"),
    [
        (
            "hyperclovax",
            "<|im_start|>assistant/think\n",
            f"A<|im_end|>\n<|im_start|>assistant{LIST}",
            Outcome("A", None, calls(PARIS)),
        ),
        ("hyperclovax", "<|im_start|>assistant\n", "\nHi", Outcome(None, "\nHi")),
        (
            "muse",
            "<|start|>assistant to=self<|message|>",
            "A<|eom|><|start|>assistant to=user<|message|>B",
            Outcome("A", "B"),
        ),
        ("inkling", "<|message_model|><|content_text|>", "A", Outcome(None, "A")),
        ("solar_open", "<|begin|>assistant<|think|>", "A<|end|><|begin|>assistant<|content|>B", Outcome("A", "B")),
        ("llmjp4", "<|start|> assistant<|channel|> final<|message|>", " A", Outcome(None, "A")),
    ],
)
def test_the_prompt_may_hold_the_header(fmt: str, prompt: str, raw: str, expected: Outcome) -> None:
    generation = Generation(fmt, raw, TOOLS, prompt=prompt)
    assert outcomes_by_cut(generation, cuts(raw), "incremental").keys() == {expected}


def test_a_name_finds_the_offered_tool_whose_namespace_it_lacks() -> None:
    def called(*offered: str) -> str:
        tools = [{"type": "function", "function": {"name": name}} for name in offered]
        [call] = unspool.parse("muse", f" to=get<|message|>{section('get')}<|eot|>", tools=tools).tool_calls
        return call.name

    assert called("weather.get") == "weather.get"
    assert called("weather.get", "get") == "get"
    assert called("weather.get", "time.get") == "get"


def _written(fmt: str, *call_ids: str) -> str:
    made = tuple(ToolCall(call_id, "get_time", "{}") for call_id in call_ids)
    return write(unspool.get_format(fmt), Message(tool_calls=made))


def test_a_call_id_is_written_where_the_format_can_write_it_and_made_otherwise() -> None:
    raw = _written("solar_open", "abcdefghi0", "call_1", "call_1", "abcdefghi-")
    ids = [part.partition("<|tool_call:name|>")[0] for part in raw.split("<|tool_call:begin|>")[1:]]
    assert ids[0] == "abcdefghi0"
    assert len(set(ids)) == 4
    assert all(len(call_id) == 10 and call_id.isascii() and call_id.isalnum() for call_id in ids)
    assert raw == _written("solar_open", "abcdefghi0", "call_1", "call_1", "abcdefghi-")


def test_inkling_writes_arguments_without_layout_and_strings_as_they_are() -> None:
    arguments = '{ "a b" : [1, 2.50,\n"x : \\" ,  y"] }'
    raw = write(unspool.get_format("inkling"), Message(tool_calls=(ToolCall("", "f", arguments),)))
    assert '"args":{"a b":[1,2.50,"x : \\" ,  y"]}}' in raw
    [call] = unspool.parse("inkling", raw, tools=TOOLS).tool_calls
    assert json.loads(call.arguments) == json.loads(arguments)


@pytest.mark.parametrize(
    ("fmt", "prompt", "written"),
    [
        ("hyperclovax", "<|im_start|>assistant\n", "Hi<|im_end|><|endofturn|>"),
        ("gpt_oss", "<|start|>assistant<|channel|>final<|message|>", "Hi"),
        ("muse", "<|start|>assistant", " to=user<|message|>Hi<|eot|>"),
    ],
)
def test_what_the_prompt_has_is_not_written_again(fmt: str, prompt: str, written: str) -> None:
    assert write(unspool.get_format(fmt), Message(content="Hi"), prompt=prompt) == written


@pytest.mark.parametrize("name", [f.name for f in unspool.formats() if isinstance(f.calls, ChannelCalls)])
def test_a_written_call_shows_a_marker_by_which_it_can_be_told(name: str) -> None:
    shape = unspool.get_format(name).calls
    assert isinstance(shape, ChannelCalls)
    assert any(mark in _written(name, "") for mark in call_markers(shape))


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("musespark1x", "muse"),
        ("muse", "muse"),
        ("muse-glimmer", "muse_glimmer"),
        ("glimmer", "muse_glimmer"),
        ("muse_spark", "muse"),
        ("beam", "beam"),
        ("inkling", "inkling"),
        ("hyperclovax_seed_think_14b", "hyperclovax"),
        ("solar-open", "solar_open"),
        ("llmjp4", "llmjp4"),
        ("openai_gptoss", "gpt_oss"),
    ],
)
def test_every_parser_name_leads_to_its_family(name: str, canonical: str) -> None:
    assert unspool.get_format(name).name == canonical


def test_an_opener_s_letters_before_the_next_parameter_are_a_value_s() -> None:
    class Tokens:
        special: ClassVar[dict[int, str]] = dict(
            enumerate(("</rfl:parameter>", "<|call|>", "<|channel|>", "<|constrain|>", "<|message|>"))
        )

        def piece(self, token_id: int) -> bytes:
            return chr(token_id).encode()

    parser = unspool.Parser(unspool.get_format("beam"), tools=TOOLS, tokenizer=Tokens())
    text = BEAM + CITY.replace("Paris", "<rfl:parameter") + CITY.replace("city", "unit") + "<|call|>"
    for token_id, token in Tokens.special.items():
        text = text.replace(token, chr(token_id))
    message = Message.from_events(parser.feed_tokens([ord(char) for char in text]) + parser.finish())
    assert [json.loads(call.arguments) for call in message.tool_calls] == [
        {"city": "<rfl:parameter", "unit": "Paris"}
    ]
