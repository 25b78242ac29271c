"""The format that a chat template shows."""

from __future__ import annotations

import pytest

import unspool
from unspool.formats import detect_from_template


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("<|im_start|>{{ role }}<tool_call>{{ call | tojson }}</tool_call><think>", "hermes"),
        ("<tool_call><function={{ name }}><parameter={{ key }}>", "qwen3_coder"),
        ("<think><tool_call><function={{ name }}><parameter={{ key }}>", "qwen3_5"),
        ("[TOOL_CALLS] {{ calls | tojson }}", "mistral_v3"),
        ("[TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}", "mistral"),
        ("<｜tool▁calls▁begin｜>function<｜tool▁sep｜>{{ name }}\n```json", "deepseek_v3"),
        ("<｜tool▁calls▁begin｜>{{ name }}<｜tool▁sep｜>", "deepseek_v31"),
        ("<｜DSML｜function_calls>", "deepseek_v32"),
        ("<｜DSML｜tool_calls>", "deepseek_v4"),
        ("<｜DSML｜ calls>", "deepseek_v41"),
        ("/nothink<tool_call>{{ name }}<arg_key>", "glm45"),
        ("<tool_call>{{ name }}<arg_key>", "glm47"),
        ("<|tool_calls_section_begin|>", "kimi_k2"),
        ("<think><|tool_calls_section_begin|>", "kimi_k2_thinking"),
        ("<|open|>think<|sep|>", "kimi_k3"),
        ("<|tool_call>call:{{ name }}<tool_call|>", "gemma4"),
        ("<|start|>assistant<|channel|>analysis<|message|>", "gpt_oss"),
        ("trained by LLM-jp<|start|>assistant<|channel|>analysis<|message|>", "llmjp4"),
        ("<|start|>assistant<|channel|>analysis<|message|><rfl:parameter name=", "beam"),
        ("<|start|>assistant to=user<|message|><atem:function_calls>", "muse_glimmer"),
        ("<|message_model|><|content_invoke_tool_json|>", "inkling"),
        ("<|begin|>assistant<|tool_calls|><|tool_call:begin|>{{ id }}<|tool_call:args|>", "solar_open"),
        ("<|im_start|>assistant -> tool/function_call\n", "hyperclovax"),
        ('<|start_header_id|>{{ "{\\"name\\": " }} "parameters"', "llama3_json"),
        ("<|header_start|>assistant<|header_end|>", "pythonic"),
        ("<seed:tool_call>\n<function={{ name }}>\n<parameter={{ key }}>", "seed_oss"),
        ("]<]minimax[>[<tool_call>", "minimax_m3"),
        ("<minimax:tool_call><invoke name={{ name }}>", "minimax_m2"),
        ("<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=", "step3"),
        ("<dots_function_call><invoke name=", "dots"),
        ("<iquestcoder_tool_call>{{ name }}<arg_key>", "iquest_coder"),
        ("<iquest_tool_call>{{ name }}<arg_key>", "iquest_q1"),
        ("<ifm|tool_calls><ifm|tool_call>{{ name }}", "k2_horizon"),
        ("<|tool_call:start|>{{ name }}<|tool_arg:start|>", "solar_open2"),
        ("<｜GCML｜tool_calls>", "gigachat35"),
        ("<start_function_call>call:{{ name }}", "functiongemma"),
        ("<|begin_of_box|><tool_call>{{ name }}<arg_key>", "glm4v"),
        ("<role>ASSISTANT</role><tool_call>{{ name }}<arg_key>", "ling3"),
        ("<assistant><tool_call>{{ name }}<arg_key>", "poolside_v1"),
        ('<function name="{{ name }}"><param name="{{ key }}">', "minicpm5"),
        ("### Assistant: {{ content }}", None),
    ],
)
def test_detection(template: str, expected: str | None) -> None:
    assert detect_from_template(template) == expected
    if expected is not None:
        assert unspool.get_format(expected).name == expected
