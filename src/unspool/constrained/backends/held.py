"""What the constraints of other backends have in common: end tokens behind the text, and exact counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from unspool.constrained.base import (
    ConstraintError,
    GrammarError,
    Mask,
    allow,
    allow_only,
    check_mask,
    check_tokens,
)
from unspool.constrained.grammars import Grammar, Source
from unspool.constrained.schema import spelled
from unspool.constrained.vocabulary import Vocabulary


class HeldText(ABC):
    """A :class:`~unspool.constrained.base.Constraint` whose text a backend follows.

    The backend never sees an end token: those come where the text may end, and nothing but those behind one.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, end_tokens: Iterable[int] | None) -> None:
        self.grammar = grammar
        self._size = vocabulary.spare
        ends = vocabulary.end_tokens if end_tokens is None else end_tokens
        self.end_tokens = check_tokens(ends, self._size, "End token")
        self._ended = 0  # end tokens accepted behind the text
        self._length = 0  # tokens of the text

    @property
    def vocab_size(self) -> int:
        """How many token ids there are."""
        return self._size

    @property
    def is_stopped(self) -> bool:
        """Whether the text is complete: nothing but an end token may follow."""
        return bool(self._ended) or self._is_complete()

    @property
    def may_end(self) -> bool:
        """Whether the text so far satisfies the grammar."""
        return bool(self._ended) or self._may_end()

    def mask(self, out: Mask) -> bool:
        """Writes which tokens may come next; always true.

        Raises :class:`ConstraintError` if the backend can't go on, or for a mask of another size.
        """
        check_mask(out, self._size)
        if self._ended:
            allow_only(out, self.end_tokens)
            return True
        self._write(out)
        if self._may_end():
            allow(out, self.end_tokens)
        return True

    def accept(self, token: int) -> bool:
        """Takes a token; false, with nothing changed, if it may not come next."""
        if not self._ended and 0 <= token < self._size and self._take(token):
            self._length += 1
            return True
        if token in self.end_tokens and self.may_end:
            self._ended += 1
            return True
        return False

    def rollback(self, count: int) -> None:
        """Undoes the last ``count`` accepted tokens. Raises ``ValueError`` if there were fewer."""
        if not 0 <= count <= self._length + self._ended:
            raise ValueError(f"There are {self._length + self._ended} tokens to roll back, not {count}.")
        ends = min(count, self._ended)
        self._ended -= ends
        if count > ends:
            self._undo(count - ends)
            self._length -= count - ends

    @abstractmethod
    def _may_end(self) -> bool:
        """Whether the text may end here."""

    @abstractmethod
    def _is_complete(self) -> bool:
        """Whether the text may end here and can't go on."""

    @abstractmethod
    def _write(self, out: Mask) -> None:
        """Writes which tokens of text may come next, the spare bit 0."""

    @abstractmethod
    def _take(self, token: int) -> bool:
        """Takes a token of text; false, with nothing changed, if it may not come next."""

    @abstractmethod
    def _undo(self, count: int) -> None:
        """Undoes the last tokens of text, of which there are enough."""


def package(module: str, name: str) -> Any:
    """The module of a backend. Raises :class:`ConstraintError` if it isn't installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConstraintError(f"This needs {name}: pip install 'unspool[{name}]'.") from error


def source_of(grammar: Grammar | Mapping[str, Any] | bool, strict: bool) -> Source:
    """What a backend has to read: what a grammar was made of, or a schema, which ``strict`` says was demanded.

    Raises :class:`GrammarError` for a grammar that only its text is known of.
    """
    if isinstance(grammar, Grammar):
        if grammar.source is None:
            raise GrammarError(
                "Only llguidance reads this grammar; make it by json_schema, regex, choice or ebnf."
            )
        return grammar.source
    return Source("json_schema", spelled(grammar), strict)
