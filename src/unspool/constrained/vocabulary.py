"""What a constraint must know of a tokenizer: the bytes of every token, and how text becomes ordinary tokens.

Added tokens never stand for text here: they are reached by id alone, and the encoder doesn't know them. Otherwise
a schema that spells one (``{"const": "<think>"}``) would be forced into a token that no grammar accepts. The
grammar's end is an id behind the vocabulary that no model can choose, so a grammar may name any token of its
format, those that end a generation too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from unspool.constrained.base import ConstraintError
from unspool.constrained.cache import Cache, IdentityCache
from unspool.parsing.tokens import inner_tokenizer, piece_reader, special_tokens

_LONGEST_WORD = 128  # bytes; tokens longer than this are not tried where text is cut greedily


class Vocabulary:
    """One tokenizer as constraints see it.

    ``tokens`` are the bytes of each id, ``special`` the ids that never stand for text, ``markers`` those ids by
    what spells them, ``flagged`` the texts of those that readers, too, know by id. ``end_tokens`` are the ids
    that end a generation as far as the tokenizer says, ``spare`` is the first id that no token has. ``natives``
    are the same data as each backend wants it, by its name, ``grammars`` what was compiled for it, and ``turns``
    the grammars made of formats.
    """

    def __init__(self, tokenizer: Any) -> None:
        inner = inner_tokenizer(tokenizer)
        piece = piece_reader(inner)
        if piece is None:
            raise ConstraintError(
                f"The bytes of {type(tokenizer).__name__}'s tokens can't be told; give an object with size, "
                "special and piece(id), or a tokenizers, transformers (fast) or mistral-common tokenizer."
            )
        flagged = special_tokens(inner)
        special = {**flagged, **_marker_like(inner)}
        self.spare = size = _size(inner)
        self.special = frozenset(special)
        self.markers: Mapping[str, int] = {text: token for token, text in special.items() if text}
        self.flagged = frozenset(flagged.values())
        self.tokens: Sequence[bytes] = [
            special[token].encode("utf-8", "replace") if token in special else bytes(piece(token))
            for token in range(size)
        ]
        self.end_tokens = _end_tokens(tokenizer, inner)
        self.grammars: Cache[Any] = Cache(128)
        self.turns: Cache[Any] = Cache(128)
        self.natives: Cache[Any] = Cache(4)
        self._encode = _encoder(inner)

    def encode(self, data: bytes) -> list[int]:
        """The ids of some bytes as ordinary tokens; their bytes always join to ``data``."""
        try:
            ids = self._encode(data.decode("utf-8")) if self._encode is not None else []
        except UnicodeDecodeError:
            ids = []
        if self.special.isdisjoint(ids) and b"".join(self.tokens[token] for token in ids) == data:
            return ids
        return self._cut_greedily(data)

    def marker(self, text: str) -> list[int]:
        """The ids of a format's marker: what of it the vocabulary has as special tokens is one."""
        ids: list[int] = []
        start = 0
        for found in self._any_marker.finditer(text):
            ids += [*self.encode(text[start : found.start()].encode()), self.markers[found[0]]]
            start = found.end()
        return ids + self.encode(text[start:].encode())

    @cached_property
    def _any_marker(self) -> re.Pattern[str]:
        # The longest first; without any, what is found nowhere.
        return re.compile("|".join(map(re.escape, sorted(self.markers, key=len, reverse=True))) or r"(?!)")

    @cached_property
    def layout(self) -> frozenset[int]:
        """The ids of tokens that are nothing but whitespace."""
        return frozenset(
            token
            for token, data in enumerate(self.tokens)
            if data and token not in self.special and not data.strip(b" \t\r\n")
        )

    @property
    def for_llguidance(self) -> Any:
        """The tokenizer as llguidance's ``LLTokenizer``; takes a second or more to make, once."""
        return self.natives.get("llguidance", self._make_for_llguidance)

    def _make_for_llguidance(self) -> Any:
        try:
            from llguidance import LLTokenizer, TokenizerWrapper
        except ImportError as error:
            raise ConstraintError("Grammars need llguidance: pip install 'unspool[constrained]'.") from error

        return LLTokenizer(TokenizerWrapper(_Wrapped(self)), n_vocab=self.spare + 1, eos_token=self.spare)

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {data: token for token, data in enumerate(self.tokens) if data and token not in self.special}

    @cached_property
    def _longest(self) -> int:
        return min(_LONGEST_WORD, max(map(len, self._ids), default=0))

    def _cut_greedily(self, data: bytes) -> list[int]:
        ids = []
        start = 0
        while start < len(data):
            for end in range(min(start + self._longest, len(data)), start, -1):
                token = self._ids.get(data[start:end])
                if token is not None:
                    ids.append(token)
                    start = end
                    break
            else:
                # No token has this byte; llguidance takes what is missing for text it can't force.
                return ids
        return ids


class _Wrapped:
    """The attributes llguidance reads; its end token is the spare id."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.spare
        self.bos_token_id = None
        self.tokens = [*vocabulary.tokens, b"<end of the grammar>"]
        self.special_token_ids = [*sorted(vocabulary.special), vocabulary.spare]
        self._encode = vocabulary.encode

    def __call__(self, data: bytes) -> list[int]:
        return self._encode(bytes(data))


_vocabularies: IdentityCache[Vocabulary] = IdentityCache(8)


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """What constraints know of a tokenizer, read once for each object. Raises :class:`ConstraintError`."""
    if isinstance(tokenizer, Vocabulary):
        return tokenizer

    def read() -> Vocabulary:
        try:
            return Vocabulary(tokenizer)
        except TypeError as error:
            raise ConstraintError(str(error)) from error

    return _vocabularies.get(tokenizer, read)


def _size(tokenizer: Any) -> int:
    if hasattr(tokenizer, "get_vocab"):
        # Ids may have holes, so the number of tokens says nothing about the highest.
        return 1 + max(map(int, tokenizer.get_vocab(with_added_tokens=True).values()))
    size: int | None = getattr(tokenizer, "size", None) or getattr(tokenizer, "n_words", None)
    if size is None:
        raise TypeError(f"cannot tell the size of {type(tokenizer).__name__}; give it an attribute 'size'")
    return size


def _marker_like(tokenizer: Any) -> dict[int, str]:
    """Added tokens that are not flagged special but stand for markers, such as Qwen3's ``<think>``.

    Runs of newlines and the like, which some vocabularies add too, are text.
    """
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        added = {token: entry.content for token, entry in tokenizer.get_added_tokens_decoder().items()}
    else:
        added = dict(getattr(tokenizer, "added", {}))
    return {token: text for token, text in added.items() if text[:1] == "<" and text[-1:] == ">"}


def _end_tokens(tokenizer: Any, inner: Any) -> frozenset[int]:
    """The ids that end a generation, under the names the different libraries have for them."""
    for owner in (tokenizer, inner):
        for name in ("eog", "eos_token_ids", "eos_token_id", "eos_id"):
            found = getattr(owner, name, None)
            if isinstance(found, int):
                return frozenset((found,))
            if isinstance(found, Iterable) and not isinstance(found, Mapping | str | bytes):
                ids = frozenset(found)
                if ids:
                    return ids
    return frozenset()


def _encoder(tokenizer: Any) -> Callable[[str], list[int]] | None:
    """Text to ordinary tokens, or ``None`` where only the bytes of the tokens are known."""
    if hasattr(tokenizer, "to_str") and hasattr(tokenizer, "get_added_tokens_decoder"):
        return _without_added_tokens(tokenizer)
    if hasattr(tokenizer, "encode") and isinstance(getattr(tokenizer, "special", None), Mapping):
        return lambda text: list(tokenizer.encode(text, parse_special=False))
    if hasattr(tokenizer, "encode") and hasattr(tokenizer, "id_to_piece"):
        return lambda text: list(tokenizer.encode(text, bos=False, eos=False))
    return None


def _without_added_tokens(tokenizer: Any) -> Callable[[str], list[int]]:
    import json

    from tokenizers import Tokenizer

    data = json.loads(tokenizer.to_str())
    data |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    plain = Tokenizer.from_str(json.dumps(data))
    return lambda text: list(plain.encode(text, add_special_tokens=False).ids)
