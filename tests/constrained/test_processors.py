"""Constraints inside engines: the history of a host, masks on arrays of three libraries, the public processors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.constrained.vocabularies import Letters, choices
from unspool.constrained import (
    ConstraintError,
    ConstraintLogitsProcessor,
    History,
    JSONSchemaLogitsProcessor,
    LLGuidanceConstraint,
    Phase,
    SchemaError,
    ThinkingAwareLogitsProcessor,
    apply_mask,
    new_mask,
    regex,
)
from unspool.constrained.arrays import masked, read, rows
from unspool.constrained.base import allow_only, allowed

LETTERS = Letters(special=["<think>", "</think>", "<|end|>"], end=["<|end|>"])
THINK, END_THINK, END = sorted(LETTERS.special)
SIZE = LETTERS.size


def digits() -> LLGuidanceConstraint:
    return LLGuidanceConstraint(regex("[0-9]+;"), LETTERS)


class Shown:
    """A row of tokens that counts how many were read."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.count = 0

    def read(self, start: int, stop: int) -> list[int]:
        self.count += stop - start
        return self.tokens[start:stop]


def show(history: History, *tokens: int) -> History:
    history.sync(len(tokens), Shown(tokens).read)
    return history


def next_tokens(history: History) -> set[int]:
    mask = new_mask(history.constraint.vocab_size)
    history.mask(mask)
    return set(np.flatnonzero(allowed(mask, SIZE)).tolist())


class TestHistory:
    def test_what_is_shown_first_is_the_prompt(self) -> None:
        history = show(History(digits()), 7, 8, 9)
        assert next_tokens(history) == set(b"0123456789")
        show(history, 7, 8, 9, ord("4"), ord(";"))
        assert next_tokens(history) == {END}

    def test_a_shorter_history_rolls_back(self) -> None:
        history = show(show(History(digits()), 7), 7, *b"4;")
        assert next_tokens(show(history, 7, *b"4")) == set(b"0123456789;")
        assert next_tokens(show(history, 7)) == set(b"0123456789")

    def test_a_rewrite_of_the_same_length_is_seen(self) -> None:
        history = show(show(History(digits()), 7), 7, *b"4;")
        assert next_tokens(show(history, 7, *b"45")) == set(b"0123456789;")
        assert not history.constraint.is_stopped

    def test_a_rewrite_further_back_than_is_compared_is_found_by_its_end(self) -> None:
        history = show(show(History(digits(), verify=2), 7), 7, *b"123456")
        show(history, 7, *b"1234;6")
        assert history.is_refused
        assert next_tokens(show(history, 7, *b"1234;")) == {END}

    def test_without_a_limit_every_rewrite_is_found(self) -> None:
        history = show(show(History(digits(), verify=None), 7), 7, *b"123456")
        assert show(history, 7, *b";23456").is_refused

    def test_a_refused_draft_allows_only_an_end_until_it_is_taken_back(self) -> None:
        history = show(show(History(digits()), 7), 7, *b"4x5")
        assert history.is_refused
        assert next_tokens(history) == {END}
        assert next_tokens(show(history, 7, *b"4x")) == {END}
        assert next_tokens(show(history, 7, *b"4")) == set(b"0123456789;")
        assert not history.is_refused

    def test_a_mask_is_checked_behind_a_refused_draft_too(self) -> None:
        history = show(show(History(digits()), 7), 7, ord("x"))
        with pytest.raises(ConstraintError, match="make it with new_mask"):
            history.mask(new_mask(SIZE + 32))

    def test_another_generation_needs_another_constraint(self) -> None:
        history = show(History(digits()), 7, 8)
        with pytest.raises(ConstraintError, match="one generation"):
            show(history, 7)

    def test_a_step_reads_no_more_the_longer_the_history_is(self) -> None:
        shown = Shown([7])
        history = History(digits())
        history.sync(1, shown.read)
        counts = []
        for _ in range(2000):
            shown.tokens.append(ord("1"))
            shown.count = 0
            history.sync(len(shown.tokens), shown.read)
            counts.append(shown.count)
        assert max(counts) == counts[-1] == 65

    @given(st.lists(st.lists(st.sampled_from(b"12;x"), max_size=6), max_size=8), st.sampled_from([1, 3, None]))
    def test_any_sequence_of_histories_ends_as_the_last_one_alone(
        self, shown: list[list[int]], verify: int | None
    ) -> None:
        # Ones and twos take turns, so a token that was not taken back shows in what may follow. The last letter
        # is never repeated, so no comparison is too short.
        grammar = regex("[;d-l]*(1[;d-l]*2[;d-l]*)*(1[;d-l]*)?")
        shown = [[*tokens, 100 + number] for number, tokens in enumerate(shown)]
        history = show(History(LLGuidanceConstraint(grammar, LETTERS), verify=verify), 7)
        for tokens in shown:
            show(history, 7, *tokens)
            fresh = show(History(LLGuidanceConstraint(grammar, LETTERS)), 7)
            show(fresh, 7, *tokens)
            assert (history.is_refused, next_tokens(history)) == (fresh.is_refused, next_tokens(fresh))


class TestArrays:
    def mask(self, *tokens: int, size: int = 40) -> Any:
        mask = new_mask(size)
        allow_only(mask, tokens)
        return mask

    def test_logits_of_forbidden_tokens_and_of_padding_become_minus_infinity(self) -> None:
        logits = np.arange(80, dtype=np.float32)
        apply_mask(logits, self.mask(3, 39))
        assert np.flatnonzero(np.isfinite(logits)).tolist() == [3, 39]
        assert logits[39] == 39

    def test_a_model_may_have_fewer_outputs_than_the_mask_bits(self) -> None:
        logits = np.zeros(5, np.float32)
        apply_mask(logits, self.mask(3, 39))
        assert np.flatnonzero(np.isfinite(logits)).tolist() == [3]

    @pytest.mark.parametrize("mask", [[0, 0], np.zeros(2, np.uint8), np.zeros((2, 2), np.int32)])
    def test_what_is_no_mask_is_refused(self, mask: Any) -> None:
        with pytest.raises(ConstraintError, match=r"The mask must be one row of 32-bit words \(int32\), not "):
            apply_mask(np.zeros(40, np.float32), mask)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_numpy_in_place(self, dtype: Any) -> None:
        logits = np.zeros((2, 40), dtype)
        assert masked(logits, [self.mask(1), None]) is logits
        assert np.isfinite(logits).sum(axis=1).tolist() == [1, 40]
        single = np.zeros(40, dtype)
        masked(single, [self.mask(1)])
        assert np.flatnonzero(np.isfinite(single)).tolist() == [1]

    @pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
    def test_mlx(self, dtype: Any) -> None:
        found = masked(mx.zeros((2, 48), dtype), [self.mask(1, 2), None])
        assert found.dtype == dtype
        assert mx.isfinite(found).sum(axis=1).tolist() == [2, 48]
        single = masked(mx.zeros(48, dtype), [self.mask(1)])
        assert single.shape == (48,)
        assert int(single.argmax()) == 1

    def test_nothing_is_copied_where_everything_is_allowed(self) -> None:
        logits = mx.zeros((1, 40))
        assert masked(logits, [None]) is logits

    def test_other_kinds_are_refused(self) -> None:
        with pytest.raises(TypeError, match="NumPy, PyTorch or MLX, not list"):
            masked([0.0] * 40, [self.mask(1)])

    def test_rows_and_ids_of_any_library(self) -> None:
        for make in (np.array, mx.array):
            assert len(rows(make([1, 2, 3]))) == 1
            assert [read(row, 1, 3) for row in rows(make([[1, 2, 3], [4, 5, 6]]))] == [[2, 3], [5, 6]]
        assert read(rows([1, 2, 3])[0], 0, 2) == [1, 2]

    def test_no_array_library_is_loaded_that_is_not_in_use(self) -> None:
        script = (
            "import sys, numpy; from unspool.constrained import ThinkingAwareLogitsProcessor as T;"
            "T([1], [2], 0, vocab_size=9, opened=True)(numpy.array([5]), numpy.zeros((1, 9), numpy.float32));"
            "print(sorted({'mlx', 'torch', 'transformers', 'llguidance', 'jsonschema'} & set(sys.modules)))"
        )
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "[]"


def generate(processor: Any, prompt: Sequence[int], wanted: Sequence[int], make: Any = np.array) -> list[int]:
    """What a model writes that wants these tokens, one after the other, or else takes the lowest id."""
    tokens = list(prompt)
    for want in wanted:
        logits = np.linspace(1, 0, SIZE, dtype=np.float32)[None]
        logits[0, want] = 2
        out = processor(make(tokens), logits if make is np.array else make(logits))
        tokens.append(int(out.argmax()))
    return tokens[len(prompt) :]


class TestProcessors:
    @pytest.mark.parametrize("make", [np.array, mx.array])
    def test_a_schema(self, make: Any) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        processor = JSONSchemaLogitsProcessor(schema, LETTERS)
        assert (processor.schema, processor.vocab_size, processor.grammar.warnings) == (schema, SIZE, ())
        written = generate(processor, [50, 51], [*b'{"a": 1}', ord("x")], make)
        assert written == [*b'{"a": 1}', END]

    def test_any_object(self) -> None:
        assert generate(JSONSchemaLogitsProcessor(None, LETTERS), [50], [*b"[1}"])[0] == ord("{")

    def test_a_schema_that_can_not_be_enforced(self) -> None:
        schema = {"type": "array", "uniqueItems": True}
        with pytest.raises(SchemaError, match="'uniqueItems'"):
            JSONSchemaLogitsProcessor(schema, LETTERS)
        assert len(JSONSchemaLogitsProcessor(schema, LETTERS, strict=False).grammar.warnings) == 1

    @pytest.mark.parametrize("make", [np.array, mx.array])
    def test_reasoning_under_a_budget_and_then_an_answer(self, make: Any) -> None:
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 2, digits())
        wanted = [THINK, *b"abc", ord("4"), THINK, ord("5"), ord(";"), THINK]
        assert generate(processor, [50], wanted, make) == [THINK, *b"ab", END_THINK, *b"4", ord("0"), *b"5;", END]
        assert (processor.state, processor.thinking_tokens, processor.is_retired) == (Phase.CONTENT, 2, False)

    def test_the_prompt_sets_the_state_and_never_counts(self) -> None:
        prompt = [*b"old", THINK, END_THINK, 60, THINK, *range(61, 90)]
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 3, vocab_size=SIZE, turn_openers=[(60,)])
        assert generate(processor, prompt, b"abcd") == [*b"abc", END_THINK]
        assert (processor.thinking_tokens, processor.is_retired) == (3, False)
        processor(np.array([*prompt, *b"abc", END_THINK]), np.zeros((1, SIZE), np.float32))
        assert processor.is_retired

    def test_an_old_end_marker_in_the_prompt_is_not_content(self) -> None:
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 3, vocab_size=SIZE, turn_openers=[(60,)])
        processor(np.array([THINK, END_THINK, 60]), np.zeros((1, SIZE), np.float32))
        assert processor.state is Phase.IDLE

    def test_a_host_that_shows_only_the_end_of_a_prompt_needs_the_prompt(self) -> None:
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 1, vocab_size=SIZE, prompt=[60, THINK, 13])
        assert generate(processor, [13], b"ab", mx.array) == [ord("a"), END_THINK]

    def test_a_prompt_may_be_an_array(self) -> None:
        for make in (np.array, mx.array):
            prompt: Any = make([60, THINK])
            processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 1, vocab_size=SIZE, prompt=prompt)
            assert processor.state is Phase.THINKING

    def test_a_batch_that_is_refused_does_not_stand_for_the_prompt(self) -> None:
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 3, vocab_size=SIZE)
        with pytest.raises(ConstraintError, match="2 rows of tokens for 1 constraints"):
            processor(np.array([[1, 2], [1, 2]]), np.zeros((2, SIZE), np.float32))
        processor(np.array([1, THINK]), np.zeros((1, SIZE), np.float32))
        assert processor.state is Phase.THINKING

    def test_drafts_that_are_taken_back(self) -> None:
        processor = ThinkingAwareLogitsProcessor([THINK], [END_THINK], 4, digits())

        def step(*tokens: int) -> set[int]:
            out = processor(np.array([50, *tokens]), np.zeros((1, SIZE), np.float32))
            return set(np.flatnonzero(np.isfinite(out[0])).tolist())

        first = step()
        thinking = step(THINK, ord("a"))
        content = step(THINK, ord("a"), END_THINK)
        assert content == set(b"0123456789")
        assert step(THINK, ord("a"), END_THINK, *b"42;") == {END}
        assert step(THINK, ord("a"), END_THINK, *b"4") == {*b"0123456789;"}
        assert step(THINK, ord("a"), END_THINK, *b"4x2") == {END}
        assert step(THINK, ord("a"), ord("b")) == thinking
        assert step(THINK, ord("a"), END_THINK) == content
        assert step() == first

    def test_one_constraint_for_each_row_of_a_batch(self) -> None:
        first, second = digits(), LLGuidanceConstraint(regex("ab"), LETTERS)
        processor = ConstraintLogitsProcessor(first, second)
        processor(np.array([[50, 51], [52, 53]]), np.zeros((2, SIZE), np.float32))
        logits = processor(np.array([[50, 51, ord("1")], [52, 53, ord("a")]]), np.zeros((2, SIZE), np.float32))
        assert set(np.flatnonzero(np.isfinite(logits[0]))) == set(b"0123456789;")
        assert set(np.flatnonzero(np.isfinite(logits[1]))) == {ord("b")}
        assert choices(second) == {ord("b")}
        with pytest.raises(ConstraintError, match="1 rows of tokens for 2 constraints"):
            processor(np.array([1]), np.zeros((1, SIZE), np.float32))
