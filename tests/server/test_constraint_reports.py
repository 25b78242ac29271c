"""Public reports about schemas and reasoning budgets, through the server's own path: the request is decoded, its
constraint holds a model that wants something else, and the parser reads what came of it."""

from __future__ import annotations

from typing import Any

import pytest

import unspool
from tests.constrained.bugs import BUGS
from tests.constrained.vocabularies import Letters, choices
from unspool.message import Message
from unspool.server.constraints import Demands, hold
from unspool.surfaces import chat

MARKERS = ("<think>", "</think>", "<|im_start|>", "<|im_end|>")
WORDS = Letters(["ok", "Hi.", "Who", "is", "She ruled.", "\n\n"], MARKERS, ["<|im_end|>"])
SPELLED = Letters(["</", "think", "ok"], MARKERS[2:], ["<|im_end|>"])


def answer(number: str, *wants: list[str], words: Letters = WORDS, format: str = "hermes") -> Message:
    """What comes of a report's request if the model wants these tokens, the next list after each forced end."""
    case = BUGS[number]["input"]
    request = dict(case["request"])
    if "thinking_budget" in request:
        request["thinking_token_budget"] = request.pop("thinking_budget")
    asked = chat.decode({**request, "messages": [{"role": "user", "content": "Hi"}]})
    prompt = case["prompt_tail"]
    if format == "hermes" and not prompt.startswith("<|im_start|>"):
        prompt = f"<|im_start|>assistant\n{prompt}"
    form = unspool.get_format(format)
    demands = Demands(asked.conversation, asked.output, asked.reasoning_budget)
    tokens = follow(hold(form, words, prompt, demands, 1).constraints[0], [map(words.ids, each) for each in wants])
    parser = unspool.Parser(form, prompt=prompt, tokenizer=words)
    return Message.from_events([*parser.feed_tokens(tokens), *parser.finish()])


def follow(constraint: Any, wants: list[Any]) -> list[int]:
    """The tokens of a model that wants these; where only another may come it does, and cuts its list short."""
    written: list[int] = []
    for wish in wants:
        for token in (token for ids in wish for token in ids):
            allowed = choices(constraint)
            if token in allowed:
                written.append(token)
                assert constraint.accept(token)
            elif len(allowed) == 1:
                break
        while len(forced := choices(constraint)) == 1 and not constraint.is_stopped:
            written += forced
            assert constraint.accept(*forced)
    return written


@pytest.mark.parametrize("number", ["BUG-007", "BUG-065", "BUG-067"])
def test_a_schema_holds_the_content_and_not_the_reasoning(number: str) -> None:
    case = BUGS[number]
    raw, expected = case["input"]["raw"], case["expected"]
    if number == "BUG-065":
        # There the schema covered the reasoning, too. Here it ends first, and the model may well end it at once.
        raw = f"</think>\n\n{raw}"
    found = answer(number, [raw], format="deepseek_r1" if number == "BUG-007" else "hermes")
    assert (found.content, found.reasoning) == (expected["content"], expected["reasoning"])
    assert (found.finish_reason, found.tool_calls) == (expected["finish_reason"], ())


def test_a_budget_is_one_for_the_response_and_no_second_block_comes() -> None:
    case = BUGS["BUG-076"]["input"]
    found = answer(
        "BUG-076",
        case["model_wants"],
        case["model_after_forced_close"],
        case["model_after_second_forced_close"],
    )
    assert found.reasoning == BUGS["BUG-076"]["expected"]["reasoning"]
    assert found.content == "fgok"


def test_a_marker_that_was_begun_is_completed() -> None:
    found = answer("BUG-078", BUGS["BUG-078"]["input"]["model_wants"], ["ok"], words=SPELLED)
    assert (found.reasoning, found.content) == (BUGS["BUG-078"]["expected"]["reasoning"], "ok")


@pytest.mark.parametrize(("number", "then"), [("BUG-080", "ok"), ("BUG-196", "She ruled.")])
def test_a_budget_of_zero_is_no_reasoning(number: str, then: str) -> None:
    found = answer(number, BUGS[number]["input"]["model_wants"][:1], [then])
    assert (found.reasoning, found.content) == (None, BUGS[number]["expected"]["content"])


def test_a_second_end_marker_is_not_shown() -> None:
    case = BUGS["BUG-195"]
    found = answer("BUG-195", case["input"]["model_wants"], case["input"]["model_after_forced_close"])
    assert (found.reasoning, (found.content or "").strip()) == ("ab", case["expected"]["content"])


def test_a_character_is_not_cut() -> None:
    case = BUGS["BUG-197"]
    wants = [bytes.fromhex(token) for token in case["input"]["model_wants_bytes"]]
    whole = b"".join(wants).decode()
    found = answer("BUG-197", [whole], ["ok"])
    assert found.reasoning in case["expected"]["reasoning_any_of"]
    assert found.content == "ok"
