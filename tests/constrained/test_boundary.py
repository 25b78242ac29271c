"""The boundary tracker: phases, budget, prompt, rollback. Letters stand for tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.constrained.bugs import BUGS
from unspool.constrained.boundary import BoundaryTracker, Marker, Phase

IDLE, THINKING, TRANSITIONING, CONTENT = Phase
START, END = 1, 2


def tracker(start: Sequence[int] = (START,), end: Sequence[int] = (END,), **options: Any) -> BoundaryTracker:
    return BoundaryTracker(start, end, **options)


def fed(followed: BoundaryTracker, *tokens: int) -> BoundaryTracker:
    for token in tokens:
        followed.accept(token)
    return followed


def snapshot(followed: BoundaryTracker) -> tuple[object, ...]:
    """All that anybody can see of a tracker."""
    return (
        followed.phase,
        followed.thinking_tokens,
        followed.length,
        followed.content_length,
        followed.content_run,
        followed.pending,
        followed.padding,
        followed.opener,
        followed.forced,
    )


class TestPhases:
    def test_reasoning_then_content(self) -> None:
        followed = tracker()
        seen = [followed.phase]
        for token in (START, 10, 11, END, 12):
            followed.accept(token)
            seen.append(followed.phase)
        assert seen == [IDLE, THINKING, THINKING, THINKING, CONTENT, CONTENT]
        assert (followed.thinking_tokens, followed.content_length, followed.content_run) == (2, 1, 1)

    def test_a_model_that_skips_reasoning_is_in_content_at_once(self) -> None:
        followed = fed(tracker(), 10)
        assert (followed.phase, followed.content_length, followed.thinking_tokens) == (CONTENT, 1, 0)
        assert fed(followed, START, 11).phase is CONTENT

    def test_markers_of_several_tokens(self) -> None:
        followed = tracker((3, 4, 5), (6, 7))
        assert [(fed(followed, token).phase, followed.pending) for token in (3, 4, 5)] == [
            (IDLE, 1),
            (IDLE, 2),
            (THINKING, 0),
        ]
        assert [fed(followed, token).phase for token in (6, 8, 6, 7)] == [THINKING, THINKING, THINKING, CONTENT]
        assert followed.thinking_tokens == 2

    def test_a_start_marker_that_is_not_finished_was_content(self) -> None:
        followed = fed(tracker((3, 4, 5)), 3, 4)
        assert (followed.phase, followed.content_length, followed.pending) == (IDLE, 0, 2)
        followed.accept(9)
        assert (followed.phase, followed.content_length, followed.content_run) == (CONTENT, 3, 3)

    @pytest.mark.parametrize(
        ("end", "tokens"), [((6, 6, 7), (6, 6, 6, 7)), ((6, 7, 6, 8), (6, 7, 6, 7, 6, 8)), ((6, 6), (8, 6, 6))]
    )
    def test_end_markers_that_overlap_themselves(self, end: tuple[int, ...], tokens: tuple[int, ...]) -> None:
        followed = fed(tracker(end=end), START, *tokens)
        assert (followed.phase, followed.thinking_tokens) == (CONTENT, len(tokens) - len(end))

    def test_several_end_markers(self) -> None:
        followed = fed(tracker(end=(6, 7), more_ends=[(8,), (7, 7, 9)]), START, 10, 8)
        assert (followed.phase, followed.thinking_tokens) == (CONTENT, 1)
        followed = fed(tracker(end=(6, 7, 8), more_ends=[(7,)]), START, 10, 6, 7)
        assert (followed.phase, followed.thinking_tokens) == (CONTENT, 2)

    def test_a_token_that_ends_reasoning_and_is_content_itself(self) -> None:
        followed = fed(tracker(end=(6, 7), implicit_ends=[20]), START, 10, 6, 20)
        assert (followed.phase, followed.thinking_tokens, followed.content_length) == (CONTENT, 2, 1)
        assert followed.content_run == 1

    def test_layout_may_stand_before_the_start_marker(self) -> None:
        followed = fed(tracker(layout=[30]), 30, 30, START)
        assert (followed.phase, followed.content_length) == (THINKING, 0)
        followed = fed(tracker(layout=[30]), 30, 10)
        assert (followed.phase, followed.content_length) == (CONTENT, 1)

    def test_framing_may_follow_the_end_marker(self) -> None:
        followed = fed(tracker(after=[30]), START, END, 30)
        assert (followed.phase, followed.content_length, len(followed.padding)) == (CONTENT, 0, 1)
        assert (fed(followed, 30).content_run, len(followed.padding)) == (0, 0)
        assert (fed(followed, 30).content_length, followed.content_run) == (1, 1)
        followed.rollback(2)
        assert (fed(followed, 10, 30).content_length, len(followed.padding)) == (2, 0)

    def test_reasoning_may_be_required(self) -> None:
        followed = tracker((3, 4), required=True)
        assert followed.forced == 3
        assert fed(followed, 3).forced == 4
        assert fed(followed, 9).forced == 3
        assert fed(followed, 3, 4).phase is THINKING
        assert followed.forced is None

    def test_a_family_without_a_start_marker(self) -> None:
        assert tracker(()).phase is CONTENT
        assert tracker((), opened=True).phase is THINKING
        assert fed(tracker((), opened=True), 10, END).phase is CONTENT

    def test_reasoning_may_open_again_on_the_same_budget(self) -> None:
        followed = fed(tracker(reopens=True, budget=3), START, 10, END, 11, START, 12)
        assert (followed.phase, followed.thinking_tokens, followed.content_length) == (THINKING, 2, 1)
        assert fed(followed, 13).forced == END
        assert (fed(followed, END, 14).phase, followed.content_length, followed.content_run) == (CONTENT, 2, 1)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"end": ()}, "^end needs at least one token id"),
            ({"more_ends": [(9,), ()]}, r"^more_ends\[1\] needs at least one token id"),
            ({"turn_openers": [()]}, r"^turn_openers\[0\] needs at least one token id"),
            ({"start": "<think>"}, "^start must be a sequence of token ids, .* not '<think>'"),
            ({"end": 8}, "^end must be a sequence of token ids, .* not 8"),
            ({"end": (8, -1)}, r"^end must be a sequence of token ids, .* not \(8, -1\)"),
            ({"end": (8.0,)}, "^end must be a sequence of token ids, which are integers from 0 on"),
            ({"closing": "So"}, "^closing must be a sequence of token ids"),
            ({"implicit_ends": [None]}, "^implicit_ends must be a sequence of token ids"),
            ({"layout": 30}, "^layout must be a sequence of token ids"),
            ({"after": [-30]}, "^after must be a sequence of token ids"),
            ({"more_ends": (8, 9)}, r"^more_ends\[0\] must be a sequence of token ids, .* not 8"),
            ({"more_ends": 9}, "^more_ends must be several sequences of token ids, not 9"),
            ({"budget": -1}, "A budget is a number of tokens, not -1"),
            ({"budget": 2.5}, "A budget is a number of tokens, not 2.5"),
            ({"budget": "5"}, "A budget is a number of tokens, not '5'"),
            ({"start": (3, 4), "reopens": True}, "start marker of one token"),
            ({"start": (), "required": True}, "without a start marker"),
            ({"closing": [10, END]}, "closing text must not contain an end marker"),
            (
                {"closing": [90], "end": (6, 7), "more_ends": [(90, 6)]},
                "nor begin one that the end marker completes",
            ),
            ({"closing": [20, 21], "implicit_ends": [20]}, "closing text must not contain an implicit end"),
            ({"end": (6, 7), "implicit_ends": [7]}, "end marker must not contain an implicit end"),
        ],
    )
    def test_what_can_not_be_followed(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            tracker(**options)


class TestPrompts:
    def test_a_prompt_that_opened_reasoning(self) -> None:
        assert tracker(prompt=[50, START]).phase is THINKING
        assert tracker(prompt=[50, START, 13]).phase is THINKING
        assert tracker(prompt=[50, START, 13, END, 13]).phase is CONTENT
        assert tracker(prompt=[50, 13]).phase is IDLE

    def test_only_the_last_turn_counts(self) -> None:
        old = [40, 41, START, 10, END, 11, 42]
        options: dict[str, Any] = {"turn_openers": [(40, 41), (43,)]}
        assert tracker(prompt=[*old, 40, 41], **options).phase is IDLE
        assert tracker(prompt=[*old, 40, 41, START], **options).phase is THINKING
        assert tracker(prompt=[START, 43], **options).phase is IDLE
        assert tracker(prompt=[*old, 41], **options).phase is CONTENT
        assert tracker(prompt=[41, START], **options).phase is THINKING

    def test_the_last_marker_decides(self) -> None:
        assert tracker(prompt=[START, 10, END, 11, START]).phase is THINKING
        assert tracker(prompt=[START, 10, 20], implicit_ends=[20]).phase is CONTENT
        assert tracker(prompt=[END]).phase is IDLE

    def test_prompt_tokens_never_count(self) -> None:
        followed = tracker(budget=2, prompt=[START, *range(100, 200)])
        assert (followed.thinking_tokens, followed.length, followed.forced) == (0, 0, None)
        assert fed(followed, 10).forced is None
        assert fed(followed, 11).forced == END

    def test_a_prompt_may_end_inside_a_marker(self) -> None:
        opening = tracker((3, 4, 5), prompt=[50, 3, 4])
        assert (opening.phase, opening.opener, opening.pending) == (IDLE, 5, 0)
        assert fed(opening, 5).phase is THINKING
        content = fed(tracker((3, 4, 5), prompt=[50, 3, 4]), 9)
        assert (content.phase, content.content_length) == (CONTENT, 1)
        closing = tracker(end=(6, 7, 8), prompt=[START, 10, 6], budget=0)
        assert closing.forced == 7
        resumed = fed(tracker(end=(6, 7, 8), prompt=[START, 10, 6, 7]), 9)
        assert (resumed.phase, resumed.thinking_tokens) == (THINKING, 1)

    def test_the_caller_may_know_better(self) -> None:
        assert tracker(opened=True).phase is THINKING
        assert tracker(prompt=[START], opened=False).phase is IDLE


class TestBudget:
    def test_the_end_marker_is_forced_when_nothing_is_left(self) -> None:
        followed = fed(tracker(end=(6, 7), budget=2), START, 10)
        assert followed.forced is None
        assert fed(followed, 11).phase is TRANSITIONING
        assert [followed.forced] == [6]
        assert fed(followed, 6).forced == 7
        assert fed(followed, 7).phase is CONTENT
        assert followed.thinking_tokens == 2

    def test_an_end_in_time_is_not_forced(self) -> None:
        followed = fed(tracker(budget=2), START, 10, END)
        assert (followed.phase, followed.forced, followed.thinking_tokens) == (CONTENT, None, 1)

    def test_only_the_rest_of_a_marker_that_has_begun_is_forced(self) -> None:
        followed = fed(tracker(end=(6, 7, 8), budget=3, closing=[90, 91]), START, 10, 11, 6)
        assert followed.forced == 7
        assert fed(followed, 7, 8).phase is CONTENT
        assert followed.thinking_tokens == 2

    def test_of_several_end_markers_the_one_that_has_begun_goes_on(self) -> None:
        assert fed(tracker(end=(6, 7), more_ends=[(8, 9)], budget=2), START, 10, 8).forced == 9

    def test_a_closing_text_comes_first(self) -> None:
        followed = fed(tracker(end=(6, 7), budget=1, closing=[90, 91]), START, 10)
        forced = []
        while followed.forced is not None:
            forced.append(followed.forced)
            followed.accept(followed.forced)
        assert forced == [90, 91, 6, 7]
        assert (followed.phase, followed.thinking_tokens) == (CONTENT, 1)

    def test_a_closing_text_may_end_like_an_end_marker_begins(self) -> None:
        followed = fed(tracker(end=(6, 6, 7), more_ends=[(6, 6, 6, 7)], budget=1, closing=[6]), START, 10)
        assert followed.forced == 6
        assert fed(followed, 6, 6, 6).phase is TRANSITIONING
        assert fed(followed, 7).phase is CONTENT

    def test_ids_may_be_those_of_numpy(self) -> None:
        ids: Any = np.array([START, END])
        followed = fed(BoundaryTracker(ids[:1], ids[1:], prompt=ids[:1]), 10, END)
        assert (followed.phase, followed.thinking_tokens) == (CONTENT, 1)

    def test_without_any_reasoning_there_is_nothing_to_close_with_words(self) -> None:
        assert fed(tracker(budget=0, closing=[90]), START).forced == END

    def test_a_host_that_does_not_obey_is_asked_again(self) -> None:
        followed = fed(tracker(end=(6, 7), budget=1, closing=[90]), START, 10)
        assert fed(followed, 11).forced == 6
        assert fed(followed, 6).forced == 7
        assert fed(followed, 11).forced == 6
        assert fed(followed, 6, 7).phase is CONTENT

    def test_an_implicit_end_ends_a_forced_one_too(self) -> None:
        followed = fed(tracker(budget=1, implicit_ends=[20]), START, 10, 20)
        assert (followed.phase, followed.content_length) == (CONTENT, 1)

    def test_a_character_is_not_cut(self) -> None:
        pieces = {10: b"a", 11: b"\xe5", 12: b"\x8c\x97", 13: b"\xf0", 14: b"b"}
        followed = fed(tracker(budget=2, opened=True, piece=pieces.__getitem__), 10, 11)
        assert (followed.phase, followed.forced) == (THINKING, None)
        assert fed(followed, 12).forced == END

    def test_an_unfinished_character_does_not_stretch_the_budget_for_ever(self) -> None:
        followed = tracker(budget=1, opened=True, piece=lambda _: b"\xf0")
        fed(followed, 10, 11, 12)
        assert followed.forced is None
        assert fed(followed, 13).forced == END
        assert fed(tracker(budget=1, opened=True, piece=lambda _: b"\x80"), 10).forced == END


class TestReportedBugs:
    """Budgets that other engines got wrong, with the reports' own tokens."""

    def run(self, number: str, then: str, **options: Any) -> tuple[list[str], BoundaryTracker]:
        case = BUGS[number]["input"]
        words: dict[str, int] = {"<think>": START, "</think>": END}

        def ids(texts: Sequence[str]) -> list[int]:
            return [words.setdefault(text, 100 + len(words)) for text in texts]

        end = ids(case.get("server", {}).get("end_marker_tokens", ["</think>"]))
        message = case.get("server", {}).get("budget_message", "")
        request = case["request"]
        budget = request.get("thinking_budget", request.get("thinking", {}).get("budget_tokens"))
        followed = BoundaryTracker(
            [START], end, budget=budget, prompt=[START], closing=ids(message.split()), **options
        )
        wanted, after = ids(case["model_wants"]), ids(case.get(then, []))
        written: list[int] = []
        while followed.forced is not None or (wanted if followed.phase is THINKING else after):
            if followed.forced is None:
                token = (wanted if followed.phase is THINKING else after).pop(0)
            else:
                token = followed.forced
            followed.accept(token)
            written.append(token)
        spelled = {token: text for text, token in words.items()}
        return [spelled[token] for token in written], followed

    def test_a_block_that_opens_again_gets_no_new_budget(self) -> None:
        written, followed = self.run("BUG-076", "model_after_forced_close", reopens=True)
        expected = BUGS["BUG-076"]["expected"]["token_stream"]
        assert written[: len(expected) - 1] == expected[:-1]
        assert followed.phase is CONTENT

    def test_a_marker_that_has_begun_is_not_begun_again(self) -> None:
        written, _ = self.run("BUG-078", "none")
        assert written == BUGS["BUG-078"]["expected"]["token_stream"]

    @pytest.mark.parametrize("number", ["BUG-080", "BUG-196"])
    def test_a_budget_of_zero_closes_before_the_first_token(self, number: str) -> None:
        written, followed = self.run(number, "none")
        assert written == BUGS[number]["expected"]["token_stream_prefix"]
        assert followed.thinking_tokens == 0

    def test_a_budget_under_another_name(self) -> None:
        written, followed = self.run("BUG-082", "none")
        assert written == ["a", "b", "c", "</think>"]
        assert followed.thinking_tokens == 3

    def test_what_follows_a_forced_end_is_content(self) -> None:
        written, followed = self.run("BUG-195", "model_after_forced_close")
        assert written == BUGS["BUG-195"]["expected"]["token_stream"]
        assert followed.content_length == 4

    def test_half_a_character_is_completed(self) -> None:
        case = BUGS["BUG-197"]
        pieces = [bytes.fromhex(text) for text in case["input"]["model_wants_bytes"]]
        followed = tracker((), (9,), opened=True, budget=2, piece=pieces.__getitem__)
        written = []
        while followed.forced is None:
            written.append(followed.length)
            followed.accept(written[-1])
        assert b"".join(pieces[token] for token in written).decode() in case["expected"]["reasoning_any_of"]

    def test_a_closing_message_is_forced_token_by_token(self) -> None:
        written, _ = self.run("BUG-198", "model_after_forced_close")
        assert written == ["a", "b", "Wait,", "I", "should", "answer", "now.", "</think>", "Yes."]


def reference(
    tokens: Sequence[int], start: tuple[int, ...], end: tuple[int, ...], budget: int | None
) -> tuple[Phase, int]:
    """Phase and length of content, found in the whole output; the start marker comes at once or never."""
    if len(tokens) < len(start) and tuple(tokens) == start[: len(tokens)]:
        return IDLE, 0
    if tuple(tokens[: len(start)]) != start:
        return CONTENT, len(tokens)
    rest = list(tokens[len(start) :])
    for position in range(len(end), len(rest) + 1):
        if tuple(rest[position - len(end) : position]) == end:
            return CONTENT, len(rest) - position
    return (TRANSITIONING if budget is not None and len(rest) >= budget else THINKING), 0


MARKERS = st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple)
BUDGETS = st.none() | st.integers(0, 5)
TOKENS = st.lists(st.integers(0, 3), max_size=14)


class TestAnyTokens:
    @given(MARKERS, MARKERS, BUDGETS, TOKENS, st.booleans())
    def test_phases_are_those_found_in_the_whole_output(
        self, start: tuple[int, ...], end: tuple[int, ...], budget: int | None, rest: list[int], opens: bool
    ) -> None:
        tokens = [*start, *rest] if opens else rest
        followed = tracker(start, end, budget=budget)
        for count, token in enumerate(tokens, 1):
            followed.accept(token)
            assert (followed.phase, followed.content_length) == reference(tokens[:count], start, end, budget)

    @given(MARKERS, MARKERS, BUDGETS, TOKENS)
    def test_a_host_that_obeys_never_reasons_beyond_the_budget(
        self, start: tuple[int, ...], end: tuple[int, ...], budget: int | None, wanted: list[int]
    ) -> None:
        followed = tracker(start, end, budget=budget, opened=True)
        forced = 0
        for token in wanted:
            forced += followed.forced is not None
            followed.accept(token if followed.forced is None else followed.forced)
            assert budget is None or followed.thinking_tokens <= budget
        assert forced <= len(end)

    @given(st.data(), MARKERS, MARKERS, BUDGETS, TOKENS)
    def test_rollback_gives_the_state_of_a_run_that_never_had_the_tokens(
        self,
        data: st.DataObject,
        start: tuple[int, ...],
        end: tuple[int, ...],
        budget: int | None,
        tokens: list[int],
    ) -> None:
        options: dict[str, Any] = {
            "budget": budget,
            "closing": data.draw(st.sampled_from([(), (9,), (9, 8)])),
            "implicit_ends": data.draw(st.sampled_from([(), (3,)])),
            "reopens": len(start) == 1 and data.draw(st.booleans()),
            "layout": data.draw(st.sampled_from([(), (3,)])),
            "after": data.draw(st.sampled_from([(), (3,), (0,)])),
        }
        followed = tracker(start, end, **options)
        kept: list[int] = []
        for token in tokens:
            if kept and data.draw(st.integers(0, 2)) == 0:
                count = data.draw(st.integers(1, len(kept)))
                followed.rollback(count)
                del kept[len(kept) - count :]
            followed.accept(token)
            kept.append(token)
            assert snapshot(followed) == snapshot(fed(tracker(start, end, **options), *kept))

    def test_rolling_back_inside_content_stays_there(self) -> None:
        followed = fed(tracker(), START, 10, END, 11, 12, 13)
        followed.rollback(2)
        assert (followed.phase, followed.content_length) == (CONTENT, 1)
        followed.rollback(2)
        assert followed.phase is THINKING

    @pytest.mark.parametrize("count", [-1, 3])
    def test_more_than_there_is_can_not_be_rolled_back(self, count: int) -> None:
        with pytest.raises(ValueError, match="There are 2 tokens to roll back"):
            fed(tracker(), 10, 11).rollback(count)

    def test_nothing_is_kept_for_tokens_of_content(self) -> None:
        followed = fed(tracker(), START, 10, END)
        kept = len(followed._states)
        fed(followed, *range(1000))
        assert len(followed._states) == kept

    @given(MARKERS, st.lists(st.integers(0, 2), max_size=20))
    def test_a_marker_is_matched_as_far_as_the_last_tokens_spell_it(
        self, ids: tuple[int, ...], tokens: list[int]
    ) -> None:
        marker, matched = Marker(ids), 0
        for count, token in enumerate(tokens, 1):
            matched = marker.advance(matched, token)
            fitting = [n for n in range(min(len(ids), count) + 1) if tuple(tokens[count - n : count]) == ids[:n]]
            assert matched == max(fitting)
            if matched == len(ids):
                return
