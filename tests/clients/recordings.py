"""What the clients are shown: the same few answers in the formats of nine families, and how each must be heard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import unspool
from unspool import Message, ToolCall
from unspool.engines.replay import Recording
from unspool.formats import write

FORMATS = (
    "hermes",
    "qwen3_5",
    "gpt_oss",
    "deepseek_v31",
    "kimi_k2",
    "glm47",
    "llama3_json",
    "mistral",
    "gemma4",
)
"""One format of each family that the canitoolcall suite has."""

PARAMETERS: Any = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": PARAMETERS},
}
QUESTION = "What is the weather?"

Call: TypeAlias = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """What a client made of an answer: texts without framing whitespace, arguments as values.

    ``finish`` is why the answer ended, in the words of Chat Completions (:func:`finish`).
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"


_FINISHES: Mapping[str, str] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "tool_call": "tool_calls",
    "tool-calls": "tool_calls",
}


def finish(reason: Any) -> str:
    """A finish reason in the words of Chat Completions, whichever API or client it comes from."""
    return _FINISHES.get(reason, reason)


PARIS = ("get_weather", {"city": "Paris"})
TOKYO = ("get_weather", {"city": "東京"})
ANSWERS: Mapping[str, Heard] = {
    "text": Heard("Hello! How can I help?"),
    "reasoning": Heard("It is 4.", "Hm, 2 + 2."),
    "call": Heard(calls=(PARIS,), finish="tool_calls"),
    "parallel": Heard(calls=(PARIS, TOKYO), finish="tool_calls"),
    "cut": Heard(finish="length"),
}
"""What was said, by scenario: of the cut call nothing is certain."""


def name(format: str, scenario: str) -> str:
    """The model that a request names to be answered like this."""
    return f"{format}-{scenario}"


def recording(format: str, scenario: str) -> Recording:
    """An answer as a model of this format writes it; ``cut`` ends inside the arguments, ``broken`` in an error."""
    if scenario == "broken":
        return Recording(name(format, scenario), "Some text and then", format=format, fail_after=3)
    said = ANSWERS["call" if scenario == "cut" else scenario]
    calls = tuple(
        ToolCall(f"functions.{tool}:{i}", tool, json.dumps(arguments, ensure_ascii=False))
        for i, (tool, arguments) in enumerate(said.calls)
    )
    message = Message(said.reasoning or None, said.text or None, calls)
    raw = write(unspool.get_format(format), message)
    if scenario == "cut":
        raw = raw[: raw.index("Paris") + len("Par")]
    return Recording(
        name(format, scenario), raw, format=format, finish_reason="length" if scenario == "cut" else "stop"
    )


CASES = tuple(
    (format, scenario)
    for format in FORMATS
    for scenario in ANSWERS
    if scenario != "reasoning" or unspool.get_format(format).reasoning
)
RECORDINGS = tuple(recording(*case) for case in (*CASES, *((format, "broken") for format in FORMATS)))
