"""The inputs of vLLM's own parser tests, as a measure.

That data stays outside this project: the test looks for ``../shared/cases/engine_tests.jsonl`` beside the
checkout, or where ``UNSPOOL_ENGINE_CASES`` points, and says so when it is absent. Each asserted case of a
family that unspool knows runs as a whole, one character at a time, at the case's own cuts and at random
ones; every cut must give one message. Where that message differs from what the engine's test asserts, a
settled policy of unspool says why: the list below is exact, so a new difference fails, and so does one
that is gone.
"""

from __future__ import annotations

import json
import os
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.documented import PAGE, rows, table_below
from tests.conformance.replay import Generation, Outcome, canonical, outcomes_by_cut

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("UNSPOOL_ENGINE_CASES", ROOT.parent / "shared" / "cases" / "engine_tests.jsonl"))

RANDOM_CUTS = 3


@dataclass(frozen=True, slots=True)
class Setup:
    """The format that stands for one of the engine's parsers, and the prompt its tests imply."""

    format: str
    prompt: str


QWEN_TURN = "<|im_start|>assistant\n"
GRANITE_TURN = "<|start_of_role|>assistant<|end_of_role|>"
QWEN_THINKING = Setup("qwen3_5", QWEN_TURN + "<think>\n")
QWEN_SILENT = Setup("qwen3_5", QWEN_TURN + "<think>\n\n</think>\n\n")

# By the engine's parser class.
SETUPS: Mapping[str, Setup] = {
    "KimiK2ToolParser": Setup("kimi_k2", "<|im_assistant|>assistant<|im_middle|>"),
    "KimiK2ReasoningParser": Setup("kimi_k2", "<|im_assistant|>assistant<|im_middle|><think>"),
    "DeepSeekV3ToolParser": Setup("deepseek_v3", "<｜Assistant｜>"),
    "DeepSeekR1ReasoningParser": Setup("deepseek_r1", "<｜Assistant｜><think>\n"),
    "DeepSeekV31ToolParser": Setup("deepseek_v31", "<｜Assistant｜></think>"),
    "DeepSeekV32ToolParser": Setup("deepseek_v32", "<｜Assistant｜></think>"),
    "DeepSeekV4ToolParser": Setup("deepseek_v4", "<｜Assistant｜></think>"),
    "DeepSeekV3ReasoningWithThinkingParser": Setup("glm45", "<|assistant|>"),
    "IdentityReasoningParser": Setup("deepseek_v31", "<｜Assistant｜></think>"),
    "Glm4MoeModelToolParser": Setup("glm45", "<|assistant|>\n<think></think>"),
    "Glm47MoeModelToolParser": Setup("glm47", "<|assistant|></think>"),
    "Qwen3XMLToolParser": Setup("qwen3_coder", QWEN_TURN),
    "Qwen3CoderToolParser": Setup("qwen3_coder", QWEN_TURN),
    "Qwen3ReasoningParser": QWEN_THINKING,
    "Hermes2ProToolParser": Setup("hermes", QWEN_TURN),
    "Gemma4ReasoningParser": Setup("gemma4", "<|turn>model\n"),
    "Gemma4ToolParser": Setup("gemma4", "<|turn>model\n<|channel>thought\n<channel|>"),
    "Llama3JsonToolParser": Setup("llama3_json", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "Llama4PythonicToolParser": Setup("pythonic", "<|header_start|>assistant<|header_end|>\n\n"),
    "PythonicToolParser": Setup("pythonic", "<|header_start|>assistant<|header_end|>\n\n"),
    "MistralReasoningParser": Setup("mistral", "[/INST]"),
    "MistralToolParser": Setup("mistral", "[/INST]"),
    "Step3p5ToolParser": Setup("step3p5", QWEN_TURN + "<think>\n</think>\n"),
    "Step3p5ReasoningParser": Setup("step3p5", QWEN_TURN + "<think>\n"),
    "MinimaxM2ToolParser": Setup("minimax_m2", "]~b]ai\n<think>\n\n</think>\n\n"),
    "MiniMaxM2AppendThinkReasoningParser": Setup("minimax_m2", "]~b]ai\n<think>\n"),
    "MiniMaxM2ReasoningParser": Setup("minimax_m2", "]~b]ai\n<think>\n"),
    "HYV3ToolParser": Setup("hy_v3", ""),
    "HYV3ReasoningParser": Setup("hy_v3", "<think>"),
    "Step3ToolParser": Setup("step3", "<think>\n</think>"),
    "SeedOssToolParser": Setup("seed_oss", "<seed:bos>assistant\n"),
    "SeedOSSReasoningParser": Setup("seed_oss", "<seed:bos>assistant\n<seed:think>"),
    "NemotronV3ReasoningParser": Setup("nemotron_v3", QWEN_TURN + "<think>\n"),
    "FunctionGemmaToolParser": Setup("functiongemma", "<start_of_turn>model\n"),
    "Ernie45ToolParser": Setup("ernie45", "<think>\n\n</think>\n\n"),
    "Ernie45ReasoningParser": Setup("ernie45", "<think>\n"),
    "HunyuanA13BToolParser": Setup("hunyuan_a13b", ""),
    "HunyuanA13BReasoningParser": Setup("hunyuan_a13b", ""),
    "JambaToolParser": Setup("jamba", "<|assistant|>"),
    "Granite4ToolParser": Setup("granite4", GRANITE_TURN),
    "GraniteToolParser": Setup("granite", GRANITE_TURN),
    "GraniteReasoningParser": Setup("granite", GRANITE_TURN),
    "Granite20bFCToolParser": Setup("granite_20b_fc", ""),
    "GigaChat3ToolParser": Setup("gigachat3", ""),
    "Internlm2ToolParser": Setup("internlm", QWEN_TURN),
    "LongcatFlashToolParser": Setup("longcat", ""),
    "MinimaxToolParser": Setup("minimax_m1", ""),
    "Olmo3PythonicToolParser": Setup("olmo3", QWEN_TURN),
    "Olmo3ReasoningParser": Setup("olmo3", QWEN_TURN + "<think>"),
    "Phi4MiniJsonToolParser": Setup("phi4_mini", "<|assistant|>"),
    "xLAMToolParser": Setup("xlam", ""),
}

# Where a test's name, not its parser class, says how the prompt ended or which model it is about.
SETUP_BY_TEST: tuple[tuple[str, Setup], ...] = (
    ("thinking_disabled", QWEN_SILENT),
    ("test_holo2_reasoning_parser", QWEN_THINKING),
    ("nemotron_v3_without_thinking", Setup("nemotron_v3", QWEN_TURN + "<think></think>")),
    ("test_hy_v3_reasoning_parser.py::test_reasoning[without_think", Setup("hy_v3", "")),
    ("[pre_v11", Setup("mistral_v3", "[/INST]")),
)


@dataclass(frozen=True, slots=True)
class Policy:
    """A decision of unspool, in one sentence, and the cases whose difference it explains."""

    statement: str
    cases: tuple[str, ...]


POLICIES: tuple[Policy, ...] = (
    Policy(
        "A reasoning block that was never closed ends at a valid opener of a call to an offered tool, "
        "and nowhere else.",
        (
            "vllm/Qwen3-0.6B-tool_call_no_think_end]#0",
            "vllm/Qwen3-0.6B-tool_call_no_think_end_stream]#0",
            "vllm/Qwen3-0.6B-tool_call_with_think_no_end]#0",
            "vllm/Qwen3-0.6B-tool_call_with_think_no_end_stream]#0",
            "vllm/Qwen3-0.6B-tool_call_implicit_reasoning_end]#0",
            "vllm/Qwen3.5-397B-A17B-tool_call_no_think_end_stream]#0",
            "vllm/Qwen3.5-397B-A17B-tool_call_with_think_no_end_stream]#0",
            "vllm/test_kimi_k2_reasoning_parser.py::test_extract_reasoning_tool_section_ends_reasoning#0",
            "vllm/test_kimi_k2_reasoning_parser.py::test_streaming_tool_section_ends_reasoning#0",
        ),
    ),
    Policy(
        "Reasoning and calls of a family are one format, read in one pass.",
        (
            "vllm/test_glm4_moe_tool_parser.py::test_extract_tool_calls_with_thinking_tags#0",
            "vllm/test_seed_oss_tool_parser.py::test_streaming_tool_calls[tool_call_0_thinking_budget]#0",
            "vllm/test_minimax_tool_parser.py::test_extract_tool_calls_with_thinking_tags#0",
            "vllm/test_minimax_tool_parser.py::test_streaming_thinking_tag_buffering#0",
            "vllm/test_minimax_tool_parser.py::test_streaming_complex_scenario_with_multiple_tools#0",
            "vllm/test_xlam_tool_parser.py::test_extract_tool_calls[single_tool_with_think_tag]#0",
        ),
    ),
    Policy(
        "A reasoning closer at the very start of content is framing, once; anywhere later it is text.",
        (
            "vllm/test_gemma4_reasoning_parser.py::test_gemma4_reasoning[invalid_simple]#0",
            "vllm/test_gemma4_reasoning_parser.py::test_gemma4_reasoning[invalid_simple_streaming]#0",
            "vllm/test_gemma4_reasoning_parser.py::test_gemma4_reasoning[invalid_complete]#0",
            "vllm/test_gemma4_reasoning_parser.py::test_gemma4_reasoning[invalid_complete_streaming]#0",
            "vllm/test_holo2_reasoning_parser.py::test_reasoning[thinking_disabled_with_close_tag]#0",
            "vllm/test_holo2_reasoning_parser.py::test_reasoning[thinking_disabled_with_close_tag]#1",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_simple_reasoning]#0",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_simple_reasoning_streaming]#0",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_complete_reasoning]#0",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_complete_reasoning_streaming]#0",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_multiple_lines]#0",
            "vllm/test_mistral_reasoning_parser.py::test_mistral_reasoning[invalid_multiple_lines_streaming]#0",
        ),
    ),
    Policy(
        "Text before, between and after calls is content, in the order it was written.",
        (
            "vllm/tool_calls>\\nThank you!-expected_tool_calls4-None]#0",
            "vllm/test_qwen3xml_tool_parser.py::TestQwen3xmlToolParser::test_surrounding_text[False]#0",
            "vllm/test_deepseekv31_tool_parser.py::test_extract_tool_calls_with_multiple_tools#0",
            "vllm/test_glm4_moe_tool_parser.py::test_extract_tool_calls_mixed_content#0",
            "vllm/test_kimi_k2_tool_parser.py::TestStreamingEdgeCases::test_content_after_tool_section#0",
            "vllm/test_longcat_tool_parser.py::TestLongCatToolParser::test_surrounding_text[True]#0",
            "vllm/test_longcat_tool_parser.py::TestLongCatToolParser::test_surrounding_text[False]#0",
            "vllm/test_phi4mini_tool_parser.py::TestPhi4MiniToolParser::test_surrounding_text[False]#0",
        ),
    ),
    Policy(
        "The line breaks that a template writes before a call are framing.",
        (
            "vllm/test_glm4_moe_tool_parser.py::test_streaming_content_between_tool_calls_multi_token#0",
            "vllm/test_glm4_moe_tool_parser.py::test_stream_interval_content_between_tool_calls[1]#0",
            "vllm/test_glm4_moe_tool_parser.py::test_stream_interval_content_between_tool_calls[2]#0",
            "vllm/test_glm4_moe_tool_parser.py::test_stream_interval_content_between_tool_calls[5]#0",
            "vllm/test_granite4_tool_parser.py::test_tool_call_parser_complex[1-1]#0",
            "vllm/test_granite4_tool_parser.py::test_tool_call_parser_complex[1-2]#0",
            "vllm/test_granite4_tool_parser.py::test_tool_call_parser_complex[5-7]#0",
            "vllm/test_granite4_tool_parser.py::test_tool_call_parser_complex[6-20]#0",
        ),
    ),
    Policy(
        "The arguments of a call are one valid JSON object; what began like a call and is none is content, "
        "as it was written.",
        (
            "vllm/test_deepseekv3_tool_parser.py::TestDeepSeekV3ToolParser::test_malformed_input[True]#0",
            "vllm/test_qwen3xml_tool_parser.py::TestQwen3xmlToolParser::test_malformed_input[False]#1",
            "vllm/test_glm4_moe_tool_parser.py::test_extract_tool_calls_malformed_xml#0",
            "vllm/test_glm4_moe_tool_parser.py::test_streaming_with_content_before_tool_calls#0",
            "vllm/test_glm4_moe_tool_parser.py::test_streaming_empty_tool_call#0",
            "vllm/test_kimi_k2_tool_parser.py::TestExtractToolCalls::test_invalid_json_still_extracted#0",
            "vllm/test_kimi_k2_tool_parser.py::TestStreamingEdgeCases::test_truncated_tool_call_no_end_marker#0",
            "vllm/test_mistral_tool_parser.py::test_extract_tool_calls[complex]#0",
            "vllm/test_mistral_tool_parser.py::test_extract_tool_calls_v11_without_args_skipped#0",
            "vllm/test_qwen3coder_tool_parser.py::test_malformed_xml_no_gt_delimiter[chat_completion]#0",
            "vllm/test_qwen3coder_tool_parser.py::test_malformed_xml_no_gt_delimiter[responses_api]#0",
            "vllm/test_qwen3coder_tool_parser.py::test_none_tool_calls_filtered[chat_completion]#0",
            "vllm/test_qwen3coder_tool_parser.py::test_none_tool_calls_filtered[responses_api]#0",
            "vllm/test_granite_20b_fc_tool_parser.py::TestGranite20bFcToolParser::test_malformed_input[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_malformed_input[False]#2",
            "vllm/test_longcat_tool_parser.py::TestLongCatToolParser::test_malformed_input[False]#1",
            "vllm/test_phi4mini_tool_parser.py::TestPhi4MiniToolParser::test_malformed_input[True]#0",
            "vllm/test_minimax_tool_parser.py::test_extract_tool_calls_invalid_json#0",
            "vllm/test_minimax_tool_parser.py::test_extract_tool_calls_missing_name_or_arguments#0",
            "vllm/test_minimax_tool_parser.py::test_streaming_arguments_delta_only#0",
        ),
    ),
    Policy(
        "Complete arguments whose outer closer is missing at the end of the text are a call, "
        "unless the token limit cut it.",
        (
            "vllm/test_deepseekv32_tool_parser.py::TestExtractToolCallsStreaming::test_no_emission_while_incomplete#0",
            "vllm/test_glm4_moe_tool_parser.py::test_extract_tool_calls_incomplete_tool_call#0",
        ),
    ),
    Policy(
        "Where the model itself says that a value is a string, it is one, whatever the schema says.",
        (
            "vllm/test_deepseekv32_tool_parser.py::TestExtractToolCallsStreaming::test_type_conversion_in_streaming#0",
        ),
    ),
    Policy(
        "A value of a parameter without a schema is read as JSON where it is JSON, otherwise it is text.",
        (
            "vllm/test_minimax_m2_tool_parser.py::TestSingleInvoke::test_multiple_params#0",
            "vllm/test_minimax_m2_tool_parser.py::TestMultipleInvokes::test_two_invokes_in_single_delta#0",
            "vllm/test_minimax_m2_tool_parser.py::TestInternalState::test_prev_tool_call_arr_single#0",
            "vllm/test_minimax_m2_tool_parser.py::TestDeltaMessageFormat::test_multi_invoke_indices#0",
            "vllm/test_minimax_m2_tool_parser.py::TestLargeChunks::test_header_and_params_in_separate_chunks#0",
            "vllm/test_step3_tool_parser.py::TestStep3ToolParser::test_various_data_types[True]#0",
            "vllm/test_qwen3xml_tool_parser.py::TestQwen3xmlToolParser::test_various_data_types[False]#0",
        ),
    ),
    Policy(
        "A bare JSON call stands at the start of the content; JSON inside prose is prose.",
        (
            "vllm/test_llama3_json_tool_parser.py::test_extract_tool_calls_simple#0",
            "vllm/test_llama3_json_tool_parser.py::test_extract_tool_calls_multiple_json_with_surrounding_text#0",
        ),
    ),
    Policy(
        "A call to an unknown tool is passed on: the client knows its tools.",
        ("vllm/test_kimi_k2_tool_parser.py::TestExtractToolCalls::test_invalid_funcall_id_skipped#0",),
    ),
    Policy(
        "Whether reasoning is shown as content, or instead of content that is missing, is for a server to decide.",
        (
            "vllm/test_nemotron_v3_reasoning_parser.py::test_nemotron_v3_force_nonempty_content_returns_content#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[simple_output]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[simple_output_streaming]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[no_end_token]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[no_end_token_streaming]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[only_end_token]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[only_end_token_streaming]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[multiple_lines]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[multiple_lines_streaming]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[special_chars]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[special_chars_streaming]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[code_output]#0",
            "vllm/test_minimax_m2_append_reasoning_parser.py::test_reasoning[code_output_streaming]#0",
        ),
    ),
    Policy(
        "The test asserts a fault of its own parser (half a marker as content, lost text, garbled arguments, a "
        "call withheld) or an exception it provokes; other tests of the same parser assert what unspool returns.",
        (
            "vllm/test_jamba_tool_parser.py::test_extract_tool_calls_streaming[single_tool]#0",
            "vllm/test_jamba_tool_parser.py::test_extract_tool_calls_streaming[single_tool_with_content]#0",
            "vllm/test_jamba_tool_parser.py::test_extract_tool_calls_streaming[parallel_tools]#0",
            "vllm/test_gemma4_reasoning_parser.py::test_gemma4_reasoning[new_line]#0",
            "vllm/test_llama4_pythonic_tool_parser.py::test_tool_call[python_tag_streaming]#0",
            "vllm/test_llama4_pythonic_tool_parser.py::test_tool_call[parallel_calls_streaming1]#0",
            "vllm/test_glm47_moe_tool_parser.py::TestGlm47Streaming::test_no_args#0",
            "vllm/test_glm4_moe_tool_parser.py::test_streaming_incremental_string_value#0",
            "vllm/test_glm4_moe_tool_parser.py::test_streaming_multi_token_chunks#0",
            "vllm/test_mistral_tool_parser.py::test_extract_tool_calls_streaming_exception_returns_none[v11]#0",
            "vllm/test_step3p5_reasoning_parser.py::test_reasoning[multi_turn_prompt_content]#0",
            "vllm/test_step3_tool_parser.py::TestStep3ToolParser::test_malformed_input[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_single_tool_call_simple_args[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_parallel_tool_calls[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_various_data_types[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_empty_arguments[True]#0",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_granite_string_prefix_format[True]#0",
            "vllm/test_internlm2_tool_parser.py::TestInternLM2ToolParser::test_parallel_tool_calls[True]#0",
            "vllm/test_internlm2_tool_parser.py::TestInternLM2ToolParser::test_surrounding_text[True]#0",
            "vllm/test_minimax_tool_parser.py::test_streaming_arguments_incremental_output#0",
            "vllm/test_xlam_tool_parser.py::test_extract_tool_calls_streaming_incremental[single_tool_with_think_tag]#0",
            "vllm/test_xlam_tool_parser.py::test_extract_tool_calls_streaming_incremental[single_tool_with_json_code_block]#0",
            "vllm/test_xlam_tool_parser.py::test_extract_tool_calls_streaming_incremental[single_tool_with_tool_call_xml_tags]#0",
        ),
    ),
    Policy(
        "Behind an opener stands one object or a list, on one line or several, whichever the template writes.",
        (
            "vllm/test_granite_20b_fc_tool_parser.py::TestGranite20bFcToolParser::test_malformed_input[False]#1",
            "vllm/test_granite_tool_parser.py::TestGraniteToolParser::test_malformed_input[False]#1",
            "vllm/test_minimax_tool_parser.py::test_extract_tool_calls_multiline_json_not_supported#0",
        ),
    ),
    Policy(
        "The case has only the last piece of the text that the test feeds.",
        (
            *(
                f"vllm/test_granite_reasoning_parser.py::test_streaming_subcases[{piece}]#0"
                for piece in (
                    "Starting reasoning special sequence",
                    "Unexpected start reasoning sequence",
                    "Continuing unexpected start reasoning sequence",
                    "Only start reasoning sequence and nothing else",
                    "Reasoning content has started",
                    "Response special sequence has started",
                    "Response special sequence reset",
                    "Delta contains some reasoning and response",
                    "Delta finishes response sequence",
                    "Delta breaks potential responise sequence",
                )
            ),
            "vllm/test_minimax_tool_parser.py::test_streaming_basic_functionality#0",
            "vllm/test_minimax_tool_parser.py::test_streaming_with_content_before_tool_calls#0",
        ),
    ),
)

EXPLAINED = {case_id for policy in POLICIES for case_id in policy.cases}


def test_every_difference_is_explained_by_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    cases = _cases()
    different: dict[str, str] = {}
    for case in cases:
        generation = _generation(case)
        found = outcomes_by_cut(generation, _cuts(case), "incremental")
        assert len(found) == 1, f"{case['id']}: the message depends on the cut: {found}"
        got = next(iter(found)).stripped()
        if got != _expected(case):
            different[case["id"]] = f"raw {case['raw']!r}\n  want {_expected(case)}\n  got  {got}"
    table = _table(cases, different)
    with capsys.disabled():
        print(f"\nvLLM's parser tests\n{table}")
    surprises = [f"{name}: {text}" for name, text in different.items() if name not in EXPLAINED]
    assert not surprises, "\n".join(surprises)
    assert different.keys() == EXPLAINED, "these agree now; take them off the list"
    assert table_below("vLLM's parser tests") == table, f"docs/conformance.md needs this table:\n{table}"


def test_the_table_of_the_policies_is_this() -> None:
    stated = [[policy.statement, str(len(policy.cases))] for policy in POLICIES]
    assert rows(table_below("The policies behind the differences")) == stated


def test_the_table_adds_up() -> None:
    *parsers, (_, *totals) = rows(table_below("vLLM's parser tests"))
    assert {name for name, *_ in parsers} == SETUPS.keys()
    assert [sum(map(int, column)) for column in list(zip(*parsers, strict=True))[1:]] == list(map(int, totals))
    assert int(totals[2]) == len(EXPLAINED) == sum(len(policy.cases) for policy in POLICIES)
    assert f"| {totals[0]} inputs " in PAGE


def _cases() -> list[dict[str, Any]]:
    if not DATA.is_file():
        pytest.skip(f"no engine cases at {DATA}; set UNSPOOL_ENGINE_CASES to measure against them")
    rows = map(json.loads, DATA.read_text("utf-8").splitlines())
    return [row for row in rows if row["confidence"] == "asserted" and row["family"] in SETUPS]


def _generation(case: Mapping[str, Any]) -> Generation:
    setup = next((s for part, s in SETUP_BY_TEST if part in case["id"]), SETUPS[case["family"]])
    return Generation(setup.format, case["raw"], tools=_offered(case), prompt=setup.prompt)


def _offered(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The case's tools as function tools.

    The engine looks for calls even where a test offers no tools; unspool does not. For such tests
    the tools that are called are offered, without a schema, and another one.
    """
    if case["tools"]:
        return [t if "function" in t else {"type": "function", "function": t} for t in case["tools"]]
    if not case["kind"].startswith("tool"):
        return []
    names = ["another_tool", *(call["name"] for call in case["expect"]["tool_calls"])]
    return [{"type": "function", "function": {"name": name}} for name in dict.fromkeys(names)]


def _expected(case: Mapping[str, Any]) -> Outcome:
    """The asserted message; arguments that are not JSON stay as they are and equal no real call."""
    expect = case["expect"]
    named = [
        (call["name"], canonical(call["arguments"]) if "arguments" in call else call["arguments_raw"])
        for call in expect["tool_calls"]
    ]
    return Outcome(expect["reasoning"], expect["content"], tuple(named)).stripped()


def _cuts(case: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    raw = case["raw"]
    yield (raw,)
    yield tuple(raw)
    if "".join(case.get("chunks") or ()) == raw:
        yield tuple(case["chunks"])
    chance = random.Random(zlib.crc32(case["id"].encode()))
    for _ in range(RANDOM_CUTS):
        points = sorted(chance.sample(range(len(raw) + 1), min(len(raw), chance.randint(1, 8))))
        yield tuple(raw[a:b] for a, b in zip([0, *points], [*points, len(raw)], strict=True))


def _table(cases: Sequence[Mapping[str, Any]], different: Mapping[str, str]) -> str:
    total = Counter(case["family"] for case in cases)
    other = Counter(case["family"] for case in cases if case["id"] in different)
    lines = ["| vLLM parser | cases | same | explained |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {n} | {n - other[name]} | {other[name]} |" for name, n in sorted(total.items())]
    lines.append(f"| **all** | {total.total()} | {total.total() - other.total()} | {other.total()} |")
    return "\n".join(lines)
