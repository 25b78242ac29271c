"""Masks on logits of NumPy, PyTorch and MLX. Logits never become Python numbers, and no array library is imported
that isn't in use already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unspool.constrained.base import Mask, allowed, check_mask


def apply_mask(logits: npt.NDArray[Any], mask: Mask) -> None:
    """Sets the logits of forbidden tokens, and of ids that no token has, to minus infinity, in place.

    ``logits`` is one row, with as many numbers as the model has outputs. Raises
    :class:`~unspool.constrained.base.ConstraintError` for what is no mask.
    """
    check_mask(mask)
    np.copyto(logits, -np.inf, where=~allowed(mask, logits.shape[-1]))


def masked(logits: Any, masks: Sequence[Mask | None]) -> Any:
    """Rows of logits with a mask for each; ``None`` allows every token.

    ``logits`` is an array of NumPy (changed in place and returned), PyTorch or MLX (a new one), with one row or
    as many as there are masks. Raises ``TypeError`` for another kind.
    """
    if all(mask is None for mask in masks):
        return logits
    library = type(logits).__module__.partition(".")[0]
    if library == "numpy":
        for row, mask in zip(np.atleast_2d(logits), masks, strict=True):
            if mask is not None:
                apply_mask(row, mask)
        return logits
    if library == "torch":
        import torch

        return logits.masked_fill(torch.from_numpy(_forbidden(masks, logits.shape)).to(logits.device), -torch.inf)
    if library == "mlx":
        import mlx.core as mx

        return mx.where(mx.array(_forbidden(masks, logits.shape)), mx.array(-mx.inf, logits.dtype), logits)
    raise TypeError(f"Logits must be an array of NumPy, PyTorch or MLX, not {type(logits).__name__}.")


def rows(tokens: Any) -> list[Any]:
    """The rows of token ids: one if ``tokens`` has one dimension or is a list."""
    return list(tokens) if len(getattr(tokens, "shape", (0,))) == 2 else [tokens]


def read(row: Any, start: int, stop: int) -> list[int]:
    """Some ids of a row, of whatever library."""
    part = row[start:stop]
    found: list[int] = part.tolist() if hasattr(part, "tolist") else list(part)
    return found


def _forbidden(masks: Sequence[Mask | None], shape: Sequence[int]) -> npt.NDArray[np.bool_]:
    """A truth value for each of the logits of a shape."""
    forbidden = np.zeros(tuple(shape), np.bool_)
    for row, mask in zip(np.atleast_2d(forbidden), masks, strict=True):
        if mask is not None:
            np.logical_not(allowed(mask, row.size), out=row)
    return forbidden
