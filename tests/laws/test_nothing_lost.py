"""Law 3: each character of the output is accounted for, once and in order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.laws.strategies import FORMATS, events_of, every_format, merged, offered, points, requests, soups, split
from unspool import ContentDelta, Format, Message, Parser, ReasoningDelta, Span, ToolCallStart
from unspool.parsing.filters import event_filter


def traced(
    fmt: Format, pieces: list[str], finish: str, request: Mapping[str, Any]
) -> tuple[list[unspool.Event], list[Span]]:
    parser = Parser(fmt, trace=True, **offered(request))
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(finish)
    return events, parser.spans


def kinds(spans: list[Span]) -> list[str]:
    """What each character became."""
    return [span.kind for span in spans for _ in range(span.start, span.end)]


def texts(fmt: Format, text: str, spans: list[Span]) -> dict[str, str]:
    """What the spans say as content and as reasoning, through the format's filter if it has one."""
    said: dict[str, str] = {}
    events: list[unspool.Event] = []
    for span in spans:
        match span.kind:
            case "content":
                events.append(ContentDelta(text[span.start : span.end]))
            case "reasoning":
                events.append(ReasoningDelta(text[span.start : span.end]))
            case "name":
                events.append(ToolCallStart(0, "", ""))
    if fmt.text_filter:
        events = event_filter(fmt.text_filter)(events, True)
    for event in events:
        if isinstance(event, ContentDelta | ReasoningDelta):
            kind = "content" if isinstance(event, ContentDelta) else "reasoning"
            said[kind] = said.get(kind, "") + event.text
    return said


@every_format
@given(data=st.data())
def test_each_character_is_accounted_for_once(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    request = data.draw(requests(fmt), label="request")
    finish = data.draw(st.sampled_from(("stop", "length")), label="finish")
    cut = split(text, data.draw(points, label="points"))

    events, spans = traced(fmt, [text], finish, request)

    assert [span.start for span in spans] == [0, *(span.end for span in spans)][: len(spans)]
    assert (spans[-1].end if spans else 0) == len(text)
    assert all(span.start < span.end for span in spans)
    said = texts(fmt, text, spans)
    message = Message.from_events(events)
    assert said.get("content") == message.content
    assert said.get("reasoning") == message.reasoning
    assert "cut" not in kinds(spans) or finish == "length"
    # Looking does not change what is seen, and no cut changes it either.
    assert merged(events) == merged(events_of(fmt, [text], request, finish))
    assert kinds(traced(fmt, cut, finish, request)[1]) == kinds(spans)


@every_format
@given(data=st.data())
def test_an_explanation_is_the_trace_with_equal_neighbours_joined(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    request = data.draw(requests(fmt), label="request")

    spans = unspool.explain(fmt, text, **offered(request))

    assert kinds(spans) == kinds(traced(fmt, [text], "stop", request)[1])
    assert all((a.kind, a.note) != (b.kind, b.note) and a.end == b.start for a, b in pairwise(spans))
