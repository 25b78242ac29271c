"""Whether a declaration holds what every format promises: written and read back, however the text is cut.

For people who declare a format of their own; the tests of this project ask the same and more of each built-in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unspool.formats.carried import tools_of
from unspool.formats.writer import WriteError, compose
from unspool.message import Message, ToolCall
from unspool.parsing.declaration import Format
from unspool.parsing.parser import Parser

_ARGUMENTS = (
    '{"text": "Paris", "count": 3}',
    '{"text": "a \\"b\\" <c>\\n{d}", "sure": true, "data": {"k": [1, null]}}',
)
_MESSAGES = {
    "an answer": Message(content="Hello."),
    "a call": Message(tool_calls=(ToolCall("", "look_up", _ARGUMENTS[0]),)),
    "nested arguments": Message(tool_calls=(ToolCall("", "look_up", _ARGUMENTS[1]),)),
    "no arguments": Message(tool_calls=(ToolCall("", "get_time", "{}"),)),
    "text and two calls": Message(
        content="Let me see.", tool_calls=(ToolCall("", "look_up", _ARGUMENTS[0]), ToolCall("", "get_time", "{}"))
    ),
    "reasoning": Message(reasoning="I think so.", content="Yes."),
    "reasoning and a call": Message(
        reasoning="I must look.", tool_calls=(ToolCall("", "look_up", _ARGUMENTS[0]),)
    ),
}


class SampleError(ValueError):
    """A sample is not written as it should be; the text says which and where."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one case: ``problem`` is empty where all is well, ``note`` what is worth knowing."""

    case: str
    raw: str
    problem: str = ""
    note: str = ""


def check_format(fmt: Format, samples: Sequence[Mapping[str, Any]] = ()) -> Iterator[Finding]:
    """Checks the declaration with messages of every kind, then with samples of what the model writes.

    A sample has ``raw``, and may have ``prompt`` (its tail), ``reasoning``, ``content``, ``tool_calls`` (``name``
    and ``arguments``) and ``tools``. Raises :class:`SampleError`.
    """
    for case, message in _MESSAGES.items():
        yield _round_trip(fmt, case, message)
    for number, sample in enumerate(samples):
        yield _sample(fmt, f"sample {number + 1}", sample)


def _round_trip(fmt: Format, case: str, message: Message) -> Finding:
    try:
        raw = compose(fmt, message)
    except WriteError as error:
        return Finding(case, "", note=f"can't be written: {error}")
    return Finding(case, raw, _read(fmt, raw, message, tools_of([message]), None))


def _sample(fmt: Format, case: str, sample: Mapping[str, Any]) -> Finding:
    unknown = set(sample) - {"raw", "prompt", "reasoning", "content", "tool_calls", "tools"}
    if unknown or not isinstance(sample.get("raw"), str):
        raise SampleError(
            f"{case}: " + (f"unknown key {min(unknown)!r}" if unknown else "raw is missing or no text")
        )
    try:
        calls = tuple(
            ToolCall("", call["name"], json.dumps(call["arguments"], ensure_ascii=False))
            for call in sample.get("tool_calls", ())
        )
    except (KeyError, TypeError) as error:
        raise SampleError(f"{case}: tool_calls: each needs a name and arguments ({error})") from error
    message = Message(content=sample.get("content"), reasoning=sample.get("reasoning"), tool_calls=calls)
    raw, prompt = sample["raw"], sample.get("prompt")
    problem = _read(fmt, raw, message, sample.get("tools", tools_of([message])), prompt)
    note = ""
    try:
        if not problem and compose(fmt, message, prompt) != raw:
            note = f"is written as {compose(fmt, message, prompt)!r}"
    except WriteError as error:
        note = f"can't be written: {error}"
    return Finding(case, raw, problem, note)


def _read(fmt: Format, raw: str, message: Message, tools: list[dict[str, Any]], prompt: str | None) -> str:
    """What is wrong with how the text is read, at the first cut where something is; ``""`` for nothing."""
    wanted = _comparable(message)
    for name, pieces in _cuts(raw):
        parser = Parser(fmt, tools=tools, prompt=prompt)
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish("stop")
        got = _comparable(Message.from_events(events))
        for part, value in wanted.items():
            if got[part] != value:
                return f"{name}: {part} is {got[part]!r}, not {value!r}"
    return ""


def _comparable(message: Message) -> dict[str, Any]:
    calls = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    return {"reasoning": message.reasoning, "content": message.content, "tool_calls": calls}


def _cuts(raw: str) -> Iterator[tuple[str, list[str]]]:
    yield "in one piece", [raw]
    yield "by the character", list(raw)
    for at in range(1, len(raw)):
        yield f"cut after {raw[max(0, at - 12) : at]!r}", [raw[:at], raw[at:]]
