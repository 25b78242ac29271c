"""The tracker of each format: it and the parser agree about where reasoning is, and so does a forced end."""

from __future__ import annotations

import pytest

import unspool
from tests.constrained.vocabularies import Letters
from unspool.constrained import Phase, ThinkingConstraint, reasoning_tracker
from unspool.constrained.boundary import Marker
from unspool.constrained.tracking import markers_of
from unspool.constrained.vocabulary import vocabulary_of
from unspool.parsing.declaration import Region, RegionCalls
from unspool.parsing.expressions import Text

FORMATS = [form.name for form in unspool.formats() if markers_of(form)]
WORDS = Letters(special=["<think>", "</think>", "<|im_end|>"], end=["<|im_end|>"])
LETTERS = Letters()
OPEN, CLOSED, FRESH = ("<|im_start|>assistant\n" + tail for tail in ("<think>\n", "<think>\n\n</think>\n\n", ""))


def phase(
    prompt: str | None, name: str = "hermes", tokenizer: Letters = WORDS, budget: int | None = None
) -> Phase:
    found = reasoning_tracker(unspool.get_format(name), tokenizer, prompt=prompt, budget=budget)
    assert found is not None
    return found[0].phase


@pytest.mark.parametrize("tokenizer", [WORDS, LETTERS], ids=["tokens", "letters"])
def test_the_prompt_decides_the_first_phase(tokenizer: Letters) -> None:
    assert phase(OPEN, tokenizer=tokenizer) is Phase.THINKING
    assert phase(CLOSED + "So", tokenizer=tokenizer) is Phase.CONTENT
    # An empty block in the prompt is how thinking is switched off; the parser reads one that comes all the same.
    assert phase(CLOSED, tokenizer=tokenizer) is Phase.IDLE
    assert phase(FRESH, tokenizer=tokenizer) is Phase.IDLE
    assert phase(OPEN, tokenizer=tokenizer, budget=0) is Phase.TRANSITIONING
    old = "<|im_start|>assistant\n<think>\nx<|im_end|>\n"
    assert phase(old + FRESH, tokenizer=tokenizer) is Phase.IDLE


def test_without_a_prompt_the_formats_start_applies() -> None:
    assert phase(None, "qwen3_thinking") is Phase.THINKING
    assert phase(None) is Phase.IDLE


@pytest.mark.parametrize("name", FORMATS)
def test_a_forced_end_is_one_for_the_parser(name: str) -> None:
    form = unspool.get_format(name)
    found = reasoning_tracker(form, LETTERS, budget=5)
    assert found is not None
    tracker, covers = found
    held = ThinkingConstraint(tracker, vocab_size=LETTERS.size, covers=covers)
    written: list[int] = []
    if tracker.phase is Phase.IDLE:
        assert tracker.start is not None
        written += tracker.start.ids
    wish = iter(b"\nThinking about it for long.")
    for token in written:
        assert held.accept(token)
    while tracker.phase in (Phase.THINKING, Phase.TRANSITIONING):
        token = tracker.forced if tracker.forced is not None else next(wish)
        assert held.accept(token)
        written.append(token)
    message = unspool.parse(form, bytes(written).decode())
    assert message.reasoning is not None
    assert message.reasoning.strip() == "Thin"
    assert message.content is None


@pytest.mark.parametrize("name", FORMATS)
def test_reasoning_that_the_parser_sees_end_has_ended(name: str) -> None:
    form = unspool.get_format(name)
    text = unspool.write(form, unspool.Message(reasoning="Hm, well.", content="Yes"))
    found = reasoning_tracker(form, LETTERS)
    assert found is not None
    tracker = found[0]
    for token in text.encode():
        tracker.accept(token)
    assert tracker.phase is Phase.CONTENT
    assert 0 < tracker.thinking_tokens - len("Hm, well.") <= 4 or tracker.thinking_tokens == len("Hm, well.")


def test_markers_that_are_tokens_are_ids() -> None:
    found = reasoning_tracker(unspool.get_format("hermes"), WORDS, budget=1, prompt=OPEN)
    assert found is not None
    tracker = found[0]
    tracker.accept(ord("x"))
    assert tracker.forced == WORDS.ids("</think>")[0]


@pytest.mark.parametrize(
    "text", ["</think>", "x.</think>\n\nSo", "x\n</think>\nSo", "a</think>b", "</</think>", "</thin</think>"]
)
def test_markers_are_found_in_tokens_that_hold_other_text_as_well(text: str) -> None:
    words = Letters(words=["</", ".</", "think", "thin", ">\n\n", ">b", "\n", "\n</", "So"])
    found = reasoning_tracker(unspool.get_format("hermes"), words, prompt=OPEN)
    assert found is not None
    tracker = found[0]
    phases = []
    for token in [ord("x"), *words.ids(text)]:
        tracker.accept(token)
        phases.append(tracker.phase)
    last = phases.index(Phase.CONTENT)
    closer = text.index("</think>") + len("</think>")
    assert len(words.ids(text)) - last < len(text) - closer + 1
    assert set(phases[:last]) == {Phase.THINKING}


def test_what_is_forced_completes_a_marker_that_was_begun() -> None:
    words = Letters(words=["</", "think", "thi", ".</"])
    for begun, rest in ((["x", ".</", "thi"], "nk>"), (["x", "y", "z"], "</think>")):
        found = reasoning_tracker(unspool.get_format("hermes"), words, prompt=OPEN, budget=3)
        assert found is not None
        tracker, covers = found
        held = ThinkingConstraint(tracker, vocab_size=words.size, covers=covers)
        for token in begun:
            assert held.accept(words.ids(token)[0])
        forced = b""
        while tracker.forced is not None:
            forced += words.piece(tracker.forced)
            assert held.accept(tracker.forced)
        assert (forced.decode(), tracker.phase) == (rest, Phase.CONTENT)


def test_a_start_marker_may_share_its_last_token_with_a_line_break() -> None:
    words = Letters(words=["<think", ">\n"])
    found = reasoning_tracker(unspool.get_format("hermes"), words, prompt=FRESH, budget=1)
    assert found is not None
    tracker = found[0]
    for token in words.ids("<think>\nx"):
        assert tracker.forced is None
        tracker.accept(token)
    assert tracker.forced == ord("<")


def test_of_several_kinds_the_prompt_or_the_vocabulary_decides() -> None:
    form = unspool.get_format("mistral")
    words = Letters(special=["<think>", "</think>"])
    opener = words.ids("<think>")
    found = reasoning_tracker(form, words)
    assert found is not None
    assert found[0].start is not None
    assert list(found[0].start.ids) == opener
    found = reasoning_tracker(form, LETTERS, prompt="[INST]x[/INST]<think>")
    assert found is not None
    assert bytes(found[0].ends[0].ids) == b"</think>"


def test_markers_that_content_has_too_are_not_kept_out_of_it() -> None:
    form = unspool.get_format("gpt_oss")
    words = Letters(special=["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"])
    found = reasoning_tracker(form, words, budget=3, prompt="<|start|>assistant")
    assert found is not None
    tracker, covers = found
    held = ThinkingConstraint(tracker, vocab_size=words.size, covers=covers)
    text = "<|channel|>analysis<|message|>Hmm<|end|><|start|>assistant<|channel|>commentary<|message|>So<|end|>"
    for token in words.ids(text):
        assert held.accept(token)
    assert tracker.thinking_tokens == 3


def test_formats_without_reasoning_between_texts_have_no_tracker() -> None:
    assert reasoning_tracker(unspool.get_format("qwen3_coder"), LETTERS) is None
    region = Region("thinking", "reasoning", open=(Text("<a>"),))
    calls = RegionCalls((region,))
    assert markers_of(unspool.Format("r", "", calls=calls)) == []
    closed = Region("thinking", "reasoning", open=(Text("<a>"),), close=(Text("</a>"),))
    (kind,) = markers_of(unspool.Format("r", "", calls=RegionCalls((closed,))))
    assert (kind.open, kind.close) == ("<a>", "</a>")


def test_a_marker_is_cut_at_special_tokens_the_longest_first() -> None:
    words = Letters(special=["<|a|>", "<|a|>b"])
    vocabulary = vocabulary_of(words)
    assert vocabulary.marker("x<|a|>b<|a|>") == [ord("x"), words.size - 1, words.size - 2]
    assert vocabulary_of(Letters()).marker("ab") == [*b"ab"]


@pytest.mark.parametrize("tokenizer", [WORDS, LETTERS], ids=["tokens", "letters"])
def test_a_step_costs_the_same_behind_any_history(tokenizer: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    """BUG-204: the state goes from step to step, so neither prompt nor output is looked at again."""
    steps: list[int] = []
    advance = Marker.advance

    def counted(self: Marker, matched: int, token: int) -> int:
        steps.append(token)
        return advance(self, matched, token)

    def work(history: int, written: int) -> int:
        prompt = "<|im_start|>user\n" + "word " * history + "<|im_end|>\n" + OPEN
        found = reasoning_tracker(unspool.get_format("hermes"), tokenizer, prompt=prompt)
        assert found is not None
        steps.clear()
        with monkeypatch.context() as patched:
            patched.setattr(Marker, "advance", counted)
            for token in b"word " * written:
                found[0].accept(token)
        assert found[0].phase is Phase.THINKING
        return len(steps)

    assert work(200, 20) == work(200_000, 20) > 0
    assert work(200, 400) == 20 * work(200, 20)
