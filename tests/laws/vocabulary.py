"""A made-up vocabulary: any bytes are a token, and some markers are special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.laws.messages import special_tokens
from unspool import Format
from unspool.parsing.declaration import map_strings

_PRIVATE = 0xE000
"""Where the characters begin that stand for special tokens in a text that is not yet ids."""


@dataclass(slots=True)
class Vocabulary:
    """Grows a token for whatever has to be spelled; satisfies the parser's ``piece`` and ``special``."""

    special: Mapping[int, str]
    _pieces: list[bytes] = field(default_factory=list)
    _ids: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def of(cls, fmt: Format) -> Vocabulary:
        """The markers of the format are special tokens, from id 0 on."""
        found = special_tokens(fmt)
        return cls(dict(enumerate(found)), [token.encode() for token in found])

    def piece(self, token_id: int, /) -> bytes:
        """The bytes of a token."""
        return self._pieces[token_id]

    @property
    def size(self) -> int:
        """How many tokens there are; ids count from 0."""
        return len(self._pieces)

    def ordinary(self, letters: bytes) -> int:
        """The token that these letters are."""
        if letters not in self._ids:
            self._ids[letters] = len(self._pieces)
            self._pieces.append(letters)
        return self._ids[letters]

    def spell(self, text: str, sizes: Sequence[int]) -> list[int]:
        """Ids for a text in which special tokens are single characters; other tokens have these sizes in turn."""
        ids: list[int] = []
        letters = b""
        for char in [*text, ""]:
            number = ord(char) - _PRIVATE if char else -1
            if char and not 0 <= number < len(self.special):
                letters += char.encode()
                continue
            while letters:
                size = sizes[len(ids) % len(sizes)]
                ids.append(self.ordinary(letters[:size]))
                letters = letters[size:]
            if char:
                ids.append(number)
        return ids


def by_character(fmt: Format) -> Format:
    """The format with a character of its own for each special token, so that a text can hold both kinds."""
    return map_strings(fmt, {token: chr(_PRIVATE + number) for number, token in enumerate(special_tokens(fmt))})
