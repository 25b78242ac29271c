"""Keeping a constraint in step with a host that shows all tokens on every step, and takes some back as it likes.

Only the new tokens and the last few known ones are read, so a step costs the same at any length. Where those
differ from what was seen, the constraint is rolled back to what both have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from unspool.constrained.base import Constraint, ConstraintError, Mask, allow_only, check_mask

Read: TypeAlias = Callable[[int, int], Sequence[int]]
"""The tokens from one index to another, not included, of all tokens of a row."""

VERIFY = 64
"""Known tokens that are compared on every step."""


class History:
    """One row of tokens: a prompt, which is as long as what is shown first, and what was generated.

    ``verify`` is how many known tokens are compared on every step. A rewrite is missed only if it begins further
    back and ends in the same tokens; ``None`` compares all. A token that the constraint refuses (an unmasked
    draft) is kept in mind until it is taken back; meanwhile only an end token is allowed.
    """

    def __init__(self, constraint: Constraint, *, verify: int | None = VERIFY) -> None:
        self.constraint = constraint
        self._verify = verify
        self._prompt: int | None = None
        self._tokens: list[int] = []
        self._accepted = 0

    @property
    def is_refused(self) -> bool:
        """Whether the host goes on with a token that the constraint refused."""
        return self._accepted < len(self._tokens)

    def sync(self, length: int, read: Read) -> None:
        """Brings the constraint to the ``length`` tokens of a row.

        Raises :class:`ConstraintError` if they are those of another generation.
        """
        if self._prompt is None:
            self._prompt = length
        if length < self._prompt:
            raise ConstraintError("A constraint belongs to one generation; make a new one for each.")
        prompt, known = self._prompt, len(self._tokens)
        common = min(length - prompt, known)
        start = 0 if self._verify is None else max(0, common - self._verify)
        shown = read(prompt + start, length)
        if list(shown[: common - start]) != self._tokens[start:common]:
            shown, start = read(prompt, length), 0
            common = next(n for n in range(common) if shown[n] != self._tokens[n])
        self._keep(common)
        for token in shown[common - start :]:
            self._add(int(token))

    def mask(self, out: Mask) -> bool:
        """Writes which tokens may come next; false if that is every token."""
        if self.is_refused:
            check_mask(out, self.constraint.vocab_size)
            allow_only(out, getattr(self.constraint, "end_tokens", ()))
            return True
        return self.constraint.mask(out)

    def _keep(self, length: int) -> None:
        """Takes back what lies behind a length."""
        del self._tokens[length:]
        surplus = self._accepted - length
        if surplus > 0:
            self.constraint.rollback(surplus)
            self._accepted = length

    def _add(self, token: int) -> None:
        if not self.is_refused and self.constraint.accept(token):
            self._accepted += 1
        self._tokens.append(token)
