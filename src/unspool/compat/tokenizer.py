"""The tokenizer that plugins are given: what they ask of one, whatever the engine has.

An engine's tokenizer that can look texts up serves with its own ids. Where there is only text, ids are made up:
each character is one token, and so is each text that a plugin asked the vocabulary for, so that parsers which look
for the ids of their markers find them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from unspool.parsing.scanner import Watch

_FIRST_MARKER = 0x110000
"""Ids below are characters."""
_WORD = re.compile(r" ?\w{1,16}|\W")
_MARKER = re.compile(r"[<\[{|｜].*[>\]}|｜]", re.DOTALL)


class _Vocabulary(dict[str, int]):
    """Knows every text that it is asked for: asking makes it a token."""

    def __missing__(self, text: str) -> int:
        if not isinstance(text, str) or not text:
            raise KeyError(text)
        self[text] = ord(text) if len(text) == 1 else _FIRST_MARKER + len(self)
        return self[text]

    def get(self, text: str, default: Any = None) -> Any:
        return self[text] if isinstance(text, str) and text else default

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and bool(text)


class TextTokenizer:
    """A tokenizer for text without ids. ``chat_template`` is the model's, if it is known."""

    def __init__(self, chat_template: str | None = None) -> None:
        self.vocab = _Vocabulary()
        self.chat_template = chat_template
        self.all_special_tokens: list[str] = []
        self.all_special_ids: list[int] = []
        self.eos_token_id: int | None = None
        self.bos_token_id: int | None = None

    def get_vocab(self) -> dict[str, int]:
        """Texts to ids; whatever is looked up is there."""
        return self.vocab

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of a token, or the ids of several."""
        return self.vocab[tokens] if isinstance(tokens, str) else [self.vocab[token] for token in tokens]

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        """The ids of a text; one that looks like a marker is one token."""
        if len(text) > 1 and _MARKER.fullmatch(text):
            return [self.vocab[text]]
        return [token for _, ids in Pieces(self).feed(text, final=True) for token in ids]

    def __call__(self, text: str, *_: Any, **__: Any) -> dict[str, list[int]]:
        return {"input_ids": self.encode(text)}

    def tokenize(self, text: str, *_: Any, **__: Any) -> list[str]:
        """The tokens of a text."""
        return self.convert_ids_to_tokens(self.encode(text))

    def convert_ids_to_tokens(self, ids: Iterable[int], *_: Any, **__: Any) -> list[str]:
        """The text of each token."""
        markers = {token: text for text, token in self.vocab.items()}
        return [markers.get(token) or chr(token) for token in ids]

    def decode(self, ids: int | Iterable[int], *_: Any, **__: Any) -> str:
        """The text of some tokens."""
        return "".join(self.convert_ids_to_tokens([ids] if isinstance(ids, int) else ids))

    def markers(self) -> list[str]:
        """The texts longer than a character that are one token."""
        return [text for text in self.vocab if len(text) > 1]


class Pieces:
    """Cuts text as a tokenizer would: each marker is a piece of its own, with its id; the rest is cut into words.

    Parsers are written for tokens, and some fall behind when one step brings more than one.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._vocabulary = tokenizer.vocab
        self._watch = Watch(("", tokenizer.markers()))
        self._text = ""

    def feed(self, text: str, *, final: bool = False) -> list[tuple[str, list[int]]]:
        """The next pieces; what may still become a marker waits unless the text is ``final``."""
        self._text += text
        pieces = []
        at = 0
        while found := self._watch.find(self._text, at, final):
            pieces += _WORD.findall(self._text, at, found.start())
            at = found.start()
            if not found.lastindex:
                break
            pieces.append(found.group())
            at = found.end()
        else:
            pieces += _WORD.findall(self._text, at)
            at = len(self._text)
        self._text = self._text[at:]
        return [(piece, self._ids(piece)) for piece in pieces]

    def known(self, marker: str) -> int | None:
        """The id of a marker, if a parser asked for it."""
        return dict.get(self._vocabulary, marker)

    def _ids(self, piece: str) -> list[int]:
        token = self.known(piece)
        return [ord(char) for char in piece] if token is None else [token]


@lru_cache(maxsize=4)
def _texts(tokenizer: Any) -> dict[str, int]:
    """All tokens of an engine's tokenizer; read once, since each request makes its parsers anew."""
    pieces = {tokenizer.piece(token).decode("utf-8", "replace"): token for token in range(tokenizer.size)}
    return {**pieces, **{text: token for token, text in tokenizer.special.items()}}


class NamedTokenizer:
    """An engine's tokenizer that encodes, with what plugins ask beyond that; the rest is passed on to it."""

    def __init__(self, inner: Any, chat_template: str | None = None) -> None:
        self._inner = inner
        self.chat_template = chat_template
        self.all_special_ids: list[int] = sorted(inner.special)
        self.all_special_tokens = [inner.special[token] for token in self.all_special_ids]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_vocab(self) -> dict[str, int]:
        """Texts to ids, of the special tokens and all others."""
        return _texts(self._inner)

    @property
    def vocab(self) -> dict[str, int]:
        """The same as :meth:`get_vocab`."""
        return self.get_vocab()

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        """The ids of a text."""
        ids: list[int] = self._inner.encode(text)
        return ids

    def decode(self, ids: int | Sequence[int], *_: Any, **__: Any) -> str:
        """The text of some tokens."""
        return str(self._inner.decode([ids] if isinstance(ids, int) else ids))

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of a token, or the ids of several; ``None`` for a text that is no token."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        ids = self.encode(tokens)
        return ids[0] if len(ids) == 1 else None


def tokenizer_for_plugins(tokenizer: Any, chat_template: str | None = None) -> tuple[Any, bool]:
    """A tokenizer with everything that plugins use, and whether the engine's ids are its ids."""
    if tokenizer is not None and hasattr(tokenizer, "get_vocab") and hasattr(tokenizer, "encode"):
        return tokenizer, True
    if tokenizer is not None and hasattr(tokenizer, "encode") and hasattr(tokenizer, "size"):
        return NamedTokenizer(tokenizer, chat_template), True
    return TextTokenizer(chat_template), False
