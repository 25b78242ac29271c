"""Law 1: the same message, however the text is cut.

Every cut must also give the same events, deltas of one kind joined: a client that shows calls while they grow
sees the same text as one that gets the whole output at once.
"""

from __future__ import annotations

from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.laws.strategies import (
    FORMATS,
    events_of,
    every_format,
    merged,
    points,
    requests,
    soups,
    split,
    without_ids,
    written,
)
from unspool import ContentDelta, Message, ReasoningDelta

Mode = Literal["incremental", "atomic"]


@every_format
def test_no_place_to_cut_a_written_output_changes_it(name: str) -> None:
    fmt = FORMATS[name]
    request = {"tools": "all", "prompt": None}
    for text in written(fmt)[:6]:
        whole = merged(events_of(fmt, [text], request))
        assert merged(events_of(fmt, list(text), request)) == whole
        for point in range(1, len(text)):
            assert merged(events_of(fmt, [text[:point], text[point:]], request)) == whole, point


@every_format
@settings(max_examples=examples(30))
@given(data=st.data())
def test_no_cut_changes_what_is_said(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    request = data.draw(requests(fmt), label="request")
    finish = data.draw(st.sampled_from(("stop", "length")), label="finish")
    cuts = [list(text), split(text, data.draw(points, label="points"))]
    if len(text) <= 40:
        cuts += [[text[:point], text[point:]] for point in range(1, len(text))]
    messages = []
    for mode in get_args(Mode):
        whole = events_of(fmt, [text], request, finish, arguments=mode)
        for cut in cuts:
            assert merged(events_of(fmt, cut, request, finish, arguments=mode)) == merged(whole), cut
        messages.append(without_ids(Message.from_events(whole)))
    assert messages[0] == messages[1], "incremental and atomic disagree"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "<think>a <tool_call>[] words </tool_call> b</think>c"),
        ("llama3_json", " " * 65 + '{"name": "get_weather", "parameters": {"city": "x"}}'),
        ("pythonic", " " * 65 + '[get_weather(city="x")]'),
        (
            "gpt_oss",
            "<|channel|>commentary" + " x" * 150 + ' to=functions.get_weather<|message|>{"city":"x"}<|call|>',
        ),
    ],
)
def test_what_once_depended_on_the_cut(name: str, text: str) -> None:
    fmt = FORMATS[name]
    request = {"tools": "all", "prompt": None}
    whole = merged(events_of(fmt, [text], request))
    assert merged(events_of(fmt, list(text), request)) == whole
    said = "".join(event.text for event in whole if isinstance(event, ContentDelta | ReasoningDelta))
    assert said.count("words") <= 1
