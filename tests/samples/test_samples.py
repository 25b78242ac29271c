"""One exact sample of each case a family writes: one call, two calls, reasoning first, plain text.

The samples come from official templates, so the comparison is exact: no strip, nothing tolerated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut

SAMPLES: dict[str, dict[str, Any]] = {
    sample["id"]: sample
    for sample in map(json.loads, Path(__file__).with_name("samples.jsonl").read_text("utf-8").splitlines())
}

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

# Section of the samples file -> canonical format name.
FORMAT_BY_SECTION = {
    "F01a": "hermes",
    "F01b": "hermes",
    "F01c": "hermes",
    "F19": "llama3_json",
    "F20a": "mistral_v3",
    "F20b": "mistral",
    "F21": "deepseek_v3",
    "F22": "deepseek_v31",
    "F23": "kimi_k2",
    "F27": "pythonic",
    "F31": "qwen3_coder",
    "F32": "qwen3_5",
    "F46": "glm45",
    "F47": "glm47",
    "F55": "deepseek_v32",
    "F56": "deepseek_v4",
    "F57": "deepseek_v41",
    "F59": "kimi_k3",
    "F61": "gemma4",
    "F63": "gpt_oss",
}


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize("sample_id", SAMPLES)
def test_a_sample_gives_exactly_its_message_at_every_cut(sample_id: str, mode: ArgumentMode) -> None:
    sample = SAMPLES[sample_id]
    expected = sample["expected"]
    raw = sample["raw_output"]
    generation = Generation(
        format=FORMAT_BY_SECTION[sample_id.split("/")[0]],
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


def test_every_section_of_these_families_has_samples() -> None:
    assert {sample_id.split("/")[0] for sample_id in SAMPLES} == FORMAT_BY_SECTION.keys()
    assert len(SAMPLES) == 75
