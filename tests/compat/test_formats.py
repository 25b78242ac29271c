"""Every format through the interfaces of the field: the same message as from the parser itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import unspool
from tests.compat.calling import request, streamed, whole
from tests.laws.messages import Case, cases, comparable
from tests.laws.strategies import FORMATS, TOOLS, every_format, points, split, without_ids
from unspool import Format
from unspool.compat import ReasoningParserManager, ToolParserManager
from unspool.formats import samples, write
from unspool.parsing.declaration import ChannelCalls

SAMPLES = [(fmt, name) for fmt in FORMATS.values() if "+" not in fmt.name for name, _, _ in samples(fmt)]


def pair(fmt: Format, tools: Any = None) -> tuple[Any, Any]:
    """The two parsers of a format, by its name."""
    reasoner = ReasoningParserManager.get_reasoning_parser(fmt.name)(None, tools=tools)
    return reasoner, ToolParserManager.get_tool_parser(fmt.name)(None, tools)


@pytest.mark.parametrize(("fmt", "name"), SAMPLES, ids=lambda value: str(value))
@pytest.mark.parametrize("tools", [TOOLS, None], ids=["offered", "any"])
def test_a_sample_gives_the_parsers_message(fmt: Format, name: str, tools: Any) -> None:
    raw = next(text for case, _, text in samples(fmt) if case == name)
    expected = without_ids(unspool.parse(fmt, raw, tools=TOOLS))
    asked = request(tools)
    assert whole(*pair(fmt, tools), raw, asked) == expected
    for size in (1, 2, 3, 5, 8, len(raw)):
        pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
        assert streamed(*pair(fmt, tools), pieces, asked).message == expected, size


def _headers(fmt: Format) -> list[str]:
    """What headers of routed messages are made of."""
    if not isinstance(fmt.calls, ChannelCalls):
        return []
    shape = fmt.calls
    return [
        text
        for text in (
            shape.channel,
            shape.constrain,
            shape.message,
            *shape.reasoning,
            *shape.content,
            *shape.calls,
            "to=",
        )
        if text
    ]


@every_format
@given(data=st.data())
def test_a_written_message_comes_back_however_it_is_cut(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    case: Case = data.draw(cases(fmt))
    content = case.message.content
    # Content that looks like a message of its own is one to a tool parser, which sees no header before it.
    assume(not content or not any(mark in content for mark in _headers(fmt)))
    raw = write(fmt, case.message)
    tools = case.tools or None
    asked = request(tools)
    expected = comparable(fmt, unspool.parse(fmt, raw, tools=case.tools or None))
    if tools is None:
        asked = request(TOOLS, tool_choice="none")
    assert comparable(fmt, whole(*pair(fmt, tools), raw, asked)) == expected
    pieces = split(raw, data.draw(points))
    assert comparable(fmt, streamed(*pair(fmt, tools), pieces, asked).message) == expected
