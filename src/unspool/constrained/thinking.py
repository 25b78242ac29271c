"""Reasoning and content under one constraint: the budget of the one, the grammar of the other.

The inner constraint sees only what is content (``covers="content"``), or the whole turn where its grammar names
the markers itself (``covers="turn"``); then the tracker keeps nothing but the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from unspool.constrained.base import Constraint, Mask, allow, allow_all, allow_only, check_token, forbid
from unspool.constrained.boundary import BoundaryTracker, Marker, Phase

Covers: TypeAlias = Literal["content", "turn"]


class ThinkingConstraint:
    """A boundary tracker and, for the content, another constraint, as one constraint.

    Before the reasoning, its start marker or content may come; during it, anything, but no end token if content is
    held to a grammar, and no implicit end that this grammar couldn't begin with. When the budget is used up,
    what the tracker forces, and nothing else. In content what ``inner`` allows, without markers of reasoning: of
    a marker of several tokens only the last is kept out, and only where it would complete the marker.

    ``vocab_size`` and ``end_tokens`` are those of ``inner`` unless given. With ``covers="turn"`` the grammar
    decides about markers, and a forced token waits until the grammar allows it; without a grammar, markers are
    kept out of nothing. Raises ``ValueError`` without a size.
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
        self.tracker = tracker
        self.inner = inner
        self._size = vocab_size if inner is None and vocab_size is not None else getattr(inner, "vocab_size", 0)
        self.end_tokens = frozenset(getattr(inner, "end_tokens", ()) if end_tokens is None else end_tokens)
        self._covers = covers
        self._markers = (*tracker.ends, *([tracker.start] if tracker.start is not None else []))
        for token in {token for marker in self._markers for token in marker.ids} if covers == "content" else ():
            check_token(token, self._size, "Marker token")
        self._single = frozenset(marker.ids[0] for marker in self._markers if len(marker) == 1)
        self._longer = tuple(marker for marker in self._markers if len(marker) > 1)
        self._tokens: list[int] = []
        self._fed = 0
        self._barred: frozenset[int] | None = None

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
        limited = self._free(out, ()) if self.inner is None else self.inner.mask(out)
        kept_out = self._kept_out()
        forbid(out, kept_out)
        allow(out, self.tracker.padding)
        opener = self._reopener()
        if opener is not None:
            allow(out, (opener,))
        return limited or bool(kept_out)

    def accept(self, token: int) -> bool:
        """Takes a token; false, with nothing changed, if it may not come next."""
        if not self._may_come(token):
            return False
        self.tracker.accept(token)
        self._tokens.append(token)
        if self._feed():
            return True
        self.tracker.rollback(1)
        self._tokens.pop()
        return False

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
        for done, token in enumerate(self._tokens[-count:]):
            if not self.inner.accept(token):
                self.inner.rollback(done)
                return False
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
        return token == opener or token in self.tracker.padding or token not in self._kept_out()

    def _takes(self, token: int) -> bool:
        """Whether the inner constraint would take a token now."""
        if self.inner is None or not self.inner.accept(token):
            return self.inner is None
        self.inner.rollback(1)
        return True

    def _mask_idle(self, out: Mask) -> bool:
        tracker = self.tracker
        if self.inner is None:
            limited = self._free(out, ())
        else:
            pending = self._tokens[len(self._tokens) - tracker.pending :]
            done = 0
            while done < len(pending) and self.inner.accept(pending[done]):
                done += 1
            if done == len(pending):
                limited = self.inner.mask(out)
            else:
                allow_only(out, ())
                limited = True
            self.inner.rollback(done)
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
        return None if self.is_stopped else self.tracker.opener

    def _kept_out(self) -> frozenset[int]:
        """What would complete a marker of reasoning in content, or in what may still turn out to be content."""
        run = self.tracker.content_run or self.tracker.pending
        completing = [marker.ids[-1] for marker in self._longer if self._nearly(marker, run)]
        return self._single.union(completing) if completing else self._single

    def _nearly(self, marker: Marker, run: int) -> bool:
        """Whether content ends with all but the last id of a marker."""
        count = len(marker) - 1
        return count <= run and tuple(self._tokens[len(self._tokens) - count :]) == marker.ids[:-1]
