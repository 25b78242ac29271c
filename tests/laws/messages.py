"""Messages that a format can carry, with tools whose schemas fit their arguments.

Texts are full of halves of the format's markers, layout and odd characters. What is left out is only what the
wire format itself cannot tell apart, each with its reason at the place where it is left out. With ``by_id`` the
markers that are special tokens may stand everywhere: letters and tokens are then different things.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from tests.laws.strategies import JSON_PIECES, OTHER_PIECES, is_bare, markers, proper_half, reasons
from unspool import Format, Message, ToolCall
from unspool.parsing.declaration import (
    ChannelCalls,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RelaxedArguments,
    TaggedCalls,
)
from unspool.parsing.turn import openers

_SPECIAL = re.compile(r"｜DSML｜|</?[a-z_]+>|<\|?[^<>|\s=]*\|?>|<\|\"\|>|<｜[^<>｜]+｜>|\[/?[A-Z_]+\]")
MENTION = "~"
"""A marker before this character is only mentioned: nothing that belongs to the format follows it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A message, and the tools that were offered when it was written."""

    message: Message
    tools: list[dict[str, Any]]

    @property
    def expected(self) -> Message:
        """What parsing has to give, call ids aside."""
        return replace(self.message, finish_reason="tool_calls" if self.message.tool_calls else "stop")


@lru_cache(maxsize=None)
def special_tokens(fmt: Format) -> tuple[str, ...]:
    """The format's markers, and parts of markers, that a vocabulary can have as special tokens."""
    found = {token for mark in markers(fmt) for token in _SPECIAL.findall(mark)}
    return tuple(sorted(found, key=lambda token: (-len(token), token)))


def passes_json(fmt: Format) -> bool:
    """Whether arguments are JSON that goes through as it is written."""
    calls = fmt.calls
    return isinstance(calls, JsonCalls | ChannelCalls) or (
        isinstance(calls, NamedCalls) and isinstance(calls.arguments, JsonArguments)
    )


def canonical(message: Message) -> Message:
    """Without ids, and arguments in one spelling: what formats without JSON arguments keep."""
    return replace(
        message,
        tool_calls=tuple(
            ToolCall("", call.name, json.dumps(json.loads(call.arguments))) for call in message.tool_calls
        ),
    )


def _syntax(fmt: Format, marks: Iterable[str], by_id: bool) -> tuple[str, ...]:
    """Those of the markers that letters can spell."""
    special = special_tokens(fmt) if by_id else ()
    return tuple(mark for mark in marks if mark and not any(token in mark for token in special))


@lru_cache(maxsize=None)
def _texts(fmt: Format, whole: bool, by_id: bool) -> st.SearchStrategy[str]:
    """Any text; ``whole``: with whole markers in it."""
    marks = markers(fmt)
    halves = st.builds(proper_half, st.sampled_from(marks), st.integers(1, 40), st.booleans())
    odd = [*OTHER_PIECES, *JSON_PIECES]
    if by_id:
        # No token spells a lone surrogate.
        odd = [piece for piece in odd if piece.isascii() or piece.encode("utf-8", "ignore").decode() == piece]
    options = [st.sampled_from(odd), halves, st.sampled_from(("Hello", "the answer is", "42", "ok."))]
    if whole:
        options.append(st.sampled_from(marks))
    else:
        options.append(st.sampled_from(marks).map(lambda mark: mark + MENTION))
    return st.lists(st.one_of(options), min_size=1, max_size=6).map("".join)


def _free_of(text: str, marks: Iterable[str], mentioned: Iterable[str] = ()) -> bool:
    for mark in mentioned:
        text = text.replace(mark + MENTION, MENTION)
    return not any(mark in text for mark in (*marks, *mentioned))


def _content(fmt: Format, *, calls: bool, offered: bool, by_id: bool) -> st.SearchStrategy[str]:
    shape = fmt.calls
    if isinstance(shape, ChannelCalls):
        marks = (*shape.ends, shape.start)
    else:
        frame = [mark for pair in fmt.content_frame for mark in pair]
        blocks = [mark for block in fmt.reasoning for mark in (block.open, block.close)]
        marks = (*fmt.stops, *frame, *blocks, *(openers(shape) if offered else ()))
    syntax = _syntax(fmt, marks, by_id)
    # A model that puts more layout before a call than its template does means layout.
    pad = fmt.before_call_accepts if calls and fmt.before_call_accepts != fmt.before_call else ""
    return _texts(fmt, True, by_id).filter(
        lambda text: (
            _free_of(text, syntax)
            # Layout alone between two markers is framing.
            and not text.isspace()
            and text[-1] not in pad
        )
    )


def _reasoning(fmt: Format, *, offered: bool, by_id: bool) -> st.SearchStrategy[str]:
    shape = fmt.calls
    if isinstance(shape, ChannelCalls):
        syntax, mentioned = _syntax(fmt, (*shape.ends, shape.start), by_id), ()
    else:
        block = fmt.reasoning[0]
        marks = (block.open, block.close, *block.ends_at, *fmt.stops)
        syntax = _syntax(fmt, marks, by_id)
        mentioned = _syntax(fmt, openers(shape), by_id) if offered and block.ends_at_call else ()
    whole = not mentioned
    return _texts(fmt, whole, by_id).filter(lambda text: _free_of(text, syntax, mentioned))


# ---- arguments as the model would write them in JSON


@lru_cache(maxsize=None)
def _json_texts(fmt: Format, by_id: bool) -> st.SearchStrategy[str]:
    """JSON objects in every spelling: they have to come out as they went in."""
    literal = st.builds(
        lambda parts, ascii_only: (
            '"' + "".join(p if p[:1] == "\\" else _inside(p, ascii_only) for p in parts) + '"'
        ),
        st.lists(
            st.sampled_from((r"\/", r"\u0041", r"\ud83d\ude42", r"\ud800", r"\n")) | _values_text(fmt, by_id)
        ),
        st.booleans(),
    )
    number = st.sampled_from(
        ("0", "-0", "1.0", "1e5", "1E+2", "0.10", "-12.5e-3", "1" * 30, "true", "false", "null")
    )
    space = st.sampled_from(("", "", " ", "\n  ", "\t"))
    member = st.builds(lambda key, a, b, value: f"{key}{a}:{b}{value}", literal, space, space, number | literal)

    def nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.builds(lambda key, a, b, value: f"{key}{a}:{b}{value}", literal, space, space, inner)
        return _enclosed("[", st.lists(inner, max_size=3), "]", space) | _enclosed(
            "{", st.lists(pair, max_size=3), "}", space
        )

    values = st.recursive(number | literal, nest, max_leaves=6)
    member = st.builds(lambda key, a, b, value: f"{key}{a}:{b}{value}", literal, space, space, values)
    return _enclosed("{", st.lists(member, max_size=4), "}", space)


def _enclosed(
    before: str, items: st.SearchStrategy[list[str]], after: str, space: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    return st.builds(
        lambda a, b, c, found: f"{before}{a}{f'{b},{c}'.join(found)}{b}{after}", space, space, space, items
    )


def _inside(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


# ---- arguments that the writer spells


@lru_cache(maxsize=None)
def _values_text(fmt: Format, by_id: bool) -> st.SearchStrategy[str]:
    """Strings that a value may be, or hold."""
    shape = fmt.calls
    if isinstance(shape, NamedCalls) and isinstance(shape.arguments, RelaxedArguments):
        # Strings between quote markers are not escaped.
        syntax = _syntax(fmt, (shape.arguments.quote,), by_id)
        return st.just("") | _texts(fmt, True, by_id).filter(lambda text: _free_of(text, syntax))
    if isinstance(shape, TaggedCalls):
        # Values are not escaped, so a whole closer is told from the real one only by what follows it.
        marks = _syntax(fmt, shape.value_close + shape.param_open + shape.call_close, by_id)
        texts = _texts(fmt, not marks, by_id)
        return st.just("") | texts.filter(lambda text: _free_of(text, (), marks))
    return st.just("") | _texts(fmt, True, by_id)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCXYZ_"


def _plain(letters: str = _LETTERS, more: str = "0123456789-.éß日") -> st.SearchStrategy[str]:
    return st.builds(str.__add__, st.sampled_from(letters), st.text(letters + more, max_size=8))


def _keys(fmt: Format) -> st.SearchStrategy[str]:
    """Names of parameters."""
    shape = fmt.calls
    if isinstance(shape, PythonCalls):
        return _plain(_LETTERS + "é", "0123456789ß日").filter(str.isidentifier)
    if isinstance(shape, TaggedCalls) and shape.attribute_entities:
        return _plain(more="0123456789-. &\"'é").map(str.strip)
    return _plain()


@lru_cache(maxsize=None)
def _values(fmt: Format, by_id: bool) -> dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]]:
    """For each kind of parameter its schema, and values of that kind."""
    shape = fmt.calls
    text = _values_text(fmt, by_id)
    integers = st.integers(-(10**20), 10**20)
    floats = st.floats(allow_nan=False, allow_infinity=False)
    scalar = st.none() | st.booleans() | integers | floats | text
    relaxed = isinstance(shape, NamedCalls)
    nested = st.recursive(
        scalar,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(_plain() if relaxed else text, inner, max_size=3)
        ),
        max_leaves=6,
    )
    arrays = st.lists(nested, max_size=3)
    objects = st.dictionaries(_plain() if relaxed else text, nested, max_size=3)
    loose = text
    if isinstance(shape, TaggedCalls) and not shape.type_attribute:
        # Where a value may be text or something else, text that is exactly the other's JSON is the other.
        loose = text.filter(lambda value: not _is_json(value.strip()))
    kinds = {
        "string": ({"type": "string"}, text),
        "integer": ({"type": "integer"}, integers),
        "number": ({"type": "number"}, integers | floats),
        "boolean": ({"type": "boolean"}, st.booleans()),
        "null": ({"type": "null"}, st.none()),
        "array": ({"type": "array"}, arrays),
        "object": ({"type": "object"}, objects),
        "maybe": ({"type": ["string", "null"]}, st.none() | loose),
        "either": (
            {"anyOf": [{"type": "integer"}, {"type": "object"}, {"type": "string"}]},
            integers | objects | loose,
        ),
        "named": ({"$ref": "#/$defs/word"}, text),
        "silent": ({}, integers | floats | st.booleans() | st.none() | arrays | objects | loose),
    }
    if isinstance(shape, TaggedCalls):
        marks = _syntax(fmt, shape.value_close + shape.param_open + shape.call_close, by_id)
        # The JSON text of a value is not escaped either.
        kinds = {
            kind: (
                schema,
                values.filter(lambda value: isinstance(value, str) or _free_of(_shown(value), (), marks)),
            )
            for kind, (schema, values) in kinds.items()
        }
    return kinds


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _names(fmt: Format) -> st.SearchStrategy[str]:
    # A name in Python starts with a letter; elsewhere any name an API accepts will do.
    first = _LETTERS if isinstance(fmt.calls, PythonCalls) else _LETTERS + "0123456789"
    return _plain(first, "0123456789-.").filter(lambda name: not name.isspace())


@st.composite
def _calls(draw: st.DrawFn, fmt: Format, by_id: bool) -> tuple[list[dict[str, Any]], tuple[ToolCall, ...]]:
    kinds = _values(fmt, by_id)
    tools = []
    parameters: dict[str, dict[str, str]] = {}
    for name in draw(st.lists(_names(fmt), min_size=1, max_size=3, unique=True)):
        chosen = draw(st.dictionaries(_keys(fmt), st.sampled_from(list(kinds)), max_size=4))
        parameters[name] = chosen
        schema = {
            "type": "object",
            "properties": {key: kinds[kind][0] for key, kind in chosen.items()},
            "$defs": {"word": {"type": "string"}},
        }
        tools.append({"type": "function", "function": {"name": name, "parameters": schema}})
    calls = []
    for name in draw(st.lists(st.sampled_from(list(parameters)), min_size=1, max_size=4)):
        if passes_json(fmt):
            text = draw(_json_texts(fmt, by_id))
        else:
            keys = draw(st.lists(st.sampled_from(list(parameters[name])), unique=True)) if parameters[name] else []
            text = json.dumps({key: draw(kinds[parameters[name][key]][1]) for key in keys})
        calls.append(ToolCall("", name, text))
    return tools, tuple(calls)


@st.composite
def cases(draw: st.DrawFn, fmt: Format, by_id: bool = False) -> Case:
    """A message and its tools."""
    tools, calls = draw(_calls(fmt, by_id)) if fmt.calls is not None else ([], ())
    if draw(st.integers(0, 3)) == 0:
        calls = ()
        tools = draw(st.sampled_from((tools, [])))
    reasoning = content = None
    if reasons(fmt) and draw(st.booleans()):
        reasoning = draw(_reasoning(fmt, offered=bool(tools), by_id=by_id))
    # Calls without markers stand at the start, or they would be text.
    if not (calls and is_bare(fmt)) and draw(st.booleans()):
        content = draw(_content(fmt, calls=bool(calls), offered=bool(tools), by_id=by_id))
    return Case(Message(reasoning, content, calls), tools)
