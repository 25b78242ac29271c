"""Reasoning and content under one constraint: masks in every phase, composition, and random histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.constrained.bugs import BUGS
from tests.constrained.vocabularies import Letters, choices, takes
from unspool.constrained import (
    Constraint,
    ConstraintError,
    LLGuidanceConstraint,
    json_schema,
    lark,
    new_mask,
    regex,
)
from unspool.constrained.base import allowed
from unspool.constrained.boundary import BoundaryTracker, Phase
from unspool.constrained.thinking import ThinkingConstraint

LETTERS = Letters(special=["<think>", "</think>", "<tool_call>", "<|end|>"], end=["<|end|>"])
THINK, END_THINK, TOOL, END = sorted(LETTERS.special)
ALL = set(range(LETTERS.size))
OPENER, CLOSER = tuple(b"<t>"), tuple(b"</t>")


def digits() -> LLGuidanceConstraint:
    return LLGuidanceConstraint(regex("[0-9]+;"), LETTERS)


def single(inner: Constraint | None = None, **options: Any) -> ThinkingConstraint:
    """Markers of one token each."""
    tracker = BoundaryTracker([THINK], [END_THINK], **options)
    return ThinkingConstraint(tracker, inner, vocab_size=LETTERS.size)


def spelled(inner: Constraint | None = None, **options: Any) -> ThinkingConstraint:
    """Markers of several ordinary tokens."""
    return ThinkingConstraint(BoundaryTracker(OPENER, CLOSER, **options), inner, vocab_size=LETTERS.size)


class TestAlone:
    def test_without_a_grammar_only_markers_of_reasoning_are_kept_out_of_content(self) -> None:
        held = single()
        assert isinstance(held, Constraint)
        assert choices(held) == ALL - {END_THINK}
        assert takes(held, [THINK, *b"hm"]) == 3
        assert choices(held) == ALL
        assert takes(held, [END_THINK]) == 1
        assert choices(held) == ALL - {THINK, END_THINK}
        assert not held.accept(THINK)
        assert not held.is_stopped

    def test_a_mask_of_everything_says_so(self) -> None:
        held, mask = single(opened=True), new_mask(LETTERS.size)
        assert held.mask(mask) is False
        assert allowed(mask, LETTERS.size).all()
        held.accept(END_THINK)
        assert held.mask(mask) is True

    def test_the_budget_forces_the_end(self) -> None:
        held = single(budget=2)
        assert takes(held, [THINK, *b"ab"]) == 3
        assert choices(held) == {END_THINK}
        assert not held.accept(ord("c"))
        assert takes(held, [END_THINK, ord("c")]) == 2

    def test_of_a_marker_of_several_tokens_only_what_would_complete_it_is_kept_out(self) -> None:
        held = spelled(opened=True)
        assert takes(held, CLOSER) == len(CLOSER)
        assert choices(held) == ALL
        assert takes(held, b"<t") == 2
        assert choices(held) == ALL - {ord(">")}
        assert takes(held, b"x</t") == 4
        assert choices(held) == ALL - {ord(">")}
        held.rollback(1)
        assert choices(held) == ALL

    def test_content_before_the_end_of_reasoning_completes_no_marker(self) -> None:
        # ">" ends the reasoning; with the letters before it, it is no part of a marker in content.
        held = ThinkingConstraint(BoundaryTracker(b">x", b"/>", opened=True), vocab_size=LETTERS.size)
        assert takes(held, b"a/>") == 3
        assert choices(held) == ALL
        assert takes(held, b">") == 1
        assert choices(held) == ALL - {ord("x")}

    def test_half_an_opener_that_was_content_completes_no_end_marker_either(self) -> None:
        held = ThinkingConstraint(BoundaryTracker(b"<a>", b"<b>"), vocab_size=LETTERS.size)
        assert takes(held, b"<b") == 2
        assert choices(held) == ALL - {ord(">")}
        half = ThinkingConstraint(BoundaryTracker(b"<a>", b"<b"), vocab_size=LETTERS.size)
        assert takes(half, b"<") == 1
        assert choices(half) == ALL - {ord("b")}

    def test_sizes_and_markers_are_checked(self) -> None:
        tracker = BoundaryTracker([1], [2])
        with pytest.raises(ValueError, match="vocab_size is needed"):
            ThinkingConstraint(tracker)
        with pytest.raises(ValueError, match=r"covers must be one of .* not 'all'"):
            ThinkingConstraint(tracker, vocab_size=10, covers="all")  # type: ignore[arg-type]
        for size in (0, -1, 10.0, "10"):
            with pytest.raises(ConstraintError, match=f"vocab_size must be a number of tokens, not {size!r}"):
                ThinkingConstraint(tracker, vocab_size=size)  # type: ignore[arg-type]
        with pytest.raises(ConstraintError, match=rf"vocab_size 10 contradicts the {LETTERS.size} tokens"):
            ThinkingConstraint(tracker, digits(), vocab_size=10)
        assert ThinkingConstraint(tracker, digits()).vocab_size == LETTERS.size

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"more_ends": [(9,)]}, "Marker token"),
            ({"implicit_ends": [9]}, "Implicit end"),
            ({"closing": [9]}, "Closing token"),
            ({"layout": [9]}, "Layout token"),
            ({"after": [9]}, "Token of framing"),
        ],
    )
    def test_ids_of_the_tracker_are_checked(self, options: dict[str, Any], what: str) -> None:
        with pytest.raises(ConstraintError, match=f"{what} 9 is not among the 9 tokens"):
            ThinkingConstraint(BoundaryTracker([1], [2], **options), vocab_size=9)

    @pytest.mark.parametrize("tokens", [[LETTERS.size], ["<|end|>"], 5])
    def test_end_tokens_are_checked(self, tokens: Any) -> None:
        with pytest.raises(ConstraintError, match=r"^End tokens? "):
            ThinkingConstraint(BoundaryTracker([1], [2]), digits(), end_tokens=tokens)

    def test_the_mask_is_checked(self) -> None:
        with pytest.raises(ConstraintError, match="make it with new_mask"):
            single().mask(new_mask(LETTERS.size + 32))

    def test_a_vocabulary_of_markers_alone_can_go_on(self) -> None:
        held = ThinkingConstraint(BoundaryTracker([0], [1], opened=True), vocab_size=2)
        assert takes(held, [1, 0, 1]) == 3

    def test_without_a_grammar_a_whole_turn_is_held_to_the_budget_alone(self) -> None:
        tracker = BoundaryTracker([1], [2], budget=1, opened=True)
        held = ThinkingConstraint(tracker, vocab_size=5, covers="turn")
        assert choices(held) == {0, 1, 2, 3, 4}
        assert held.accept(0)
        assert choices(held) == {2}
        assert not held.accept(0)
        assert held.accept(2)
        # Markers may come again: they are not only those of reasoning.
        assert choices(held) == {0, 1, 2, 3, 4}
        assert held.accept(1)
        assert not held.is_stopped

    @pytest.mark.parametrize("token", [-1, LETTERS.size])
    def test_ids_that_are_no_token_are_refused(self, token: int) -> None:
        assert not single().accept(token)


class TestComposed:
    def test_reasoning_is_free_and_the_content_is_held(self) -> None:
        held = single(digits())
        assert takes(held, [THINK, *b"So: 4?", END_THINK, *b"42;", END]) == 12
        assert held.is_stopped

    def test_a_model_that_skips_reasoning_is_held_from_the_first_token(self) -> None:
        held = single(digits())
        assert choices(held) == {*b"0123456789", THINK}
        assert not held.accept(ord("x"))
        assert takes(held, b"4") == 1
        assert choices(held) == set(b"0123456789;")

    def test_half_an_opener_that_was_content_goes_to_the_grammar(self) -> None:
        held = spelled(LLGuidanceConstraint(regex("<(t;|u)"), LETTERS))
        assert takes(held, b"<") == 1
        assert choices(held) == {ord("t"), ord("u")}
        assert takes(held, b"t") == 1
        assert choices(held) == {ord(">"), ord(";")}
        assert takes(held, b";") == 1
        assert held.is_stopped
        held.rollback(1)
        assert takes(held, b">abc</t><u") == 10
        assert held.is_stopped

    def test_half_an_opener_that_can_not_be_content_has_to_go_on(self) -> None:
        held = spelled(digits())
        assert choices(held) == {*b"0123456789", ord("<")}
        assert takes(held, b"<") == 1
        assert choices(held) == {ord("t")}
        assert not held.accept(ord("4"))
        held.rollback(1)
        assert takes(held, b"4;") == 2

    def test_the_generation_can_not_end_in_reasoning_if_content_is_demanded(self) -> None:
        held = single(digits(), opened=True)
        assert choices(held) == ALL - {END}
        assert not held.accept(END)
        assert choices(single(opened=True)) == ALL

    def test_an_implicit_end_is_the_first_token_of_the_content(self) -> None:
        inner = LLGuidanceConstraint(lark(f'start: <[{TOOL}]> "x"'), LETTERS)
        held = single(inner, opened=True, implicit_ends=[TOOL])
        assert takes(held, [*b"so", TOOL, *b"x", END]) == 5

    def test_an_implicit_end_that_the_grammar_can_not_begin_with_is_kept_out(self) -> None:
        held = single(digits(), opened=True, implicit_ends=[TOOL])
        assert choices(held) == ALL - {END, TOOL}
        assert not held.accept(TOOL)

    def test_which_implicit_ends_are_kept_out_follows_the_grammar_back(self) -> None:
        held = single(items(), reopens=True, implicit_ends=[TOOL])
        assert takes(held, [*b"<", THINK]) == 2
        assert choices(held) == ALL - {END, TOOL}
        held.rollback(2)
        assert takes(held, [THINK]) == 1
        assert choices(held) == ALL - {END}

    def test_reasoning_that_opens_again_is_not_shown_to_the_grammar(self) -> None:
        held = single(digits(), reopens=True, budget=3)
        assert takes(held, [THINK, *b"a", END_THINK, *b"1", THINK, *b"bc"]) == 7
        assert choices(held) == {END_THINK}
        assert takes(held, [END_THINK, *b"2", THINK]) == 3
        assert choices(held) == {END_THINK}
        assert takes(held, [END_THINK, *b";"]) == 2
        assert choices(held) == {END}
        assert not held.accept(THINK)

    def test_layout_before_the_reasoning_is_not_content(self) -> None:
        held = single(digits(), layout=[ord("\n")])
        assert takes(held, [*b"\n\n", THINK, *b"x", END_THINK, *b"7;"]) == 7
        bare = single(digits(), layout=[ord("\n")])
        assert takes(bare, b"\n7;") == 3

    def test_framing_behind_the_reasoning_is_not_content(self) -> None:
        held = single(digits(), opened=True, after=[ord("\n")])
        assert takes(held, [*b"x", END_THINK, *b"\n\n"]) == 4
        assert choices(held) == set(b"0123456789")
        held.rollback(1)
        assert choices(held) == set(b"0123456789\n")
        assert takes(held, b"7") == 1
        assert choices(held) == set(b"0123456789;")

    @pytest.mark.parametrize(
        ("number", "start", "reasoning", "content"),
        [
            ("BUG-007", Phase.IDLE, "", '{"a": 4}'),
            ("BUG-066", Phase.CONTENT, "", '{"a": 1}'),
            ("BUG-067", Phase.THINKING, "Half of ten.\n", '{"answer":"5"}'),
        ],
    )
    def test_reported_answers_bind_from_where_the_prompt_leaves_reasoning(
        self, number: str, start: Phase, reasoning: str, content: str
    ) -> None:
        case = BUGS[number]
        request = case["input"]["request"]
        described = request["text"]["format"] if "text" in request else request["response_format"]["json_schema"]
        inner = LLGuidanceConstraint(json_schema(described["schema"]), LETTERS)
        held = single(inner, prompt=LETTERS.ids(case["input"]["prompt_tail"]), after=[ord("\n")])
        assert held.tracker.phase is start
        tokens = LETTERS.ids(case["input"]["raw"])
        assert takes(held, tokens) == len(tokens)
        assert held.is_stopped
        assert held.tracker.thinking_tokens == len(reasoning)
        assert held.tracker.content_length == len(content)

    def test_a_grammar_from_the_first_token_and_the_boundary_are_told_the_same(self) -> None:
        # The prompt opens reasoning, but the grammar leaves no room for any: who sets it says so.
        case = BUGS["BUG-065"]
        schema = case["input"]["request"]["response_format"]["json_schema"]["schema"]
        inner = LLGuidanceConstraint(json_schema(schema), LETTERS)
        held = single(inner, prompt=LETTERS.ids(case["input"]["prompt_tail"]), opened=False)
        tokens = LETTERS.ids(case["input"]["raw"])
        assert held.tracker.phase is Phase.IDLE
        assert takes(held, tokens) == len(tokens)
        assert held.is_stopped
        assert held.tracker.content_length == len(case["expected"]["content"])
        assert held.tracker.thinking_tokens == 0

    def test_the_grammar_sees_reasoning_end_in_the_prompt(self) -> None:
        held = single(digits(), prompt=[THINK, *b"\n\n", END_THINK])
        assert choices(held) == set(b"0123456789")

    def test_rolling_back_inside_content_keeps_the_grammar_in_step(self) -> None:
        held = single(digits())
        tokens = [THINK, *b"a", END_THINK, *b"12;"]
        masks = []
        for token in tokens:
            masks.append(choices(held))
            held.accept(token)
        for count in range(1, len(tokens) + 1):
            held.rollback(1)
            assert choices(held) == masks[-count]

    def test_a_rewrite_of_the_same_length_changes_the_masks(self) -> None:
        held = single(digits())
        assert takes(held, [THINK, *b"ab", END_THINK]) == 4
        held.rollback(2)
        assert takes(held, b"bc") == 2
        assert held.tracker.phase is Phase.THINKING
        assert choices(held) == ALL - {END}

    @pytest.mark.parametrize("reopens", [False, True])
    def test_content_that_has_to_be_a_marker_is_content(self, reopens: bool) -> None:
        held = spelled(LLGuidanceConstraint(json_schema({"enum": ["<t>", "</t>"]}), LETTERS), opened=False)
        assert takes(held, b'"<t') == 3
        assert choices(held) == {ord(">")}
        assert takes(held, [*b'>"', END]) == 3
        named = single(LLGuidanceConstraint(lark(f'start: "a" <[{END_THINK}]> "b"'), LETTERS), reopens=reopens)
        assert takes(named, b"a") == 1
        assert choices(named) == ({END_THINK, THINK} if reopens else {END_THINK})
        assert takes(named, [END_THINK, *b"b", END]) == 3

    def test_a_marker_is_kept_out_of_content_that_can_go_on_without(self) -> None:
        held = spelled(LLGuidanceConstraint(json_schema({"enum": ["<t>", "<tx"]}), LETTERS))
        assert takes(held, b'"<t') == 3
        assert choices(held) == {ord("x")}
        assert not held.accept(ord(">"))

    def test_a_grammar_that_has_to_be_read_again_can_be_composed(self) -> None:
        short = LLGuidanceConstraint(lark(f'start: (x | <[{TOOL}]>) "b"\nx[max_tokens=3]: /[<a]+/'), LETTERS)
        held = spelled(short, implicit_ends=[TOOL])
        assert takes(held, b"<") == 1
        assert choices(held) == {*b"<abt"}
        assert takes(held, b"t>x") == 3
        assert choices(held) == ALL - {END}
        held.rollback(3)
        assert takes(held, b"a<b") == 3
        assert held.is_stopped

    def test_a_limit_that_is_met_changes_nothing(self) -> None:
        many = {"type": "object", "properties": {f"p{number}": {"type": "integer"} for number in range(900)}}
        schema = {"type": "object", "properties": {"a": many}, "required": ["a"]}
        held = single(LLGuidanceConstraint(json_schema(schema), LETTERS, max_rows=2000))
        assert takes(held, [THINK, END_THINK, *b'{"a":']) == 7
        before = choices(held)
        with pytest.raises(ConstraintError, match="can't go on here"):
            held.accept(ord("{"))
        assert (held.is_stopped, held.tracker.length) == (False, 7)
        assert choices(held) == before
        held.rollback(5)
        assert takes(held, b'{"a":') == 5

    def test_a_schema_after_reasoning(self) -> None:
        held = single(LLGuidanceConstraint(json_schema({"type": "object"}), LETTERS), opened=True, budget=4)
        assert takes(held, [*b"{{{{", END_THINK, *b'{"a": 1}', END]) == 14


class TestWholeTurns:
    """The grammar names the markers; the tracker has only the budget."""

    GRAMMAR = lark(f'start: <[{THINK}]> /(.|\\n)*/ <[{END_THINK}]> "4" ";"?')

    def turn(self, **options: Any) -> ThinkingConstraint:
        tracker = BoundaryTracker([THINK], [END_THINK], **options)
        return ThinkingConstraint(tracker, LLGuidanceConstraint(self.GRAMMAR, LETTERS), covers="turn")

    def test_the_grammar_decides_about_markers(self) -> None:
        held = self.turn()
        assert choices(held) == {THINK}
        assert takes(held, [THINK, *b"hm"]) == 3
        assert END_THINK in choices(held)
        assert not choices(held) & {THINK, TOOL, END}
        assert takes(held, [END_THINK, *b"4", END]) == 3
        assert held.is_stopped

    def test_the_budget_forces_what_the_grammar_allows(self) -> None:
        held = self.turn(budget=2)
        assert takes(held, [THINK, *b"hm"]) == 3
        assert choices(held) == {END_THINK}
        assert not held.accept(ord("x"))
        held.rollback(1)
        assert len(choices(held)) > 1

    def test_a_forced_end_waits_for_the_end_of_a_character(self) -> None:
        held = self.turn(budget=1)
        first, *rest = "é".encode()
        assert takes(held, [THINK, first]) == 2
        assert choices(held) == set(range(0x80, 0xC0))
        assert takes(held, rest) == 1
        assert choices(held) == {END_THINK}


def plain() -> Constraint:
    return LLGuidanceConstraint(json_schema({"type": "array", "items": {"enum": [1, "<t>", None]}}), LETTERS)


def items() -> LLGuidanceConstraint:
    return LLGuidanceConstraint(lark(f'start: (/<?[tu]/ | <[{TOOL}]> "x")+'), LETTERS)


def read_again() -> Constraint:
    text = f'start: (x ";" | <[{TOOL}]>)+\nx[max_tokens=2]: /[<t1]+/'
    return LLGuidanceConstraint(lark(text), LETTERS)


def markers() -> Constraint:
    """Content that has to spell markers, by letters and by id."""
    text = f'start: ("<t>" | "</t>" | "<1") (<[{END_THINK}]> | <[{THINK}]> | /[1<]/)'
    return LLGuidanceConstraint(lark(text), LETTERS)


KINDS: dict[str, Callable[[], Constraint]] = {
    "plain": plain,
    "plain, read again": read_again,
    "composed, read again": lambda: spelled(read_again(), budget=2, implicit_ends=[TOOL]),
    "composed, spells markers": lambda: spelled(markers(), budget=2),
    "composed, names markers": lambda: single(markers(), budget=2, reopens=True),
    "thinking, one token": lambda: single(budget=3),
    "thinking, several tokens": lambda: spelled(budget=4, closing=b"ok"),
    "composed, one token": lambda: single(digits(), budget=3, layout=[ord("\n")]),
    "composed, several tokens": lambda: spelled(items(), budget=4, implicit_ends=[TOOL], after=b"t"),
    "composed, opens again": lambda: single(items(), budget=3, reopens=True, implicit_ends=[TOOL], after=b"n"),
    "composed, in the prompt": lambda: spelled(items(), prompt=OPENER[:2], more_ends=[b"//"]),
    "composed, required": lambda: spelled(digits(), required=True, budget=2),
    "whole turn": lambda: TestWholeTurns().turn(budget=2),
}
LIKELY = [*OPENER, *CLOSER, *b'[]", 1tuxnul;4', THINK, END_THINK, TOOL, END]


class TestRandomHistories:
    @pytest.mark.parametrize("kind", KINDS)
    @given(data=st.data())
    def test_masks_are_those_of_a_fresh_run(self, kind: str, data: st.DataObject) -> None:
        held, kept = KINDS[kind](), list[int]()
        for _ in range(data.draw(st.integers(1, 14))):
            back = data.draw(st.integers(0, len(kept))) if data.draw(st.integers(0, 3)) == 0 else 0
            held.rollback(back)
            del kept[len(kept) - back :]
            for _ in range(back or 1):  # as many again: a rewrite of the same length
                permitted = choices(held)
                if data.draw(st.booleans()) and permitted:
                    token = data.draw(st.sampled_from(sorted(permitted & set(LIKELY)) or sorted(permitted)))
                else:
                    token = data.draw(st.sampled_from(LIKELY))
                if held.accept(token):
                    kept.append(token)
                else:
                    assert token not in permitted
                    assert choices(held) == permitted
            fresh = KINDS[kind]()
            assert all(fresh.accept(token) for token in kept)
            assert choices(held) == choices(fresh) != set()
            assert held.is_stopped == fresh.is_stopped
