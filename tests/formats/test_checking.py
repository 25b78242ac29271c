"""The check that people run over a format of their own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

import unspool
from unspool.formats.checking import SampleError, check_format
from unspool.parsing.declaration import JsonCalls

HERMES = unspool.get_format("hermes")
CALL = {"name": "f", "arguments": {"x": 1, "y": 0.5}}
RAW = '<tool_call>\n{"name": "f", "arguments": {"x": 1, "y": 0.5}}\n</tool_call>'


@pytest.mark.parametrize("name", [fmt.name for fmt in unspool.formats()])
def test_every_built_in_format_passes(name: str) -> None:
    findings = list(check_format(unspool.get_format(name)))
    assert [finding for finding in findings if finding.problem] == []
    assert any(finding.raw for finding in findings)


def test_a_sample_that_is_read_and_written_has_nothing_to_say() -> None:
    *_, finding = check_format(HERMES, [{"raw": RAW, "tool_calls": [CALL]}])
    assert (finding.case, finding.problem, finding.note) == ("sample 1", "", "")


def test_a_sample_that_is_written_otherwise_is_noted() -> None:
    raw = RAW.replace("\n", "")
    *_, finding = check_format(HERMES, [{"raw": raw, "tool_calls": [CALL]}])
    assert (finding.problem, finding.note) == ("", f"is written as {RAW!r}")


def test_a_sample_that_can_not_be_written_is_noted() -> None:
    raw = "Look:\n" + RAW
    bare = replace(HERMES, calls=JsonCalls(open=("<tool_call>",), close=("</tool_call>",), bare=True))
    *_, finding = check_format(bare, [{"raw": raw, "content": "Look:", "tool_calls": [CALL]}])
    assert finding.problem == ""
    assert finding.note.startswith("can't be written: calls of 'hermes' have no markers")


def test_the_first_cut_that_changes_something_is_named() -> None:
    *_, finding = check_format(HERMES, [{"raw": RAW, "tool_calls": [{**CALL, "name": "g"}]}])
    assert finding.problem.startswith("in one piece: tool_calls is [('f', {'x': 1, 'y': 0.5})], not [('g',")


def test_what_the_tools_make_of_a_sample_counts() -> None:
    *_, finding = check_format(HERMES, [{"raw": RAW, "content": RAW, "tools": []}])
    assert finding.problem == ""


def test_what_a_format_has_no_room_for_is_noted() -> None:
    notes = [finding.note for finding in check_format(unspool.get_format("mistral_v3")) if not finding.raw]
    assert len(notes) == 2
    assert all(note.startswith("can't be written: the format 'mistral_v3' has no reasoning") for note in notes)


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ("x", "sample 1 must be a table, not 'x'"),
        ({"text": "x"}, "sample 1: unknown key 'text'; there are raw, prompt, "),
        ({}, "sample 1: raw is missing"),
        ({"raw": 1}, "sample 1: raw must be a text, not 1"),
        ({"raw": "x", "prompt": 5}, "sample 1: prompt must be a text, not 5"),
        ({"raw": "x", "content": ["x"]}, "sample 1: content must be a text, not ['x']"),
        ({"raw": "x", "reasoning": {}}, "sample 1: reasoning must be a text, not {}"),
        ({"raw": "x", "tools": 5}, "sample 1: tools must be a list of function tools, not 5"),
        ({"raw": "x", "tools": [{"name": 5}]}, "sample 1: tools[0] must be a function tool with a name"),
        ({"raw": "x", "tool_calls": {"name": "f"}}, "sample 1: tool_calls must be a list of tables, not {'name'"),
        (
            {"raw": "x", "tool_calls": ["f"]},
            "sample 1: tool_calls[0] needs a name, a text, and arguments, a table",
        ),
        ({"raw": "x", "tool_calls": [CALL, {"name": "f"}]}, "sample 1: tool_calls[1] needs a name"),
        ({"raw": "x", "tool_calls": [{"name": 1, "arguments": {}}]}, "sample 1: tool_calls[0] needs a name"),
        ({"raw": "x", "tool_calls": [{"name": "", "arguments": {}}]}, "sample 1: tool_calls[0] needs a name"),
        ({"raw": "x", "tool_calls": [{"name": "f", "arguments": 3}]}, "sample 1: tool_calls[0] needs a name"),
        (
            {"raw": "x", "tool_calls": [{"name": "f", "arguments": {"day": date(2026, 1, 1)}}]},
            "sample 1: tool_calls[0].arguments can't be JSON: Object of type date",
        ),
        (
            {"raw": "x", "tool_calls": [{"name": "f", "arguments": {"x": float("nan")}}]},
            "sample 1: tool_calls[0].arguments can't be JSON: ",
        ),
    ],
)
def test_a_sample_that_is_none_is_an_error(sample: Any, problem: str) -> None:
    with pytest.raises(SampleError) as caught:
        next(check_format(HERMES, [sample]))
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("samples", [5, "x", {"raw": "x"}, None])
def test_samples_that_are_no_list_are_an_error(samples: Any) -> None:
    with pytest.raises(SampleError, match="samples must be a list of tables, not "):
        next(check_format(HERMES, samples))
