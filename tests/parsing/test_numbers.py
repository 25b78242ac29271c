"""Numbers go on as they are spelled, whatever Python could make of them."""

from __future__ import annotations

from typing import get_args

import pytest

import unspool
from tests.conformance.replay import ArgumentMode
from unspool import Message, Parser, ToolCall
from unspool.formats import write

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "properties": {
                "i": {"type": "integer"},
                "x": {"type": "number"},
                "l": {"type": "array"},
                "o": {"type": "object"},
            }
        },
    },
}
LONG = "-" + "9" * 5000
ARGUMENTS = f'{{"i": {LONG}, "x": 1e999, "l": [{LONG}, 1.10, -0, 1E+2], "o": {{"k": {LONG}}}}}'


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize("fmt", [fmt for fmt in unspool.formats() if fmt.calls], ids=str)
def test_a_number_is_written_and_read_as_it_is_spelled(fmt: unspool.Format, mode: ArgumentMode) -> None:
    raw = write(fmt, Message(tool_calls=(ToolCall("", "f", ARGUMENTS),)))
    for size in (len(raw), 7):
        parser = Parser(fmt, tools=[TOOL], arguments=mode)
        events = [event for at in range(0, len(raw), size) for event in parser.feed(raw[at : at + size])]
        [call] = Message.from_events(events + parser.finish("stop")).tool_calls
        # Relaxed JSON is written without spaces.
        assert call.arguments.replace(" ", "") == ARGUMENTS.replace(" ", "")


@pytest.mark.parametrize(
    ("spelled", "expected"), [("9" * 5000, "9" * 5000), ("1e999", "1e999"), ("+1e999", "1e999")]
)
def test_a_number_of_python_has_no_limit_either(spelled: str, expected: str) -> None:
    [call] = unspool.parse("pythonic", f"[f(x={spelled})]", tools=[TOOL]).tool_calls
    assert call.arguments == f'{{"x": {expected}}}'


def test_a_long_number_that_is_no_json_makes_no_call() -> None:
    raw = f'<tool_call>{{"name": "f", "arguments": {{"i": {LONG}.}}}}</tool_call>'
    assert unspool.parse("hermes", raw, tools=[TOOL]) == Message(content=raw)
