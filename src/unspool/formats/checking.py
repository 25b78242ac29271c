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
from unspool.parsing.schema import offered_tools

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


def check_format(fmt: Format, samples: Any = ()) -> Iterator[Finding]:
    """Checks the declaration with messages of every kind, then with samples of what the model writes.

    A sample has ``raw``, and may have ``prompt`` (its tail), ``reasoning``, ``content``, ``tool_calls`` (``name``
    and ``arguments``) and ``tools``. Raises :class:`SampleError`, before anything else if it does.
    """
    if not isinstance(samples, Sequence) or isinstance(samples, str):
        raise SampleError(f"samples must be a list of tables, not {samples!r:.80}")
    read = [_Sample.read(f"sample {number + 1}", sample) for number, sample in enumerate(samples)]
    for case, message in _MESSAGES.items():
        yield _round_trip(fmt, case, message)
    for sample in read:
        yield _sample(fmt, sample)


def _round_trip(fmt: Format, case: str, message: Message) -> Finding:
    try:
        raw = compose(fmt, message)
    except WriteError as error:
        return Finding(case, "", note=f"can't be written: {error}")
    return Finding(case, raw, _read(fmt, raw, message, tools_of([message]), None))


_KINDS: Mapping[str, tuple[type, str]] = {
    "raw": (str, "a text"),
    "prompt": (str, "a text"),
    "reasoning": (str, "a text"),
    "content": (str, "a text"),
    "tool_calls": (list, "a list of tables"),
    "tools": (list, "a list of function tools"),
}


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a model wrote, and what it means."""

    case: str
    raw: str
    message: Message
    tools: list[dict[str, Any]]
    prompt: str | None

    @classmethod
    def read(cls, case: str, said: Any) -> _Sample:
        """The sample that a table says. Raises :class:`SampleError`."""
        if not isinstance(said, Mapping):
            raise SampleError(f"{case} must be a table, not {said!r:.80}")
        for key, value in said.items():
            if key not in _KINDS:
                raise SampleError(f"{case}: unknown key {key!r}; there are {', '.join(_KINDS)}")
            kind, name = _KINDS[key]
            if not isinstance(value, kind):
                raise SampleError(f"{case}: {key} must be {name}, not {value!r:.80}")
        if "raw" not in said:
            raise SampleError(f"{case}: raw is missing; it is what the model wrote")
        calls = tuple(
            _call(f"{case}: tool_calls[{number}]", call) for number, call in enumerate(said.get("tool_calls", ()))
        )
        message = Message(content=said.get("content"), reasoning=said.get("reasoning"), tool_calls=calls)
        tools = said.get("tools", tools_of([message]))
        try:
            offered_tools(tools)
        except ValueError as error:
            raise SampleError(f"{case}: {error}") from error
        return cls(case, said["raw"], message, tools, said.get("prompt"))


def _call(where: str, said: Any) -> ToolCall:
    """The call that a sample's table says. Raises :class:`SampleError`."""
    match said:
        case {"name": str(name), "arguments": dict(arguments)} if name:
            try:
                return ToolCall("", name, json.dumps(arguments, ensure_ascii=False, allow_nan=False))
            except (TypeError, ValueError) as error:
                raise SampleError(f"{where}.arguments can't be JSON: {error}") from error
    raise SampleError(f"{where} needs a name, a text, and arguments, a table; it is {said!r:.80}")


def _sample(fmt: Format, sample: _Sample) -> Finding:
    problem = _read(fmt, sample.raw, sample.message, sample.tools, sample.prompt)
    note = ""
    try:
        if not problem and (written := compose(fmt, sample.message, sample.prompt)) != sample.raw:
            note = f"is written as {written!r}"
    except WriteError as error:
        note = f"can't be written: {error}"
    return Finding(sample.case, sample.raw, problem, note)


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
