"""Turns as structural tags, and when they are none."""

from __future__ import annotations

from typing import Any

import pytest

from unspool import get_format
from unspool.constrained.turns import turn_of
from unspool.constrained.turns.tags import structural_tag

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tag(name: str, schema: Any = WEATHER, *, prompt: str | None = None, **options: Any) -> dict[str, Any] | None:
    """The tag of a turn in which one strict tool may be called."""
    function = {"name": "get_weather", "strict": True, "parameters": schema}
    given: dict[str, Any] = {"tool_choice": "auto", "parallel_tool_calls": True, "constrain": "strict"}
    given |= {"tools": [{"type": "function", "function": function}], "reasoning": "auto", "answers": False}
    fmt = get_format(name)
    turn = turn_of(fmt, **{**given, **options})
    assert turn is not None
    return structural_tag(fmt, turn.tools, parallel=turn.parallel, reasoning=turn.reasoning, prompt=prompt)


CALL = {
    "type": "tag",
    "begin": '<tool_call>\n{"name": "get_weather", "arguments": ',
    "content": {"type": "json_schema", "json_schema": WEATHER},
    "end": "}\n</tool_call>",
}


def turn(*excludes: str, once: bool = False) -> dict[str, Any]:
    return {
        "type": "triggered_tags",
        "triggers": ["<tool_call>"],
        "tags": [CALL],
        "stop_after_first": once,
        "excludes": list(excludes),
    }


def reasoned(begin: str) -> dict[str, Any]:
    thought = {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": "</think>"}
    return {"type": "sequence", "elements": [thought, turn("<think>", "</think>")]}


def test_a_call_is_triggered_by_its_opener() -> None:
    assert tag("granite4") == {"type": "structural_tag", "format": turn()}
    assert tag("granite4", parallel_tool_calls=False) == {"type": "structural_tag", "format": turn(once=True)}


def test_reasoning_comes_first_and_triggers_nothing() -> None:
    quiet = turn("<think>", "</think>")
    whole = {"type": "or", "elements": [reasoned("<think>"), quiet]}
    assert tag("hermes") == {"type": "structural_tag", "format": whole}
    assert tag("hermes", reasoning="required") == {"type": "structural_tag", "format": reasoned("<think>")}
    assert tag("hermes", reasoning="off") == {"type": "structural_tag", "format": quiet}
    assert tag("hermes", prompt="<think>\n") == {"type": "structural_tag", "format": reasoned("")}


@pytest.mark.parametrize("name", ["qwen3_coder", "gpt_oss", "mistral", "pythonic", "kimi_k2", "llama3_json"])
def test_calls_that_are_no_json_between_markers_have_none(name: str) -> None:
    assert tag(name) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "pattern": "^a", "maxLength": 3}}},
        {"properties": {"a": {"type": "integer", "multipleOf": 3}}},
        {"allOf": [WEATHER]},
    ],
)
def test_schemas_that_xgrammar_passes_over_have_none(schema: Any) -> None:
    assert tag("granite4", schema) is None


def test_what_can_t_be_said_has_none() -> None:
    assert tag("granite4", reasoning="required") is None
    assert tag("hermes", prompt="<think>\n", reasoning="off") is None
    assert tag("hermes", prompt="<think>\n\n</think>\n\n<tool") is None
