"""One exact sample of each case a family writes: one call, two calls, reasoning first, plain text.

The samples come from official templates, so the comparison is exact: no strip, nothing tolerated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import unspool
from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "unit": {"type": "string"},
                    "days": {"type": "integer"},
                },
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
    },
]

NAMES = dict(
    line.split("\t")[:2] for line in Path(__file__).with_name("names.tsv").read_text("utf-8").splitlines()
)
"""Section of the samples file -> canonical format name."""


def format_of(sample_id: str) -> str:
    """The canonical name of the format that the sample is one of."""
    section = sample_id.split("/")[0]
    return NAMES[section if section in NAMES else section.rstrip("abc")]


_REGISTERED = {fmt.name for fmt in unspool.formats()}
SAMPLES: dict[str, dict[str, Any]] = {
    sample["id"]: sample
    for sample in map(json.loads, Path(__file__).with_name("samples.jsonl").read_text("utf-8").splitlines())
    if format_of(sample["id"]) in _REGISTERED
}


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize("sample_id", SAMPLES)
def test_a_sample_gives_exactly_its_message_at_every_cut(sample_id: str, mode: ArgumentMode) -> None:
    sample = SAMPLES[sample_id]
    expected = sample["expected"]
    raw = sample["raw_output"]
    generation = Generation(
        format=format_of(sample_id),
        raw=raw,
        tools=TOOLS,
        prompt=sample["generation_prompt"],
    )
    assert outcomes_by_cut(generation, every_cut(raw), mode).keys() == {
        Outcome(
            expected["reasoning"],
            expected["content"],
            calls(*((call["name"], call["arguments"]) for call in expected["tool_calls"])),
        )
    }


def test_every_family_is_registered_and_no_sample_is_left_out() -> None:
    assert set(NAMES.values()) <= _REGISTERED
    assert len(SAMPLES) == 274
