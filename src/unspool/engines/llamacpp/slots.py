"""Which sequence of the context holds which tokens, and how a new prompt reuses them.

A slot keeps its tokens when its request ends. The next prompt starts from the longest prefix any slot holds,
busy or not: in place if that slot is free and loses little by it, otherwise shared into the free slot that
was used least recently, which costs no computation. So a conversation finds its own history again, and
parallel conversations with one system prompt compute it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

_COMPARE_AT_ONCE = 512


class Cells(Protocol):
    """The part of a context that slots need."""

    cells: int

    def truncate(self, sequence: int, length: int) -> bool: ...

    def share(self, source: int, target: int, length: int) -> None: ...


@dataclass(slots=True, eq=False)
class Slot:
    """One sequence of the context and the tokens it holds."""

    number: int
    cached: list[int] = field(default_factory=list)
    busy: bool = False
    last_used: int = 0


class Slots:
    """All slots of one context.

    ``keeps_positions`` is false for recurrent models, whose state can be continued but not cut or copied.
    """

    def __init__(self, context: Cells, count: int, keeps_positions: bool) -> None:
        self._context = context
        self._keeps_positions = keeps_positions
        self._slots = [Slot(number) for number in range(count)]
        self._clock = 0

    @property
    def any_free(self) -> bool:
        """Whether :meth:`take` may be called."""
        return not all(slot.busy for slot in self._slots)

    @property
    def room(self) -> int:
        """How many more tokens fit. Shared prefixes count once per slot, so it may be more."""
        return self._context.cells - sum(len(slot.cached) for slot in self._slots)

    def take(self, tokens: Sequence[int]) -> Slot:
        """A free slot, now busy, that holds the longest known prefix of ``tokens``.

        It never holds all of them: the last one must be decoded to get logits.
        """
        usable = {slot: self._usable(slot, tokens) for slot in self._slots}
        source = max(self._slots, key=lambda slot: (usable[slot], not slot.busy))
        length = usable[source]
        lost = len(source.cached) - length
        if not source.busy and length > 0 and 2 * lost <= len(source.cached):
            target = source
        else:
            free = [slot for slot in self._slots if not slot.busy]
            target = min(free, key=lambda slot: (len(slot.cached) > 0, slot.last_used))
        if target is source:
            if not self._context.truncate(target.number, length):
                self._context.truncate(target.number, 0)
                length = 0
        else:
            self._context.truncate(target.number, 0)
            if length and self._keeps_positions:
                self._context.share(source.number, target.number, length)
            else:
                length = 0
        target.cached = source.cached[:length]
        target.busy = True
        return target

    def give_back(self, slot: Slot) -> None:
        """Frees a slot; its tokens stay for reuse."""
        self._clock += 1
        slot.last_used = self._clock
        slot.busy = False

    def clear(self, slot: Slot) -> None:
        """Forgets a slot's tokens."""
        self._context.truncate(slot.number, 0)
        slot.cached = []

    def clear_idle(self) -> bool:
        """Forgets the tokens of the free slot that was used least recently; false if none holds any."""
        idle = [slot for slot in self._slots if slot.cached and not slot.busy]
        if idle:
            self.clear(min(idle, key=lambda slot: slot.last_used))
        return bool(idle)

    def _usable(self, slot: Slot, tokens: Sequence[int]) -> int:
        length = min(common_prefix(slot.cached, tokens), len(tokens) - 1)
        return length if self._keeps_positions or length == len(slot.cached) else 0


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading items of two sequences are equal."""
    end = min(len(a), len(b))
    start = 0
    # Slices compare in C; prompts have many thousand tokens and every slot is asked.
    while start < end and a[start : start + _COMPARE_AT_ONCE] == b[start : start + _COMPARE_AT_ONCE]:
        start += _COMPARE_AT_ONCE
    return next((i for i in range(start, end) if a[i] != b[i]), end)
