"""What the tests on malformed outputs share: the offered tools, cases, and the replay of one however it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "n": {"type": "integer"},
                    "o": {"type": ["object", "string"]},
                    "s": {"type": ["string", "null"]},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "g", "parameters": {"required": ["x"]}}},
]
ONLY_F = TOOLS[:1]

RAW = "the text itself"

Case = tuple[str, str, str | None, tuple[tuple[str, str], ...]]


def call(**arguments: Any) -> tuple[tuple[str, str], ...]:
    return calls(("f", arguments))


def case(fmt: str, raw: str, content: str | None, *found: tuple[tuple[str, str], ...]) -> Case:
    return fmt, raw, raw if content == RAW else content, tuple(c for group in found for c in group)


H = "hermes"
OPEN, CLOSE = "<tool_call>", "</tool_call>"

KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>"
KIMI_ARGS, KIMI_END, KIMI_CLOSE = "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"
V3 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
V3_END = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


def quick_cuts(raw: str) -> Any:
    """All cuts of a short text, some of a long one."""
    return every_cut(raw) if len(raw) < 200 else iter([(raw,), tuple(raw), (raw[:-5], raw[-5:])])


def check(fmt: str, raw: str, content: str | None, found: tuple[tuple[str, str], ...], mode: ArgumentMode) -> None:
    """The text gives this content and these calls, and nothing else, however it is cut."""
    generation = Generation(fmt, raw, TOOLS)
    assert outcomes_by_cut(generation, quick_cuts(raw), mode).keys() == {Outcome(None, content, found)}


def of_each(cases: Sequence[Case]) -> Callable[[Any], Any]:
    """Runs a test with the arguments of :func:`check`, for each case in both argument modes."""
    each = pytest.mark.parametrize(
        ("fmt", "raw", "content", "found"), cases, ids=[f"{c[0]} {c[1][:60]!r}" for c in cases]
    )
    modes = pytest.mark.parametrize("mode", get_args(ArgumentMode))
    return lambda test: modes(each(test))
