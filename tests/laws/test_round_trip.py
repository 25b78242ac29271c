"""Law 2: what the writer writes, the parser reads back, after any prompt and however it is cut."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from tests.conftest import examples
from tests.laws.messages import cases, comparable, spelled
from tests.laws.strategies import (
    FORMATS,
    ODD_PIECES,
    TOOLS,
    every_format,
    every_format_with_calls,
    halves,
    markers,
    points,
    split,
    turn,
)
from unspool import Format, Message, Parser, ToolCall, ToolCallDelta
from unspool.formats import WriteError, write
from unspool.formats.carried import tools_of


def _prompts(fmt: Format) -> list[str | None]:
    """Prompts that end where the writer begins: at a turn, or behind a whole reasoning opener or closer."""
    ends = ["", fmt.start]
    for block in fmt.reasoning[:1]:
        closed = block.open + block.close
        ends += [block.open + block.open_pad, closed, closed + block.after]
    return [None, None, *(turn(fmt) + end for end in ends)]


@every_format
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_written_message_is_read_back(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    case = data.draw(cases(fmt), label="case")
    prompt = data.draw(st.sampled_from(_prompts(fmt)), label="prompt")
    text = write(fmt, case.message, prompt=prompt)
    parser = Parser(fmt, tools=case.tools, prompt=prompt)
    pieces = split(text, data.draw(points, label="points"))
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish("stop")

    assert comparable(fmt, Message.from_events(events)) == comparable(fmt, case.expected), text
    for index, call in enumerate(case.message.tool_calls):
        sent = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.index == index)
        assert spelled(fmt, sent) == spelled(fmt, call.arguments)


@every_format_with_calls
def test_a_hundred_calls_are_read_back(name: str) -> None:
    fmt = FORMATS[name]
    weather = [json.dumps({"city": f"City {number}", "days": number}) for number in range(100)]
    calls = tuple(ToolCall("", "get_weather", arguments) for arguments in weather)
    message = Message(tool_calls=calls, finish_reason="tool_calls")
    read = unspool.parse(fmt, write(fmt, message), tools=TOOLS)
    assert comparable(fmt, read) == comparable(fmt, message)
    assert len({call.id for call in read.tool_calls}) == 100


@every_format_with_calls
@settings(max_examples=examples(40))
@given(data=st.data())
def test_names_and_keys_are_read_back_or_refused(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    texts = st.lists(st.sampled_from((*ODD_PIECES, *halves(fmt), *markers(fmt), *_WORDS)), max_size=3).map("".join)
    values = st.recursive(
        st.just("x"), lambda inner: st.dictionaries(texts, inner, max_size=2) | st.lists(inner, max_size=2)
    )
    arguments = data.draw(st.dictionaries(texts, values, max_size=2), label="arguments")
    call = ToolCall("", data.draw(texts, label="name"), json.dumps(arguments))
    try:
        text = write(fmt, Message(tool_calls=(call,)))
    except WriteError:
        return
    [read] = unspool.parse(fmt, text, tools=tools_of([Message(tool_calls=(call,))])).tool_calls
    assert (read.name, json.loads(read.arguments)) == (call.name, arguments), text


_WORDS = ("f", "get-time", "a.b", "1", " ", "a b", "city") * 4
