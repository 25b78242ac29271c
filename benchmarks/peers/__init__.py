"""Who is measured: unspool and, where they are installed, the parsers of other engines.

Each contestant has a module here with ``contestant()``, which raises ``ImportError`` when its package is
missing. It opens a stream for a workload, parses one whole, and reads what came back; only the first two are
timed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.timing import Stream
from benchmarks.workloads import Workload

PEERS = ("sglang", "vllm", "mlx_lm")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a contestant made of a workload. ``argument_pieces``: pieces at which argument text came out."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str], ...]
    argument_pieces: int = 0

    def fault(self, work: Workload) -> str:
        """What is wrong with it, or ``""``; whitespace around text and in JSON does not count."""
        if not _same_calls(self.calls, [(call.name, call.arguments) for call in work.message.tool_calls]):
            return "calls"
        if self.reasoning.strip() != (work.message.reasoning or ""):
            return "reasoning"
        if self.content.strip() != (work.message.content or ""):
            return "content"
        return ""


def _same_calls(got: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> bool:
    if [name for name, _ in got] != [name for name, _ in wanted]:
        return False
    try:
        return all(
            json.loads(mine) == json.loads(theirs) for (_, mine), (_, theirs) in zip(got, wanted, strict=True)
        )
    except ValueError:
        return False


class Contestant(Protocol):
    """One package's parsers behind one interface."""

    @property
    def name(self) -> str:
        """The package and its version."""
        ...

    def stream(self, work: Workload) -> Callable[[], Stream] | None:
        """Makes a fresh stream for each pass; ``None`` if this family can't be streamed here."""
        ...

    def read(self, work: Workload, outputs: Iterable[object]) -> Outcome:
        """What the returned values of ``feed`` and ``finish``, one a piece, add up to."""
        ...

    def whole(self, work: Workload) -> Callable[[], object] | None:
        """Parses the whole output in one go; ``None`` if this family can't be."""
        ...

    def read_whole(self, work: Workload, output: object) -> Outcome:
        """What the value of :meth:`whole` says."""
        ...


def installed(names: Iterable[str]) -> tuple[list[Contestant], dict[str, str]]:
    """The contestants whose packages can be imported, and why the others can't."""
    found: list[Contestant] = []
    missing: dict[str, str] = {}
    for name in names:
        try:
            found.append(importlib.import_module(f"benchmarks.peers.{name}").contestant())
        except ImportError as why:
            missing[name] = str(why)
    return found, missing
