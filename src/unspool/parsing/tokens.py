"""Token ids to text, one id at a time, with special tokens kept apart.

Anything with ``decode(ids)`` and a way to know its special tokens will do: a Hugging Face ``tokenizers`` or
``transformers`` tokenizer, one of mistral-common, or an object with ``piece(id) -> bytes`` and
``special: Mapping[int, str]``. Where the tokenizer's own tables give each token's bytes they are used;
otherwise a short window of ids is decoded again. Text that ends inside a character waits for the rest.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, runtime_checkable

from unspool.parsing.scanner import pattern

_WINDOW = 12

SENTINEL = pattern("[\ud800-\udfff]")
"""A character that stands for a special token, as :func:`sentinels` gives them out."""


@runtime_checkable
class Vocabulary(Protocol):
    """The fastest kind of tokenizer: bytes by id, and which ids are special tokens (id to text)."""

    @property
    def special(self) -> Mapping[int, str]:
        """Special tokens: id to the text that stands for it."""
        ...

    def piece(self, token_id: int, /) -> bytes:
        """The bytes of one token."""
        ...


@lru_cache(maxsize=1)
def _byte_of_letter() -> dict[str, int]:
    """Byte-level BPE writes each byte as a printable letter; this is the way back."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    spare = 0x100
    for byte in range(0x100):
        if byte not in printable:
            letters[chr(spare)] = byte
            spare += 1
    return letters


def _byte_level(token: str) -> bytes:
    letters = _byte_of_letter()
    try:
        return bytes(letters[char] for char in token)
    except KeyError:
        # An added token is not spelled in bytes.
        return token.encode("utf-8", "surrogatepass")


def _sentence_piece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("\u2581", " ").encode("utf-8", "surrogatepass")


Shown: TypeAlias = tuple[Mapping[str, str], Mapping[int, str], Any]
"""The characters that stand for special tokens, by text and by id (``""``: no text), and a format with them."""


@dataclass(frozen=True, slots=True)
class Tables:
    """What a tokenizer knows, read once; ``shown`` is what parsers have made of it, by format.

    ``texts`` are the texts of the tokens seen so far that are text, and the same whatever stands around them.
    """

    special: Mapping[int, str]
    piece: Callable[[int], bytes] | None
    decode: Callable[[Sequence[int]], str]
    shown: dict[Any, Shown] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


def _read(tokenizer: Any) -> Tables:
    inner = inner_tokenizer(tokenizer)
    return Tables(special_tokens(inner), piece_reader(inner), _decode_text(inner))


_read_once = lru_cache(maxsize=16)(_read)


class Detokenizer:
    """Text of consecutive tokens; holds what is not yet a whole character."""

    __slots__ = ("_decode", "_decoder", "_fresh", "_ids", "_piece", "_shown", "cut", "special", "tables")

    def __init__(self, tokenizer: Any) -> None:
        try:
            hash(tokenizer)
        except TypeError:
            tables = _read(tokenizer)
        else:
            tables = _read_once(tokenizer)
        self.tables = tables
        self.special = tables.special
        self._piece = tables.piece
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.cut = False
        """Whether a character is incomplete."""
        self._decode = tables.decode
        self._ids: list[int] = []
        self._shown = ""
        self._fresh = 0

    def text(self, token_id: int) -> str:
        """What this token adds to the text; ``""`` while a character is incomplete."""
        if self._piece is None:
            return self._by_window(token_id)
        piece = self._piece(token_id)
        # Nearly every token; the decoder costs three times as much.
        if not self.cut and piece.isascii():
            text = piece.decode("ascii")
            if text and token_id not in self.special:
                self.tables.texts[token_id] = text
            return text
        text = self._decoder.decode(piece)
        self.cut = bool(self._decoder.getstate()[0])
        return text

    def flush(self) -> str:
        """The held rest; a character that was never completed becomes U+FFFD."""
        if self._piece is not None:
            rest = self._decoder.decode(b"", True)
            self._decoder.reset()
            self.cut = False
            return rest
        rest = self._decode(self._ids)[len(self._shown) :]
        self._ids, self._shown, self._fresh = [], "", 0
        return rest

    def _by_window(self, token_id: int) -> str:
        """Decodes the last few ids with and without the new ones; the difference is new text."""
        self._ids.append(token_id)
        self._fresh += 1
        text = self._decode(self._ids)
        if text.endswith("\ufffd") and self._fresh < 5:
            return ""
        new = text[len(self._shown) :]
        if len(self._ids) > _WINDOW:
            self._ids = self._ids[-4:]
            text = self._decode(self._ids)
        self._shown = text
        self._fresh = 0
        return new


def inner_tokenizer(tokenizer: Any) -> Any:
    """The object that holds the tables: unwraps mistral-common and transformers."""
    instruct = getattr(tokenizer, "instruct_tokenizer", None)
    if instruct is not None:
        return instruct.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "get_added_tokens_decoder"):
        return backend
    return tokenizer


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """The special tokens of an inner tokenizer: id to text. Raises ``TypeError`` if they can't be told."""
    if isinstance(getattr(tokenizer, "special", None), Mapping):
        return dict(tokenizer.special)
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        added = tokenizer.get_added_tokens_decoder()
        return {i: token.content for i, token in added.items() if token.special}
    if hasattr(tokenizer, "special_ids") and hasattr(tokenizer, "id_to_piece"):
        return {i: tokenizer.id_to_piece(i) for i in tokenizer.special_ids}
    if hasattr(tokenizer, "added_tokens_decoder"):
        added = tokenizer.added_tokens_decoder
        return {i: token.content for i, token in added.items() if token.special}
    if hasattr(tokenizer, "is_special") and hasattr(tokenizer, "id_to_piece"):
        return {i: tokenizer.id_to_piece(i) for i in range(tokenizer.n_words) if tokenizer.is_special(i)}
    if hasattr(tokenizer, "all_special_ids") and hasattr(tokenizer, "convert_ids_to_tokens"):
        ids = list(tokenizer.all_special_ids)
        return dict(zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True))
    raise TypeError(
        f"cannot tell the special tokens of {type(tokenizer).__name__}; give an object with decode(ids) "
        "and a mapping 'special' from id to text, or a tokenizers, transformers or mistral-common tokenizer"
    )


def piece_reader(tokenizer: Any) -> Callable[[int], bytes] | None:
    """Bytes by id where the tables give them exactly, otherwise ``None``."""
    piece: Callable[[int], bytes] | None = getattr(tokenizer, "piece", None)
    if piece is not None:
        return piece
    if hasattr(tokenizer, "id_to_byte_piece"):
        by_id: Callable[[int], bytes] = tokenizer.id_to_byte_piece
        return by_id
    spell: Callable[[str], bytes] | None = None
    name: Callable[[int], str | None] = lambda _: None  # noqa: E731
    if hasattr(tokenizer, "id_to_token") and getattr(tokenizer, "decoder", None) is not None:
        state = bytes(tokenizer.decoder.__getstate__())
        name = tokenizer.id_to_token
        if b'"ByteLevel"' in state:
            spell = _byte_level
        elif b'"ByteFallback"' in state:
            spell = _sentence_piece
    elif hasattr(tokenizer, "id_to_piece"):
        name = tokenizer.id_to_piece
        spell = _sentence_piece
    if spell is None:
        return None
    chosen = spell

    @lru_cache(maxsize=1 << 18)
    def read(token_id: int) -> bytes:
        token = name(token_id)
        return b"" if token is None else chosen(token)

    return read


def _decode_text(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    def decode(ids: Sequence[int]) -> str:
        try:
            text: str = tokenizer.decode(list(ids), skip_special_tokens=False)
        except TypeError:
            text = tokenizer.decode(list(ids))
        return text

    return decode


def sentinels(special: Mapping[int, str], texts: Sequence[str]) -> dict[str, str]:
    """A character for each special token that a format's texts contain: token text to character.

    The characters are surrogates, which no decoded text contains, so letters can never be taken for a token.
    """
    joined = "\0".join(texts)
    used = sorted({text for text in special.values() if text and text in joined}, key=lambda t: (-len(t), t))
    return {text: chr(0xD800 + number) for number, text in enumerate(used[:0x7FF])}
