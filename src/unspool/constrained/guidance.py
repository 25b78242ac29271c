"""Grammars, by llguidance: compiled once for a tokenizer, copied for each generation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unspool.constrained.base import (
    ConstraintError,
    GrammarError,
    Mask,
    allow,
    allow_only,
    allowed,
    check_mask,
    check_tokens,
    mask_words,
    new_mask,
)
from unspool.constrained.grammars import Grammar
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of

MAX_ROWS = 20_000
"""Grammar items that may be open at one place. Each optional property of an object takes four of them."""

_BUILDING_FUEL = 20_000_000
"""Expressions that building may take: a bounded text with a pattern can take more than llguidance's 1,000,000."""

_FUEL = 2_000_000
"""Expressions that one mask may take; llguidance's 200,000 are too few near the end of a long bounded text."""


class LLGuidanceConstraint:
    """A :class:`~unspool.constrained.base.Constraint` that holds a generation to a grammar.

    ``end_tokens`` are the ids that end a generation: allowed where the text is complete, refused elsewhere unless
    the grammar names them. Without them the tokenizer's own are taken. ``max_rows`` bounds how much of the
    grammar may be open at one place. Raises :class:`GrammarError` if the grammar can't be compiled or is too
    large for that, :class:`ConstraintError` if the tokenizer can't be used.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokenizer: Any,
        *,
        end_tokens: Iterable[int] | None = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        vocabulary = vocabulary_of(tokenizer)
        self.grammar = grammar
        self._size = vocabulary.spare
        ends = vocabulary.end_tokens if end_tokens is None else end_tokens
        self.end_tokens = check_tokens(ends, self._size, "End token")
        self._pristine = compiled(grammar, vocabulary, max_rows)
        self._matcher = self._pristine.deep_copy()
        self._base = 0, self._pristine  # how many tokens a matcher has read from which others can go on
        self._tokens: list[int] = []  # of the text
        self._ended = 0  # end tokens accepted behind it
        self._words = mask_words(self._size)
        self._bytes = self._words * 4
        self._spare_bit = 1 << (self._size & 31)
        self._out: Mask | None = None  # the mask in use; none behind an end token
        self._address = 0
        self._memory = memoryview(b"")
        self._told = False  # whether the mask in use says what may come next, the end apart

    @property
    def vocab_size(self) -> int:
        """How many token ids there are."""
        return self._size

    @property
    def is_stopped(self) -> bool:
        """Whether the text is complete: nothing but an end token may follow."""
        return bool(self._ended) or (self._matcher.is_stopped() and not self._matcher.is_error())

    @property
    def may_end(self) -> bool:
        """Whether the text so far satisfies the grammar."""
        return bool(self._ended) or self._matcher.is_accepting()

    def mask(self, out: Mask) -> bool:
        """Writes which tokens may come next; always true.

        Raises :class:`ConstraintError` if the grammar grows past a limit here, or for a mask of another size.
        """
        if out is not self._out:
            check_mask(out, self._size)
            if self._ended:
                allow_only(out, self.end_tokens)
                return True
            self._out, self._address, self._memory = out, out.ctypes.data, out.reshape(-1).data
        self._matcher.unsafe_compute_mask_ptr(self._address, self._bytes)
        self._told = True
        # Every step comes by here, and memory is read in a third of the time that the array would take.
        if self._memory[-1] & self._spare_bit:
            self._told = False
            # Of a matcher that failed nothing but the end is offered.
            self._check()
            # As the last word is the spare bit's, nothing stands above it: clearing can't touch a sign.
            self._memory[-1] &= self._spare_bit - 1
            allow(out, self.end_tokens)
        return True

    def accept(self, token: int) -> bool:
        """Takes a token; false, with nothing changed, if it may not come next.

        Raises :class:`ConstraintError` if the grammar grows past a limit here.
        """
        if self._told:
            self._told = False
            # A token that the mask has can be taken at two thirds of the cost of one that may be refused.
            if 0 <= token < self._size and self._memory[token >> 5] >> (token & 31) & 1:
                if self._matcher.consume_token(token):
                    self._tokens.append(token)
                    return True
                self._read_again()  # somebody else wrote into the mask
        if not self._ended and 0 <= token < self._size and self._matcher.try_consume_tokens([token]):
            self._tokens.append(token)
            return True
        if token in self.end_tokens and self.may_end:
            self._ended += 1
            self._out = None
            return True
        self._check()
        return False

    def rollback(self, count: int) -> None:
        """Undoes the last ``count`` accepted tokens. Raises ``ValueError`` if there were fewer.

        The text is read again if llguidance can't go back: after a limit was met, and in grammars with
        ``max_tokens`` or ``stop``. It is read from the place of the last rollback, if that is not undone, too: a
        draft that is tried and dropped costs no more than its own length.
        """
        length = len(self._tokens) + self._ended
        if not 0 <= count <= length:
            raise ValueError(f"There are {length} tokens to roll back, not {count}.")
        self._told = False
        ends = min(count, self._ended)
        self._ended -= ends
        del self._tokens[len(self._tokens) - (count - ends) :]
        if self._matcher.is_error() or not self._matcher.rollback(count - ends):
            self._read_again()

    def _read_again(self) -> None:
        known, matcher = self._base if self._base[0] <= len(self._tokens) else (0, self._pristine)
        self._matcher = matcher.deep_copy()
        self._matcher.try_consume_tokens(self._tokens[known:])
        self._base = len(self._tokens), self._matcher.deep_copy()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise ConstraintError(f"The grammar can't go on here: {_first_line(self._matcher.get_error())}")


def compiled(grammar: Grammar, vocabulary: Vocabulary, max_rows: int = MAX_ROWS) -> Any:
    """The compiled matcher of a grammar, to be copied for each generation. Raises :class:`GrammarError`."""
    return vocabulary.grammars.get((grammar.text, max_rows), lambda: _compile(grammar, vocabulary, max_rows))


def _compile(grammar: Grammar, vocabulary: Vocabulary, max_rows: int) -> Any:
    tokenizer = vocabulary.for_llguidance
    from llguidance import LLMatcher, LLParserLimits

    limits = LLParserLimits(
        max_items_in_row=max_rows,
        initial_lexer_fuel=_BUILDING_FUEL,
        step_lexer_fuel=_FUEL,
        verbose_errors=False,
    )
    matcher = LLMatcher(tokenizer, grammar.text, log_level=0, limits=limits)
    if matcher.is_error():
        reason = matcher.get_error().partition("<backtrace")[0].strip()
        raise GrammarError(f"The grammar can't be compiled: {reason}")
    _probe(matcher.deep_copy(), vocabulary.spare)
    return matcher


def _probe(matcher: Any, size: int) -> None:
    """Takes one token, because only that shows a grammar that is too large, or that nothing satisfies."""
    mask = new_mask(size)
    matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    choices = allowed(mask, size + 1)
    if not matcher.is_error():
        if not choices.any():
            raise GrammarError("Nothing satisfies the grammar: no token may come first.")
        matcher.try_consume_tokens([int(choices.argmax())])
        if not matcher.is_error() and not matcher.is_stopped():
            matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
    if matcher.is_error():
        raise GrammarError(
            f"The grammar is too large or can't be satisfied: {_first_line(matcher.get_error())} "
            "Use fewer optional properties or alternatives in one place."
        )


def _first_line(error: str) -> str:
    return error.strip().partition("\n")[0].strip()
