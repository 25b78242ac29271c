"""The settled policies on which engines' tests differ, and the faults those tests found, an example of each.

Every example gives the same message at every cut and in both argument modes. ``docs/conformance.md`` lists the
policies and what they differ from.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, calls, every_cut, outcomes_by_cut

SEARCH: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            },
        },
    }
]

HERMES_CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "tea"}}\n</tool_call>'
XML_CALL = "<tool_call>\n<function=search>\n<parameter=query>\ntea\n</parameter>\n</function>\n</tool_call>"
TEA = calls(("search", {"query": "tea"}))

EXAMPLES: dict[str, tuple[Generation, Outcome]] = {
    "an unclosed block ends at a call to an offered tool": (
        Generation("qwen3_5", f"Look it up.\n{XML_CALL}", SEARCH, prompt="<think>\n"),
        Outcome("Look it up.", None, TEA),
    ),
    "an unclosed block does not end when no tool is offered": (
        Generation("qwen3_5", f"Look it up.\n{XML_CALL}", prompt="<think>\n"),
        Outcome(f"Look it up.\n{XML_CALL}"),
    ),
    "a call drafted in a closed block is reasoning": (
        Generation("qwen3_5", f"Draft:\n{XML_CALL}\nNo.\n</think>\n\nDone.", SEARCH, prompt="<think>\n"),
        Outcome(f"Draft:\n{XML_CALL}\nNo.", "Done."),
    ),
    "a closer at the start of content is framing": (
        Generation("hermes", "</think>\n\nDone.", prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        Outcome(None, "Done."),
    ),
    "a closer in the middle of content is text": (
        Generation("mistral", "It ends with [/THINK] there.", prompt="[/INST]"),
        Outcome(None, "It ends with [/THINK] there."),
    ),
    "an opener repeated after the prompt's is framing, also on a new line": (
        Generation("deepseek_r1", "\n<think>Sure?</think>\nYes.", prompt="<｜Assistant｜><think>\n"),
        Outcome("Sure?", "Yes."),
    ),
    "a control token opens reasoning after content too": (
        Generation("mistral", "Hm.[THINK]Sure?[/THINK] Yes.", prompt="[/INST]"),
        Outcome("Sure?", "Hm. Yes."),
    ),
    "a reasoning channel may lack its label": (
        Generation("gemma4", "<|channel>Sure?<channel|>Yes.", prompt="<|turn>model\n"),
        Outcome("Sure?", "Yes."),
    ),
    "text between and after calls is content": (
        Generation("qwen3_coder", f"First.\n{XML_CALL}\n\nThen.\n{XML_CALL}\nLast.", SEARCH),
        Outcome(None, "First.\n\nThen.\nLast.", TEA * 2),
    ),
    "line breaks before a call are framing": (
        Generation("hermes", f"First.\n{HERMES_CALL}\n{HERMES_CALL}", SEARCH),
        Outcome(None, "First.", TEA * 2),
    ),
    "a call with broken arguments is content and its neighbour a call": (
        Generation("qwen3_coder", f"<tool_call>\n<function=search\n</function>\n</tool_call>\n{XML_CALL}", SEARCH),
        Outcome(None, "<tool_call>\n<function=search\n</function>\n</tool_call>", TEA),
    ),
    "a bare opener at the end is content": (
        Generation("glm47", "One moment.<tool_call>", SEARCH, prompt="<|assistant|></think>"),
        Outcome(None, "One moment.<tool_call>"),
    ),
    "a bare opener at the token limit is nothing": (
        Generation("glm47", "One moment.<tool_call>", SEARCH, prompt="<|assistant|></think>", finish="length"),
        Outcome(None, "One moment."),
    ),
    "words in a section without a call are not lost": (
        Generation(
            "deepseek_v31",
            "<｜tool▁calls▁begin｜>No search needed.<｜tool▁calls▁end｜>",
            SEARCH,
            prompt="<｜Assistant｜></think>",
        ),
        Outcome(None, "<｜tool▁calls▁begin｜>No search needed.<｜tool▁calls▁end｜>"),
    ),
    "an empty section is nothing": (
        Generation(
            "kimi_k2",
            "No.<|tool_calls_section_begin|><|tool_calls_section_end|>",
            SEARCH,
            prompt="<|im_assistant|>assistant<|im_middle|>",
        ),
        Outcome(None, "No."),
    ),
    "complete arguments without the outer closer are a call": (
        Generation("hermes", HERMES_CALL.removesuffix("\n</tool_call>"), SEARCH),
        Outcome(None, None, TEA),
    ),
    "elements without the outer closer are a call when the model stopped by itself": (
        Generation(
            "glm47",
            "<tool_call>search<arg_key>query</arg_key><arg_value>tea</arg_value>",
            SEARCH,
            prompt="<|assistant|></think>",
        ),
        Outcome(None, None, TEA),
    ),
    "elements without the outer closer are nothing at the token limit": (
        Generation(
            "glm47",
            "<tool_call>search<arg_key>query</arg_key><arg_value>tea</arg_value>",
            SEARCH,
            prompt="<|assistant|></think>",
            finish="length",
        ),
        Outcome(),
    ),
    "the model's own word for a string wins over the schema": (
        Generation(
            "deepseek_v32",
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search">\n'
            '<｜DSML｜parameter name="limit" string="true">3</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            SEARCH,
        ),
        Outcome(None, None, calls(("search", {"limit": "3"}))),
    ),
    "a value without a schema is JSON where it is JSON": (
        Generation(
            "qwen3_coder",
            "<tool_call>\n<function=search>\n<parameter=depth>\n3\n</parameter>\n<parameter=sort>\nby 3\n"
            "</parameter>\n</function>\n</tool_call>",
            SEARCH,
        ),
        Outcome(None, None, calls(("search", {"depth": 3, "sort": "by 3"}))),
    ),
    "JSON inside prose is prose": (
        Generation("llama3_json", 'Try {"name": "search", "parameters": {"query": "tea"}} now.', SEARCH),
        Outcome(None, 'Try {"name": "search", "parameters": {"query": "tea"}} now.'),
    ),
    "bare JSON that names no offered tool is content": (
        Generation("llama3_json", '{"name": "find", "parameters": {"query": "tea"}}', SEARCH),
        Outcome(None, '{"name": "find", "parameters": {"query": "tea"}}'),
    ),
    "a call to an unknown tool is passed on": (
        Generation("hermes", HERMES_CALL.replace("search", "find"), SEARCH),
        Outcome(None, None, calls(("find", {"query": "tea"}))),
    ),
    "call syntax is content when no tool is offered": (
        Generation("hermes", HERMES_CALL),
        Outcome(None, HERMES_CALL),
    ),
    "call syntax is content when calls are refused": (
        Generation("hermes", HERMES_CALL, SEARCH, tool_choice="none"),
        Outcome(None, HERMES_CALL),
    ),
}


@pytest.mark.parametrize("mode", get_args(ArgumentMode))
@pytest.mark.parametrize("name", EXAMPLES)
def test_policy(name: str, mode: ArgumentMode) -> None:
    generation, expected = EXAMPLES[name]
    assert outcomes_by_cut(generation, every_cut(generation.raw), mode).keys() == {expected}
