"""What the next token may be: the interface of every constraint, and the masks it writes.

A mask is a row of 32-bit words with one bit a token, lowest bit first, as llguidance and vLLM lay it out, plus one
spare bit behind the vocabulary that is 0 whenever a constraint hands a mask over. :func:`new_mask` makes one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.int32]


class ConstraintError(Exception):
    """A constraint can't be built or can't go on; the message says why and what to do."""


class GrammarError(ConstraintError):
    """A grammar that can't be compiled, or is too large: the caller's fault, found before generation."""


class SchemaError(GrammarError):
    """A JSON Schema that can't be enforced.

    ``keyword`` is what stands in the way and ``pointer`` the JSON pointer of the subschema that holds it (``""``
    is the root). Both are ``""`` if no single keyword is to blame.
    """

    def __init__(self, message: str, keyword: str = "", pointer: str = "") -> None:
        super().__init__(message)
        self.keyword = keyword
        self.pointer = pointer


@runtime_checkable
class Constraint(Protocol):
    """What the next token may be, for one generation.

    A token whose bit :meth:`mask` sets is accepted by :meth:`accept`, which may also take tokens that spell the
    same text in another way. A constraint belongs to one thread at a time.
    """

    @property
    def vocab_size(self) -> int:
        """How many token ids there are; the mask has :func:`mask_words` words for them."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether the text is complete: nothing but an end token may follow."""
        ...

    def mask(self, out: Mask) -> bool:
        """Writes which tokens may come next; false if that is every token (the mask is then all ones).

        Raises :class:`ConstraintError` if that can't be computed (the generation has to end), or ``out`` is not
        of the kind that :func:`new_mask` makes.
        """
        ...

    def accept(self, token: int) -> bool:
        """Takes a token; false, with nothing changed, if it may not come next."""
        ...

    def rollback(self, count: int) -> None:
        """Undoes the last ``count`` accepted tokens. Raises ``ValueError`` if there were fewer."""
        ...


def mask_words(vocab_size: int) -> int:
    """How many 32-bit words a mask has: room for every token and for one spare bit."""
    return vocab_size // 32 + 1


def new_mask(vocab_size: int) -> Mask:
    """A mask that allows every token."""
    mask = np.empty(mask_words(vocab_size), np.int32)
    allow_all(mask, vocab_size)
    return mask


def allow_all(mask: Mask, vocab_size: int) -> None:
    """Sets the bits of all tokens, and the spare one to 0."""
    mask.fill(-1)
    mask.view(np.uint32)[-1] = (1 << (vocab_size & 31)) - 1


def allow_only(mask: Mask, tokens: Iterable[int]) -> None:
    """Sets the bits of these tokens alone."""
    mask.fill(0)
    allow(mask, tokens)


def allow(mask: Mask, tokens: Iterable[int]) -> None:
    """Sets the bits of some tokens."""
    words = mask.view(np.uint32)
    for token in tokens:
        words[token >> 5] |= np.uint32(1 << (token & 31))


def forbid(mask: Mask, tokens: Iterable[int]) -> None:
    """Clears the bits of some tokens."""
    words = mask.view(np.uint32)
    for token in tokens:
        words[token >> 5] &= np.uint32(~(1 << (token & 31)) & 0xFFFFFFFF)


def allows(mask: Mask, token: int) -> bool:
    """Whether the bit of a token is set."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)


def allowed(mask: Mask, size: int) -> npt.NDArray[np.bool_]:
    """One truth value for each of the first ``size`` ids; ids behind the mask's end are false."""
    bits = np.unpackbits(mask.view(np.uint8), count=min(size, mask.size * 32), bitorder="little")
    if bits.size < size:
        bits = np.pad(bits, (0, size - bits.size))
    return bits.view(np.bool_)


def check_mask(mask: Any, vocab_size: int | None = None) -> None:
    """Raises :class:`ConstraintError` for what is no mask; with a size, for one that can't be written for that."""
    wanted = f"one row of {'32-bit' if vocab_size is None else mask_words(vocab_size)} words (int32)"
    if not isinstance(mask, np.ndarray):
        found = f"a {type(mask).__name__}"
    elif mask.dtype != np.int32 or mask.ndim != 1:
        found = f"{mask.dtype} of shape {mask.shape}"
    elif not mask.flags.c_contiguous:
        found = "words with gaps between them"
    elif vocab_size is not None and mask.size != mask_words(vocab_size):
        found = f"{mask.size} words"
    elif vocab_size is not None and not mask.flags.writeable:
        found = "one that can't be written"
    else:
        return
    raise ConstraintError(f"The mask must be {wanted}, not {found}; make it with new_mask().")


def check_tokens(tokens: Iterable[int], vocab_size: int, what: str) -> frozenset[int]:
    """The tokens, if the vocabulary has them. Raises :class:`ConstraintError`, which says ``what`` is wrong."""
    try:
        found = list(tokens)
    except TypeError as error:
        raise ConstraintError(f"{what}s must be given as several ids, not as {tokens!r}.") from error
    for token in found:
        if not isinstance(token, int | np.integer):
            raise ConstraintError(f"{what} {token!r} is no id: that is an integer from 0 to {vocab_size - 1}.")
        if not 0 <= token < vocab_size:
            raise ConstraintError(f"{what} {token} is not among the {vocab_size} tokens of this tokenizer.")
    return frozenset(map(int, found))
