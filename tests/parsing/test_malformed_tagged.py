"""Malformed calls that are made of elements."""

from __future__ import annotations

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut
from tests.parsing.malformed import RAW, TOOLS, call, case, check, of_each

X = "qwen3_coder"


def xml(body: str, close: str = "</function>\n</tool_call>") -> str:
    return f"<tool_call>\n<function=f>\n{body}{close}"


def param(key: str, value: str) -> str:
    return f"<parameter={key}>\n{value}\n</parameter>\n"


CASES = [
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

DSML = '<｜DSML｜function_calls><｜DSML｜invoke name="f">'
DSML_END = "</｜DSML｜invoke></｜DSML｜function_calls>"


def flagged(key: str, value: str) -> str:
    return f'{DSML}<｜DSML｜parameter name="{key}" string="false">{value}</｜DSML｜parameter>{DSML_END}'


FLAGGED = [
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
]

SECTION, SECTION_END = "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"
PLAIN = '<parameter name="a" string="true">x</parameter>'

# Tags without their marker; in a value that was opened with it they are text.
LOOSE = [
    case("deepseek_v32", f"{DSML}{PLAIN}{DSML_END}", None, call(a="x")),
    case("deepseek_v32", f'{DSML}<parameter name="n">3</parameter>\n{DSML_END}', None, call(n=3)),
    case("deepseek_v32", f'{SECTION}<invoke name="f">{PLAIN}</invoke>{SECTION_END}', None, call(a="x")),
    case("deepseek_v32", f'{SECTION}<invoke name="f">{PLAIN}{PLAIN}{SECTION_END}', None, call(a="x")),
    case("deepseek_v32", f'<invoke name="f">{PLAIN}</invoke>', None, call(a="x")),
    case("deepseek_v32", '<invoke name="unknown"></invoke>', RAW),
    case("deepseek_v32", f'{DSML}<parameter name="a">x</｜DSML｜parameter>{DSML_END}', None, call(a="x")),
    case("deepseek_v32", f'{DSML}<parameter name="a">x{DSML_END}', None, call(a="x")),
    case(
        "deepseek_v32",
        f'{DSML}<｜DSML｜parameter name="a" string="true">{PLAIN}</invoke></｜DSML｜parameter>{DSML_END}',
        None,
        call(a=f"{PLAIN}</invoke>"),
    ),
    case("deepseek_v41", f'</think>{SECTION}<invoke name="f">{PLAIN}</invoke>{SECTION_END}', None, call(a="x")),
]

QUOTED = [
    case(X, '<tool_call>\n<function="f">\n</function>\n</tool_call>', None, call()),
    case(X, "<function='f'>\n</function>", None, call()),
    case(X, xml('<parameter="a">\nx\n</parameter>\n'), None, call(a="x")),
    case(X, xml("<parameter='n'>\n3\n</parameter>\n"), None, call(n=3)),
    case(X, xml('<parameter=a>\nx\n<parameter="n">\n3\n</parameter>\n'), None, call(a="x", n=3)),
    case(X, xml('<parameter="a>\nx\n</parameter>\n'), None, calls(("f", {'"a': "x"}))),
    case(
        "glm47",
        "</think><tool_call>\"f\"<arg_key>'a'</arg_key><arg_value>x</arg_value></tool_call>",
        None,
        call(a="x"),
    ),
]

CARRIAGE_RETURNS = [
    case(X, xml("<parameter=a>\r\nx\r\n</parameter>\r\n"), None, call(a="\r\nx\r")),
    case(X, xml("<parameter=a>\nx\r\n</parameter>\n"), None, call(a="x\r")),
    case(X, xml("<parameter=n>\r\n3\r\n</parameter>\r\n"), None, call(n=3)),
]

ALL = CARRIAGE_RETURNS + CASES + FLAGGED + LOOSE + QUOTED


@of_each(ALL)
def test_malformed_elements(
    fmt: str, raw: str, content: str | None, found: tuple[tuple[str, str], ...], mode: ArgumentMode
) -> None:
    check(fmt, raw, content, found, mode)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        ('say "hi"', "&quot;"),
        ('"a"', '"a"'),
    ],
)
def test_a_key_that_needs_spelling_is_the_next_parameter(key: str, raw: str) -> None:
    """Where a closer is missing, the next declared parameter is known in whatever way its key is spelled."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {}, key: {}}}}}]
    if "&" in raw:
        fmt, name = "kimi_k3", key.replace('"', raw)
        open_call = '<|open|>response<|sep|><|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
        first = '<|open|>argument key="a" type="string"<|sep|>x'
        text = f'{open_call}{first}<|open|>argument key="{name}" type="string"<|sep|>y<|close|>argument<|sep|>'
        text += "<|close|>call<|sep|><|close|>tools<|sep|>"
    else:
        fmt = X
        text = f"<function=f>\n<parameter=a>\nx\n<parameter={raw}>\ny\n</parameter>\n</function>"
    expected = Outcome(None, None, calls(("f", {"a": "x", key: "y"})))
    assert outcomes_by_cut(Generation(fmt, text, tools), every_cut(text), "incremental").keys() == {expected}


@pytest.mark.parametrize(("fmt", "mark"), [("qwen3_coder", "parameter"), ("glm45", "arg_key")])
def test_a_call_cut_inside_a_marker_is_nothing(fmt: str, mark: str) -> None:
    raw = "<tool_call>\n<function=f>\n" if fmt == "qwen3_coder" else "<tool_call>f\n"
    for size in range(1, len(mark) + 2):
        cut = raw + f"<{mark}"[:size]
        generation = Generation(fmt, cut, TOOLS, prompt="", finish="length")
        assert outcomes_by_cut(generation, every_cut(cut), "incremental").keys() == {Outcome()}
        ended = Generation(fmt, cut, TOOLS, prompt="")
        assert outcomes_by_cut(ended, every_cut(cut), "incremental").keys() == {Outcome(None, cut)}
