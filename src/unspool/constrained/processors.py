"""Constraints as logits processors: ``(tokens, logits) -> logits``, as mlx-lm and transformers call them.

``tokens`` are all tokens so far, with the prompt; what is shown first is the prompt. One dimension (mlx-lm) or one
row for each sequence (transformers) will do, and arrays of NumPy, PyTorch or MLX. A processor belongs to one
generation; the compiled grammar behind it is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from unspool.constrained.arrays import masked, read, rows
from unspool.constrained.base import Constraint, ConstraintError, Mask, new_mask
from unspool.constrained.boundary import BoundaryTracker, Phase
from unspool.constrained.guidance import LLGuidanceConstraint
from unspool.constrained.history import VERIFY, History
from unspool.constrained.schema import MAX_STRING, json_object, json_schema
from unspool.constrained.thinking import Covers, ThinkingConstraint


class ConstraintLogitsProcessor:
    """Applies one constraint to each row of a batch; ``verify`` is explained at :class:`History`."""

    def __init__(self, *constraints: Constraint, verify: int | None = VERIFY) -> None:
        self._histories = [History(constraint, verify=verify) for constraint in constraints]
        self._masks = [new_mask(constraint.vocab_size) for constraint in constraints]

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """The logits with minus infinity for every token that may not come next.

        Raises :class:`ConstraintError` for more or fewer rows than constraints, or for another generation.
        """
        shown = rows(tokens)
        if len(shown) != len(self._histories):
            raise ConstraintError(f"There are {len(shown)} rows of tokens for {len(self._histories)} constraints.")
        limited: list[Mask | None] = []
        for row, history, mask in zip(shown, self._histories, self._masks, strict=True):
            history.sync(len(row), partial(read, row))
            limited.append(mask if history.mask(mask) else None)
        return masked(logits, limited)


class JSONSchemaLogitsProcessor(ConstraintLogitsProcessor):
    """Holds a generation to a JSON Schema, or to any JSON object if ``schema`` is ``None``.

    ``strict`` and ``max_string`` are those of :func:`~unspool.constrained.schema.json_schema`; ``end_tokens``
    are the tokenizer's unless given. Raises :class:`~unspool.constrained.base.SchemaError` for what can't be
    enforced.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | bool | str | None,
        tokenizer: Any,
        *,
        strict: bool = True,
        end_tokens: Iterable[int] | None = None,
        max_string: int | None = MAX_STRING,
    ) -> None:
        if schema is None:
            self.grammar = json_object(max_string=max_string)
        else:
            self.grammar = json_schema(schema, strict=strict, max_string=max_string)
        self.schema = schema
        self.constraint = LLGuidanceConstraint(self.grammar, tokenizer, end_tokens=end_tokens)
        super().__init__(self.constraint)

    @property
    def vocab_size(self) -> int:
        """How many token ids the tokenizer has."""
        return self.constraint.vocab_size


class ThinkingAwareLogitsProcessor(ConstraintLogitsProcessor):
    """Bounds the reasoning of a generation, and holds what follows it to ``inner``.

    ``start_token_ids`` and ``end_token_ids`` are the markers, ``thinking_token_budget`` the reasoning tokens of
    the response (``None``: any number). ``vocab_size`` is needed only without ``inner``. The start state is read
    off ``prompt``, or else off the tokens shown first; mlx-lm shows only the last ones of a prompt, so give it
    there. ``options`` are those of :class:`~unspool.constrained.boundary.BoundaryTracker`, such as
    ``turn_openers``; ``covers`` is explained at :class:`~unspool.constrained.thinking.ThinkingConstraint`.
    """

    def __init__(
        self,
        start_token_ids: Sequence[int],
        end_token_ids: Sequence[int],
        thinking_token_budget: int | None = None,
        inner: Constraint | None = None,
        *,
        vocab_size: int | None = None,
        prompt: Sequence[int] | None = None,
        end_tokens: Iterable[int] | None = None,
        covers: Covers = "content",
        verify: int | None = VERIFY,
        **options: Any,
    ) -> None:
        def follow(prompt: Sequence[int]) -> ThinkingConstraint:
            tracker = BoundaryTracker(
                start_token_ids, end_token_ids, budget=thinking_token_budget, prompt=prompt, **options
            )
            return ThinkingConstraint(tracker, inner, vocab_size=vocab_size, end_tokens=end_tokens, covers=covers)

        self._follow = follow
        self._constraint = follow(() if prompt is None else read(prompt, 0, len(prompt)))
        self._begun = prompt is not None
        super().__init__(self._constraint, verify=verify)

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """The logits with minus infinity for every token that may not come next."""
        shown = rows(tokens)
        if not self._begun and len(shown) == 1:
            self._constraint = self._follow(read(shown[0], 0, len(shown[0])))
            self._histories[0].constraint = self._constraint
            self._begun = True
        return super().__call__(tokens, logits)

    @property
    def tracker(self) -> BoundaryTracker:
        """Where the generation is; parsers may read it."""
        return self._constraint.tracker

    @property
    def state(self) -> Phase:
        """What the model is writing now."""
        return self.tracker.phase

    @property
    def thinking_tokens(self) -> int:
        """Reasoning tokens that the model chose, markers excluded."""
        return self.tracker.thinking_tokens

    @property
    def is_retired(self) -> bool:
        """Whether only markers of reasoning are still kept out: the content is free."""
        return self._constraint.inner is None and self.state is Phase.CONTENT
