"""Every parser name of the engines leads to a format: its own, or one of those that share the name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unspool
from tests.samples.test_samples import NAMES

DOCS = Path(__file__).parents[2] / "docs/compat.md"

# Sections of the catalogue that have no samples of their own, and those where an engine's name means a variant.
SECTIONS = {
    **NAMES,
    "F01t": "qwen3_thinking",
    "F23t": "kimi_k2_thinking",
    "F28i": "olmo3_instruct",
    "F36": "step3p5",
    "F69": "deepseek_r1",
    "F70": "holo2",
    "F72": "kimi_vl",
    "F78": "identity",
    "F79": "minimax_m2",
}

ENGINES = {
    "vLLM tool": """
        F43 dots F21 deepseek_v3 F22 deepseek_v31 F55 deepseek_v32 F56 deepseek_v4 F57 deepseek_v41
        F11a cohere_command3 F11b cohere_command4 F04 ernie45 F46 glm45 F47 glm47 F48 ling3 F07 granite-20b-fc
        F06 granite F03 granite4 F01 hermes F01 qwen3_json F68 beam F49 poolside_v1 F09 hunyuan_a13b F52 hy_v3
        F53 hy_v4 F17 internlm F08 jamba F29 lfm2 F23 kimi_k2 F59 kimi_k3 F54 k2_horizon F19 llama3_json
        F19 llama4_json F27 llama4_pythonic F27 pythonic F05 longcat F33 mimo F41 minimax_m2 F60 minimax_m3
        F40 minicpm5 F20b mistral F28 olmo3 F24 plamo3 F66 muse F66 musespark1x F67 muse_glimmer F63 openai
        F13 phi4_mini_json F31 qwen3_coder F31 qwen3_xml F34 seed_oss F42 step3 F35 step3p5 F36 step5 F65 inkling
        F14 xlam F18 gigachat3 F62 functiongemma F61 gemma4 F10 apertus""",
    "vLLM tool, formerly": "F86 minimax",
    "vLLM reasoning": """
        F69 deepseek_r1 F22 deepseek_v3 F56 deepseek_v4 F57 deepseek_v41 F49 poolside_v1 F11a cohere_command3
        F11b cohere_command4 F04 ernie45 F61 gemma4 F46 glm45 F47 glm47 F48 ling3 F63 openai_gptoss F06 granite
        F38 granite_thinking_parser F68 beam F70 holo2 F09 hunyuan_a13b F52 hy_v3 F53 hy_v4 F23 kimi_k2
        F59 kimi_k3 F54 k2_horizon F33 mimo F39 minicpmv F41 minimax_m2 F79 minimax_m2_append_think F60 minimax_m3
        F20b mistral F37 nemotron_v3 F28 olmo3 F24 plamo3 F66 muse F66 musespark1x F67 muse_glimmer F01 qwen3
        F34 seed_oss F42 step3 F35 step3p5 F36 step5 F65 inkling F78 identity""",
    "SGLang tool": """
        F10 apertus2509 F68 beam F11b cohere_command4 F21 deepseekv3 F22 deepseekv31 F55 deepseekv32
        F56 deepseekv4 F57 deepseekv41 F43 dots F46 glm F46 glm45 F47 glm47 F63 gpt-oss F54 k2_horizon
        F23 kimi_k2 F59 kimi_k3 F29 lfm2 F48 ling3 F19 llama3 F33 mimo F40 minicpm5 F20b mistral F66 muse
        F49 poolside_v1 F27 pythonic F01 qwen F01 qwen25 F31 qwen3_coder F32 nanbeige F35 step3p5 F50 spark25
        F42 step3 F41 minimax-m2 F60 minimax-m3 F02 trinity F17 interns1 F01 hermes F52 hunyuan F18 gigachat3
        F58 gigachat35 F61 gemma4 F65 inkling F51 iquest_q1""",
    "SGLang reasoning": """
        F69 deepseek-r1 F22 deepseek-v3 F01t qwen3-thinking F41 minimax F79 minimax-append-think F37 nemotron_3
        F58 gigachat35 F72 kimi F01 qwen3 F38 granite_thinking_parser F56 deepseek-v4 F57 deepseek-v41""",
    "Ollama": """
        F01 qwen3 F01t qwen3-thinking F01 qwen3-vl-instruct F01t qwen3-vl-thinking F32 qwen3.5 F32 ornith
        F31 qwen3-coder F20b ministral F63 harmony F21 cogito F22 deepseek3 F28i olmo3 F28 olmo3-think
        F37 nemotron-3-nano F37 nemotron-3.5-nano F62 functiongemma F47 glm-4.7 F61 gemma4
        F61 gemma4-no-thinking F45 glm-ocr F29 lfm2 F29 lfm2-thinking F49 laguna F49 poolside-v1 F11a cohere
        F67 glimmer F78 passthrough""",
    "dynamo tool": """
        F12 nemotron_deci F01 hermes F01 qwen25 F21 deepseek_v3 F22 deepseek_v3_1 F55 deepseek_v3_2 F56 deepseek_v4
        F63 harmony F63 gpt_oss F23 kimi_k2 F19 llama3_json F20b mistral F08 jamba F13 phi4 F27 pythonic
        F31 qwen3_coder F41 minimax_m2 F60 minimax_m3 F47 glm47 F61 gemma4 F42 step3""",
    "dynamo reasoning": """
        F69 basic F23t kimi_k25 F72 kimi F06 granite F37 nemotron_nano F37 nemotron3 F46 glm45 F20b mistral""",
    "vllm-mlx": """
        F01 hermes F01 nous F01 qwen F01 qwen3 F23 kimi F23 moonshot F19 llama F25 functionary_v3 F41 minimax
        F12 nemotron F14 xlam F32 qwen3.5 F63 harmony F06 granite3 F21 deepseek""",
    "smg": """
        F01 qwen F31 qwen_coder F55 deepseek_dsml F46 glm45_moe F47 glm47_moe F14 json F20b mistral F23 kimik2
        F19 llama F27 pythonic F42 step3 F41 minimax_m2 F21 deepseek F22 deepseek31 F11a cohere F59 kimi_k3
        F65 inkling""",
    "BFCL": "F26 glm F06 granite_3 F13 phi_fc F30 minicpm_fc",
}

CLASHES = {
    ("vLLM tool, formerly", "minimax"): "minimax_m2",
    ("vLLM reasoning", "deepseek_v3"): "deepseek_v3",
    ("SGLang reasoning", "deepseek-v3"): "deepseek_v3",
    ("SGLang reasoning", "kimi"): "kimi_k2",
    ("dynamo reasoning", "kimi"): "kimi_k2",
    ("Ollama", "olmo3"): "olmo3",
    ("BFCL", "glm"): "glm45",
}
"""Names that mean another family or variant elsewhere, with the format that they lead to here."""

ROWS = [
    (engine, name, SECTIONS[section])
    for engine, listed in ENGINES.items()
    for section, name in re.findall(r"(\S+)\s+(\S+)", listed)
]


@pytest.mark.parametrize(("engine", "name", "meant"), ROWS)
def test_an_engines_name_leads_to_the_format_it_means(engine: str, name: str, meant: str) -> None:
    assert unspool.get_format(name).name == CLASHES.get((engine, name), meant)


@pytest.mark.parametrize(("engine", "name"), CLASHES)
def test_a_name_that_means_two_families_is_documented(engine: str, name: str) -> None:
    meant = next(meant for row_engine, row_name, meant in ROWS if (row_engine, row_name) == (engine, name))
    found = CLASHES[engine, name]
    assert meant != found
    assert f"| `{name}` | {engine} | `{meant}` | `{found}` |" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["hf", "response_template"])
def test_what_reads_a_checkpoints_own_template_is_no_format(name: str) -> None:
    with pytest.raises(unspool.UnknownFormatError):
        unspool.get_format(name)
