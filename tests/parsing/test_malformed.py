"""What models write that no template shows: each text gives one message, however it is cut.

A call is repaired only where the text has one reading; everything else is content, as it was written.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "n": {"type": "integer"},
                    "o": {"type": ["object", "string"]},
                    "s": {"type": ["string", "null"]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "g", "parameters": {"required": ["x"]}}},
]
ONLY_F = TOOLS[:1]

RAW = "the text itself"

Case = tuple[str, str, str | None, tuple[tuple[str, str], ...]]


def call(**arguments: Any) -> tuple[tuple[str, str], ...]:
    return calls(("f", arguments))


def case(fmt: str, raw: str, content: str | None, *found: tuple[tuple[str, str], ...]) -> Case:
    return fmt, raw, raw if content == RAW else content, tuple(c for group in found for c in group)


H = "hermes"
OPEN, CLOSE = "<tool_call>", "</tool_call>"

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
]

KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>"
KIMI_ARGS, KIMI_END, KIMI_CLOSE = "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"
V3 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
V3_END = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"

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
    case("gemma4", '<|tool_call>:f{<|"|>a<|"|>:bare text}<tool_call|>', None, call(a="bare text")),
    case(
        "gemma4",
        "<|tool_call>call:f{o:{},l:[],m:[1,2,3, [true]]}<tool_call|>",
        None,
        call(o={}, l=[], m=[1, 2, 3, [True]]),
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

X = "qwen3_coder"


def xml(body: str, close: str = "</function>\n</tool_call>") -> str:
    return f"<tool_call>\n<function=f>\n{body}{close}"


def param(key: str, value: str) -> str:
    return f"<parameter={key}>\n{value}\n</parameter>\n"


TAGGED_CASES = [
    case(X, xml(param("a", "x </parameter> y")), None, call(a="x </parameter> y")),
    case(X, xml(param("a", "x </function> y")), None, call(a="x </function> y")),
    case(X, xml(param("a", "<parameter=zz>")), None, call(a="<parameter=zz>")),
    case(X, xml(f"<parameter=a>\nx\n{param('n', '3')}"), None, call(a="x", n=3)),
    case(X, xml("<parameter=a>\nx\n"), None, call(a="x")),
    case(X, xml(f"{param('a', 'x')}{param('a', 'y')}"), None, call(a="x")),
    case(X, xml(f"{param('n', '1')}{param('n', '2')}"), None, call(n=1)),
    case(X, xml(param("s", "null")), None, call(s=None)),
    case(X, xml(param("s", "nullify")), None, call(s="nullify")),
    case(X, xml(param("s", "")), None, call(s="")),
    case(X, xml(param("o", '{"k": "</parameter>"}')), None, call(o={"k": "</parameter>"})),
    case(X, xml(param("a", "x"), "</tool_call>"), None, call(a="x")),
    case(X, xml(param("a", "x"), ""), None, call(a="x")),
    case(X, xml(param("a", "x"), "<function=f></function></tool_call>"), None, call(a="x"), call()),
    case(X, xml('{"a": "x"}\n'), None, call(a="x")),
    case(X, xml('{"a": "x"} y'), '<tool_call>\n<function=f>\n{"a": "x"} y</function>\n</tool_call>'),
    case(X, xml('{"a": "x"}', ""), None, call(a="x")),
    case(X, xml("{x}"), RAW),
    case(X, xml("words\n"), RAW),
    case(X, xml("<parameter=>\nx\n</parameter>\n"), RAW),
    case(X, "<tool_call>\n<function=f>\n<parameter=a>\nx", RAW),
    case(X, "<tool_call>\n<function=f>\n<parameter=a", RAW),
    case(X, "<tool_call>\n<function=a b>\n</function>\n</tool_call>", RAW),
    case(X, "<tool_call>\n<function=>\n</function>\n</tool_call>", RAW),
    case(X, '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>', None, call(a="x")),
    case(X, '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}', None, call(a="x")),
    case(X, "<tool_call>words only</tool_call>", RAW),
    case(X, "<tool_call></tool_call>", RAW),
    case(X, "<tool_call>" + "no function " * 8, RAW),
    case(X, xml(param("a", "x")) + "\n" + xml(param("a", "y")), None, call(a="x"), call(a="y")),
    case(X, xml(param("a", "x"), "</function>\n" + "no closer " * 8), "\n" + "no closer " * 8, call(a="x")),
    case(X, "<function=f>\n</function>", None, call()),
    case(X, "<function=unknown>\n</function>", RAW),
    case(X, f"{xml(param('a', 'x'), '</function>')} and more", " and more", call(a="x")),
    case(
        X,
        f"{xml(param('a', 'x' + ' ' * 70 + '</parameter>' + ' ' * 70 + '.'))}",
        None,
        call(a="x" + " " * 70 + "</parameter>" + " " * 70 + "."),
    ),
    case(X, xml(param("a", "<parameter=" + "x" * 300)), None, call(a="<parameter=" + "x" * 300)),
    case("glm47", "</think><tool_call>f<arg_key>a</arg_key>x</arg_value></tool_call>", None, call(a="x")),
    case("glm47", "</think><tool_call>f<arg_key>a</arg_key><arg_value>x</tool_call>", None, call(a="x")),
    case(
        "glm47",
        "</think><tool_call>f\n\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        None,
        call(a="x"),
    ),
    case(
        "glm47",
        "</think><tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value>?</tool_call>",
        None,
        call(a="x</arg_value>?"),
    ),
    case(
        "deepseek_v32", '<｜DSML｜function_calls><｜DSML｜invoke name="f"/></｜DSML｜function_calls>', None, call()
    ),
    case(
        "deepseek_v32",
        "<｜DSML｜function_calls><｜DSML｜invoke name='f'></｜DSML｜invoke></｜DSML｜function_calls>",
        None,
        call(),
    ),
    case(
        "deepseek_v32",
        '<｜DSML｜function_calls><｜DSML｜invoke name="f">{"a": "x"}</｜DSML｜invoke></｜DSML｜function_calls>',
        None,
        call(a="x"),
    ),
    case(
        "deepseek_v32",
        '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="n">3</｜DSML｜parameter>'
        "</｜DSML｜invoke></｜DSML｜function_calls>",
        None,
        call(n=3),
    ),
    case(
        "kimi_k3",
        '<|open|>response<|sep|><|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
        '<|open|>json type="object"<|sep|>{"a": "x"}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
        None,
        call(a="x"),
    ),
    case(
        "kimi_k3",
        '<|open|>response<|sep|><|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
        '<|open|>json type="object"<|sep|>3<|close|>json<|sep|>',
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>json type="object"<|sep|>3'
        "<|close|>json<|sep|>",
    ),
]

P = "pythonic"

DSML = '<｜DSML｜function_calls><｜DSML｜invoke name="f">'
DSML_END = "</｜DSML｜invoke></｜DSML｜function_calls>"


def flagged(key: str, value: str) -> str:
    return f'{DSML}<｜DSML｜parameter name="{key}" string="false">{value}</｜DSML｜parameter>{DSML_END}'


BEHIND_CALLS = [
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
    case(X, f"{xml(param('a', 'x'), '</function>')}\nThen.\n</tool_call>", "\nThen.\n", call(a="x")),
    case(X, f"{xml('', '</function>')}\nSo\n{xml('')}", "\nSo\n", call(), call()),
    case(X, f"{xml('')}\n</tool_call>", None, call()),
    case(X, xml(param("a", "x"), "<|im_end|>"), None, call(a="x")),
    case(X, xml("<parameter=a>\nx\n</parameter>\n<|im_end|>", ""), None, call(a="x")),
    case(X, xml("<|im_end|>", ""), None, call()),
    case(X, "<function=f>\n</function>\n\nHello", "\n\nHello", call()),
    case("deepseek_v32", flagged("a", "True"), None, call(a="True")),
    case("deepseek_v32", flagged("n", "3.0"), None, call(n=3.0)),
    case("deepseek_v32", flagged("z", "[1]"), None, call(z=[1])),
    case("deepseek_v3", f"{V3}function<｜tool▁sep｜>f\n```json\n{{}}\n```", None, call()),
    case("deepseek_v3", f"{V3}function<｜tool▁sep｜>f```json\n{{}}\n```{V3_END}", None, call()),
    case("deepseek_v31", f"{V3}f<｜tool▁sep｜>{V3_END}", None, call()),
    case("deepseek_v31", f"{V3}g<｜tool▁sep｜>{V3_END}", RAW),
    case("gpt_oss", "<|channel|>final<|message|>A<|end|>\n<|start|>assistant<|channel|>final<|message|>B", "AB"),
    case("gpt_oss", "<|channel|>final<|message|>B<|end|>\n", "B"),
    case("gpt_oss", "\n\n" + " " * 70 + "B", RAW),
    case("gpt_oss", " to=functions.f<|message|><|call|>", " to=functions.f<|message|>"),
]

PYTHON_CASES = [
    case(P, "[f(a='x', n=-1, b=true, c=None)]", None, call(a="x", n=-1, b=True, c=None)),
    case(P, "[f(a='it\\'s \"q\" \\x41\\u00e9\\101\\U0001F338\\\nz\\q')]", None, call(a='it\'s "q" AéA🌸z\\q')),
    case(P, '[f(a="\\U99999999 \\x4 \\a")]', None, call(a="\\U99999999 \\x4 \a")),
    case(P, "[f(a='''x 'y'\n z''', s=\"\", o='')]", None, call(a="x 'y'\n z", s="", o="")),
    case(
        P, "[f(o={'k': [1, (2, 3), {}], \"l\": [],}, n=007,)]", None, call(o={"k": [1, [2, 3], {}], "l": []}, n=7)
    ),
    case(P, "[f(a=1.5, n=1e3, o=0x10)]", None, call(a=1.5, n=1000.0, o=16)),
    case(P, "[f(), f()]", None, call(), call()),
    case(P, "[f(),]", None, call()),
    case(P, "<|python_start|>[h.i-j(a=1)]<|python_end|>", None, calls(("h.i-j", {"a": 1}))),
    case(P, "<|python_start|>nothing<|python_end|>", "<|python_start|>nothing<|python_end|>"),
    case(P, "[f(a=1, a=2)]", RAW),
    case(P, "[f(1)]", RAW),
    case(P, "[f(a=1j)]", RAW),
    case(P, "[f(a=[1,])]", None, call(a=[1])),
    case(P, "[f(a=x)]", RAW),
    case(P, "[f(a=)]", RAW),
    case(P, "[f(a 1)]", RAW),
    case(P, "[f(a=1 b=2)]", RAW),
    case(P, "[f(a=[1 2])]", RAW),
    case(P, "[f(a={1: 2})]", RAW),
    case(P, "[f(a={'k' 2})]", RAW),
    case(P, "[f(a={'k': 2 'l': 3})]", RAW),
    case(P, "[f(a=1) f()]", RAW),
    case(P, "[f]", RAW),
    case(P, "[3f()]", RAW),
    case(P, "[unknown(a=1)]", RAW),
    case(P, "[1, 2, 3] is a list", RAW),
    case(P, "[f(a='x", RAW),
    case(P, "[f(a='x\\", RAW),
    case(P, "[f(a=", RAW),
    case(P, "[f(a=1", RAW),
    case(P, "[f(a=1),", RAW),
    case(P, "[f(a=0" + "9" * 1000 + ")]", None, calls(("f", {"a": int("9" * 1000)}))),
    case(P, "[f(a=0x" + "f" * 1000 + ")]", None, calls(("f", {"a": "0x" + "f" * 1000}))),
    case(P, "[f(a=" + "9" * 5000 + ")]", RAW),
    case(P, "[f(a=1e999, b=+1e999)]", RAW),
    case(P, "[f(a=.5, b=1_000, c=-007, o=+3)]", None, call(a=0.5, b=1000, c=-7, o=3)),
    case(P, "[f(a=[1, 2,  3.5, -4e2, 5])]", None, call(a=[1, 2, 3.5, -400.0, 5])),
    case(P, "[" + "字" * 300 + "()]", RAW),
    case(P, "[f(a=" + "[" * 70, RAW),
    case(P, "[f(a=" + "{'k': " * 70, RAW),
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
]

ALL = BEHIND_CALLS + JSON_CASES + NAMED_CASES + TAGGED_CASES + PYTHON_CASES + HARMONY_CASES


def quick_cuts(raw: str) -> Any:
    """All cuts of a short text, some of a long one."""
    return every_cut(raw) if len(raw) < 200 else iter([(raw,), tuple(raw), (raw[:-5], raw[-5:])])


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize(("fmt", "raw", "content", "found"), ALL, ids=[f"{c[0]} {c[1][:60]!r}" for c in ALL])
def test_malformed_output(
    fmt: str, raw: str, content: str | None, found: tuple[tuple[str, str], ...], mode: Literal["incremental"]
) -> None:
    generation = Generation(fmt, raw, TOOLS)
    assert outcomes_by_cut(generation, quick_cuts(raw), mode).keys() == {Outcome(None, content, found)}


def test_a_bare_counter_is_the_only_offered_tool() -> None:
    generation = Generation("kimi_k2", f"{KIMI}3{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}", ONLY_F)
    assert outcomes_by_cut(generation, every_cut(generation.raw), "atomic").keys() == {Outcome(None, None, call())}


@pytest.mark.parametrize(
    "raw",
    [
        "<tool_call>",
        '<tool_call>\n{"name": "f", "arguments": {"a": "x',
        '<tool_call>\n{"name": "f", "argu',
    ],
)
@pytest.mark.parametrize("before", ["", "Hi."])
def test_a_call_cut_by_the_token_limit_is_nothing(raw: str, before: str) -> None:
    for reasoning in (False, True):
        prompt = "<think>\n" if reasoning else ""
        generation = Generation("hermes", before + raw, TOOLS, prompt=prompt, finish="length")
        expected = Outcome(before or None) if reasoning else Outcome(None, before or None)
        assert outcomes_by_cut(generation, every_cut(generation.raw), "incremental").keys() == {expected}


@pytest.mark.parametrize(
    ("raw", "reasoning", "content"),
    [
        ("So <tool_call> it", "So <tool_call> it", None),
        ('So <tool_call>\n{"name": "unknown", "arguments": {}}', None, None),
        ("So <tool_call>", "So <tool_call>", None),
        ("So <|im_end|>on", "So on", None),
        ("So</think>\n\n<|im_end|>", "So", None),
        ("So</think>  \n ", "So", None),
        (" " * 70 + "So</think>" + " " * 70 + "x", " " * 70 + "So", " " * 70 + "x"),
        (" " * 70 + "<think>So", " " * 70 + "<think>So", None),
        ("  <think>So", "So", None),
    ],
)
def test_open_reasoning(raw: str, reasoning: str | None, content: str | None) -> None:
    generation = Generation("hermes", raw, TOOLS, prompt="<think>\n")
    expected = Outcome(reasoning or raw, content)
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {expected}


@pytest.mark.parametrize(
    "raw",
    [
        "The user wants `<function=f>` in the docs, so I",
        'I\n<tool_call>\n{"name": "f", "arguments": {oops}}\n</tool_call>\nmore thinking',
        'I <tool_call>{"arguments": {"a": "' + "y" * 5000 + '"}, "name": "f"}',
    ],
)
def test_what_is_no_call_in_open_reasoning_stays_reasoning(raw: str) -> None:
    fmt = "qwen3_5" if "function" in raw else "hermes"
    generation = Generation(fmt, raw, TOOLS, prompt="<think>\n")
    assert outcomes_by_cut(generation, quick_cuts(raw), "incremental").keys() == {Outcome(raw)}


@pytest.mark.parametrize(
    ("fmt", "raw"),
    [
        ("mistral", "[THINK]Hm.[TOOL_CALLS]f[ARGS]{}"),
        ("gemma4", "<|channel>thought\nHm.<|tool_call>call:f{}<tool_call|>"),
        ("kimi_k2_thinking", f"Hm.{KIMI}f:0{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}"),
        ("deepseek_r1", f"Hm.{V3}function<｜tool▁sep｜>f\n```json\n{{}}\n```{V3_END}"),
    ],
)
def test_a_call_ends_open_reasoning(fmt: str, raw: str) -> None:
    expected = Outcome("Hm.", None, call())
    assert outcomes_by_cut(Generation(fmt, raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


def test_an_empty_section_in_open_reasoning_is_reasoning() -> None:
    raw = f"Hm <|tool_calls_section_begin|>{KIMI_CLOSE} on"
    generation = Generation("kimi_k2_thinking", raw, TOOLS)
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {Outcome(raw)}


def test_what_the_prompt_holds_back_is_not_the_models() -> None:
    raw = "</think>Hi"
    generation = Generation("hermes", raw, TOOLS, prompt="<think>\nSo <")
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {Outcome(None, "Hi")}


def test_reasoning_may_come_again_between_channels() -> None:
    raw = "A<|close|>think<|sep|><|open|>response<|sep|>B<|close|>response<|sep|><|open|>think<|sep|>C"
    expected = Outcome("AC", "B")
    assert outcomes_by_cut(Generation("kimi_k3", raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


def test_no_tools_make_routed_calls_content() -> None:
    raw = " to=functions.f<|channel|>commentary<|message|>{}<|call|><|start|>assistant<|message|>Hi"
    expected = Outcome(None, " to=functions.f<|channel|>commentary<|message|>{}Hi")
    assert outcomes_by_cut(Generation("gpt_oss", raw), every_cut(raw), "incremental").keys() == {expected}


@pytest.mark.parametrize(("fmt", "mark"), [("qwen3_coder", "parameter"), ("glm45", "arg_key")])
def test_a_call_cut_inside_a_marker_is_nothing(fmt: str, mark: str) -> None:
    raw = "<tool_call>\n<function=f>\n" if fmt == "qwen3_coder" else "<tool_call>f\n"
    for size in range(1, len(mark) + 2):
        cut = raw + f"<{mark}"[:size]
        generation = Generation(fmt, cut, TOOLS, prompt="", finish="length")
        assert outcomes_by_cut(generation, every_cut(cut), "incremental").keys() == {Outcome()}
        ended = Generation(fmt, cut, TOOLS, prompt="")
        assert outcomes_by_cut(ended, every_cut(cut), "incremental").keys() == {Outcome(None, cut)}
