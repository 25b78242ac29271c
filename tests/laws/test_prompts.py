"""Law 9: the prompt decides where the output starts, and nothing before its last turn opener does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.laws.messages import comparable
from tests.laws.strategies import (
    FORMATS,
    TOOLS,
    events_of,
    every_format,
    every_format_with_calls,
    merged,
    requests,
    soups,
    turn,
    written,
)
from unspool import ContentDelta, Finish, ReasoningDelta
from unspool.parsing.declaration import ChannelCalls, Reasoning

BLOCKS = [
    pytest.param(name, block, id=f"{name}-{block.open}")
    for name, fmt in FORMATS.items()
    for block in fmt.reasoning
]


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_the_same_words_are_what_the_prompt_makes_of_them(name: str, block: Reasoning) -> None:
    fmt = FORMATS[name]
    opened, closed = block.open + block.open_pad, block.close + block.after

    def said(tail: str, words: str) -> list[tuple[object, ...]]:
        return merged(events_of(fmt, [*words], {"tools": "all", "prompt": turn(fmt) + tail}))

    reasoning, content = (ReasoningDelta.__name__, "Hm."), (ContentDelta.__name__, "Hm.")
    end = (Finish.__name__, "stop")
    assert said(opened, "Hm.") == [reasoning, end]
    assert said(block.open, "Hm.") == [reasoning, end]
    assert said(opened + "Well. ", "Hm.") == [reasoning, end]
    assert said(opened, "Hm." + block.close_pad + closed + "Hm.") == [reasoning, content, end]
    assert said(opened + block.close_pad + closed, "Hm.") == [content, end]
    assert said("", "Hm.") == [content, end]
    assert said("", opened + "Hm." + block.close_pad + closed + "Hm.") == [reasoning, content, end]
    assert said("Ok. ", "Hm.") == [content, end]


@pytest.mark.parametrize("name", [name for name, fmt in FORMATS.items() if isinstance(fmt.calls, ChannelCalls)])
def test_a_prompt_may_end_inside_a_routed_message(name: str) -> None:
    fmt = FORMATS[name]
    shape = fmt.calls
    assert isinstance(shape, ChannelCalls)
    reasoning, content = (ReasoningDelta.__name__, "Hm."), (ContentDelta.__name__, "Hm.")
    tails = {
        shape.written.reasoning: reasoning,
        shape.written.content: content,
        "": content,
    }
    for tail, said in tails.items():
        events = events_of(fmt, [*"Hm."], {"tools": "all", "prompt": turn(fmt) + tail})
        assert merged(events) == [said, (Finish.__name__, "stop")]


@every_format
@given(data=st.data())
def test_earlier_turns_decide_nothing(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    before = data.draw(soups(fmt), label="before")
    request = data.draw(requests(fmt), label="request")
    # A default start has no turn opener, and none is in front of a bare tail.
    prompt = request["prompt"] if request["prompt"] and request["prompt"].startswith(turn(fmt)) else turn(fmt)
    alone, after = ({**request, "prompt": prefix + prompt} for prefix in ("", before))
    assert merged(events_of(fmt, [text], after)) == merged(events_of(fmt, [text], alone))


@every_format
@given(data=st.data())
def test_no_prompt_means_the_start_that_the_format_declares(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt), label="text")
    request = data.draw(requests(fmt), label="request")
    declared = events_of(fmt, [text], {**request, "prompt": turn(fmt) + fmt.start})
    assert merged(events_of(fmt, [text], {**request, "prompt": None})) == merged(declared)


@every_format_with_calls
def test_a_call_that_the_prompt_begins_is_the_answers_call(name: str) -> None:
    fmt = FORMATS[name]
    text = written(fmt)[1]
    whole = comparable(fmt, unspool.parse(fmt, text, tools=TOOLS)).tool_calls
    for place in range(text.index("Paris") + len("Paris")):
        prompt = turn(fmt) + fmt.start + text[:place]
        rest = unspool.parse(fmt, text[place:], tools=TOOLS, prompt=prompt)
        assert comparable(fmt, rest).tool_calls == whole, prompt
        assert rest.content is None, prompt
