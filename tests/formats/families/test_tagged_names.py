"""Every parser name that an engine has for these families leads to the format that reads its output."""

from __future__ import annotations

import pytest

import unspool

NAMES = {
    "mimo": ("mimo",),
    "seed_oss": ("seed_oss",),
    "step3p5": ("step3p5", "step5"),
    "nemotron_v3": ("nemotron_v3", "nemotron_3", "nemotron3", "nemotron-3-nano", "nemotron-3.5-nano"),
    "granite_thinking": ("granite_thinking_parser",),
    "minicpm_v": ("minicpmv",),
    "minicpm5": ("minicpm5",),
    "minimax_m2": ("minimax_m2", "minimax-m2", "minimax", "minimax_m2_append_think", "minimax-append-think"),
    "step3": ("step3",),
    "dots": ("dots",),
    "glm4v": ("glm-ocr",),
    "ling3": ("ling3",),
    "poolside_v1": ("poolside_v1", "poolside-v1", "laguna"),
    "spark25": ("spark25",),
    "iquest_q1": ("iquest_q1",),
    "hy_v3": ("hy_v3", "hunyuan"),
    "hy_v4": ("hy_v4",),
    "k2_horizon": ("k2_horizon",),
    "solar_open2": ("solar_open2",),
    "gigachat35": ("gigachat35",),
    "minimax_m3": ("minimax_m3", "minimax-m3"),
    "functiongemma": ("functiongemma", "function_gemma"),
}


@pytest.mark.parametrize(("canonical", "name"), [(c, name) for c, names in NAMES.items() for name in names])
def test_a_parser_name_leads_to_its_format(canonical: str, name: str) -> None:
    assert unspool.get_format(name).name == canonical


def test_a_combination_keeps_suffix_and_filter() -> None:
    message = unspool.parse("hy_v3+minicpm_v", "<think:opensource>a</think:opensource>b\\nc")
    assert (message.reasoning, message.content) == ("a", "b\nc")
    assert unspool.get_format("qwen3+hy_v3").suffix == ":opensource"
