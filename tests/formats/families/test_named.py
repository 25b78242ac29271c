"""Calls with the name in a header of its own, and calls as Python."""

from __future__ import annotations

import pytest

import unspool
from tests.formats.families.wire import NOW, PARIS, TIME, TOOLS, WEATHER, read, said

CITY = '{"city": "Paris"}'
TURN = "<|from|>assistant\n<|recipient|>"


def plamo(tag: str) -> str:
    return f"<|plamo:{tag}:plamo|>"


def plamo_call(space: str = "", end: str = plamo("end_tool_arguments") + plamo("end_tool_request")) -> str:
    return space.join(
        (
            plamo("begin_tool_request"),
            plamo("begin_tool_name"),
            "get_weather",
            plamo("end_tool_name"),
            plamo("begin_tool_arguments"),
            "<|plamo:constrain|>json<|plamo:msg|>",
            CITY + end,
        )
    )


PLAMO_OPEN, PLAMO_CLOSE = plamo("begin_tool_requests"), plamo("end_tool_requests")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (PLAMO_OPEN + plamo_call("\n") + PLAMO_CLOSE, said(None, PARIS, reasoning="Hm.")),
        (PLAMO_OPEN + plamo_call() + "<|plamo:tag|>", said(None, PARIS, reasoning="Hm.")),
        (PLAMO_OPEN + plamo_call(end=""), said(None, PARIS, reasoning="Hm.")),
        (PLAMO_OPEN + plamo_call(end=plamo("end_tool_arguments")), said(None, PARIS, reasoning="Hm.")),
        (plamo("end_think") + " Fine.\n", said(" Fine.\n", reasoning="Hm.")),
        (PLAMO_OPEN + " is a marker", said(reasoning="Hm." + PLAMO_OPEN + " is a marker")),
    ],
)
def test_plamo(raw: str, expected: object) -> None:
    assert read("plamo3", "Hm." + raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"all\nI look.>>>get_weather\n{CITY}>>>all\nDone.", said("I look.Done.", PARIS)),
        ("all\n>>> import os\n>>>x", said(">>> import os\n>>>x")),
        # What the prompt has of a text is not said.
        ('other\n{"a": 1}', said('other\n{"a": 1}')),
        (f"<function=get_weather>{CITY}</function><function=get_time>{{}}</function>", said(None, PARIS, NOW)),
    ],
)
def test_functionary_v3(raw: str, expected: object) -> None:
    assert read("functionary_v3", raw) == expected


def test_functionary_v3_in_elements_after_a_plain_turn() -> None:
    turn = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    raw = f"I look.<function=get_weather>{CITY}</function><function=get_time>{{}}"
    assert read("functionary_v3", raw, turn) == said("I look.", PARIS, NOW)
    assert read("functionary_v31", raw, turn) == said("I look.", PARIS, NOW)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("all\n<|content|>Fine.<|stop|>", said("Fine.")),
        (f"get_weather\n<|content|>{CITY}\n{TURN}get_time\n<|content|>{{}}<|stop|>", said(None, PARIS, NOW)),
        (f"all\n<|content|>I look.\n{TURN}get_weather\n<|content|>{CITY}", said("I look.", PARIS)),
    ],
)
def test_functionary_v2(raw: str, expected: object) -> None:
    assert read("functionary_v2", raw) == expected
    prompt = f"<|from|>user\n<|recipient|>all\n<|content|>Hi\n{TURN}"
    assert read("functionary_v2", raw, prompt) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"\nget_weather\n{CITY}<|observation|>", said(None, PARIS)),
        (f"get_weather\n{CITY}\nget_time\n{{}}", said(None, PARIS, NOW)),
        ("get_weather\nis a tool", said("get_weather\nis a tool")),
        ("get_weather is a tool", said("get_weather is a tool")),
        ("get_weat", said("get_weat")),
        ("other\n{}", said("other\n{}")),
        (f"I call get_weather\n{CITY}", said(f"I call get_weather\n{CITY}")),
    ],
)
def test_chatglm4(raw: str, expected: object) -> None:
    assert read("chatglm4", raw) == expected


def test_chatglm4_holds_a_text_only_while_it_may_be_a_name() -> None:
    assert read("chatglm4", "get_wea", finish="length") == said()
    assert read("chatglm4", "get_well", finish="length") == said("get_well")


def test_chatglm4_when_a_call_must_come() -> None:
    for raw in (WEATHER, f"get_weather\n{CITY}"):
        message = unspool.parse("chatglm4", raw, tools=TOOLS, tool_choice="required")
        assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", CITY)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<tool_call>get_weather\n{CITY}</tool_call>", said(None, PARIS)),
        (f"<tool_call>function\nget_weather\n```json\n{CITY}\n```</tool_call>", said(None, PARIS)),
        (f"<tool_call>\n{WEATHER}\n</tool_call>", said(None, PARIS)),
        ("<tool_call>function\nget_time\n{}", said(None, NOW)),
    ],
)
def test_step_audio(raw: str, expected: object) -> None:
    assert read("step_audio2", raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<tool: bash>\nget_weather {CITY}\n</tool>", said(None, PARIS)),
        ("<tool: get_weather>\nls -la\ncat x\n</tool>", said(None, ("get_weather", {"command": "ls -la\ncat x"}))),
        (
            '<tool: bash>\nget_weather now "a" <b>\n\n</tool>',
            said(None, ("get_weather", {"command": 'now "a" <b>\n'})),
        ),
        ("<tool: bash>\nls\n</tool>", said(None, ("bash", {"command": "ls"}))),
        ("<tool: bash>\nget_time\n</tool>Done.", said("Done.", NOW)),
        ("<tool: bash>\nls", said("<tool: bash>\nls")),
        ("<tool: bash>\n", said("<tool: bash>\n")),
        ("<tool: bash\nls", said("<tool: bash\nls")),
        ("<think>\nHm.\n</think>\n<tool: bash>\nget_time {}\n</tool>", said(None, NOW, reasoning="Hm.")),
    ],
)
def test_cwm(raw: str, expected: object) -> None:
    assert read("cwm", raw) == expected


OPEN, CLOSE = "<function_calls>\n", "\n</function_calls>"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f'{OPEN}get_weather(city="a\nb", days=null){CLOSE}', ("get_weather", {"city": "a\nb", "days": None})),
        (f"{OPEN}get_weather(city='Paris'){CLOSE}", PARIS),
        (f"{OPEN}get_weather(city='Paris')", PARIS),
        (f"{OPEN}[get_weather(city='Paris')]{CLOSE}", PARIS),
        (f"{OPEN}get_weather(city='Paris', days=true){CLOSE}", ("get_weather", {"city": "Paris", "days": True})),
    ],
)
def test_olmo(raw: str, expected: tuple[str, dict[str, object]]) -> None:
    assert read("olmo3_instruct", raw) == said(None, expected)
    assert read("olmo3", f"Hm.</think>{raw}") == said(None, expected, reasoning="Hm.")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"I look.{OPEN}get_time(); get_time(),\nget_time(){CLOSE} Done.", said("I look. Done.", NOW, NOW, NOW)),
        (f'{OPEN}get_weather("Paris"){CLOSE}', said(f'{OPEN}get_weather("Paris"){CLOSE}')),
        (f"{OPEN}{CLOSE}", said(f"{OPEN}{CLOSE}")),
        (f"{OPEN}get_time()\nand so on{CLOSE}", said(f"and so on{CLOSE}", NOW)),
        ("[get_time()]", said("[get_time()]")),
    ],
)
def test_olmo_with_text_and_what_is_no_call(raw: str, expected: object) -> None:
    assert read("olmo3_instruct", raw) == expected


LFM, LFM_END = "<|tool_call_start|>", "<|tool_call_end|>"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'it's'", "it's"),
        ("'a\nb'c'", "a\nb'c"),
        ("''quoted' text'", "'quoted' text"),
        ("''", ""),
        (r"'it\'s'", "it's"),
        ('"say "hi""', 'say "hi"'),
        ("'x' ", "x"),
        ("007", 7),
        ("true", True),
        ("['a', 'b\"c']", ["a", 'b"c']),
        ('{"a": [1, null], "b": "it\'s"}', {"a": [1, None], "b": "it's"}),
        ("('a', 'it's')", ["a", "it's"]),
    ],
)
def test_lfm_values(written: str, value: object) -> None:
    raw = f"{LFM}[get_weather(from={written}, city='Paris')]{LFM_END}"
    assert read("lfm2", raw) == said(None, ("get_weather", {"from": value, "city": "Paris"}))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"{LFM}[{WEATHER}, {TIME}]{LFM_END}", said(None, PARIS, NOW)),
        (f"{LFM}{WEATHER}{LFM_END}", said(None, PARIS)),
        (f"{LFM}[\n  {WEATHER}]{LFM_END}", said(None, PARIS)),
        (f"{LFM}[ get_time()]{LFM_END}", said(None, NOW)),
        (f"{LFM}[{' ' * 70}get_time()]{LFM_END}", said(None, NOW)),
        (f"{LFM}[{' ' * 70}{TIME}]{LFM_END}", said(f"{LFM}[{' ' * 70}{TIME}]{LFM_END}")),
        (f"{LFM}[]{LFM_END}Fine.", said("Fine.")),
        ("[get_weather(city='Paris')]", said(None, PARIS)),
        ("[other(city='Paris')]", said("[other(city='Paris')]")),
        (f"{LFM}[get_time()]{LFM_END}[get_time()]", said("[get_time()]", NOW)),
        (f"I look.{LFM}[api.get(city='Paris')]{LFM_END}\nDone.", said("I look.\nDone.", ("api.get", PARIS[1]))),
        (f"<think>Hm.</think>{LFM}[get_time()]", said(None, NOW, reasoning="Hm.")),
        (f"{LFM}[get_weather(city='a'", said(f"{LFM}[get_weather(city='a'")),
        (f"{LFM}[get_weather(city='a'{' ' * 70})]", said(f"{LFM}[get_weather(city='a'{' ' * 70})]")),
        (f"{LFM}[get_weather(city='a", said(f"{LFM}[get_weather(city='a")),
    ],
)
def test_lfm(raw: str, expected: object) -> None:
    assert read("lfm2", raw) == expected


FENCED = "<|tool_call_start|>\n```python\nget_weather(city='Paris')\n```\n<|tool_call_end|>\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (FENCED + "Done.", said("Done.", PARIS)),
        (FENCED.replace("```python", "```"), said(None, PARIS)),
        (FENCED.replace("```python\n", "").replace("```\n", ""), said(None, PARIS)),
        (FENCED.partition("\n```\n")[0], said(None, PARIS)),
        (f"<|thought_start|>\nHm.\n<|thought_end|>\n{FENCED}Done.", said("Done.", PARIS, reasoning="Hm.")),
    ],
)
def test_minicpm3(raw: str, expected: object) -> None:
    assert read("minicpm3", raw) == expected
