"""The parts of the embedded engine that need no model: sampling, output, slots, the library's checks."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.constrained.vocabularies import Letters
from unspool.constrained import ConstraintError, LLGuidanceConstraint, regex
from unspool.constrained.boundary import BoundaryTracker
from unspool.constrained.thinking import ThinkingConstraint
from unspool.engines.base import EngineError, Sampling
from unspool.engines.llamacpp import default_threads, library
from unspool.engines.llamacpp.output import Output
from unspool.engines.llamacpp.sampler import Logits, Sampler
from unspool.engines.llamacpp.slots import Slots, common_prefix


def logits_of(*values: float) -> Logits:
    return np.array(values, np.float32)


def drawn(sampling: Sampling, logits: Logits, times: int = 400) -> Counter[int]:
    sampler = Sampler(sampling, (), logits.size)
    return Counter(sampler.pick(logits.copy()) for _ in range(times))


class TestSampler:
    def test_temperature_zero_takes_the_best(self) -> None:
        assert drawn(Sampling(temperature=0), logits_of(1, 3, 2), 5) == {1: 5}

    def test_one_seed_gives_one_sequence(self) -> None:
        def sequence(seed: int | None) -> list[int]:
            sampler = Sampler(Sampling(seed=seed), (), 50)
            return [sampler.pick(np.zeros(50, np.float32)) for _ in range(20)]

        assert sequence(7) == sequence(7)
        assert sequence(-1) == sequence(-1)
        assert sequence(7) != sequence(8)
        assert sequence(None) != sequence(None)

    def test_draws_follow_the_probabilities(self) -> None:
        counts = drawn(Sampling(seed=1), np.log(logits_of(0.7, 0.2, 0.1)), 4000)
        assert counts[0] == pytest.approx(2800, abs=150)
        assert counts[2] == pytest.approx(400, abs=100)

    def test_temperature_sharpens_and_flattens(self) -> None:
        logits = np.log(logits_of(0.6, 0.4))
        assert drawn(Sampling(temperature=0.05, seed=1), logits)[1] < 5
        assert drawn(Sampling(temperature=50.0, seed=1), logits)[1] > 150

    def test_top_k_keeps_the_k_best(self) -> None:
        assert set(drawn(Sampling(top_k=2, temperature=9.0, seed=1), logits_of(1, 4, 3, 2))) == {1, 2}
        assert len(drawn(Sampling(top_k=9, temperature=9.0, seed=1), logits_of(1, 4, 3, 2))) == 4

    @pytest.mark.parametrize(
        ("top_p", "kept"),
        [(0.0, {1}), (0.5, {1}), (0.51, {1, 3}), (0.8, {1, 3}), (0.81, {0, 1, 3}), (1.0, {0, 1, 2, 3})],
    )
    def test_top_p_keeps_the_smallest_set_that_reaches_it(self, top_p: float, kept: set[int]) -> None:
        logits = np.log(logits_of(0.15, 0.5, 0.05, 0.3))
        assert set(drawn(Sampling(top_p=top_p, seed=1), logits, 1000)) == kept

    def test_min_p_is_relative_to_the_best(self) -> None:
        logits = np.log(logits_of(0.5, 0.3, 0.15, 0.05))
        assert set(drawn(Sampling(min_p=0.5, seed=1), logits)) == {0, 1}

    @given(
        st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40),
        st.floats(0, 1),
        st.integers(0, 5),
        st.floats(0, 0.9),
    )
    def test_top_p_agrees_with_its_definition(
        self, values: list[float], top_p: float, top_k: int, min_p: float
    ) -> None:
        logits = logits_of(*values)
        sampler = Sampler(Sampling(top_p=top_p, top_k=top_k, min_p=min_p), (), logits.size)
        weights = np.exp(logits - logits.max())
        ids, kept = sampler._filter(weights)
        assert set(ids) <= set(np.flatnonzero(weights >= np.float32(min_p)))
        assert ids.size <= (top_k or ids.size)
        assert np.array_equal(kept, weights[ids])
        assert weights.argmax() in ids or weights.max() in kept
        if top_p < 1 and top_k == 0:
            candidates = np.sort(weights[weights >= np.float32(min_p)])[::-1].astype(np.float64)
            before_last = candidates[: ids.size - 1].sum()
            assert before_last <= top_p * candidates.sum() * (1 + 1e-6)
            assert candidates[: ids.size].sum() >= top_p * candidates.sum() * (1 - 1e-6)

    def test_masked_tokens_are_never_drawn(self) -> None:
        logits = logits_of(0, -np.inf, 0, -np.inf)
        assert set(drawn(Sampling(seed=1), logits)) == {0, 2}

    @pytest.mark.parametrize("values", [(-np.inf, -np.inf), (np.nan, 1.0), (np.inf, 1.0)])
    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_impossible_logits_are_an_error(self, values: tuple[float, ...], temperature: float) -> None:
        with pytest.raises(EngineError, match="No token is possible"):
            Sampler(Sampling(temperature=temperature), (), 2).pick(logits_of(*values))

    def test_bias_is_added(self) -> None:
        sampler = Sampler(Sampling(logit_bias={2: 5.0, 0: -100.0}), (), 3)
        logits = logits_of(1, 2, 3)
        sampler.adjust(logits)
        assert logits.tolist() == [-99, 2, 8]

    def test_presence_and_frequency_count_generated_tokens(self) -> None:
        sampler = Sampler(Sampling(presence_penalty=1.0, frequency_penalty=0.5), [0, 0], 3)
        for token in (1, 1, 2):
            sampler.accept(token)
        logits = logits_of(5, 5, 5)
        sampler.adjust(logits)
        assert logits.tolist() == [5, 3, 3.5]

    def test_repetition_also_counts_the_prompt_and_always_lowers(self) -> None:
        sampler = Sampler(Sampling(repetition_penalty=2.0), [0], 3)
        sampler.accept(1)
        logits = logits_of(4, -4, 4)
        sampler.adjust(logits)
        assert logits.tolist() == [2, -8, 4]

    def test_a_constraint_decides_before_temperature_and_against_any_bias(self) -> None:
        letters = Letters(special=["<|end|>"], end=["<|end|>"])
        (end,) = letters.eog
        sampling = Sampling(temperature=5.0, seed=3, logit_bias={ord("x"): 100.0})
        sampler = Sampler(sampling, (), letters.size, LLGuidanceConstraint(regex("[0-9]{5}"), letters))
        written: list[int] = []
        while not written or written[-1] != end:
            logits = np.zeros(letters.size + 8, np.float32)  # a model may have more outputs than tokens
            sampler.adjust(logits)
            written.append(sampler.pick(logits))
            sampler.accept(written[-1])
        assert len(written) == 6
        assert set(written[:-1]) <= set(b"0123456789")

    def test_a_token_that_the_constraint_refuses_is_an_error(self) -> None:
        letters = Letters()
        sampler = Sampler(Sampling(), (), letters.size, LLGuidanceConstraint(regex("ab"), letters))
        assert not sampler.is_complete
        with pytest.raises(ConstraintError, match="98"):
            sampler.accept(ord("b"))
        sampler.accept(ord("a"))
        sampler.accept(ord("b"))
        assert sampler.is_complete

    def test_a_constraint_that_allows_everything_changes_nothing(self) -> None:
        held = ThinkingConstraint(BoundaryTracker([1], [2], opened=True), vocab_size=4)
        logits = logits_of(1, 2, 3, 4)
        Sampler(Sampling(), (), 4, held).adjust(logits)
        assert logits.tolist() == [1, 2, 3, 4]


def run_output(
    pieces: Sequence[bytes], stop: Sequence[str] = ()
) -> tuple[list[tuple[str, tuple[int, ...]]], bool]:
    """What is released when token 0, 1, ... have these bytes; stops where a stop string is found."""
    output = Output(stop)
    released = []
    for token, piece in enumerate(pieces):
        released.append(output.push(token, piece))
        if output.stopped:
            break
    return [*released, output.finish()], output.stopped


class TestOutput:
    def test_text_and_ids_leave_at_once(self) -> None:
        assert run_output([b"a", b"b"]) == ([("a", (0,)), ("b", (1,)), ("", ())], False)

    def test_a_character_is_held_until_it_is_whole(self) -> None:
        euro = "€".encode()
        released, _ = run_output([b"x", euro[:1], euro[1:2], euro[2:] + b"y"])
        assert released == [("x", (0,)), ("", (1,)), ("", (2,)), ("€y", (3,)), ("", ())]
        released, _ = run_output([b"x", euro[:1], euro[1:2], euro[2:] + b"y"], ["stop"])
        assert released == [("x", (0,)), ("", ()), ("", ()), ("€y", (1, 2, 3)), ("", ())]

    def test_a_character_that_never_gets_whole_is_replaced(self) -> None:
        assert run_output([b"a\xe2", b"b"])[0] == [("a", (0,)), ("\ufffdb", (1,)), ("", ())]
        assert run_output([b"a\xe2"])[0] == [("a", (0,)), ("\ufffd", ())]
        assert run_output([b"a\xe2"], ["stop"])[0] == [("", ()), ("a\ufffd", (0,))]

    def test_a_stop_string_across_tokens_ends_the_text_before_it(self) -> None:
        released, stopped = run_output([b"one ", b"tw", b"o thr", b"ee"], ["two"])
        assert released == [("one ", (0,)), ("", ()), ("", ()), ("", ())]
        assert stopped

    def test_text_before_a_stop_string_within_a_token_comes_last_and_without_an_id(self) -> None:
        released, _ = run_output([b"one", b" two", b" three"], ["wo"])
        assert released == [("one", (0,)), ("", ()), (" t", ())]

    def test_a_held_beginning_that_was_none_is_released(self) -> None:
        released, stopped = run_output([b"a", b"\n", b"\n", b"b"], ["\n\n\n"])
        assert released == [("a", (0,)), ("", ()), ("", ()), ("\n\nb", (1, 2, 3)), ("", ())]
        assert not stopped

    def test_a_held_beginning_is_released_at_the_end(self) -> None:
        assert run_output([b"a", b"EN"], ["END"])[0] == [("a", (0,)), ("", ()), ("EN", (1,))]

    @pytest.mark.parametrize("cut", range(6))
    def test_the_stop_string_that_is_complete_first_counts(self, cut: int) -> None:
        released, _ = run_output([b"abcdef"[:cut], b"abcdef"[cut:]], ["bcdef", "cd", ""])
        assert "".join(text for text, _ in released) == "ab"

    def test_the_stop_string_that_was_found_is_named(self) -> None:
        output = Output(["two", "one more", "e"])
        output.push(0, b"on")
        assert output.stop_sequence is None
        output.push(1, b"e two")
        assert output.stop_sequence == "e"

    def test_a_stop_string_of_split_characters(self) -> None:
        euro = "€".encode()
        released, stopped = run_output([b"5", euro[:2], euro[2:]], ["€"])
        assert (released, stopped) == ([("5", (0,)), ("", ()), ("", ()), ("", ())], True)

    @given(st.text(alphabet="ab€\n", max_size=30), st.data())
    def test_released_text_is_the_decoded_released_ids(self, text: str, data: st.DataObject) -> None:
        raw = text.encode()
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(raw) - 1)), max_size=8)))
        pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        stop = data.draw(st.lists(st.text(alphabet="ab€\n", min_size=1, max_size=4), max_size=2))
        released, stopped = run_output(pieces, stop)
        found = [(text.find(end) + len(end), text.find(end)) for end in stop if end in text]
        assert stopped == bool(found)
        end = min(found)[1] if found else len(text)
        assert "".join(part for part, _ in released) == text[:end]
        ids: list[int] = []
        for part, part_ids in released[:-1]:
            ids += part_ids
            if stop:
                assert part == b"".join(pieces[token] for token in part_ids).decode()
        ids += released[-1][1]
        assert ids == list(range(len(ids)))
        if not stopped:
            assert len(ids) == len(pieces)


class FakeCells:
    """Remembers which tokens each sequence holds, as a context would."""

    def __init__(self, cells: int = 1000, cuts: bool = True) -> None:
        self.cells = cells
        self.cuts = cuts
        self.held: dict[int, list[int]] = {}

    def truncate(self, sequence: int, length: int) -> bool:
        held = self.held.setdefault(sequence, [])
        if not self.cuts and 0 < length < len(held):
            return False
        del held[length:]
        return True

    def share(self, source: int, target: int, length: int) -> None:
        assert self.held[target] == []
        self.held[target] = self.held[source][:length]


def use(slots: Slots, cells: FakeCells, tokens: list[int], keep: bool = False) -> tuple[int, int]:
    """Takes a slot for ``tokens``, fills it, gives it back; returns its number and what was reused."""
    slot = slots.take(tokens)
    reused = len(slot.cached)
    assert slot.cached == tokens[:reused] == cells.held[slot.number]
    slot.cached += tokens[reused:]
    cells.held[slot.number] += tokens[reused:]
    if not keep:
        slots.give_back(slot)
    return slot.number, reused


class TestSlots:
    def test_a_conversation_comes_back_to_its_slot(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 3, keeps_positions=True)
        first, reused = use(slots, cells, [1, 2, 3, 4])
        assert reused == 0
        use(slots, cells, [9, 8, 7])
        assert use(slots, cells, [1, 2, 3, 4, 5, 6]) == (first, 4)

    def test_the_last_token_is_always_left_to_decode(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 1, keeps_positions=True)
        use(slots, cells, [1, 2, 3])
        assert use(slots, cells, [1, 2, 3]) == (0, 2)

    def test_another_conversation_shares_the_prefix_and_leaves_the_first_whole(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 2, keeps_positions=True)
        first, _ = use(slots, cells, [1, 2, 3, *range(100, 120)])
        second, reused = use(slots, cells, [1, 2, 3, *range(200, 220)])
        assert (second != first, reused) == (True, 3)
        assert use(slots, cells, [1, 2, 3, *range(100, 120), 5]) == (first, 23)

    def test_the_prefix_of_a_running_request_is_shared(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 2, keeps_positions=True)
        first, _ = use(slots, cells, [1, 2, 3, 4], keep=True)
        second, reused = use(slots, cells, [1, 2, 3, 9])
        assert (second != first, reused) == (True, 3)

    def test_a_single_slot_is_cut_to_the_common_prefix(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 1, keeps_positions=True)
        use(slots, cells, [1, 2, *range(100, 120)])
        assert use(slots, cells, [1, 2, 3]) == (0, 2)

    def test_a_recurrent_state_is_only_ever_continued(self) -> None:
        cells = FakeCells(cuts=False)
        slots = Slots(cells, 2, keeps_positions=False)
        first, _ = use(slots, cells, [1, 2, 3])
        assert use(slots, cells, [1, 2, 3, 4]) == (first, 3)
        assert use(slots, cells, [1, 2, 9]) == (1 - first, 0)
        use(slots, cells, [1, 2, 3, 4, 5], keep=True)
        assert use(slots, cells, [1, 2, 3, 4, 5, 6]) == (1 - first, 0)

    def test_a_memory_that_refuses_to_be_cut_is_emptied(self) -> None:
        cells = FakeCells(cuts=False)
        slots = Slots(cells, 1, keeps_positions=True)
        use(slots, cells, [1, 2, 3, 4])
        assert use(slots, cells, [1, 2, 3, 9]) == (0, 0)

    def test_empty_slots_are_used_before_others_are_overwritten(self) -> None:
        cells = FakeCells()
        slots = Slots(cells, 3, keeps_positions=True)
        assert len({use(slots, cells, [number] * 3)[0] for number in range(3)}) == 3

    def test_room_is_made_from_the_least_recently_used(self) -> None:
        cells = FakeCells(cells=10)
        slots = Slots(cells, 3, keeps_positions=True)
        old, _ = use(slots, cells, [1, 1, 1])
        use(slots, cells, [2, 2])
        busy, _ = use(slots, cells, [3, 3, 3, 3], keep=True)
        assert slots.room == 1
        assert slots.clear_idle()
        assert (slots.room, cells.held[old]) == (4, [])
        assert slots.clear_idle()
        assert not slots.clear_idle()
        assert len(cells.held[busy]) == 4
        assert slots.any_free

    @given(st.lists(st.integers(0, 1), max_size=1500), st.integers(0, 1500))
    def test_common_prefix(self, tokens: list[int], cut: int) -> None:
        assert common_prefix(tokens, tokens) == len(tokens)
        changed = [*tokens[:cut], 2, *tokens[cut + 1 :]]
        assert common_prefix(tokens, changed) == min(cut, len(tokens))


class TestLibrary:
    def test_a_moved_field_is_refused(self) -> None:
        lib = library.load()
        context = lib.llama_context_default_params()
        library.check_layout(lib.llama_model_default_params(), context)
        context.swa_full = False
        with pytest.raises(EngineError, match=r"ContextParams in an unknown way .*swa_full.* pip install"):
            library.check_layout(lib.llama_model_default_params(), context)
        model = lib.llama_model_default_params()
        model.main_gpu = 1
        with pytest.raises(EngineError, match="ModelParams in an unknown way"):
            library.check_layout(model, lib.llama_context_default_params())

    def test_another_version_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library, "PINNED_VERSION", "1.0")
        with pytest.raises(EngineError, match=r"xllamacpp .* is installed, .* pip install"):
            library.load.__wrapped__()

    def test_a_missing_wheel_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> importlib.metadata.Distribution:
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr("importlib.metadata.distribution", missing)
        with pytest.raises(EngineError, match=r'pip install "unspool\[local\]"'):
            library.load.__wrapped__()

    def test_a_library_without_the_functions_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(library, "_SIGNATURES", {"llama_no_such_function": (None,)})
        with pytest.raises(EngineError, match="can't use the installed xllamacpp on this platform"):
            library.load.__wrapped__()


def test_default_threads_are_a_few() -> None:
    assert 1 <= default_threads() <= 8


def test_without_the_extra_the_import_says_how_to_get_it() -> None:
    script = "import sys; sys.modules['numpy'] = None; import unspool.engines.llamacpp"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stderr.strip().endswith('run: pip install "unspool[local]"')
