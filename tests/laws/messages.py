"""Messages that a format can carry, with tools whose schemas fit their arguments.

Texts are full of halves of the format's markers, layout and odd characters. What is left out is only what the
wire format itself cannot tell apart, each with its reason at the place where it is left out. With ``by_id`` the
markers that are special tokens may stand everywhere: letters and tokens are then different things.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.laws.strategies import ODD_PIECES, halves, is_bare, markers, reasons
from unspool import Format, Message, ToolCall
from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    ElementCalls,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RawArguments,
    RelaxedArguments,
    TaggedCalls,
)
from unspool.parsing.filters import FILTERS
from unspool.parsing.grammar import openers

Texts: TypeAlias = st.SearchStrategy[str]

_SPECIAL = re.compile(r"｜DSML｜|<｜[^<>｜]+｜>|<\|?[^<>|｜\s=]+\|?>|\[/?[A-Z_]+\]")
"""What vocabularies have as one token: ``<|im_end|>``, ``<think>``, ``[TOOL_CALLS]``, parts of longer markers."""
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


@cache
def special_tokens(fmt: Format) -> tuple[str, ...]:
    """The format's markers, and parts of markers, that a vocabulary can have as special tokens."""
    found = {token for mark in markers(fmt) for token in _SPECIAL.findall(mark)}
    return tuple(sorted(found, key=lambda token: (-len(token), token)))


def call_shape(fmt: Format) -> Calls | JsonArguments | None:
    """The syntax of one call: of a routed message, that of its body."""
    return fmt.calls.body if isinstance(fmt.calls, ChannelCalls) else fmt.calls


def passes_json(fmt: Format) -> bool:
    """Whether arguments are JSON that goes through as it is written."""
    calls = call_shape(fmt)
    return isinstance(calls, JsonCalls | JsonArguments) or (
        isinstance(calls, NamedCalls) and isinstance(calls.arguments, JsonArguments | RawArguments)
    )


def comparable(fmt: Format, message: Message) -> Message:
    """Without ids, and with arguments in one spelling unless the format keeps the model's."""

    calls = (ToolCall("", call.name, spelled(fmt, call.arguments)) for call in message.tool_calls)
    return replace(message, tool_calls=tuple(calls))


def spelled(fmt: Format, arguments: str) -> str:
    """Arguments in the spelling that can be compared: as written, but for what the format's writer changes."""
    if not passes_json(fmt):
        return json.dumps(json.loads(arguments))
    shape = call_shape(fmt)
    if isinstance(shape, JsonCalls) and shape.compact:
        parts = re.split(r'("(?:[^"\\]|\\.)*")', arguments, flags=re.DOTALL)
        return "".join(part if part.startswith('"') else "".join(part.split()) for part in parts)
    return arguments


def _syntax(fmt: Format, marks: Iterable[str], by_id: bool) -> tuple[str, ...]:
    """Those of the markers that letters can spell."""
    special = special_tokens(fmt) if by_id else ()
    return tuple(mark for mark in marks if mark and not any(token in mark for token in special))


@cache
def _texts(fmt: Format, whole: bool, by_id: bool) -> Texts:
    """Any text, with whole markers in it or only mentions of them."""
    marks = markers(fmt) if whole else tuple(mark + MENTION for mark in markers(fmt))
    # No token spells a lone surrogate.
    odd = [piece for piece in ODD_PIECES if not by_id or piece.encode("utf-8", "ignore").decode() == piece]
    options = (
        *odd,
        *marks * (1 + 60 // max(len(marks), 1)),
        *halves(fmt),
        *("Hello", "the answer is", "42", "ok.") * 8,
    )
    return st.lists(st.sampled_from(options), min_size=1, max_size=5).map("".join)


def _free_of(text: str, marks: Iterable[str], mentioned: Iterable[str] = ()) -> bool:
    for mark in mentioned:
        text = text.replace(mark + MENTION, MENTION)
    return not any(mark in text for mark in (*marks, *mentioned))


def _content(fmt: Format, *, calls: bool, offered: bool, by_id: bool) -> Texts:
    shape = fmt.calls
    if isinstance(shape, ChannelCalls):
        marks = (*shape.ends, shape.start)
    else:
        frame = [mark for frame in fmt.frames for mark in (frame.open, frame.close) if mark]
        blocks = [mark for block in fmt.reasoning for mark in (block.open, block.close, *block.closes_too)]
        marks = (*fmt.stops, *frame, *blocks, *(openers(fmt) if offered else ()))
    syntax = _syntax(fmt, marks, by_id)
    # A closer once more, right behind a call, is framing.
    again = shape.close if calls and fmt.calls_first and isinstance(shape, NamedCalls | PythonCalls) else ()
    # A model that puts more layout before a call than its template does means layout.
    pad = fmt.before_call_accepts if calls and fmt.before_call_accepts != fmt.before_call else ""
    # So does one that puts more behind a reasoning closer.
    lead = "".join(block.after_accepts for block in fmt.reasoning if block.after_accepts != block.after)
    lead += fmt.lead_accepts
    lettered = _syntax(fmt, openers(fmt), by_id) if calls else ()

    def fits(text: str) -> bool:
        # Layout alone between two markers is framing.
        if not text or text.isspace() or text[-1] in pad or text[0] in lead:
            return False
        if again and text.lstrip().startswith(again):
            return False
        # The end of a text and the opener behind it can be a marker together.
        moved = any(0 <= (text + after).find(mark) < len(text) for after in lettered for mark in syntax)
        return not moved and _free_of(text, syntax) and _passes(fmt, text)

    return _texts(fmt, True, by_id).filter(fits)


def _reasoning(fmt: Format, *, offered: bool, by_id: bool) -> Texts:
    shape = fmt.calls
    mentioned: tuple[str, ...] = ()
    if isinstance(shape, ChannelCalls):
        syntax = _syntax(fmt, (*shape.ends, shape.start), by_id)
    else:
        block = fmt.reasoning[0]
        inside = (block.open, block.close, *block.closes_too, *block.ends_at, *block.dropped)
        syntax = _syntax(fmt, (*inside, *fmt.stops), by_id)
        if offered and block.ends_at_call:
            # A valid call in a block that has no closer yet looks like the end of the block.
            mentioned = _syntax(fmt, openers(fmt), by_id)

    def fits(text: str) -> bool:
        return bool(text) and _free_of(text, syntax, mentioned) and _passes(fmt, text)

    return _texts(fmt, not mentioned, by_id).filter(fits)


def _passes(fmt: Format, text: str) -> bool:
    """Whether the format's filter leaves the text alone."""
    return not fmt.text_filter or FILTERS[fmt.text_filter]().feed(text + " ") == text + " "


_NUMBERS = ("0", "-0", "1.0", "1e5", "1E+2", "0.10", "-12.5e-3", "1" * 30, "true", "false", "null")
_ESCAPES = ("", "", "", r"\/", r"\u0041", r"\ud83d\ude42", r"\ud800", r"\n", r"\"")
_SPACES = (("", "", ""), ("", " ", ""), ("\n  ", " ", "\n"), (" ", "\t", " "))


def _written_json(draw: st.DrawFn, texts: Texts) -> str:
    """A JSON object in any spelling: it has to come out as it went in."""
    before, between, after = draw(st.sampled_from(_SPACES))
    ascii_only = draw(st.booleans())

    def literal() -> str:
        inside = json.dumps(draw(texts), ensure_ascii=ascii_only)[1:-1]
        return '"' + inside + draw(st.sampled_from(_ESCAPES)) + '"'

    def value(depth: int) -> str:
        kind = draw(st.sampled_from(("string", "string", "number", "array", "object")[: 5 if depth else 3]))
        if kind == "number":
            return draw(st.sampled_from(_NUMBERS))
        return literal() if kind == "string" else container("[]" if kind == "array" else "{}", depth)

    def container(ends: str, depth: int) -> str:
        key: Callable[[], str] = (lambda: literal() + ":" + between) if ends == "{}" else str
        items = [key() + value(depth - 1) for _ in range(draw(st.integers(0, 3)))]
        return ends[0] + before + f"{after},{between}".join(items) + after + ends[1]

    return container("{}", 2)


@cache
def _strings(fmt: Format, by_id: bool) -> Texts:
    """Strings that a value may be, or hold."""
    shape = call_shape(fmt)
    texts = _texts(fmt, not isinstance(shape, TaggedCalls), by_id)
    if isinstance(shape, NamedCalls) and isinstance(shape.arguments, RelaxedArguments):
        # Strings between quote markers are not escaped.
        syntax = _syntax(fmt, (shape.arguments.quote,), by_id)
        return st.just("") | texts.filter(lambda text: _free_of(text, syntax))
    if isinstance(shape, TaggedCalls):
        return st.just("") | texts.filter(lambda text: _fits_in_element(fmt, shape, text, by_id))
    if isinstance(shape, ElementCalls):
        # Values are not escaped: any tag in one is a tag.
        tags = _syntax(fmt, (shape.element_open, shape.element_close), by_id)
        return st.just("") | texts.filter(lambda text: _free_of(text, tags))
    return st.just("") | texts


def _fits_in_element(fmt: Format, shape: TaggedCalls, text: str, by_id: bool) -> bool:
    """Values are not escaped, so a whole closer is told from the real one only by what follows it."""
    return _free_of(text, (), _syntax(fmt, shape.value_close + shape.param_open + shape.call_close, by_id))


_SCHEMAS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "array": {"type": "array"},
    "object": {"type": "object"},
    "nullable": {"type": ["string", "null"]},
    "union": {"anyOf": [{"type": "integer"}, {"type": "object"}, {"type": "string"}]},
    "reference": {"$ref": "#/$defs/word"},
    "silent": {},
}
_MEMBERS = {
    "nullable": ("text", "null"),
    "union": ("text", "integer", "object"),
    "reference": ("string",),
    "silent": ("text", "integer", "number", "boolean", "null", "array", "object"),
}
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_INTEGERS = st.integers(-(10**20), 10**20)


def _value(draw: st.DrawFn, fmt: Format, kind: str, by_id: bool, depth: int = 2) -> Any:
    """A value of this kind of parameter, and of this depth at most."""
    texts = _strings(fmt, by_id)
    kind = draw(st.sampled_from(_MEMBERS[kind])) if kind in _MEMBERS else kind

    def inner() -> Any:
        simple = ("string", "string", "integer", "number", "boolean", "null")
        chosen = draw(st.sampled_from((*simple, "array", "object") if depth else simple))
        return _value(draw, fmt, chosen, by_id, depth - 1)

    match kind:
        case "string":
            return draw(texts)
        case "text":
            text = draw(texts)
            # Where a value may be text or something else, text that is exactly the other's JSON is the other.
            shape = call_shape(fmt)
            untold = isinstance(shape, ElementCalls) or (
                isinstance(shape, TaggedCalls) and not shape.type_attribute
            )
            return text + MENTION if untold and _is_value(text.strip()) else text
        case "integer":
            return draw(_INTEGERS)
        case "number":
            return draw(_FLOATS)
        case "boolean":
            return draw(st.booleans())
        case "array":
            return [inner() for _ in range(draw(st.integers(0, 3)))]
        case "object":
            # Nested keys are bare in relaxed JSON, as parameters are.
            keys = st.sampled_from(_KEYS) if isinstance(call_shape(fmt), NamedCalls) else texts
            return {draw(keys): inner() for _ in range(draw(st.integers(0, 3)))}
    return None


def _is_value(text: str) -> bool:
    """Whether the text is JSON, or a Python literal, which some families write."""
    for read in (json.loads, ast.literal_eval):
        try:
            read(text)
        except (ValueError, SyntaxError):
            continue
        return True
    return False


_NAMES = ("get_weather", "f", "functions", "function", "call", "a.b", "a-b", "_x", "É", "x" * 60, "日本", "null")
_DIGIT_NAMES = ("3d", "0", "42", "-")
_KEYS = ("city", "a", "name", "arguments", "type", "_1", "é", "日本", "y" * 40, "string", "class", "a1", "None")
_LOOSE_KEYS = ("a-b", "a.b", "1", "-", "$x", "@", "a/b", "a'b")
_QUOTED_KEYS = ('say "hi"', "a & b", "&quot;", "a=b", "{x}", "a b")


def _names(fmt: Format) -> tuple[str, ...]:
    # A name in Python starts with a letter; elsewhere any name an API accepts will do.
    return _NAMES if isinstance(fmt.calls, PythonCalls) else _NAMES + _DIGIT_NAMES


def _keys(fmt: Format) -> tuple[str, ...]:
    """Names of parameters: letters in Python, anything but markers where they are quoted or escaped."""
    shape = call_shape(fmt)
    if isinstance(shape, PythonCalls):
        return _KEYS
    entities = isinstance(shape, TaggedCalls) and shape.attribute_entities
    return _KEYS + _LOOSE_KEYS + (_QUOTED_KEYS if entities else ())


@st.composite
def _calls(draw: st.DrawFn, fmt: Format, by_id: bool) -> tuple[list[dict[str, Any]], tuple[ToolCall, ...]]:
    tools = []
    parameters: dict[str, dict[str, str]] = {}
    for name in draw(st.lists(st.sampled_from(_names(fmt)), min_size=1, max_size=2, unique=True)):
        keys = draw(st.lists(st.sampled_from(_keys(fmt)), max_size=3, unique=True))
        parameters[name] = {key: draw(st.sampled_from(list(_SCHEMAS))) for key in keys}
        schema = {
            "type": "object",
            "properties": {key: _SCHEMAS[kind] for key, kind in parameters[name].items()},
            "$defs": {"word": {"type": "string"}},
        }
        tools.append({"type": "function", "function": {"name": name, "parameters": schema}})
    calls = []
    for name in draw(st.lists(st.sampled_from(list(parameters)), min_size=1, max_size=3)):
        if passes_json(fmt):
            text = _written_json(draw, _strings(fmt, by_id))
        else:
            chosen = [key for key in parameters[name] if draw(st.booleans())]
            values = {key: _value(draw, fmt, parameters[name][key], by_id) for key in reversed(chosen)}
            shape = call_shape(fmt)
            if isinstance(shape, TaggedCalls):
                # The JSON text of a value is not escaped either.
                shown = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
                values = {k: v for k, v in values.items() if _fits_in_element(fmt, shape, shown[k], by_id)}
            text = json.dumps(values)
        calls.append(ToolCall("", name, text))
    return tools, tuple(calls)


@st.composite
def _cases(draw: st.DrawFn, fmt: Format, by_id: bool) -> Case:
    has_calls = fmt.calls is not None and draw(st.integers(0, 3)) > 0
    tools, calls = draw(_calls(fmt, by_id)) if has_calls or draw(st.booleans()) else ([], ())
    calls = calls if has_calls else ()
    reasoning = content = None
    if reasons(fmt) and draw(st.booleans()):
        reasoning = draw(_reasoning(fmt, offered=bool(tools), by_id=by_id))
    # Calls without markers stand at the start, or they would be text.
    if not (calls and is_bare(fmt)) and draw(st.booleans()):
        content = draw(_content(fmt, calls=bool(calls), offered=bool(tools), by_id=by_id))
    return Case(Message(reasoning, content, calls), tools)


@cache
def cases(fmt: Format, by_id: bool = False) -> st.SearchStrategy[Case]:
    """A message and its tools."""
    return _cases(fmt, by_id)
