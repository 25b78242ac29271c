"""A call that the token limit cuts is no call, and its markup is not shown."""

from __future__ import annotations

import pytest

import unspool
from tests.formats.families.wire import TOOLS
from unspool.formats import write
from unspool.message import Message, ToolCall

CALL = Message(tool_calls=(ToolCall("", "get_weather", '{"city": "Paris"}'),))


@pytest.mark.parametrize("fmt", [fmt for fmt in unspool.formats() if fmt.calls], ids=str)
def test_a_cut_call_is_nothing(fmt: unspool.Format) -> None:
    raw = write(fmt, CALL)
    start = raw.index("get_weather")
    for end in range(start + 1, raw.index("Paris") + len("Paris")):
        message = unspool.parse(fmt, raw[:end], tools=TOOLS, finish_reason="length")
        assert (message.content, message.tool_calls) == (None, ()), raw[:end]
        assert message.finish_reason == "length"
