"""What a family's output becomes, at every cut and in both argument modes."""

from __future__ import annotations

from typing import Any, get_args

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut
from unspool.events import FinishReason

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}},
]

WEATHER = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
TIME = '{"name": "get_time", "arguments": {}}'
PARIS = ("get_weather", {"city": "Paris"})
NOW: tuple[str, dict[str, Any]] = ("get_time", {})


def said(content: str | None = None, *called: tuple[str, dict[str, Any]], reasoning: str | None = None) -> Outcome:
    """The expected message."""
    return Outcome(reasoning, content, calls(*called))


def read(format: str, raw: str, prompt: str | None = None, finish: FinishReason = "stop") -> Outcome:
    """The one message that the output gives, however it is cut."""
    generation = Generation(format, raw, tools=TOOLS, prompt=prompt, finish=finish)
    found = {o for mode in get_args(ArgumentMode) for o in outcomes_by_cut(generation, every_cut(raw), mode)}
    assert len(found) == 1, f"the message depends on the cut: {found}"
    return found.pop()
