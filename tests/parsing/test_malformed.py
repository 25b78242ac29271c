"""What models write that no template shows: each text gives one message, however it is cut.

A call is repaired only where the text has one reading; everything else is content, as it was written.
"""

from __future__ import annotations

import pytest

import unspool
from tests.conformance.replay import ArgumentMode, Generation, Outcome, every_cut, outcomes_by_cut
from tests.parsing.malformed import (
    CLOSE,
    KIMI,
    KIMI_ARGS,
    KIMI_CLOSE,
    KIMI_END,
    ONLY_F,
    OPEN,
    RAW,
    TOOLS,
    V3,
    V3_END,
    H,
    call,
    case,
    check,
    of_each,
)

JSON_CASES = [
    case(
        H,
        f'{OPEN}{{"name": "f", "arguments": {{"a": "\\d+ \\\\ \\u00e9 \\q"}}}}{CLOSE}',
        None,
        call(a="\\d+ \\ é \\q"),
    ),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": "x\ty\nz"}}}}{CLOSE}', None, call(a="x\ty\nz")),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": "\\u12"}}}}{CLOSE}', None, call(a="\\u12")),
    case(
        H, f'{OPEN}{{"name": "f", "arguments": {{"a": "{CLOSE} <x> }}"}}}}{CLOSE}', None, call(a=f"{CLOSE} <x> }}")
    ),
    case(H, f'{OPEN}{{"arguments": {{"a": "x"}}, "name": "f"}}{CLOSE}', None, call(a="x")),
    case(H, f'{OPEN}{{"name": "f", "parameters": {{"a": "x"}}}}{CLOSE}', None, call(a="x")),
    case(H, f'{OPEN}{{"name": "f", "arguments": "{{\\"a\\": \\"x\\"}}"}}{CLOSE}', None, call(a="x")),
    case(H, f'{OPEN}{{"name": "f", "arguments": ""}}{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": "x"}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": "3"}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": null}}{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": nil}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": [1]}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a" 1}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": NaN}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": 1]}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "f"}}{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "g"}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": "h"}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": " ", "arguments": {{}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name": 3, "arguments": {{}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"name" "f"}}{CLOSE}', RAW),
    case(H, f"{OPEN}{{3: 4}}{CLOSE}", RAW),
    case(H, f'{OPEN}{{"arguments": {{}}}}{CLOSE}', RAW),
    case(
        H,
        f'{OPEN}{{"id": 12, "type": "x", "more": {{"y": [1]}}, "name": "f", "arguments": {{}}}}{CLOSE}',
        None,
        call(),
    ),
    case(H, f'{OPEN}{{"id": ?, "name": "f", "arguments": {{}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"id": 1.2.3, "name": "f", "arguments": {{}}}}{CLOSE}', RAW),
    case(H, f'{OPEN}{{"na\\"me": "\\d\t", "name": "f", "arguments": {{}}}}{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}, "arguments": {{"a": "x"}}}}{CLOSE}', None, call()),
    case(
        H,
        f'{OPEN}[{{"name": "f", "arguments": {{}}}}, {{"name": "f", "arguments": {{}}}}]{CLOSE}',
        None,
        call(),
        call(),
    ),
    case(H, f'{OPEN}[{{"name": "f", "arguments": {{}}}}, 3]{CLOSE}', RAW),
    case(H, f"{OPEN}[]{CLOSE}", None),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}}}}\n{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}} And so on.', " And so on.", call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}}{"-" * 70}{CLOSE}', "-" * 70 + CLOSE, call()),
    case(
        H,
        f'{OPEN}{{"name": "f", "arguments": {{}}}}{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}',
        None,
        call(),
        call(),
    ),
    case(H, f"Use {OPEN} tags.", RAW),
    case(H, f'{OPEN}{{"name": "f", "argu', RAW),
    case(H, f'{OPEN}{{"name": "f', RAW),
    case(H, f'{OPEN}{{"name": "f"', RAW),
    case(H, f'{OPEN}{{"name": "f", "id": 12', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": "x', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": "x\\', RAW),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{"a": 1', RAW),
    case(H, f"{OPEN}", RAW),
    case(H, f'{OPEN}no {OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}', f"{OPEN}no", call()),
    case("llama3_json", '{"name": "f", "parameters": {}}; ', None, call()),
    case("llama3_json", '{"name": "f", "parameters": {}}; {"name": "f", "parameters": {}}', None, call(), call()),
    case("llama3_json", '{"name": "f", "parameters": {}}, {"name": "f", "parameters": {}}', None, call(), call()),
    case(
        "llama3_json",
        '{"name": "f", "parameters": {}},{"name": "h", "parameters": {}}',
        ',{"name": "h", "parameters": {}}',
        call(),
    ),
    case("llama3_json", '{"name": "f", "parameters": {}}, then', ", then", call()),
    case("llama3_json", '{"name": "f", "parameters": {}}; then', "; then", call()),
    case("llama3_json", '{"name": "f", "parameters": {}}; {"x": 1}', '; {"x": 1}', call()),
    case("llama3_json", '{"name": "f", "parameters": {}}' + " " * 70, " " * 70, call()),
    case("llama3_json", '[{"name": "f", "parameters": {}}]', None, call()),
    case("llama3_json", "[]", RAW),
    case("llama3_json", "[1, 2]", RAW),
    case("llama3_json", "<|python_tag|>print(1)", RAW),
    case("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {}}]', None, call()),
    case("mistral", '[TOOL_CALLS]{"name": "f", "arguments": {}}', None, call()),
    case("mistral", '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": "x"}', None, call(a="x")),
    case("mistral", '[TOOL_CALLS]f[CALL_ID]123456789{"a": "x"}', None, call(a="x")),
    case("mistral", "[TOOL_CALLS]f[ARGS]3", RAW),
    case("mistral", "[TOOL_CALLS]f[ARGS]", RAW),
    case("mistral", "[TOOL_CALLS]a name[ARGS]{}", RAW),
    case("mistral", f"[TOOL_CALLS]{'x' * 300}[ARGS]{{}}", RAW),
    case(H, f'{OPEN}{{"name": "f", "args": {{"a": "x"}}}}{CLOSE}', None, call(a="x")),
    case(H, f'{OPEN}{{"name": "f", "a": "x"}}{CLOSE}', RAW),
    case(
        H,
        f'{OPEN}{{"name": "f", "arguments": {{}}}}\n{{"name": "f", "arguments": {{}}}}{CLOSE}',
        None,
        call(),
        call(),
    ),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}}\nWait.\n{CLOSE}', "\nWait.\n", call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}\n{CLOSE}', None, call()),
    case(H, f'{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}{" " * 70}.', " " * 70 + ".", call()),
    case(H, f'{OPEN}{{"{"k" * 300}": 1}}{CLOSE}', RAW),
    case("llama3_json", '{"name": "' + "f" * 300 + '"}', RAW),
    case("llama3_json", '{"type": [1], "name": "f"}', RAW),
    case("deepseek_v3", f"{V3}function<｜tool▁sep｜>f\n```json\n{{}}\n```", None, call()),
    case("deepseek_v3", f"{V3}function<｜tool▁sep｜>f```json\n{{}}\n```{V3_END}", None, call()),
    case("deepseek_v31", f"{V3}f<｜tool▁sep｜>{V3_END}", None, call()),
    case("deepseek_v31", f"{V3}g<｜tool▁sep｜>{V3_END}", RAW),
]

NAMED_CASES = [
    case("kimi_k2", f'{KIMI}functions.f:0{KIMI_ARGS}{{"a": "x"}}{KIMI_END}', None, call(a="x")),
    case("kimi_k2", f'{KIMI}functions.f:0{KIMI_ARGS}{{"a": "x"}}', None, call(a="x")),
    case("kimi_k2", f"{KIMI}functions.f:0{KIMI_ARGS}{{}}{KIMI_END}Done.", "Done.", call()),
    case(
        "kimi_k2",
        f"{KIMI}functions.f:0{KIMI_ARGS}{{}}{KIMI_END} and {'so ' * 30}on",
        " and " + "so " * 30 + "on",
        call(),
    ),
    case("kimi_k2", f"<|tool_call_begin|>f:0{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}", None, call()),
    case("kimi_k2", f"{KIMI}3{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}", RAW),
    case("kimi_k2", f"{KIMI}functions.f:0{KIMI_ARGS}{{{KIMI_END}{KIMI_CLOSE}", RAW),
    case("kimi_k2", f"{KIMI}functions.f:0", RAW),
    case("kimi_k2", "<|tool_calls_section_begin|>", RAW),
    case("kimi_k2", "<|tool_calls_section_begin|>" + "no call " * 10, RAW),
    case("deepseek_v3", f'{V3}function<｜tool▁sep｜>f\n{{"a": "x"}}{V3_END}', None, call(a="x")),
    case("deepseek_v3", f'{V3}function<｜tool▁sep｜>f\n```\n{{"a": "x"}}\n```{V3_END}', None, call(a="x")),
    case("deepseek_v3", f'{V3}f<｜tool▁sep｜>{{"a": "x"}}{V3_END}', None, call(a="x")),
    case("deepseek_v3", f"{V3}function<｜tool▁sep｜>f\n```json\nnothing\n```{V3_END}", RAW),
    case("gemma4", '<|tool_call>call:f{a:"x \\" y"}<tool_call|>', None, call(a='x " y')),
    case("gemma4", '<|tool_call>f{"a":<|"|>x<|"|>,}<tool_call|>', None, call(a="x")),
    case("gemma4", "<|tool_call>call:f{o:[1, [2,] ,{k:[ ]}, ]}<tool_call|>", None, call(o=[1, [2], {"k": []}])),
    case("gemma4", '<|tool_call>:f{<|"|>a<|"|>:bare text}<tool_call|>', None, call(a="bare text")),
    case(
        "gemma4",
        "<|tool_call>call:f{o:{},l:[],m:[1,2,3, [true]]}<tool_call|>",
        None,
        call(o={}, l=[], m=[1, 2, 3, [True]]),
    ),
    case(
        "gemma4",
        "<|tool_call>call:f{a:True,b:[False, None],c:{d:None},e:Truest}<tool_call|>",
        None,
        call(a=True, b=[False, None], c={"d": None}, e="Truest"),
    ),
    case("gemma4", "<|tool_call>call:f{a:1,a:2}<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{a:[1 2]b}<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{a:[1]b}<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{:1}<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{a}<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{a:}<tool_call|>", RAW),
    case("gemma4", '<|tool_call>call:f{a:<|"|>x', RAW),
    case("gemma4", '<|tool_call>call:f{<|"|>a', RAW),
    case("gemma4", "<|tool_call>call:f{a:x", RAW),
    case("gemma4", "<|tool_call>call:f{a:[[1]", RAW),
    case("gemma4", "<|tool_call>call:f(a=1)<tool_call|>", RAW),
    case("gemma4", "<|tool_call>call:f{a:" + "{b:" * 70, RAW),
    case("gemma4", "<|tool_call>call:f{a:" + "[" * 70, RAW),
]

HARMONY_CASES = [
    case("gpt_oss", "No header at all.", RAW),
    case("gpt_oss", "<|channel|>final<|message|>Hi<|start|>assistant<|channel|>final<|message|>!", "Hi!"),
    case("gpt_oss", "<|channel|>garbled<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hi"),
    case("gpt_oss", "<|channel|>garbled<|start|>assistant<|channel|>final<|message|>Hi", "Hi"),
    case("gpt_oss", f"<|channel|>{'x' * 600}<|message|>Hi", "Hi"),
    case("gpt_oss", "<|message|>Hi", "Hi"),
    case("gpt_oss", "<|start|>user<|message|>Hi", "user<|message|>Hi"),
    case("gpt_oss", " to=f<|message|>{}", None, call()),
    case("gpt_oss", " to=functions.<|message|>{}", " to=functions.<|message|>{}"),
    case(
        "gpt_oss",
        " to=functions.f<|message|>3<|end|><|start|>assistant<|message|>Hi",
        " to=functions.f<|message|>3Hi",
    ),
    case("gpt_oss", " to=python<|channel|>commentary<|message|>print(1)<|call|>", None),
    case(
        "gpt_oss", ' to=functions.f<|channel|>commentary<|message|>{"a": "x"} trailing<|call|>', None, call(a="x")
    ),
    case("gpt_oss", "<|channel|>commentary to=functions.f <|constrain|>json", None),
    case("gpt_oss", "<|channel|>final<|message|>A<|end|>\n<|start|>assistant<|channel|>final<|message|>B", "AB"),
    case("gpt_oss", "<|channel|>final<|message|>B<|end|>\n", "B"),
    case("gpt_oss", "\n\n" + " " * 70 + "B", RAW),
    case("gpt_oss", " to=functions.f<|message|><|call|>", " to=functions.f<|message|>"),
]

HALF = "\ud83d"

# Half of a surrogate pair that is spelled out becomes an escape: UTF-8 has no other way to carry it.
HALF_CASES = [
    case("gemma4", '<|tool_call>call:f{a:"\\ud83d"}<tool_call|>', None, call(a=HALF)),
    case("gemma4", f'<|tool_call>call:f{{a:<|"|>{HALF}<|"|>}}<tool_call|>', None, call(a=HALF)),
    case("pythonic", "[f(a='\\U0000d83d é')]", None, call(a=f"{HALF} é")),
    case("pythonic", f"[f(a='{HALF}\\'')]", None, call(a=f"{HALF}'")),
    case(
        "glm47",
        f"</think><tool_call>f<arg_key>a</arg_key><arg_value>{HALF}</arg_value></tool_call>",
        None,
        call(a=HALF),
    ),
]


@pytest.mark.parametrize(("fmt", "raw"), [found[:2] for found in HALF_CASES])
def test_half_a_surrogate_pair_can_be_encoded(fmt: str, raw: str) -> None:
    [found] = unspool.parse(fmt, raw, tools=TOOLS).tool_calls
    assert "\\ud83d" in found.arguments.encode().decode()


M, ARGS = "[TOOL_CALLS]", "[ARGS]"

# A call that turns out to be none may hold the opener of the next one: reading goes on behind what is certain.
NEXT_CASES = [
    case("mistral", f'{M}f{ARGS}{{bad{M}f{ARGS}{{"a": "x"}}', f"{M}f{ARGS}{{bad", call(a="x")),
    case("mistral", f'{M}f{ARGS}{{"n": 3 {M}f{ARGS}{{"a": "x"}}', f'{M}f{ARGS}{{"n": 3 ', call(a="x")),
    case("mistral", f'{M}f{ARGS}{{"o": {{"k": 1}}{M}f{ARGS}{{}}', f'{M}f{ARGS}{{"o": {{"k": 1}}', call()),
    case("mistral", f'{M}f{ARGS}{{"a": "x{M}f{ARGS}{{"a": "y"}}', f'{M}f{ARGS}{{"a": "x', call(a="y")),
    case("mistral", f"{M}f {M}f{ARGS}{{}}", f"{M}f ", call()),
    case(
        "mistral",
        f'{M}[{{"name": "f", "arguments": {{}}}}, {M}f{ARGS}{{}}',
        f'{M}[{{"name": "f", "arguments": {{}}}}, ',
        call(),
    ),
    # A marker inside a string that was closed as strings are is only text.
    case("mistral", f'{M}f{ARGS}{{"a": "{M}f{ARGS}{{}}", bad}}', RAW),
    case("mistral", f'{M}f{ARGS}{{"a": "{M}f{ARGS}{{}}" "b": 1}}', RAW),
    case("mistral", f'{M}f{ARGS}{{"a": "{M}f{ARGS}{{}}', RAW),
    case(
        H,
        f'{OPEN}{{"name": "f", "arguments": {{"a": "x{CLOSE}{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}',
        f'{OPEN}{{"name": "f", "arguments": {{"a": "x{CLOSE}',
        call(),
    ),
    case(
        H,
        f'{OPEN}{{"name": "f{CLOSE}{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}',
        f'{OPEN}{{"name": "f{CLOSE}',
        call(),
    ),
    case(
        H,
        f'{OPEN}{{"arguments": {{"a": "x{CLOSE}{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}',
        f'{OPEN}{{"arguments": {{"a": "x{CLOSE}',
        call(),
    ),
    case(
        "deepseek_v31",
        f"{V3}f<｜tool▁sep｜>{{{V3_END}{V3}f<｜tool▁sep｜>{{}}{V3_END}",
        f"{V3}f<｜tool▁sep｜>{{{V3_END}",
        call(),
    ),
    case("kimi_k2", f"{KIMI}f {KIMI}f:0{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}", f"{KIMI}f ", call()),
    case(
        "gemma4",
        '<|tool_call>call:f{a:<|"|>x}<tool_call|><|tool_call>call:f{a:<|"|>y<|"|>}<tool_call|>',
        '<|tool_call>call:f{a:<|"|>x}<tool_call|>',
        call(a="y"),
    ),
    case(
        "gpt_oss",
        ' to=functions.f<|message|>{"a": "x<|call|><|start|>assistant to=functions.f<|message|>{"a": "y"}',
        ' to=functions.f<|message|>{"a": "x',
        call(a="y"),
    ),
    case(
        "magistral+llama3_json",
        '{"name": "f", "parameters": {}}[TOOL_CALLS]',
        "[TOOL_CALLS]",
        call(),
    ),
]

ALL = JSON_CASES + HALF_CASES + NEXT_CASES + NAMED_CASES + HARMONY_CASES


@of_each(ALL)
def test_malformed_output(
    fmt: str, raw: str, content: str | None, found: tuple[tuple[str, str], ...], mode: ArgumentMode
) -> None:
    check(fmt, raw, content, found, mode)


def test_a_bare_counter_is_the_only_offered_tool() -> None:
    generation = Generation("kimi_k2", f"{KIMI}3{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}", ONLY_F)
    assert outcomes_by_cut(generation, every_cut(generation.raw), "atomic").keys() == {Outcome(None, None, call())}
