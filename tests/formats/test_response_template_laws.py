"""The parser's laws, for formats that were read from response templates."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.formats.response_templates import STYLES, Json, Style
from tests.laws.strategies import ODD_PIECES, events_of, merged, offered, points, split, without_ids
from tests.laws.test_append_only import check_order
from tests.laws.test_linear import MOST
from tests.laws.test_nothing_lost import kinds, traced
from unspool import Format, Message, Parser
from unspool.formats.response_template import from_response_template
from unspool.parsing.declaration import strings

Mode = Literal["incremental", "atomic"]

FORMATS: dict[str, Format] = {
    name: from_response_template(style.template, name=name) for name, style in STYLES.items()
}
every_style = pytest.mark.parametrize("name", STYLES)

CALLS: list[tuple[str, Json]] = [
    ("get_weather", {"city": "Par", "days": 3}),
    ("get_time", {}),
    ("save", {"text": "a", "data": {"b": [1]}}),
]


@cache
def written(name: str) -> tuple[str, ...]:
    """Outputs as the model would write them."""
    style = STYLES[name]
    some = [
        style.write("I think.", "Hello.\n", []),
        style.write(None, "  Let me see. ", CALLS[:1]),
        style.write("Hm.\n\nSo.", None, CALLS),
        style.write(None, None, CALLS[:2]) + " And so on.",
    ]
    return tuple(some)


@cache
def pieces(name: str) -> st.SearchStrategy[str]:
    """Markers, halves of markers, and what is odd anywhere."""
    calls = FORMATS[name].calls
    marks = [
        text for text in strings(calls) if text and text not in ("text", "json", "reasoning", "content", "calls")
    ]
    halves = [
        part for mark in marks for part in (mark[: len(mark) // 2], mark[len(mark) // 2 :], mark[:-1]) if part
    ]
    return st.sampled_from((*ODD_PIECES, *marks * max(1, len(ODD_PIECES) // len(marks)), *halves))


@st.composite
def soups(draw: st.DrawFn, name: str) -> str:
    """Texts to trip over: pieces, and outputs with pieces in them, cut and put together."""
    if draw(st.booleans()):
        return "".join(draw(st.lists(pieces(name), max_size=8)))
    first, second = draw(st.sampled_from(written(name))), draw(st.sampled_from(written(name)))
    middle = "".join(draw(st.lists(pieces(name), max_size=4)))
    return first[: draw(st.integers(0, len(first)))] + middle + second[draw(st.integers(0, len(second))) :]


@st.composite
def requests(draw: st.DrawFn, name: str) -> dict[str, object]:
    """What a parser is told; the prompt may end anywhere in an answer."""
    prompt = STYLES[name].prompt
    text = draw(st.sampled_from(written(name)))
    prefilled = prompt + text[: draw(st.integers(0, len(text)))]
    return {
        "tools": draw(st.sampled_from(("all", "all", "one", "no"))),
        "prompt": draw(st.sampled_from((None, "", prompt, prefilled))),
        "parallel_tool_calls": draw(st.booleans()),
    }


@every_style
def test_no_place_to_cut_a_written_output_changes_it(name: str) -> None:
    request = {"tools": "all", "prompt": STYLES[name].prompt}
    for text in written(name):
        whole = merged(events_of(FORMATS[name], [text], request))
        assert merged(events_of(FORMATS[name], list(text), request)) == whole
        for point in range(1, len(text)):
            assert merged(events_of(FORMATS[name], [text[:point], text[point:]], request)) == whole, point


@every_style
@settings(max_examples=examples(60))
@given(data=st.data())
def test_no_cut_changes_what_is_said(name: str, data: st.DataObject) -> None:
    text = data.draw(soups(name), label="text")
    request = data.draw(requests(name), label="request")
    finish = data.draw(st.sampled_from(("stop", "length")), label="finish")
    cuts = [list(text), split(text, data.draw(points, label="points"))]
    if len(text) <= 40:
        cuts += [[text[:point], text[point:]] for point in range(1, len(text))]
    messages = []
    for mode in get_args(Mode):
        whole = events_of(FORMATS[name], [text], request, finish, arguments=mode)
        check_order(whole)
        for cut in cuts:
            assert merged(events_of(FORMATS[name], cut, request, finish, arguments=mode)) == merged(whole), cut
        messages.append(without_ids(Message.from_events(whole)))
    assert messages[0] == messages[1], "incremental and atomic disagree"


@every_style
@settings(max_examples=examples(40))
@given(data=st.data())
def test_no_text_raises(name: str, data: st.DataObject) -> None:
    anything = st.lists(soups(name) | st.text(st.characters(codec=None), max_size=20), max_size=3).map("".join)
    text = data.draw(anything, label="text")
    parser = Parser(FORMATS[name], **offered(data.draw(requests(name), label="request")))
    events = [event for piece in split(text, data.draw(points, label="points")) for event in parser.feed(piece)]
    check_order(events + parser.finish(data.draw(st.sampled_from(("stop", "length", "error", None)))))


@every_style
@settings(max_examples=examples(40))
@given(data=st.data())
def test_each_character_is_accounted_for_once(name: str, data: st.DataObject) -> None:
    text = data.draw(soups(name), label="text")
    request = data.draw(requests(name), label="request")
    cut = split(text, data.draw(points, label="points"))

    events, spans = traced(FORMATS[name], [text], "stop", request)

    assert [span.start for span in spans] == [0, *(span.end for span in spans)][: len(spans)]
    assert (spans[-1].end if spans else 0) == len(text)
    message = Message.from_events(events)
    if name != "joined":
        said = {kind: "".join(text[s.start : s.end] for s in spans if s.kind == kind) for kind in kinds(spans)}
        assert said.get("content") == message.content
        assert said.get("reasoning") == message.reasoning
    assert merged(events) == merged(events_of(FORMATS[name], [text], request))
    assert kinds(traced(FORMATS[name], cut, "stop", request)[1]) == kinds(spans)


def outside(style: Style) -> str:
    """A prompt after which the output is no reasoning.

    Calls in reasoning wait for its end, and then all of them are read from one text, where a match that fails at
    once is counted as if it had looked at the rest.
    """
    return style.prompt.removesuffix("\n") + "</think>" if style.prompt.endswith("<think>\n") else style.prompt


def workloads(style: Style) -> dict[str, list[str]]:
    """What could make the parser look at the same text again and again: one piece, many times."""
    fields = style.template["fields"]
    call = style.write(None, None, CALLS[:1]).removesuffix(style.end)
    begun = call[: call.index("Par")]
    found = {
        "words": [" word"],
        "layout": [" \n"],
        "calls": [call],
        "calls begun": [begun],
        "half a call": [call[: len(call) // 2]],
        "less-than signs": ["<"],
    }
    for field in fields.values():
        for mark in (field.get("open"), field.get("close")):
            if isinstance(mark, str):
                found[f"{mark} again"] = [mark]
                found[f"{mark} but for its end"] = [mark[:-1]]
    found["words in a call"] = [begun, " word"]
    found["layout in a call"] = [begun, " \n"]
    found["quotes in a call"] = [begun, '" ']
    return found


def test_more_text_is_as_much_more_work() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.formats.response_template_counting"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    counts = json.loads(run.stdout)
    assert counts.keys() == STYLES.keys()
    for name, found in counts.items():
        for workload, ((fed, examined), (more_fed, more_examined)) in found.items():
            assert more_fed > 2 * fed, (name, workload)
            # Layout that waits, 64 characters of it, is looked at again with each piece.
            assert more_examined <= 2 * MOST * more_fed, (name, workload)
            assert more_examined / examined <= 3 * more_fed / fed, (name, workload)
