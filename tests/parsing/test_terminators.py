"""What a turn's terminator is when only its letters are known: the end, or text like any other."""

from __future__ import annotations

import pytest

import unspool
from tests.conformance.replay import Generation, Outcome, every_cut, outcomes_by_cut
from tests.laws.vocabulary import Vocabulary
from tests.parsing.malformed import CLOSE, OPEN, RAW, TOOLS, call

CALL = f'{OPEN}{{"name": "f", "arguments": {{}}}}{CLOSE}'


@pytest.mark.parametrize(
    ("fmt", "raw", "content"),
    [
        ("hermes", "The token <|im_end|> ends a turn.", RAW),
        ("hermes", "<|im_end|> ends a turn.", RAW),
        ("hermes", "\n <|im_end|> ends a turn.", RAW),
        ("hermes", "`<|im_end|>` and `<|endoftext|>`", RAW),
        ("hermes", "Hi<|im_end|>" + " " * 70 + ".", RAW),
        ("hermes", "Hi<|im_end|>", "Hi"),
        ("hermes", "Hi<|im_end|>\n", "Hi\n"),
        ("hermes", "Hi<|im_end|>\n<|endoftext|>", "Hi\n"),
        ("hermes", "<|im_end|>", None),
        ("hermes", "Hi<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\nWell", "Hi"),
        ("hermes", "<|im_end|><|im_start|>", None),
        ("hermes", "Hi<|im_end|>\n<|im_sta", "Hi<|im_end|>\n<|im_sta"),
        ("qwen3_coder", "Hi<|im_end|><|im_start|>user", "Hi"),
        ("llama3_json", "Hi<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd?", "Hi"),
        ("pythonic", "Hi<|eot|><|header_start|>user<|header_end|>", "Hi"),
        ("mistral", "Hi</s>[INST] And?[/INST]", "Hi"),
        ("mistral_v3", "Hi</s> [INST] And?", "Hi"),
        ("mistral", "Strike it: <s>out</s> now", RAW),
        ("deepseek_v31", "Hi<｜end▁of▁sentence｜><｜User｜>And?", "Hi"),
        ("kimi_k2", "Hi<|im_end|><|im_user|>user<|im_middle|>And?", "Hi"),
        ("gemma4", "Hi<turn|>\n<|turn>user\nAnd?", "Hi"),
        ("glm45", "Hi<|endoftext|><|user|>\nAnd?", "Hi"),
        ("mistral+llama3_json", "Hi</s>[INST] And?", "Hi"),
    ],
)
def test_a_terminator_in_content(fmt: str, raw: str, content: str | None) -> None:
    expected = Outcome(None, raw if content == RAW else content)
    assert outcomes_by_cut(Generation(fmt, raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


def test_a_call_may_follow_a_terminator() -> None:
    raw = f"Hi<|im_end|>\n{CALL}<|im_end|>"
    expected = Outcome(None, "Hi", call())
    assert outcomes_by_cut(Generation("hermes", raw, TOOLS), every_cut(raw), "incremental").keys() == {expected}


def test_a_terminator_that_is_a_token_is_no_text() -> None:
    fmt = unspool.get_format("hermes")
    vocabulary = Vocabulary.of(fmt)
    token = {text: number for number, text in vocabulary.special.items()}
    letters = [vocabulary.ordinary(b"Hi"), vocabulary.ordinary(b"<|im_end|>"), vocabulary.ordinary(b".")]

    def content(*ids: int) -> str | None:
        parser = unspool.Parser(fmt, tokenizer=vocabulary)
        return unspool.Message.from_events(parser.feed_tokens(ids) + parser.finish("stop")).content

    assert content(letters[0], letters[1]) == "Hi<|im_end|>"
    assert content(letters[0], token["<|im_end|>"], letters[2]) == "Hi."
    assert content(letters[0], token["<|im_end|>"], token["<|im_start|>"], letters[2]) == "Hi"


def test_a_prompt_of_another_template_is_not_over() -> None:
    prompt = "Q<|im_end|>\n<|im_start|>A"
    assert unspool.parse("hermes", "Hi", prompt=prompt).content == "Hi"
