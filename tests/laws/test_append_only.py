"""Law 7: what was sent is never contradicted, and a call that ended is one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import FORMATS, every_format, offered, points, requests, soups, split
from unspool import (
    ContentDelta,
    Event,
    Finish,
    Parser,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def check_order(events: Sequence[Event]) -> None:
    """Each call: start, pieces, end; numbered as they start; the finish is last and alone."""
    ids: set[str] = set()
    growing: dict[int, str] = {}
    for event in events[:-1]:
        match event:
            case ContentDelta(text) | ReasoningDelta(text):
                assert text
            case ToolCallStart(index, call_id, name):
                assert index == len(ids)
                assert name
                assert call_id
                assert call_id not in ids
                ids.add(call_id)
                growing[index] = ""
            case ToolCallDelta(index, piece):
                assert piece
                growing[index] += piece
            case ToolCallEnd(index):
                # JSON has numbers of any length, Python's integers from text have not.
                whole = json.loads(growing.pop(index), parse_constant=_refuse, parse_int=str)
                assert isinstance(whole, dict)
            case Finish():
                raise AssertionError("a finish that is not the last event")
    assert isinstance(events[-1], Finish)


@every_format
@given(data=st.data())
def test_events_come_in_order_whatever_the_text_is(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    request = data.draw(requests(fmt), label="request")
    pieces = split(text, data.draw(points, label="points"))
    for mode in ("incremental", "atomic"):
        parser = Parser(fmt, arguments=mode, **offered(request))
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish("stop")
        check_order(events)
        assert parser.finish("stop") == []
        if mode == "atomic":
            calls = [type(e) for e in events if isinstance(e, ToolCallStart | ToolCallDelta | ToolCallEnd)]
            assert calls == [ToolCallStart, ToolCallDelta, ToolCallEnd] * (len(calls) // 3)
