"""Reasoning and content under one constraint: the budget of the one, the grammar of the other.

The inner constraint sees only what is content (``covers="content"``), or the whole turn where its grammar names
the markers itself (``covers="turn"``); then the tracker keeps nothing but the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from unspool.constrained.base import (
    Constraint,
    ConstraintError,
    Mask,
    allow,
    allow_all,
    allow_only,
    allows,
    check_mask,
    check_tokens,
    forbid,
    new_mask,
)
from unspool.constrained.boundary import BoundaryTracker, Marker, Phase

Covers: TypeAlias = Literal["content", "turn"]


class ThinkingConstraint:
    """A boundary tracker and, for the content, another constraint, as one constraint.

    Before the reasoning, its start marker or content may come; during it, anything, but no end token if content is
    held to a grammar, and no implicit end that this grammar couldn't begin with. When the budget is used up,
    what the tracker forces, and nothing else. In content what ``inner`` allows, without markers of reasoning: of
    a marker of several tokens only the last is kept out, and only where it would complete the marker. Where the
    content can't go on without one, as in a constant that spells it, it is content.

    ``vocab_size`` is needed without ``inner`` alone; ``end_tokens`` are those of ``inner`` unless given. With
    ``covers="turn"`` the grammar decides about markers, and a forced token waits until the grammar allows it;
    without a grammar, markers are kept out of nothing. Raises ``ValueError`` without a size,
    :class:`ConstraintError` for one that contradicts ``inner`` and for ids that are no tokens.
    """

    def __init__(
        self,
        tracker: BoundaryTracker,
        inner: Constraint | None = None,
        *,
        vocab_size: int | None = None,
        end_tokens: Iterable[int] | None = None,
        covers: Covers = "content",
    ) -> None:
        if inner is None and vocab_size is None:
            raise ValueError("Without an inner constraint vocab_size is needed.")
        if covers not in get_args(Covers):
            raise ValueError(f"covers must be one of {get_args(Covers)}, not {covers!r}.")
        self.tracker = tracker
        self.inner = inner
        self._size = _size(vocab_size, inner)
        ends = getattr(inner, "end_tokens", ()) if end_tokens is None else end_tokens
        self.end_tokens = check_tokens(ends, self._size, "End token")
        self._covers = covers
        for ids, what in (
            ({token for marker in tracker.markers for token in marker.ids}, "Marker token"),
            (tracker.implicit_ends, "Implicit end"),
            (tracker.closing, "Closing token"),
            (tracker.layout, "Layout token"),
            (tracker.after, "Token of framing"),
        ):
            check_tokens(ids, self._size, what)
        self._single = frozenset(marker.ids[0] for marker in tracker.markers if len(marker) == 1)
        self._longer = tuple(marker for marker in tracker.markers if len(marker) > 1)
        self._tokens: list[int] = []
        self._fed = 0
        self._barred: frozenset[int] | None = None
        self._out: Mask | None = None

    @property
    def vocab_size(self) -> int:
        """How many token ids there are."""
        return self._size

    @property
    def is_stopped(self) -> bool:
        """Whether the content is complete; never without an inner constraint."""
        if self.inner is None or (self._covers == "content" and self.tracker.phase is not Phase.CONTENT):
            return False
        return self.inner.is_stopped

    def mask(self, out: Mask) -> bool:
        """Writes which tokens may come next; false if that is every token."""
        if out is not self._out:
            check_mask(out, self._size)
            self._out = out
        forced = self.tracker.forced
        if self._covers == "turn" and (forced is None or not self._takes(forced)):
            return self.inner.mask(out) if self.inner is not None else self._free(out, ())
        if forced is not None:
            allow_only(out, (forced,))
            return True
        if self.tracker.phase is Phase.THINKING:
            return self._free(out, self._barred_while_thinking())
        if self.tracker.phase is Phase.IDLE:
            return self._mask_idle(out)
        limited = self._mask_content(out)
        allow(out, self.tracker.padding)
        opener = self._reopener()
        if opener is not None:
            allow(out, (opener,))
        return limited

    def accept(self, token: int) -> bool:
        """Takes a token; false, with nothing changed, if it may not come next."""
        if not self._may_come(token):
            return False
        self.tracker.accept(token)
        self._tokens.append(token)
        fed = False
        try:
            fed = self._feed()
        finally:
            if not fed:
                self.tracker.rollback(1)
                self._tokens.pop()
        return fed

    def rollback(self, count: int) -> None:
        """Undoes the last ``count`` accepted tokens. Raises ``ValueError`` if there were fewer."""
        self.tracker.rollback(count)
        del self._tokens[len(self._tokens) - count :]
        surplus = self._fed - self._due()
        if surplus > 0 and self.inner is not None:
            self.inner.rollback(surplus)
            self._fed -= surplus
            self._barred = None

    def _due(self) -> int:
        """How many tokens the inner constraint has to have seen."""
        return self.tracker.length if self._covers == "turn" else self.tracker.content_length

    def _feed(self) -> bool:
        """Gives the inner constraint what has become content; false, with nothing changed there, if it refuses."""
        count = self._due() - self._fed
        if self.inner is None or not count:
            return True
        # What was pending before a start marker that never came is let go together with the newest token.
        with _Trial(self.inner) as trial:
            if not trial.take(self._tokens[-count:]):
                return False
            trial.keep()
        self._fed += count
        self._barred = None
        return True

    def _may_come(self, token: int) -> bool:
        """Whether all but the inner constraint let a token come."""
        if not 0 <= token < self._size:
            return False
        forced = self.tracker.forced
        if self._covers == "turn":
            return token == forced or forced is None or not self._takes(forced)
        if forced is not None:
            return token == forced
        if self.tracker.phase is Phase.THINKING:
            return token not in self._barred_while_thinking()
        opener = self.tracker.opener if self.tracker.phase is Phase.IDLE else self._reopener()
        if token == opener or token in self.tracker.padding or token not in self._kept_out():
            return True
        if self.tracker.phase is Phase.IDLE:
            return False
        mask = new_mask(self._size)
        self._mask_content(mask)
        return allows(mask, token)

    def _takes(self, token: int) -> bool:
        """Whether the inner constraint would take a token now."""
        if self.inner is None:
            return True
        with _Trial(self.inner) as trial:
            return trial.take([token])

    def _mask_content(self, out: Mask) -> bool:
        """What the content may go on with: no marker, unless there is nothing else."""
        limited = self._free(out, ()) if self.inner is None else self.inner.mask(out)
        kept_out = [token for token in self._kept_out() if allows(out, token)]
        forbid(out, kept_out)
        if kept_out and not out.any():
            allow(out, kept_out)
        return limited or bool(kept_out)

    def _mask_idle(self, out: Mask) -> bool:
        tracker = self.tracker
        if self.inner is None:
            limited = self._free(out, ())
        else:
            with _Trial(self.inner) as trial:
                if trial.take(self._tokens[len(self._tokens) - tracker.pending :]):
                    limited = self.inner.mask(out)
                else:
                    allow_only(out, ())
                    limited = True
        kept_out = self._kept_out()
        forbid(out, kept_out)
        if tracker.opener is not None:
            allow(out, (tracker.opener,))
        allow(out, tracker.padding)
        return limited or bool(kept_out)

    def _free(self, out: Mask, barred: Iterable[int]) -> bool:
        barred = frozenset(barred)
        allow_all(out, self._size)
        forbid(out, barred)
        return bool(barred)

    def _barred_while_thinking(self) -> frozenset[int]:
        """What would end the reasoning in a way that the content's grammar could not follow."""
        if self.inner is None:
            return frozenset()
        if self._barred is None:
            refused = frozenset(token for token in self.tracker.implicit_ends if not self._takes(token))
            self._barred = refused | self.end_tokens
        return self._barred

    def _reopener(self) -> int | None:
        """The id that opens reasoning again, as long as there is content to come after it."""
        opener = self.tracker.opener
        return None if opener is None or self.is_stopped else opener

    def _kept_out(self) -> frozenset[int]:
        """What would complete a marker of reasoning in content, or in what may still turn out to be content."""
        run = self.tracker.content_run or self.tracker.pending
        completing = [marker.ids[-1] for marker in self._longer if self._nearly(marker, run)]
        return self._single.union(completing) if completing else self._single

    def _nearly(self, marker: Marker, run: int) -> bool:
        """Whether content ends with all but the last id of a marker."""
        count = len(marker) - 1
        return count <= run and tuple(self._tokens[len(self._tokens) - count :]) == marker.ids[:-1]


class _Trial:
    """Tokens given to a constraint that are taken back at the end, errors included, unless they are kept."""

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._count = 0

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if self._count or error is not None:
            self._constraint.rollback(self._count)

    def take(self, tokens: Iterable[int]) -> bool:
        """Whether the constraint takes all of some tokens, one after the other."""
        for token in tokens:
            if not self._constraint.accept(token):
                return False
            self._count += 1
        return True

    def keep(self) -> None:
        """Leaves with the constraint what it took."""
        self._count = 0


def _size(vocab_size: int | None, inner: Constraint | None) -> int:
    """How many token ids there are. Raises :class:`ConstraintError` if what was given can't be that."""
    size = inner.vocab_size if inner is not None else vocab_size
    if not isinstance(size, int) or size < 1:
        raise ConstraintError(f"vocab_size must be a number of tokens, not {size!r}.")
    if vocab_size not in (None, size):
        raise ConstraintError(
            f"vocab_size {vocab_size!r} contradicts the {size} tokens of the inner constraint; leave it out."
        )
    return size
