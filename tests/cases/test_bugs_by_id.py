"""The reports that are about tokens, not about text: fed as ids, one token at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

import unspool
from unspool import ContentDelta, Event, Message, Parser


@dataclass(frozen=True, slots=True)
class Tokens:
    """A vocabulary made of a report's own tokens: bytes by id, and which are special."""

    pieces: Sequence[bytes]
    special: Mapping[int, str]

    def piece(self, token_id: int, /) -> bytes:
        return self.pieces[token_id]


def events(fmt: str, tokens: Tokens, prompt: str) -> list[Event]:
    parser = Parser(unspool.get_format(fmt), tokenizer=tokens, prompt=prompt)
    found = [event for token in range(len(tokens.pieces)) for event in parser.feed_tokens([token])]
    return found + parser.finish("stop")


def test_a_character_cut_over_tokens_is_never_a_replacement_character() -> None:
    """BUG-116: the bytes of three characters, cut inside two of them."""
    tokens = Tokens([bytes.fromhex(piece) for piece in ("e38182e3", "81aee5", "8c97")], {})
    found = events("hermes", tokens, "<|im_start|>assistant\n")
    deltas = [event.text for event in found if isinstance(event, ContentDelta)]
    assert not any("\ufffd" in delta for delta in deltas)
    assert "".join(deltas) == "あの北"


@pytest.mark.parametrize("fmt", ["qwen3", "qwen3_5", "deepseek_r1", "glm47"])
def test_an_end_tag_spelled_with_ordinary_tokens_is_quoted(fmt: str) -> None:
    """BUG-189: where the marker is one special token, the same letters in ordinary tokens are text."""
    texts = ["The tag `", "</", "think", ">", "` closes the block; fine.\n", "</think>", "\n\nDone."]
    tokens = Tokens([text.encode() for text in texts], {5: "</think>"})
    message = Message.from_events(events(fmt, tokens, "<think>\n"))
    assert message.reasoning is not None
    assert message.reasoning.rstrip("\n") == "The tag `</think>` closes the block; fine."
    assert message.content is not None
    assert message.content.lstrip("\n") == "Done."
