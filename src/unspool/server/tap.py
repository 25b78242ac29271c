"""A way past generators, for streams: what stands between an engine and a client is paid for with each token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Tap(Generic[T]):
    """Where the steps of a generator come from: ``read`` makes a step of what ``source`` gives.

    Whoever has taken a step from the generator may take the others here, while it rests. What ``source`` or
    ``read`` raises must be thrown into it, and behind the last step it must go on: it may have more to do, or an
    error to raise. ``source`` may be the generator itself, which then does not rest.
    """

    __slots__ = ("interrupt", "over", "read", "rests", "source")

    def __init__(self, source: AsyncIterator[Any], read: Callable[[Any], T], *, rests: bool = True) -> None:
        self.source = source
        self.read = read
        self.rests = rests
        self.over = False
        """Whether the generator has an error to raise now."""
        self.interrupt: Callable[[], None] | None = None
        """Is called when that begins to be so, by whoever taps."""

    @classmethod
    def plain(cls, steps: AsyncGenerator[T, None]) -> Tap[T]:
        """For steps that come from nowhere else."""
        return cls(steps, lambda step: step, rests=False)

    def end(self) -> None:
        """No other step is wanted: the generator has an error to raise."""
        self.over = True
        if self.interrupt is not None:
            self.interrupt()
