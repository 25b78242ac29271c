"""Choosing the next token from raw logits, in NumPy.

Order: penalties, bias, whatever a constraint forbids, temperature, min-p, top-k, top-p. Full sorts of a
vocabulary are avoided: each filter first discards what provably can't survive it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from unspool.constrained.arrays import apply_mask
from unspool.constrained.base import Constraint, ConstraintError, new_mask
from unspool.engines.base import EngineError, Sampling

Logits = npt.NDArray[np.float32]

_GREEDY_BELOW = 1e-5  # dividing by less would overflow


class Sampler:
    """The sampling state of one request.

    Presence and frequency penalties count generated tokens; the repetition penalty also counts the prompt.
    With a seed the same logits give the same tokens. Only what ``constraint`` allows is chosen, whatever the bias;
    it belongs to this sampler.
    """

    def __init__(
        self, sampling: Sampling, prompt: Iterable[int], vocab_size: int, constraint: Constraint | None = None
    ) -> None:
        self._sampling = sampling
        self._constraint = constraint
        self._mask = new_mask(constraint.vocab_size) if constraint is not None else None
        self._random = np.random.default_rng(None if sampling.seed is None else sampling.seed & (2**64 - 1))
        self._bias_ids = np.fromiter(sampling.logit_bias.keys(), np.int64)
        self._bias = np.fromiter(sampling.logit_bias.values(), np.float32)
        penalised = sampling.presence_penalty or sampling.frequency_penalty
        self._counts = np.zeros(vocab_size, np.float32) if penalised else None
        self._seen: npt.NDArray[np.bool_] | None = None
        if sampling.repetition_penalty != 1.0:
            self._seen = np.zeros(vocab_size, np.bool_)
            self._seen[np.fromiter(prompt, np.int64)] = True

    @property
    def is_complete(self) -> bool:
        """Whether the constraint allows nothing more but an end token."""
        return self._constraint is not None and self._constraint.is_stopped

    def adjust(self, logits: Logits) -> None:
        """Applies penalties, bias and the constraint in place.

        Raises :class:`~unspool.constrained.base.ConstraintError` where the constraint can't go on.
        """
        sampling = self._sampling
        if self._seen is not None:
            seen = logits[self._seen]
            penalty = np.float32(sampling.repetition_penalty)
            logits[self._seen] = np.where(seen > 0, seen / penalty, seen * penalty)
        if self._counts is not None:
            logits -= np.float32(sampling.frequency_penalty) * self._counts
            logits -= np.float32(sampling.presence_penalty) * (self._counts > 0)
        if self._bias.size:
            logits[self._bias_ids] += self._bias
        if self._constraint is not None and self._mask is not None and self._constraint.mask(self._mask):
            apply_mask(logits, self._mask)

    def pick(self, logits: Logits) -> int:
        """The next token. Raises :class:`EngineError` when no token is possible."""
        best = int(logits.argmax())
        if not np.isfinite(logits[best]):
            raise EngineError("No token is possible here: the logits are all masked out, or not numbers.")
        if self._sampling.temperature < _GREEDY_BELOW:
            return best
        weights = np.exp((logits - logits[best]) / np.float32(self._sampling.temperature))
        ids, weights = self._filter(weights)
        cumulated = np.cumsum(weights, dtype=np.float64)
        drawn = np.searchsorted(cumulated, self._random.random() * cumulated[-1], side="right")
        # Rounding may draw the very end, where tokens of weight zero may stand: take the last possible one.
        last = np.searchsorted(cumulated, cumulated[-1], side="left")
        return int(ids[min(drawn, last)])

    def accept(self, token: int) -> None:
        """Takes a generated token: counts it for the penalties and moves the constraint on.

        Raises :class:`~unspool.constrained.base.ConstraintError` where the constraint can't go on.
        """
        if self._constraint is not None and not self._constraint.accept(token):
            raise ConstraintError(f"The token {token} was allowed, but is refused.")
        if self._seen is not None:
            self._seen[token] = True
        if self._counts is not None:
            self._counts[token] += 1

    def _filter(self, weights: Logits) -> tuple[npt.NDArray[np.int64], Logits]:
        """The ids that survive the filters and their weights (the heaviest token weighs 1)."""
        sampling = self._sampling
        ids = np.flatnonzero(weights >= sampling.min_p) if sampling.min_p > 0 else np.arange(weights.size)
        if 0 < sampling.top_k < ids.size:
            ids = ids[np.argpartition(weights[ids], -sampling.top_k)[-sampling.top_k :]]
        if sampling.top_p < 1:
            total = float(weights[ids].sum(dtype=np.float64))
            # All tokens lighter than this weigh less than 1 - top_p together, so none is in the nucleus.
            ids = ids[weights[ids] >= (1 - sampling.top_p) * total / ids.size]
            ids = ids[np.argsort(-weights[ids], kind="stable")]
            cumulated = np.cumsum(weights[ids], dtype=np.float64)
            ids = ids[: int(np.searchsorted(cumulated, sampling.top_p * total)) + 1]
        return ids, weights[ids]
