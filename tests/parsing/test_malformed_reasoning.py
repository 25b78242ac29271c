"""Reasoning that is never closed, calls that the token limit cuts, markers where none is due."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.conformance.replay import ArgumentMode, Generation, Outcome, every_cut, outcomes_by_cut
from tests.parsing.malformed import KIMI, KIMI_ARGS, KIMI_CLOSE, KIMI_END, TOOLS, V3, V3_END, call, quick_cuts
from unspool.events import FinishReason


@pytest.mark.parametrize(
    "raw",
    [
        "<tool_call>",
        '<tool_call>\n{"name": "f", "arguments": {"a": "x',
        '<tool_call>\n{"name": "f", "argu',
    ],
)
@pytest.mark.parametrize("before", ["", "Hi."])
def test_a_call_cut_by_the_token_limit_is_nothing(raw: str, before: str) -> None:
    for reasoning in (False, True):
        prompt = "<think>\n" if reasoning else ""
        generation = Generation("hermes", before + raw, TOOLS, prompt=prompt, finish="length")
        expected = Outcome(before or None) if reasoning else Outcome(None, before or None)
        assert outcomes_by_cut(generation, every_cut(generation.raw), "incremental").keys() == {expected}


@pytest.mark.parametrize(
    ("raw", "reasoning", "content"),
    [
        ("So <tool_call> it", "So <tool_call> it", None),
        ('So <tool_call>\n{"name": "unknown", "arguments": {}}', None, None),
        ("So <tool_call>", "So <tool_call>", None),
        ("So <|im_end|>on", "So <|im_end|>on", None),
        ("So <|im_end|>", "So ", None),
        ("So<|im_end|>\n<|im_start|>user\nAnd?", "So", None),
        ("So</think>\n\n<|im_end|>", "So", None),
        ("So</think>  \n ", "So", None),
        (" " * 70 + "So</think>" + " " * 70 + "x", " " * 70 + "So", " " * 70 + "x"),
        (" " * 70 + "<think>So", " " * 70 + "<think>So", None),
        ("  <think>So", "So", None),
    ],
)
def test_open_reasoning(raw: str, reasoning: str | None, content: str | None) -> None:
    generation = Generation("hermes", raw, TOOLS, prompt="<think>\n")
    expected = Outcome(reasoning or raw, content)
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {expected}


@pytest.mark.parametrize(
    "raw",
    [
        "The user wants `<function=f>` in the docs, so I",
        'I\n<tool_call>\n{"name": "f", "arguments": {oops}}\n</tool_call>\nmore thinking',
        'I <tool_call>{"arguments": {"a": "' + "y" * 5000 + '"}, "name": "f"}',
    ],
)
def test_what_is_no_call_in_open_reasoning_stays_reasoning(raw: str) -> None:
    fmt = "qwen3_5" if "function" in raw else "hermes"
    generation = Generation(fmt, raw, TOOLS, prompt="<think>\n")
    assert outcomes_by_cut(generation, quick_cuts(raw), "incremental").keys() == {Outcome(raw)}


@pytest.mark.parametrize(
    ("fmt", "raw"),
    [
        ("mistral", "[THINK]Hm.[TOOL_CALLS]f[ARGS]{}"),
        ("gemma4", "<|channel>thought\nHm.<|tool_call>call:f{}<tool_call|>"),
        ("kimi_k2_thinking", f"Hm.{KIMI}f:0{KIMI_ARGS}{{}}{KIMI_END}{KIMI_CLOSE}"),
        ("deepseek_r1", f"Hm.{V3}function<｜tool▁sep｜>f\n```json\n{{}}\n```{V3_END}"),
    ],
)
def test_a_call_ends_open_reasoning(fmt: str, raw: str) -> None:
    expected = Outcome("Hm.", None, call())
    assert outcomes_by_cut(Generation(fmt, raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


@pytest.mark.parametrize("between", ["", "\n", "; "])
def test_a_call_without_markers_may_be_followed_by_reasoning(between: str) -> None:
    raw = f'{{"name": "f", "parameters": {{}}}}{between}[THINK]Hm.[/THINK]{{"name": "f", "parameters": {{}}}}'
    generation = Generation("magistral+llama3_json", raw, TOOLS)
    expected = Outcome("Hm.", "; " if between == "; " else None, call() * 2)
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {expected}


DRAFT = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
BAD = "<tool_call>\n{oops}\n</tool_call>"


@pytest.mark.parametrize(
    ("raw", "finish", "expected"),
    [
        (f"Hm.\n{DRAFT}", "length", Outcome("Hm.", None, call(a="x"))),
        (f"Hm.\n{DRAFT}\n{DRAFT}\n", "length", Outcome("Hm.", None, call(a="x") * 2)),
        (f"Hm.\n{DRAFT}<|im_end|>", "length", Outcome("Hm.", None, call(a="x"))),
        (f"Hm.\n{DRAFT}\nOr", "length", Outcome(f"Hm.\n{DRAFT}\nOr")),
        (f"Hm.\n{DRAFT}\n{DRAFT}\nOr", "length", Outcome(f"Hm.\n{DRAFT}\n{DRAFT}\nOr")),
        (f"Hm.\n{DRAFT}\n{BAD}", "length", Outcome(f"Hm.\n{DRAFT}\n{BAD}")),
        (f"Hm.\n{DRAFT}\nOr\n{DRAFT}", "length", Outcome(f"Hm.\n{DRAFT}\nOr", None, call(a="x"))),
        (f"Hm.\n{DRAFT}\n{DRAFT[:40]}", "length", Outcome("Hm.", None, call(a="x"))),
        (f"Hm.\n{DRAFT}\nOr", "stop", Outcome("Hm.", "\nOr", call(a="x"))),
    ],
)
def test_a_call_before_a_cut_in_reasoning(raw: str, finish: FinishReason, expected: Outcome) -> None:
    """Where the token limit cuts text behind a call, the model was still thinking."""
    generation = Generation("hermes", raw, TOOLS, prompt="<think>\n", finish=finish)
    for mode in get_args(ArgumentMode):
        assert outcomes_by_cut(generation, every_cut(raw), mode).keys() == {expected}


def test_an_empty_section_in_open_reasoning_is_reasoning() -> None:
    raw = f"Hm <|tool_calls_section_begin|>{KIMI_CLOSE} on"
    generation = Generation("kimi_k2_thinking", raw, TOOLS)
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {Outcome(raw)}


def test_what_the_prompt_holds_back_is_not_the_models() -> None:
    raw = "</think>Hi"
    generation = Generation("hermes", raw, TOOLS, prompt="<think>\nSo <")
    assert outcomes_by_cut(generation, every_cut(raw), "incremental").keys() == {Outcome(None, "Hi")}


def test_reasoning_may_come_again_between_channels() -> None:
    raw = "A<|close|>think<|sep|><|open|>response<|sep|>B<|close|>response<|sep|><|open|>think<|sep|>C"
    expected = Outcome("AC", "B")
    assert outcomes_by_cut(Generation("kimi_k3", raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


def test_no_tools_make_routed_calls_content() -> None:
    raw = " to=functions.f<|channel|>commentary<|message|>{}<|call|><|start|>assistant<|message|>Hi"
    expected = Outcome(None, " to=functions.f<|channel|>commentary<|message|>{}Hi")
    assert outcomes_by_cut(Generation("gpt_oss", raw), every_cut(raw), "incremental").keys() == {expected}
