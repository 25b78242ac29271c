"""Outputs of any length that could make a parser look at the same text again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tests.laws.strategies import WRITTEN, is_bare, reasons, turn
from unspool import Format, Message, ToolCall
from unspool.formats import write
from unspool.parsing.declaration import ChannelCalls, NamedCalls
from unspool.parsing.grammar import openers

Workload: TypeAlias = tuple[str | None, Callable[[int], list[str]]]
"""The prompt, and the pieces of the output in which something is there this many times."""

_HERE = "123321"


def _around(text: str, piece: str) -> Callable[[int], list[str]]:
    """The text with its placeholder replaced by this piece again and again."""
    before, _, after = text.partition(_HERE)
    return lambda size: [before, *[piece] * size, after]


def _call(name: str, arguments: str) -> Message:
    return Message(tool_calls=(ToolCall("", name, arguments),))


def _chars(text: str, size: int = 5) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def workloads(fmt: Format) -> dict[str, Workload]:
    """All that the format has, by name."""
    if fmt.calls is None:
        return _without_calls(fmt)
    if isinstance(fmt.calls, ChannelCalls):
        opener = fmt.calls.start
    elif isinstance(fmt.calls, NamedCalls) and not fmt.calls.open:
        opener = "get_weather" + fmt.calls.header_end[0]
    else:
        opener = (openers(fmt) or ("[",))[0]
    whole = write(fmt, WRITTEN[1], prompt="")
    begun = whole[: whole.index("Paris")]
    content = write(fmt, Message(content="Hello " + _HERE))
    argument = write(fmt, _call("get_weather", f'{{"city": "{_HERE}"}}'))
    array = write(fmt, _call("save", f'{{"items": [{_HERE}]}}'))
    numbers = write(fmt, _call("save", f'{{"ratio": {_HERE}}}'))
    many = write(fmt, Message(tool_calls=WRITTEN[1].tool_calls * 2))
    single = write(fmt, WRITTEN[1])
    value, _, behind = argument.partition(_HERE)
    broken = value + _HERE + behind[:1] + " ?" + behind[1:]
    repeated = many.partition("get_weather")[2].partition("get_weather")[0]
    found = {
        "words in content": _around(content, " word"),
        "halves of a marker in content": _around(content, opener[:-1]),
        "openers in content": _around(content, opener),
        "terminators in content": _around(content, "".join(fmt.stops[:1]) + "."),
        "calls begun in content": _around(content, begun),
        "layout in content": _around(content, " \n"),
        "layout at the start": _around(_HERE + "Hello", " \n"),
        "words in an argument": _around(argument, " word"),
        "layout in an argument": _around(argument, " "),
        "openers in an argument": _around(argument, opener.replace('"', "")),
        "openers in a call that is none": _around(broken, opener.replace('"', "")),
        "calls begun in a call that is none": _around(broken, begun.replace('"', "")),
        "items of a list": _around(array, "1, "),
        "digits of a number": _around(numbers, "11"),
        # More than the longest header at either size: up to that one, all of it may be looked at again.
        "layout behind an opener": _around(opener + _HERE, " " * 20),
        "layout in a call": _around(single[: single.index("get_weather")] + _HERE, " \n"),
        "brackets in a call": _around(begun + _HERE, "[{"),
        "a name without end": _around(begun[: begun.index("get_weather")] + _HERE, "abc"),
    }
    prompted: dict[str, Workload] = {name: (None, pieces) for name, pieces in found.items()}
    start = single.index("get_weather")
    prompted["many calls"] = (
        None,
        lambda size: _chars(
            single[:start] + ("get_weather" + repeated) * (size // 20) + single[start:],
        ),
    )
    if reasons(fmt):
        reasoning = write(fmt, Message(reasoning="Hm. " + _HERE))
        prompted["words in reasoning"] = (None, _around(reasoning, " word"))
        prompted["openers in reasoning"] = (None, _around(reasoning, opener))
        prompted["calls begun in reasoning"] = (None, _around(reasoning, begun))
    for block in fmt.reasoning[:1]:
        opened = turn(fmt) + block.open + block.open_pad
        prompted["reasoning that never ends"] = (opened, _around(_HERE, " word"))
        prompted["a call in reasoning that never ends"] = (opened, _around("Hm." + argument, " word"))
        prompted["calls begun in reasoning that never ends"] = (opened, _around(_HERE, begun))
        prompted["layout in reasoning"] = (opened, _around(_HERE, "\n "))
        prompted["reasoning that a call ends"] = (None, _around(_HERE, block.open + "Hm." + single))
    if not is_bare(fmt):
        prompted["words after a call"] = (None, _around(single + _HERE, " word"))
    return prompted


def _without_calls(fmt: Format) -> dict[str, Workload]:
    content = write(fmt, Message(content="Hello " + _HERE))
    found: dict[str, Workload] = {
        "words in content": (None, _around(content, " word")),
        "layout in content": (None, _around(content, " \n")),
    }
    for block in fmt.reasoning:
        found["halves of a marker in content"] = (None, _around(content, block.open[:-1]))
        found["reasoning that never ends"] = (turn(fmt) + block.open, _around(_HERE, " word"))
        found["halves of a marker in reasoning"] = (turn(fmt) + block.open, _around(_HERE, block.close[:-1]))
    return found
