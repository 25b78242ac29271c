"""What the laws are checked on: every format, and soups of whatever its parser could trip over.

A soup is made of the format's own markers, halves of them, pieces of JSON, XML and Python, offered and unknown
names, layout and odd characters; or it is a written message in which something was deleted, doubled, moved or
inserted. Soups only need to parse to the same thing twice; messages that must survive a round trip are in
:mod:`tests.laws.messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st

import unspool
from unspool import (
    ContentDelta,
    Event,
    Finish,
    Format,
    Message,
    Parser,
    ReasoningDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from unspool.formats import write
from unspool.formats.writer import stands_bare
from unspool.parsing.binding import bound
from unspool.parsing.declaration import ChannelCalls, strings

# Reasoning of one family before the calls of another: a named shape and one without markers.
_COMBINED = ("qwen3+mistral", "magistral+llama3_json")
FORMATS: dict[str, Format] = {
    fmt.name: bound(fmt) for fmt in [*unspool.formats(), *map(unspool.get_format, _COMBINED)]
}
every_format = pytest.mark.parametrize("name", FORMATS)
"""By name, since a failing example is printed with its arguments."""
every_format_with_calls = pytest.mark.parametrize("name", [n for n, fmt in FORMATS.items() if fmt.calls])
"""Those that write calls of their own."""


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("get_weather", city={"type": "string"}, days={"type": "integer"}, unit={"type": ["string", "null"]}),
    _tool("get_time"),
    _tool(
        "save",
        text={"type": "string"},
        note={},
        data={"type": "object"},
        items={"type": "array"},
        sure={"type": "boolean"},
        ratio={"anyOf": [{"type": "number"}, {"type": "string"}]},
    ),
]
WRITTEN = (
    Message(content="Hello."),
    Message(tool_calls=(ToolCall("", "get_weather", '{"city": "Paris", "days": 3, "unit": null}'),)),
    Message(tool_calls=(ToolCall("", "get_time", "{}"), ToolCall("", "get_weather", '{"city": "é"}'))),
    Message(
        tool_calls=(
            ToolCall(
                "", "save", r'{"text": "a\nb \"c\" \\d \u0001é", "note": 1, "data": {"a\"": [1]}, "ratio": 0.5}'
            ),
        )
    ),
)


def turn(fmt: Format) -> str:
    """What opens the model's turn in a prompt; a common one where the format knows none."""
    return fmt.turns[0] if fmt.turns else "<|im_start|>assistant\n"


def is_bare(fmt: Format) -> bool:
    """Whether calls stand without markers, so that no content can come before them."""
    return stands_bare(fmt.calls)


def reasons(fmt: Format) -> bool:
    """Whether the format has reasoning."""
    return bool(fmt.reasoning) or isinstance(fmt.calls, ChannelCalls)


@cache
def markers(fmt: Format) -> tuple[str, ...]:
    """Every text of the declaration that can stand in an output."""
    bare = replace(fmt, name="", summary="", aliases=(), models=(), source="", engine_names={})
    texts = [
        text.format(name="get_weather", index=0, number=1, key="city", id="a1b2c3d4e5") for text in _spelled(bare)
    ]
    return tuple(dict.fromkeys(text for text in texts if text))


def _spelled(fmt: Format) -> Iterator[str]:
    for text in strings(fmt):
        # A brace is a marker of some formats and a field of what the writer fills in.
        yield text if "{" in text and "}" in text else text.replace("{", "{{").replace("}", "}}")


@cache
def written(fmt: Format) -> tuple[str, ...]:
    """Outputs as the format's template has them."""
    messages = [message for message in WRITTEN if fmt.calls or not message.tool_calls]
    if not is_bare(fmt):
        messages += [replace(message, content="Let me see.") for message in messages[1:]]
    if reasons(fmt):
        messages += [replace(message, reasoning="I think.") for message in tuple(messages)]
    texts = [write(fmt, message) for message in messages]
    for block in fmt.reasoning:
        # Calls whose reasoning was never closed, when the prompt opened it.
        prompt = block.open + block.close
        texts += ["Hm." + write(fmt, message, prompt=prompt) for message in WRITTEN[1:] if fmt.calls]
    return tuple(dict.fromkeys(texts))


JSON_PIECES = (
    *'{}[]",:\\',
    '{"',
    '"}',
    "}}",
    '": ',
    "\\u00",
    "\\u00e9",
    "\\ud83d",
    '\\"',
    "\\n",
    "\\x",
    "null",
    "true",
    "-1.5e3",
    "007",
    "1" * 40,
    '{"name": "get_weather", "arguments": {"city": "',
    '{"arguments": {"city": 1}, "name": "get_time"}',
    '[{"name": "get_time", "parameters": {}}',
    '{"name": "get_time"}',
    '"arguments": "{}"',
    '"id": 7',
    "[]",
    '{"name": "get_weather", "arguments": {}}',
)
OTHER_PIECES = (
    "get_weather(",
    "[get_weather(city='",
    "city=",
    ", days=3)]",
    "'",
    '"""',
    "'''",
    "(",
    ")",
    "=",
    "None",
    "True",
    "```json\n",
    "```",
    "<",
    ">",
    "</",
    "/>",
    "|>",
    "&quot;",
    ' name="get_weather"',
    ' name="city" string="true"',
    ' name="days" string="false"',
    ' tool="get_weather"',
    ' key="city" type="string"',
    "get_weather",
    "get_time",
    "save",
    "text",
    "city",
    "days",
    "unknown_tool",
    "functions.get_weather:0",
    " to=functions.get_weather",
    "analysis",
    "final",
    "Hello there",
    "word",
    " ",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    " " * 70,
    "\n" * 70,
    "x" * 300,
    " x" * 150,
    "é",
    "日本",
    "🙂",
    "e\u0301",
    "\u2028",
    "\xa0",
    "\x00",
    "\x1f",
    "\ufffd",
    "\ud83d",
    "\udc00",
    "\ufeff",
)


ODD_PIECES = JSON_PIECES + OTHER_PIECES


@cache
def halves(fmt: Format) -> tuple[str, ...]:
    """Beginnings and ends of markers, none of them whole."""
    found = []
    for mark in markers(fmt):
        size = len(mark)
        found += [part for cut in (1, size // 2, size - 1) for part in (mark[:cut], mark[cut:]) if part != mark]
    return tuple(part for part in dict.fromkeys(found) if part)


@cache
def pieces(fmt: Format) -> st.SearchStrategy[str]:
    """One piece of a soup; one draw, since a soup has many."""
    marks = markers(fmt)
    return st.sampled_from((*ODD_PIECES, *marks * max(1, 2 * len(ODD_PIECES) // max(len(marks), 1)), *halves(fmt)))


@st.composite
def _mutated(draw: st.DrawFn, fmt: Format) -> str:
    text = draw(st.sampled_from(written(fmt)))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 12)), len(text))
        change = draw(st.sampled_from(("insert", "delete", "double", "move", "end")))
        if change == "insert":
            text = text[:start] + draw(pieces(fmt)) + text[start:]
        elif change == "delete":
            text = text[:start] + text[end:]
        elif change == "double":
            text = text[:end] + text[start:end] + text[end:]
        elif change == "move":
            text = text[:start] + text[end:] + text[start:end]
        else:
            text = text[:start]
    return text


@st.composite
def _spliced(draw: st.DrawFn, fmt: Format) -> str:
    """The beginning of one output, a few pieces, the rest of another: mostly something odd inside a call."""
    first = draw(st.sampled_from(written(fmt)))
    second = draw(st.sampled_from(written(fmt)))
    middle = "".join(draw(st.lists(pieces(fmt), max_size=4)))
    return first[: draw(st.integers(0, len(first)))] + middle + second[draw(st.integers(0, len(second))) :]


@cache
def soups(fmt: Format) -> st.SearchStrategy[str]:
    """Texts to trip over."""
    pure = st.lists(pieces(fmt), max_size=8).map("".join)
    mutated, spliced = _mutated(fmt), _spliced(fmt)
    return st.one_of(spliced, mutated, pure, st.builds(str.__add__, mutated, spliced), spliced)


@cache
def prompts(fmt: Format) -> tuple[str | None, ...]:
    """Prompts that put the start of the output into each of the states the format has."""
    opener = turn(fmt)
    found = [None, "", opener, opener + fmt.start]
    for block in fmt.reasoning:
        found += [opener + block.open, opener + block.open + block.open_pad]
        found += [opener + block.open + block.close, opener + block.open + block.close + block.after]
    # Before the name of a call, and in a value, as when a request forces a call.
    if fmt.calls is not None:
        call = written(fmt)[1]
        found += [opener + fmt.start + call[: call.index(place)] for place in ("get_weather", "Paris")]
    if isinstance(fmt.calls, ChannelCalls):
        found += [opener + fmt.calls.written.reasoning, opener + fmt.calls.written.reasoning[:-1]]
    return tuple(dict.fromkeys(found))


@st.composite
def _prefilled(draw: st.DrawFn, fmt: Format) -> str:
    """A prompt that ends anywhere in an answer: the output goes on from there."""
    text = draw(st.sampled_from(written(fmt)))
    return turn(fmt) + fmt.start + text[: draw(st.integers(0, len(text)))]


@cache
def requests(fmt: Format) -> st.SearchStrategy[dict[str, Any]]:
    """What a parser is told about the request."""
    settled = st.sampled_from(prompts(fmt))
    prompt = st.one_of(settled, settled, _prefilled(fmt))
    return st.fixed_dictionaries(
        {"tools": st.sampled_from(("all", "all", "one", "no")), "prompt": prompt},
        optional={"tool_choice": st.sampled_from(("required", "none")), "parallel_tool_calls": st.booleans()},
    )


_OFFERED = {"all": TOOLS, "one": TOOLS[:1], "no": None}


def offered(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with its tools spelled out, as keyword arguments of a parser."""
    return {**request, "tools": _OFFERED[request["tools"]]}


def events_of(
    fmt: Format, pieces: Sequence[str], request: Mapping[str, Any], finish: str = "stop", **options: Any
) -> list[Event]:
    """The events of an output that arrives in these pieces."""
    parser = Parser(fmt, **offered(request), **options)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.finish(finish)


_Sliced = TypeVar("_Sliced", str, list[int])


def split(whole: _Sliced, points: Sequence[int]) -> list[_Sliced]:
    """The text, or the ids, cut at these points."""
    ends = sorted({point % (len(whole) + 1) for point in points} | {0, len(whole)})
    return [whole[start:end] for start, end in pairwise(ends)]


points = st.lists(st.integers(0, 2000), max_size=8)


def merged(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The events without call ids, adjacent deltas of one kind joined: what no cut may change."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        kind = type(event).__name__
        last = out[-1] if out else ()
        match event:
            case ContentDelta(text) | ReasoningDelta(text) if last[:-1] == (kind,):
                out[-1] = (kind, last[-1] + text)
            case ContentDelta(text) | ReasoningDelta(text):
                out.append((kind, text))
            case ToolCallDelta(index, text) if last[:-1] == (kind, index):
                out[-1] = (kind, index, last[-1] + text)
            case ToolCallDelta(index, text):
                out.append((kind, index, text))
            case ToolCallStart(index, _, name):
                out.append((kind, index, name))
            case ToolCallEnd(index):
                out.append((kind, index))
            case Finish(reason):
                out.append((kind, reason))
    return out


def without_ids(message: Message) -> Message:
    """The message with call ids removed: those are new each time."""
    return replace(message, tool_calls=tuple(replace(call, id="") for call in message.tool_calls))
