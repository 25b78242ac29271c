"""Malformed lists of Python calls."""

from __future__ import annotations

from tests.conformance.replay import ArgumentMode, calls
from tests.parsing.malformed import RAW, call, case, check, of_each

P = "pythonic"

ALL = [
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
    case(
        P,
        "<|python_start|>[f(a='x)]<|python_end|><|python_start|>[f(a='y')]<|python_end|>",
        "<|python_start|>[f(a='x)]<|python_end|>",
        call(a="y"),
    ),
    case(
        P,
        "<|python_start|>[f(a='<|python_start|>[f()]', n=)]<|python_end|>",
        "<|python_start|>[f(a='<|python_start|>[f()]', n=)]<|python_end|>",
    ),
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
    case(P, "[f(a=+1.j)]", RAW),
    case(
        P,
        "[f(a=(1), b=((2)), c=(3,), d=(), e=(4, 5), g=((6,),), h=( 'x' ))]",
        None,
        call(a=1, b=2, c=[3], d=[], e=[4, 5], g=[[6]], h="x"),
    ),
    case(P, "[f(a=('x, (y)'), b=('it', 'is'))]", None, call(a="x, (y)", b=["it", "is"])),
    case(P, "[f(a=(1 2))]", RAW),
    case(P, "[f(a=(1", RAW),
    case(P, "[f(a=(", RAW),
    case(P, "[f(a=(x))]", RAW),
    case(P, "[f(a=" + "(" * 70, RAW),
    case(P, "[f(a=.5, b=1_000, c=-007, o=+3)]", None, call(a=0.5, b=1000, c=-7, o=3)),
    case(P, "[f(a=[1, 2,  3.5, -4e2, 5])]", None, call(a=[1, 2, 3.5, -400.0, 5])),
    case(P, "[" + "字" * 300 + "()]", RAW),
    case(P, "[f(a=" + "[" * 70, RAW),
    case(P, "[f(a=" + "{'k': " * 70, RAW),
]


@of_each(ALL)
def test_malformed_python_calls(
    fmt: str, raw: str, content: str | None, found: tuple[tuple[str, str], ...], mode: ArgumentMode
) -> None:
    check(fmt, raw, content, found, mode)
