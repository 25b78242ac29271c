"""Calls as JSON: what models of these families do beside what their templates write."""

from __future__ import annotations

import pytest

from tests.formats.families.wire import NOW, PARIS, TIME, WEATHER, read, said

COHERE_WEATHER = '{"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}'
CHATBOT = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"
ACTION = f"<|START_ACTION|>[\n    {COHERE_WEATHER}\n]<|END_ACTION|>"
THOUGHT = "Here is my thought process: Hm.\nHere is my response: "
PLUGIN = '{"name": "get_weather", "parameters": {"city": "Paris"}}'
FUNCTION_CALL = "<|message_sep|>\n\nfunction call<|role_sep|>\n"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<tool_call>[{WEATHER}]</tool_call>", said(None, PARIS)),
        (f"<|tool_call|> [{WEATHER}, {TIME}]", said(None, PARIS, NOW)),
        (f"<tool_call>{WEATHER}", said(None, PARIS)),
        (f"I look. <tool_call>[{WEATHER}] There.", said("I look.  There.", PARIS)),
        (
            '<tool_call>[{"name": "get_weather", "arguments": {"city": "a]\\"]"}}]',
            said(None, ("get_weather", {"city": 'a]"]'})),
        ),
        (f"<tool_call>[{WEATHER}", said(f"<tool_call>[{WEATHER}")),
        (THOUGHT + "Fine.", said("Fine.", reasoning="Hm.")),
        ("Here's my thought process: Hm.\nHere's my response: Fine.", said("Fine.", reasoning="Hm.")),
        ("Here is my thought", said("Here is my thought")),
        ("No. Here is my thought process: x", said("No. Here is my thought process: x")),
        (f"{THOUGHT}<tool_call>[{TIME}]", said(None, NOW, reasoning="Hm.")),
        ("<think>Hm.</think>\n<response>Fine.</response>", said("Fine.", reasoning="Hm.")),
        (f"<think>Hm.</think>\n<tool_call>[{TIME}]", said(None, NOW, reasoning="Hm.")),
    ],
)
def test_granite(raw: str, expected: object) -> None:
    assert read("granite", raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"I look.\n<function_call> {WEATHER}\n<function_call>{TIME}", said("I look.\n", PARIS, NOW)),
        (f"<function_call> {WEATHER} Done.", said(" Done.", PARIS)),
        ("<function_call> is a tag", said("<function_call> is a tag")),
    ],
)
def test_granite_20b(raw: str, expected: object) -> None:
    assert read("granite_20b_fc", raw) == expected


def test_granite_4() -> None:
    twice = '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}'
    assert read("granite4", f"<tool_call>\n{twice}\n</tool_call>") == said(None, PARIS)
    assert read("granite4", f"<tool_call>{WEATHER}") == said(None, PARIS)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            f"<longcat_tool_call>{WEATHER}</longcat_tool_call><longcat_tool_call>{TIME}</longcat_tool_call>",
            said(None, PARIS, NOW),
        ),
        (
            "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
            "<longcat_arg_value>Paris</longcat_arg_value>\n</longcat_tool_call>",
            said(None, PARIS),
        ),
        (
            "<longcat_tool_call>get_weather<longcat_arg_key>days</longcat_arg_key>"
            "<longcat_arg_value>3</longcat_arg_value></longcat_tool_call>",
            said(None, ("get_weather", {"days": 3})),
        ),
        ("<longcat_think>Hm.</longcat_think>Fine.", said("Fine.", reasoning="Hm.")),
    ],
)
def test_longcat(raw: str, expected: object) -> None:
    assert read("longcat", raw) == expected


@pytest.mark.parametrize("name", ["cohere_command3", "cohere_command4"])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<|START_RESPONSE|>Fine.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", said("Fine.")),
        ("<|START_TEXT|>Fine.<|END_TEXT|>", said("Fine.")),
        ("<|START_TEXT|>Fine.<|END_OF_TURN_TOKEN|>", said("Fine.")),
        (f"<|START_THINKING|>Hm.<|END_THINKING|>{ACTION}", said(None, PARIS, reasoning="Hm.")),
        (f"<|START_THINKING|>Hm.{ACTION}", said(None, PARIS, reasoning="Hm.")),
        (f"<|START_ACTION|>[{WEATHER}]", said(None, PARIS)),
        ("<|START_ACTION|>[]<|END_ACTION|>Fine.", said("Fine.")),
    ],
)
def test_cohere(name: str, raw: str, expected: object) -> None:
    assert read(name, raw, CHATBOT) == expected


def test_cohere_when_the_prompt_opens_a_block() -> None:
    assert read("cohere_command3", "Fine.<|END_RESPONSE|>", CHATBOT + "<|START_RESPONSE|>") == said("Fine.")
    assert read("cohere_command4", "Hm.<|END_THINKING|><|START_TEXT|>Fine.") == said("Fine.", reasoning="Hm.")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            'Action:\n```json\n[\n    {\n        "tool_name": "get_weather",\n'
            '        "parameters": {\n            "city": "Paris"\n        }\n    }\n]\n```',
            said(None, PARIS),
        ),
        (f"Plan.\nAction: ```json\n[{WEATHER}]```", said("Plan.", PARIS)),
        (
            'Action:\n```json\n[{"tool_name": "directly-answer", "parameters": {}}]\n```',
            said('Action:\n```json\n[{"tool_name": "directly-answer", "parameters": {}}]\n```'),
        ),
        ("Action: none", said("Action: none")),
    ],
)
def test_command_r(raw: str, expected: object) -> None:
    assert read("command_r", raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<think>\nHm.\n</think>\n<TOOLCALL>[{TIME}]</TOOLCALL><SPECIAL_12>", said(None, NOW, reasoning="Hm.")),
        (
            '<TOOLCALL>[{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}]</TOOLCALL>',
            said(None, PARIS),
        ),
        (f"<TOOLCALL>[{WEATHER}]", said(None, PARIS)),
        (f"<TOOLCALL>{WEATHER}</TOOLCALL>", said(None, PARIS)),
    ],
)
def test_nemotron_nano(raw: str, expected: object) -> None:
    assert read("nemotron_nano_v2", raw, "<SPECIAL_11>Assistant\n") == expected


@pytest.mark.parametrize("name", ["phi4_mini", "phi4_mini_tokens"])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            'functools[{"name": "get_weather", "arguments": {"city": ["a]", 1]}}]',
            said(None, ("get_weather", {"city": ["a]", 1]})),
        ),
        (f"<|tool_call|>[{WEATHER}]", said(None, PARIS)),
        (f"<|tool_call|>{WEATHER}, {TIME}<|/tool_call|>", said(None, PARIS, NOW)),
        (f"<|tool_call|>{WEATHER}<|/tool_call|><|tool_call|>{TIME}<|/tool_call|>", said(None, PARIS, NOW)),
        ('functools[{"name": "get_time", "parameters": {}}]', said(None, NOW)),
        ("functools.reduce is in functools", said("functools.reduce is in functools")),
        ("<think>\nHm.\n</think>\n\nFine.<|end|>", said("Fine.", reasoning="Hm.")),
    ],
)
def test_phi_4_mini(name: str, raw: str, expected: object) -> None:
    assert read(name, raw) == expected


@pytest.mark.parametrize("raw", [f" functools[{WEATHER}]", f"functools[{WEATHER}]", f"functools [{WEATHER}]"])
def test_firefunction(raw: str) -> None:
    assert read("firefunction", raw) == said(None, PARIS)
    assert read("firefunction", "I look." + raw).calls == said(None, PARIS).calls


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"I look.\n```json\n[{WEATHER}]\n```", said("I look.", PARIS)),
        (f"```\n[{WEATHER}]\n```", said(None, PARIS)),
        (f"[TOOL_CALLS][{WEATHER}]", said(None, PARIS)),
        (f"[TOOL_CALLS][{WEATHER}][TOOL_CALLS][{TIME}]", said(None, PARIS, NOW)),
        (f"I look.<tool_call>[{WEATHER}]</tool_call>", said("I look.", PARIS)),
        (f"<think>Hm.</think>[{WEATHER}]", said(None, PARIS, reasoning="Hm.")),
        (f"{WEATHER}; {TIME}", said(None, PARIS, NOW)),
        ('[{"name": "other", "arguments": {}}]', said('[{"name": "other", "arguments": {}}]')),
        ('{"capital": "Paris"}', said('{"capital": "Paris"}')),
        ('```json\n{"name": "Ada"}\n```', said('```json\n{"name": "Ada"}\n```')),
        ("```python\nprint()\n```", said("```python\nprint()\n```")),
        ("[1, 2]", said("[1, 2]")),
    ],
)
def test_xlam(raw: str, expected: object) -> None:
    assert read("xlam", raw) == expected


@pytest.mark.parametrize(
    ("raw", "prompt", "expected"),
    [
        (
            "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nFine.\n[END FINAL RESPONSE]\n<|end|>",
            "<|begin_assistant|>\n",
            said("Fine.", reasoning="Hm."),
        ),
        ("Hm.\n[BEGIN FINAL RESPONSE]\nFine.\n<|end|>", None, said("Fine.\n", reasoning="Hm.")),
        (
            "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nFine.",
            None,
            said("Fine.", reasoning="Hm."),
        ),
        (f"Hm.\n<tool_calls>[{TIME}]</tool_calls>", None, said(None, NOW, reasoning="Hm.")),
        (
            'Hm.\n[BEGIN FINAL RESPONSE]\n<tool_calls>[{"name": "get_time", "arguments": {}, "id": "7"}]',
            None,
            said(None, NOW, reasoning="Hm."),
        ),
    ],
)
def test_apriel(raw: str, prompt: str | None, expected: object) -> None:
    assert read("apriel", raw, prompt) == expected


@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_internlm_with_anything_between_its_two_tokens(between: str) -> None:
    opener = f"<|action_start|>{between}<|plugin|>"
    raw = f"I look.{opener}\n{PLUGIN}<|action_end|>\n{opener}{TIME}<|action_end|>"
    assert read("internlm", raw) == said("I look.", PARIS, NOW)


def test_internlm_code_is_content() -> None:
    raw = "<|action_start|><|interpreter|>\nprint(1)<|action_end|>"
    assert read("internlm", raw) == said(raw)


@pytest.mark.parametrize("name", ["gigachat3", "gigachat31"])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"I look.{FUNCTION_CALL}{WEATHER}<|message_sep|>", said("I look.", PARIS)),
        (f"I look.<|function_call|>{WEATHER}</s>", said("I look.", PARIS)),
        ("Fine.<|message_sep|>", said("Fine.")),
        ("Fine.<|message_sep|>\n\nfunction", said("Fine.<|message_sep|>\n\nfunction")),
        ("A function call is fine.", said("A function call is fine.")),
    ],
)
def test_gigachat(name: str, raw: str, expected: object) -> None:
    assert read(name, raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"[unused16]Hm.[unused17][unused11][{WEATHER}][unused12]", said(None, PARIS, reasoning="Hm.")),
        (f"<|tool_call_start|>{WEATHER}<|tool_call_end|>Fine.", said("Fine.", PARIS)),
    ],
)
def test_openpangu(raw: str, expected: object) -> None:
    assert read("openpangu", raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"<tool_calls>\n{WEATHER}\n{TIME}", said(None, PARIS, NOW)),
        (f"<tool_calls>[{WEATHER}, {TIME}]</tool_calls>", said(None, PARIS, NOW)),
        (f"<tool_calls>\n{WEATHER}}}\n{TIME}}}\n</tool_calls>", said(None, PARIS, NOW)),
        (
            f"<think>\nHm.<tool_calls>\n{TIME}\n</tool_calls>\n</think>\n\nFine.",
            said("Fine.", reasoning=f"Hm.<tool_calls>\n{TIME}\n</tool_calls>"),
        ),
        (f"<think>\nHm.<tool_calls>\n{TIME}", said(reasoning=f"Hm.<tool_calls>\n{TIME}")),
    ],
)
def test_minimax_m1(raw: str, expected: object) -> None:
    assert read("minimax_m1", raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"**Tool Call:**\n\n```json\n{WEATHER}\n```", said(None, PARIS)),
        (f"**Tool Call:** ```json\n{WEATHER}", said(None, PARIS)),
        (f"<tool_call>{WEATHER}", said(None, PARIS)),
        ("**Tool Call:** none", said("**Tool Call:** none")),
    ],
)
def test_rwkv(raw: str, expected: object) -> None:
    assert read("rwkv", raw) == expected


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("holo2", "Hm.\n</think>\n\nFine.", said("Fine.", reasoning="Hm.")),
        ("holo2", "Hm.\n</think>\n\n<tool_call>{}", said("<tool_call>{}", reasoning="Hm.")),
        ("kimi_vl", "◁think▷Hm.◁/think▷Fine.", said("Fine.", reasoning="Hm.")),
        ("kimi_vl", "Fine.", said("Fine.")),
        ("identity", "<think>Hm.</think>[]", said("<think>Hm.</think>[]")),
    ],
)
def test_families_without_calls(name: str, raw: str, expected: object) -> None:
    assert read(name, raw) == expected
