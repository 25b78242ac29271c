"""Grammars as constraints: masks, clean rejection, exact rollback, ends, markers, limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from mistral_common.tokens.tokenizers import tekken
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from tests.constrained.vocabularies import Letters, byte_level, choices, sentence_piece, takes
from unspool.constrained import (
    Constraint,
    ConstraintError,
    Grammar,
    GrammarError,
    LLGuidanceConstraint,
    choice,
    ebnf,
    json_schema,
    lark,
    new_mask,
    regex,
)
from unspool.constrained.base import allow, allow_only, allowed, allows, forbid, mask_words
from unspool.constrained.vocabulary import vocabulary_of

LETTERS = Letters(
    words=["ab", "abc", "the", '{"', '":'],
    special=["<think>", "</think>", "<tool_call>", "<|call|>", "<|end|>"],
    end=["<|end|>", "<|call|>"],
)
THINK, END_THINK, TOOL, CALL, END = sorted(LETTERS.special)


def token(text: str) -> int:
    """The id of a token of the byte-level vocabulary."""
    found = byte_level().token_to_id(text)
    assert found is not None
    return found


def constraint(grammar: Grammar, tokenizer: Any = LETTERS, **options: Any) -> LLGuidanceConstraint:
    return LLGuidanceConstraint(grammar, tokenizer, **options)


class TestMasks:
    def test_a_mask_has_a_spare_bit_behind_the_vocabulary(self) -> None:
        assert [mask_words(size) for size in (31, 32, 33, 64)] == [1, 2, 2, 3]
        for size in (31, 32, 33, 64):
            assert allowed(new_mask(size), size + 1).tolist() == [True] * size + [False]

    def test_single_bits(self) -> None:
        mask = new_mask(70)
        forbid(mask, [31, 32, 69])
        assert [allows(mask, token) for token in (30, 31, 32, 33, 69)] == [True, False, False, True, False]
        allow(mask, [31])
        assert allows(mask, 31)
        allow_only(mask, [31, 63])
        assert np.flatnonzero(allowed(mask, 96)).tolist() == [31, 63]

    def test_ids_behind_the_mask_are_not_allowed(self) -> None:
        assert allowed(new_mask(31), 40).tolist() == [True] * 31 + [False] * 9


class TestGrammars:
    def test_mask_and_accept_follow_the_grammar(self) -> None:
        held = constraint(lark('start: "abc" | "the"'))
        assert isinstance(held, Constraint)
        assert choices(held) == {ord("a"), ord("t"), 256, 257, 258}
        assert held.accept(256)
        assert choices(held) == {ord("c")}

    def test_a_forced_text_is_offered_as_the_tokenizer_writes_it_and_accepted_in_any_spelling(self) -> None:
        held = constraint(lark('start: "abc"'), byte_level(), end_tokens=[])
        canonical = vocabulary_of(byte_level()).encode(b"abc")
        assert choices(held) == {canonical[0]}
        assert held.accept(token("a"))

    def test_a_refused_token_changes_nothing(self) -> None:
        held = constraint(lark('start: "abc"'))
        held.accept(ord("a"))
        before = choices(held)
        for token in (ord("x"), END, THINK, LETTERS.size, LETTERS.size + 1, -1, 10**9):
            assert not held.accept(token)
            assert choices(held) == before
        assert takes(held, LETTERS.ids("bc")) == 2

    def test_a_token_that_somebody_put_into_the_mask_is_refused_and_changes_nothing(self) -> None:
        held, mask = constraint(regex("[ab]+")), new_mask(LETTERS.size)
        for text in "abba":
            held.mask(mask)
            expected = mask.copy()
            mask[:] = -1
            assert not held.accept(LETTERS.ids("c")[0])
            held.mask(mask)
            assert mask.tolist() == expected.tolist()
            assert held.accept(LETTERS.ids(text)[0])
        held.rollback(4)
        assert takes(held, LETTERS.ids("bc")) == 1

    def test_two_constraints_may_share_a_mask(self) -> None:
        one, other, mask = constraint(regex("a+")), constraint(regex("b+")), new_mask(LETTERS.size)
        a, b = LETTERS.ids("a")[0], LETTERS.ids("b")[0]
        for _ in range(3):
            one.mask(mask)
            other.mask(mask)
            assert one.accept(a)
            assert not one.accept(b)
            assert other.accept(b)
            assert not other.accept(a)

    def test_regular_expressions(self) -> None:
        assert takes(constraint(regex("[a-c]+x")), LETTERS.ids("abcx")) == 2
        assert takes(constraint(regex("[a-c]+x")), LETTERS.ids("abd")) == 1
        with pytest.raises(GrammarError, match=r"(?s)regular expression can.t be used: .*unclosed group"):
            regex("(a")

    @pytest.mark.parametrize(
        "text",
        ["plain", 'quo"te', "back\\slash", "two\nlines", "Größe 🙂", "<think>", "/x/", "\x00\x08\x7f\x80\u2028"],
    )
    def test_choices_are_taken_to_the_letter(self, text: str) -> None:
        held = constraint(choice([text, "other"]))
        assert takes(held, [*text.encode(), END]) == len(text.encode()) + 1

    def test_a_choice_needs_texts(self) -> None:
        for options in ([], ["a", ""]):
            with pytest.raises(GrammarError, match="at least one text"):
                choice(options)

    @pytest.mark.parametrize(
        ("make", "what"),
        [(regex, "regular expression"), (lark, "Lark grammar"), (ebnf, "EBNF grammar"), (choice, "choice")],
    )
    def test_text_that_is_no_unicode_is_an_error(self, make: Any, what: str) -> None:
        text = 'start: "\ud800"'
        with pytest.raises(GrammarError, match=rf"The {what} can't be used: .*\\ud800.* lone surrogate"):
            make([text] if make is choice else text)

    def test_ebnf(self) -> None:
        held = constraint(ebnf('root ::= "a" item+\nitem ::= [b-d] | "<think>"'))
        assert takes(held, [*b"abd", END]) == 4
        assert takes(constraint(ebnf('root ::= "a" item+\nitem ::= [b-d]')), [*b"ae"]) == 1
        with pytest.raises(GrammarError, match="EBNF"):
            ebnf('root ::= "a')

    def test_a_panic_of_llguidance_is_told_without_its_stack(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Panicking:
            def __init__(self, *arguments: Any, **options: Any) -> None: ...

            def is_error(self) -> bool:
                return True

            def get_error(self) -> str:
                return "panic: assertion failed\n<backtrace>\n   0: <unknown>\n"

        grammar = regex("a")
        monkeypatch.setattr("llguidance.LLMatcher", Panicking)
        with pytest.raises(GrammarError, match=r"^The grammar can't be compiled: panic: assertion failed$"):
            LLGuidanceConstraint(grammar, Letters())

    def test_a_wrong_grammar_names_its_place(self) -> None:
        with pytest.raises(GrammarError, match=r"(?s)Lark grammar can.t be used: .*nothing"):
            lark("start: nothing")

    @pytest.mark.parametrize(
        ("mask", "found"),
        [
            (new_mask(LETTERS.size + 32), "10 words"),
            (new_mask(LETTERS.size - 32), "8 words"),
            (new_mask(LETTERS.size).view(np.uint32), r"uint32 of shape \(9,\)"),
            (np.zeros(9, np.uint8), r"uint8 of shape \(9,\)"),
            (np.zeros((1, 9), np.int32), r"int32 of shape \(1, 9\)"),
            (np.zeros(18, np.int32)[::2], "words with gaps between them"),
            (np.frombuffer(bytes(36), np.int32), "one that can't be written"),
            ([0] * 9, "a list"),
        ],
    )
    @pytest.mark.parametrize("ended", [False, True])
    def test_what_is_no_mask_of_this_vocabulary_is_refused(self, mask: Any, found: str, ended: bool) -> None:
        held = constraint(lark('start: "a"'))
        assert takes(held, [*b"a", END] if ended else []) == 2 * ended
        with pytest.raises(ConstraintError, match=rf"one row of 9 words \(int32\), not {found}; make it with"):
            held.mask(mask)
        assert choices(held) == ({END, CALL} if ended else {ord("a")})

    @pytest.mark.parametrize("words", [30, 31])
    def test_the_spare_bit_is_0_wherever_it_stands(self, words: int) -> None:
        letters = Letters(words=[f"w{n}" for n in range(words)], special=["<|end|>"], end=["<|end|>"])
        assert letters.size % 32 == (words + 1) % 32
        held = constraint(lark('start: "a"?'), letters)
        mask = new_mask(letters.size)
        held.mask(mask)
        assert np.flatnonzero(allowed(mask, mask.size * 32)).tolist() == [ord("a"), letters.size - 1]

    def test_a_mask_in_use_stays_right_over_the_end(self) -> None:
        held = constraint(lark('start: "a"?'))
        mask = new_mask(LETTERS.size)
        for token, allowed_then in ((None, {ord("a"), END, CALL}), (END, {END, CALL}), (END, {END, CALL})):
            assert token is None or held.accept(token)
            held.mask(mask)
            assert set(np.flatnonzero(allowed(mask, mask.size * 32)).tolist()) == allowed_then
        held.rollback(2)
        held.mask(mask)
        assert set(np.flatnonzero(allowed(mask, mask.size * 32)).tolist()) == {ord("a"), END, CALL}

    def test_the_mask_may_be_a_row_of_a_batch(self) -> None:
        held = constraint(lark('start: "a"'))
        rows = np.stack([new_mask(LETTERS.size)] * 2)
        held.mask(rows[1])
        assert np.flatnonzero(allowed(rows[1], 300)).tolist() == [ord("a")]
        assert allowed(rows[0], LETTERS.size).all()


class TestEnds:
    def test_end_tokens_are_allowed_where_the_text_is_complete(self) -> None:
        held = constraint(lark('start: "a" "b"?'))
        assert (held.may_end, held.is_stopped) == (False, False)
        assert not held.accept(END)
        held.accept(ord("a"))
        assert (held.may_end, held.is_stopped) == (True, False)
        assert choices(held) == {ord("b"), END, CALL}
        held.accept(ord("b"))
        assert (held.may_end, held.is_stopped) == (True, True)
        assert choices(held) == {END, CALL}

    def test_behind_an_end_token_there_is_no_text(self) -> None:
        held = constraint(lark('start: "a" "b"?'))
        assert takes(held, [ord("a"), END]) == 2
        assert held.is_stopped
        assert choices(held) == {END, CALL}
        assert not held.accept(ord("b"))
        held.rollback(1)
        assert takes(held, [ord("b"), END, END]) == 3

    def test_a_grammar_may_name_a_token_that_ends_generations(self) -> None:
        held = constraint(lark(f'start: "a" <[{CALL}]> "b"'))
        held.accept(ord("a"))
        assert choices(held) == {CALL}
        assert takes(held, [CALL, ord("b")]) == 2
        assert choices(held) == {CALL, END}

    def test_without_end_tokens_a_complete_text_allows_nothing(self) -> None:
        held = constraint(lark('start: "a"'), end_tokens=[])
        held.accept(ord("a"))
        assert held.is_stopped
        assert choices(held) == set()

    @pytest.mark.parametrize(
        ("tokens", "message"),
        [
            ([99999], r"End token 99999 is not among the \d+ tokens"),
            ([-1], r"End token -1 is not among the \d+ tokens"),
            (["<|end|>"], r"End token '<\|end\|>' is no id: that is an integer from 0 to \d+"),
            ([2.0], r"End token 2.0 is no id"),
            (7, "End tokens must be given as several ids, not as 7"),
        ],
    )
    def test_an_end_token_must_be_one_of_the_vocabulary(self, tokens: Any, message: str) -> None:
        with pytest.raises(ConstraintError, match=message):
            constraint(lark('start: "a"'), end_tokens=tokens)

    def test_an_end_token_may_be_an_integer_of_numpy(self) -> None:
        assert constraint(lark('start: "a"'), end_tokens=np.array([END])).end_tokens == {END}


class TestMarkers:
    def test_added_tokens_are_reached_by_id_and_never_stand_for_text(self) -> None:
        held = constraint(lark(f"start: <[{THINK}]> /(.|\\n)*/ <[{END_THINK}]>"))
        assert choices(held) == {THINK}
        held.accept(THINK)
        assert not choices(held) & {THINK, TOOL, CALL, END}
        assert takes(held, [*b"<think> is a tag", END_THINK, END]) == 18

    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            ({"const": "<think>"}, '"<think>"'),
            ({"enum": ["<|end|>", "x"]}, '"<|end|>"'),
            (
                {
                    "type": "object",
                    "properties": {"<tool_call>": {"type": "integer"}},
                    "required": ["<tool_call>"],
                },
                '{"<tool_call>": 1}',
            ),
            ({"type": "string", "pattern": "^<think>$"}, '"<think>"'),
        ],
    )
    @pytest.mark.parametrize("name", ["letters", "byte level"])
    def test_a_schema_may_spell_one(self, schema: dict[str, Any], text: str, name: str) -> None:
        tokenizer, end = (LETTERS, END) if name == "letters" else (byte_level(), token("<|im_end|>"))
        tokens = vocabulary_of(tokenizer).encode(text.encode())
        held = constraint(json_schema(schema), tokenizer, end_tokens=[end])
        assert takes(held, [*tokens, end]) == len(tokens) + 1

    def test_markers_that_are_not_flagged_special_are_markers_and_newlines_are_text(self) -> None:
        vocabulary = vocabulary_of(byte_level())
        markers = {token(text) for text in ("<think>", "</tool_call>", "<|im_end|>")}
        assert markers <= vocabulary.special
        newlines = token("\n\n\n")
        assert newlines not in vocabulary.special
        assert newlines in choices(constraint(regex("\n+"), byte_level(), end_tokens=[]))


class TestRollback:
    def test_masks_after_a_rollback_are_those_of_a_fresh_run(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        tokens = [*LETTERS.ids('{"a": "x\\n", "b": 12}'), END, END]
        held = constraint(json_schema(schema))
        before = []
        for token in tokens:
            before.append(choices(held))
            assert held.accept(token)
        for length in reversed(range(len(tokens))):
            held.rollback(1)
            assert choices(held) == before[length]
        assert takes(held, tokens) == len(tokens)
        held.rollback(len(tokens))
        assert choices(held) == before[0]

    @pytest.mark.parametrize("count", [-1, 3])
    def test_more_than_there_is_can_not_be_rolled_back(self, count: int) -> None:
        held = constraint(lark("start: /a[bx]c/"))
        assert takes(held, [*b"ab"]) == 2
        with pytest.raises(ValueError, match="There are 2 tokens to roll back"):
            held.rollback(count)
        assert takes(held, [*b"c"]) == 1

    @pytest.mark.parametrize("attribute", ["max_tokens=3", 'stop="c"'])
    def test_where_llguidance_can_not_go_back_the_text_is_read_again(self, attribute: str) -> None:
        held = constraint(lark(f'start: x "b"\nx[{attribute}]: /a+/'))
        first = choices(held)
        assert takes(held, [*b"aa"]) == 2
        second = choices(held)
        held.rollback(1)
        assert takes(held, [*b"a"]) == 1
        assert choices(held) == second
        held.rollback(2)
        assert choices(held) == first


class TestLimits:
    def test_a_grammar_that_is_too_large_is_an_error_before_anything_is_generated(self) -> None:
        grammar = json_schema({"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(900)}})
        with pytest.raises(GrammarError, match=r"too large.*items; max is 2000"):
            constraint(grammar, max_rows=2000)
        assert takes(constraint(grammar), [*b'{"p17": 1}']) == 10

    def test_a_limit_that_is_met_later_is_an_error_too(self) -> None:
        many = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(900)}}
        schema = {"type": "object", "properties": {"a": many}, "required": ["a"]}
        held = constraint(json_schema(schema), max_rows=2000)
        assert takes(held, [*b'{"a":']) == 5
        with pytest.raises(ConstraintError, match=r"can't go on here.*items; max is 2000"):
            held.accept(ord("{"))
        with pytest.raises(ConstraintError, match="can't go on here"):
            held.mask(new_mask(held.vocab_size))
        assert (held.is_stopped, held.may_end) == (False, False)
        with pytest.raises(ValueError, match="There are 5 tokens to roll back"):
            held.rollback(6)
        held.rollback(1)
        assert choices(held) == {*b": \t\r\n"}
        held.rollback(4)
        assert takes(held, [*b'{"a":']) == 5

    def test_a_grammar_that_nothing_satisfies_is_an_error(self) -> None:
        with pytest.raises(GrammarError, match="satisf"):
            constraint(Grammar('{"grammars": [{"json_schema": {"$ref": "#"}}]}'))

    def test_a_grammar_without_any_text_is_an_error(self) -> None:
        with pytest.raises(GrammarError, match="satisf"):
            constraint(lark('start: X\nX: "a" & "b"'))

    def test_a_grammar_of_another_vocabulary_is_an_error(self) -> None:
        with pytest.raises(GrammarError, match="can't be compiled"):
            constraint(Grammar('{"grammars": [{"lark_grammar": "start: <[99999]>"}]}'))


class TestTokenizers:
    def test_tekken_of_mistral_common(self) -> None:
        path = Path(tekken.__file__).parents[2] / "data" / "tekken_240911.json"
        tokenizer = tekken.Tekkenizer.from_file(path)
        text = '{"name": "Zoë 🙂", "n": 3}'
        held = constraint(json_schema({"type": "object"}), tokenizer)
        tokens = tokenizer.encode(text, bos=False, eos=True)
        assert takes(held, tokens) == len(tokens)

    def test_a_fast_tokenizer_of_transformers(self) -> None:
        fast: Any = PreTrainedTokenizerFast
        tokenizer = fast(tokenizer_object=byte_level(), eos_token="<|im_end|>")
        held = constraint(json_schema({"type": "object"}), tokenizer)
        tokens = [*tokenizer.encode('{"city": "Größe"}'), tokenizer.eos_token_id]
        assert takes(held, tokens) == len(tokens)

    def test_pieces_with_bytes_as_fallback_and_a_space_put_before_every_text(self) -> None:
        tokenizer = sentence_piece()
        vocabulary = vocabulary_of(tokenizer)
        for text in ("a b", " a", "ab 北\n", "</s>"):
            ids = vocabulary.encode(text.encode())
            assert b"".join(vocabulary.tokens[i] for i in ids) == text.encode()
            assert vocabulary.special.isdisjoint(ids)
        (end,) = (token for token in vocabulary.special if vocabulary.tokens[token] == b"</s>")
        held = constraint(json_schema({"enum": ["a b", "北"]}), tokenizer, end_tokens=[end])
        tokens = [*vocabulary.encode('"北"'.encode()), end]
        assert takes(held, tokens) == len(tokens)

    def test_ids_join_to_the_text_even_where_the_tokenizer_changes_it(self) -> None:
        data = json.loads(byte_level().to_str())
        data["normalizer"] = {"type": "Lowercase"}
        vocabulary = vocabulary_of(Tokenizer.from_str(json.dumps(data)))
        for text in (b"the Weather", b"\xe5\x8c", "北京".encode()):
            assert b"".join(vocabulary.tokens[token] for token in vocabulary.encode(text)) == text

    def test_bytes_that_no_token_has_end_the_encoding(self) -> None:
        class Few(Letters):
            def __init__(self) -> None:
                super().__init__()
                self.size, self._pieces = 2, [b"a", b"bc"]

        assert vocabulary_of(Few()).encode(b"abcxa") == [0, 1]

    @pytest.mark.parametrize(
        ("attributes", "found"),
        [
            ({"eos_token_ids": {1, 2}}, {1, 2}),
            ({"eos_token_id": 7}, {7}),
            ({"eos_token_id": [7, 8]}, {7, 8}),
            ({"eos_token_id": None, "eos_id": 3}, {3}),
            ({"eog": frozenset(), "eos_token_id": 4}, {4}),
            ({}, set()),
        ],
    )
    def test_end_tokens_under_the_names_of_different_libraries(
        self, attributes: dict[str, Any], found: set[int]
    ) -> None:
        tokenizer = Letters()
        del tokenizer.eog
        vars(tokenizer).update(attributes)
        assert vocabulary_of(tokenizer).end_tokens == found

    def test_layout(self) -> None:
        assert LETTERS.ids(" \n\t\r") == sorted(vocabulary_of(LETTERS).layout, key=b" \n\t\r".find)

    def test_what_is_no_tokenizer_is_refused(self) -> None:
        class Decoder:
            special: ClassVar[dict[int, str]] = {}

            def decode(self, ids: list[int]) -> str:
                return ""

        with pytest.raises(ConstraintError, match="bytes of Decoder's tokens can't be told"):
            vocabulary_of(Decoder())

        class Pieces:
            def piece(self, token_id: int, /) -> bytes:
                return b""

        with pytest.raises(ConstraintError, match="cannot tell the special tokens of Pieces"):
            vocabulary_of(Pieces())

        class Endless(Letters):
            def __init__(self) -> None:
                super().__init__()
                del self.size

        with pytest.raises(ConstraintError, match="cannot tell the size of Endless"):
            vocabulary_of(Endless())


def test_a_pattern_with_an_escape_and_a_long_bound_can_be_built() -> None:
    grammar = json_schema({"type": "string", "pattern": r"^(?:[a-z]+\n)+$", "maxLength": 16_384})
    letters = Letters()
    assert takes(LLGuidanceConstraint(grammar, letters), letters.ids(r'"ab\nc\n"')) == 9
    assert takes(LLGuidanceConstraint(grammar, letters), letters.ids(r'"ab\n\n"')) == 5
