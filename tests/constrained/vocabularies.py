"""Tokenizers for the tests of constraints, made here, so that nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from unspool.constrained.base import Constraint, allowed, new_mask

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
CORPUS = [
    'the weather in Oslo is fine and the answer is {"city": "Oslo", "days": 12, "ok": true, "unit": "celsius"}',
    "<think>\nI should think about the question before I answer it.\n</think>\n\nthinking is done",
    '{"name": "get_weather", "arguments": {"city": "Paris", "tags": ["a", "b", "c"], "x": null, "y": 1.5e3}}',
    "北京的天气 Größe naïve 🙂 \t tabs and   spaces\r\n",
]


@cache
def byte_level() -> Tokenizer:
    """A small byte-level BPE with markers as Qwen3 has them, which are not flagged special, and ends that are."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=1
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    tokenizer.add_tokens([AddedToken("\n\n\n", normalized=False)])
    return tokenizer


@cache
def sentence_piece() -> Tokenizer:
    """A BPE as SentencePiece makes them: spaces as a letter, one before every text, bytes for missing letters."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁ab<>/s{", '"', "▁a", "ab"]
    tokenizer = Tokenizer(
        models.BPE(
            {piece: token for token, piece in enumerate(pieces)},
            [("▁", "a"), ("a", "b")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


class Letters:
    """One token a byte, then words of several, then special tokens: the smallest vocabulary there can be."""

    def __init__(self, words: Sequence[str] = (), special: Sequence[str] = (), end: Sequence[str] = ()) -> None:
        self._pieces = [bytes([byte]) for byte in range(256)] + [word.encode() for word in (*words, *special)]
        first = 256 + len(words)
        self.special: Mapping[int, str] = dict(enumerate(special, first))
        self.eog = frozenset(first + special.index(text) for text in end)
        self.size = len(self._pieces)

    def piece(self, token_id: int, /) -> bytes:
        return self._pieces[token_id]

    def ids(self, text: str) -> list[int]:
        """Ids of a text, special tokens by id, longest words first."""
        found, data = [], text.encode()
        while data:
            best = max(
                (i for i, p in enumerate(self._pieces) if data.startswith(p)), key=lambda i: len(self.piece(i))
            )
            found.append(best)
            data = data[len(self.piece(best)) :]
        return found


def choices(constraint: Constraint) -> set[int]:
    """The tokens that a constraint allows next."""
    mask = new_mask(constraint.vocab_size)
    constraint.mask(mask)
    return set(np.flatnonzero(allowed(mask, mask.size * 32)).tolist())


def takes(constraint: Constraint, tokens: Sequence[int]) -> int:
    """How many tokens are allowed and accepted, one after the other; none that is allowed may be refused."""
    for count, token in enumerate(tokens):
        if token not in choices(constraint):
            return count
        assert constraint.accept(token), f"token {token} at {count} was allowed and is refused"
    return len(tokens)
