"""A text among a call's arguments comes to an end, whatever a model would rather write."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.constrained.turns.walks import byte_pairs, ids_of, letters
from tests.constrained.vocabularies import Letters
from tests.laws.strategies import FORMATS, every_format_with_calls
from unspool import Message, Parser, ToolCall
from unspool.constrained import LLGuidanceConstraint
from unspool.constrained.base import allowed, new_mask
from unspool.constrained.turns import TurnGrammar, turn_grammar
from unspool.formats import write

MOST = 12
PUT = {
    "type": "function",
    "function": {
        "name": "put",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
}


def held(name: str, tokenizer: Any, max_text: int | None = MOST) -> TurnGrammar:
    grammar = turn_grammar(
        FORMATS[name],
        tokenizer,
        tools=[PUT],
        tool_choice="put",
        reasoning="off",
        max_text=max_text,
        max_string=max_text and 4 * max_text,
    )
    assert grammar is not None
    return grammar


def stubborn(grammar: TurnGrammar, tokenizer: Any, letter: str, most: int) -> list[int]:
    """A turn of a model that writes one letter wherever it may; cut after so many tokens."""
    chance = random.Random(letter)
    constraint = LLGuidanceConstraint(grammar, tokenizer, end_tokens=[])
    mask = new_mask(constraint.vocab_size)
    (again,) = ids_of(tokenizer, letter)
    ids: list[int] = []
    while len(ids) < most and not constraint.is_stopped and not constraint.may_end:
        constraint.mask(mask)
        choices = [int(token) for token in allowed(mask, constraint.vocab_size).nonzero()[0]]
        ids.append(again if again in choices else chance.choice(choices))
        assert constraint.accept(ids[-1])
    return ids


@every_format_with_calls
@pytest.mark.parametrize("vocabulary", [letters, byte_pairs])
def test_a_model_that_would_go_on_forever_ends_its_call(name: str, vocabulary: Any) -> None:
    tokenizer = vocabulary(FORMATS[name])
    ids = stubborn(held(name, tokenizer), tokenizer, "e", 700)
    parser = Parser(FORMATS[name], tools=[PUT], tool_choice="put", tokenizer=tokenizer)
    message = Message.from_events(parser.feed_tokens(ids) + parser.finish("stop"))
    (call,) = message.tool_calls
    text = json.loads(call.arguments)["text"]
    assert "e" * (MOST // 2) in text
    assert len(text) <= 4 * MOST + 8


@every_format_with_calls
def test_a_text_that_is_not_too_long_is_as_free_as_ever(name: str) -> None:
    tokenizer = letters(FORMATS[name])
    call = ToolCall("", "put", json.dumps({"text": "e" * (MOST - 3)}))
    constraint = LLGuidanceConstraint(held(name, tokenizer), tokenizer, end_tokens=[])
    assert all(
        constraint.accept(token) for token in ids_of(tokenizer, write(FORMATS[name], Message(tool_calls=(call,))))
    )
    assert constraint.may_end


@pytest.mark.parametrize("name", ["qwen3_coder", "pythonic", "minimax_m3", "gemma4"])
def test_without_a_limit_it_may_be_of_any_length(name: str) -> None:
    tokenizer = Letters()
    ids = stubborn(held(name, tokenizer, None), tokenizer, "e", 600)
    assert len(ids) == 600


def test_each_text_has_its_own_limit() -> None:
    two = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    tools = [{"type": "function", "function": {"name": "put", "strict": True, "parameters": two}}]
    tokenizer = Letters()
    grammar = turn_grammar("qwen3_coder", tokenizer, tools=tools, tool_choice="put", reasoning="off", max_text=40)
    assert grammar is not None
    for size, fits in ((24, True), (50, False)):
        call = ToolCall("", "put", json.dumps({"a": "e" * 24, "b": "e" * size}))
        constraint = LLGuidanceConstraint(grammar, tokenizer, end_tokens=[])
        ids = ids_of(tokenizer, write("qwen3_coder", Message(tool_calls=(call,))))
        assert all(constraint.accept(token) for token in ids) is fits
