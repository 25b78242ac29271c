"""Which format a chat template writes, by the markers in it.

Each rule is a set of texts that only one family's templates have together; the first rule that fits wins. The
table goes from the most particular markers to the most common ones.
"""

from __future__ import annotations

_RULES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("<rfl:parameter",), "beam"),
    (("<|channel|>", "LLM-jp"), "llmjp4"),
    (("<seed:tool_call>",), "seed_oss"),
    (("]<]minimax[>[",), "minimax_m3"),
    (("<minimax:tool_call>",), "minimax_m2"),
    (("<steptml:invoke",), "step3"),
    (("<dots_function_call>",), "dots"),
    (("<iquestcoder_tool_call>",), "iquest_coder"),
    (("<iquest_tool_call>",), "iquest_q1"),
    (("<ifm|tool_call>",), "k2_horizon"),
    (("<|tool_arg:start|>",), "solar_open2"),
    (("｜GCML｜",), "gigachat35"),
    (("<start_function_call>",), "functiongemma"),
    (("<|begin_of_box|>", "<arg_key>"), "glm4v"),
    (("<role>ASSISTANT", "<arg_key>"), "ling3"),
    (("<assistant>", "<arg_key>"), "poolside_v1"),
    (('<function name="', '<param name="'), "minicpm5"),
    (("<|channel|>", "<|message|>"), "gpt_oss"),
    (("<atem:function_calls>",), "muse_glimmer"),
    (("<|content_invoke_tool_json|>",), "inkling"),
    (("<|tool_call:begin|>", "<|tool_call:args|>"), "solar_open"),
    (("<|im_start|>", "tool/function_call"), "hyperclovax"),
    (("<|tool_call>", "<tool_call|>"), "gemma4"),
    (("<|open|>", "<|sep|>"), "kimi_k3"),
    (("<|tool_calls_section_begin|>", "<think>"), "kimi_k2_thinking"),
    (("<|tool_calls_section_begin|>",), "kimi_k2"),
    (("｜DSML｜ calls>",), "deepseek_v41"),
    (("｜DSML｜tool_calls>",), "deepseek_v4"),
    (("｜DSML｜",), "deepseek_v32"),
    (("<｜tool▁calls▁begin｜>", "```json"), "deepseek_v3"),
    (("<｜tool▁calls▁begin｜>",), "deepseek_v31"),
    (("[TOOL_CALLS]", "[ARGS]"), "mistral"),
    (("[TOOL_CALLS]",), "mistral_v3"),
    (("<arg_key>", "/nothink"), "glm45"),
    (("<arg_key>",), "glm47"),
    (("<function=", "<parameter=", "<think>"), "qwen3_5"),
    (("<function=", "<parameter="), "qwen3_coder"),
    (("<tool_call>",), "hermes"),
    (("<|header_start|>",), "pythonic"),
    (("<|start_header_id|>", '"parameters"'), "llama3_json"),
    (("<|python_tag|>",), "llama3_json"),
    (("<think>", "<|im_start|>"), "hermes"),
)


def detect_from_template(template: str) -> str | None:
    """The name of the format whose markers the template's source has, or ``None`` if no rule fits."""
    for markers, name in _RULES:
        if all(marker in template for marker in markers):
            return name
    return None
