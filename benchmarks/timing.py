"""How the benchmarks measure: CPU of one thread, smallest of several passes, the clock's own cost taken off.

Two kinds of pass over the same pieces, each with a fresh parser and after a garbage collection:

* a *total* pass reads the thread's CPU clock once before and once after, so nothing is between two pieces but
  the loop itself; what other processes take does not count;
* a *piece* pass reads the wall clock around every piece, because the CPU clock is a system call that costs as
  much as a parser step. A piece's cost is its smallest over the passes, which drops what the scheduler did;
  what is always there, such as a marker's slow path, stays in. The cost of reading the clock is measured the
  same way around nothing and subtracted.

Two hardware threads share a core, so a neighbour can halve the speed for seconds without taking any CPU time. A
fixed loop runs before and after each pass; where it was never as fast as it can be, a cell is measured on until it
was, within limits.

The collector stays on, as in a server, but whatever a parser returns is dropped at once, so no pass is charged
for keeping the benchmark's own results.
"""

from __future__ import annotations

import gc
import math
import signal
import statistics
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NamedTuple

CALM = 1.1
"""How many times its fastest the calibration loop may take on a calm machine."""


class Stream(NamedTuple):
    """One generation to be read: ``feed`` takes a piece, ``finish`` ends it; both return what they like."""

    feed: Callable[[str], object]
    finish: Callable[[], object]


class TooSlow(BaseException):
    """A measurement took more time than it was given; no ``Exception``, so that no parser catches it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds a piece: ``mean`` of a whole pass; ``median`` and ``p99`` of single pieces, if timed.

    ``calm``: at least one pass ran while the machine was calm.
    """

    pieces: int
    mean: float
    median: float | None
    p99: float | None
    calm: bool

    def better(self, other: Cost | None) -> Cost:
        """The smaller figures of two measurements of the same."""
        if other is None:
            return self
        median, p99 = self.median, self.p99
        if median is not None and other.median is not None:
            median = min(median, other.median)
        if p99 is not None and other.p99 is not None:
            p99 = min(p99, other.p99)
        return Cost(self.pieces, min(self.mean, other.mean), median, p99, self.calm or other.calm)


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a measurement goes on: at least ``passes`` of each kind, then until ``seconds`` are used up.

    ``patience`` is how many seconds it goes on for one pass on a calm machine, ``limit`` how many one pass may
    take. ``singly``: pieces are timed one by one as well.
    """

    passes: int = 5
    seconds: float = 0.3
    patience: float = 1.5
    limit: float = math.inf
    singly: bool = True


@dataclass(slots=True)
class Calibration:
    """The same pure-Python work, timed again and again: how evenly the machine ran meanwhile."""

    times: list[float] = field(default_factory=list)

    def calm(self) -> bool:
        """Does the work once, notes its milliseconds of CPU, and says whether it was about as fast as ever."""
        start = time.thread_time()
        value = 0
        for number in range(60_000):
            value = (value * 31 + number) & 0xFFFF
        self.times.append((time.thread_time() - start) * 1000)
        return self.times[-1] <= min(self.times) * CALM

    def __str__(self) -> str:
        ordered = sorted(self.times)
        last = len(ordered) - 1
        return (
            f"calibration loop, ms: min {ordered[0]:.2f}, median {ordered[last // 2]:.2f}, "
            f"p90 {ordered[int(last * 0.9)]:.2f}, max {ordered[last]:.2f} over {len(ordered)} runs"
        )


class Passes:
    """One turn for each pass that a budget allows; ``calm`` once one of them ran on a calm machine."""

    def __init__(self, budget: Budget, calibration: Calibration) -> None:
        self.calm = False
        self._budget = budget
        self._calibration = calibration

    def __iter__(self) -> Iterator[None]:
        budget = self._budget
        begun = time.perf_counter()
        done = 0
        while True:
            before = self._calibration.calm()
            yield
            self.calm = (before and self._calibration.calm()) or self.calm
            done += 1
            spent = time.perf_counter() - begun
            if done >= budget.passes and spent >= budget.seconds and (self.calm or spent >= budget.patience):
                return


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises :class:`TooSlow` inside after that many seconds, where the platform has such an alarm."""
    if math.isinf(seconds) or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def total(stream: Stream, pieces: Sequence[str]) -> float:
    """Seconds of CPU for all pieces and the end."""
    feed = stream.feed
    gc.collect()
    start = time.thread_time()
    for piece in pieces:
        feed(piece)
    stream.finish()
    return time.thread_time() - start


def each(stream: Stream, pieces: Sequence[str], into: array[int]) -> None:
    """Nanoseconds of every piece, the clock's cost included, into ``into`` where they are smaller."""
    feed = stream.feed
    clock = time.perf_counter_ns
    took = array("q", bytes(8 * len(pieces)))
    gc.collect()
    for position, piece in enumerate(pieces):
        start = clock()
        feed(piece)
        took[position] = clock() - start
    stream.finish()
    into[:] = array("q", map(min, into, took))


def clock_cost() -> int:
    """Nanoseconds that reading the clock adds to a piece."""
    clock = time.perf_counter_ns
    took = array("q", bytes(8 * 10_000))
    for position in range(len(took)):
        start = clock()
        took[position] = clock() - start
    return int(statistics.median(took))


def measure(new: Callable[[], Stream], pieces: Sequence[str], budget: Budget, calibration: Calibration) -> Cost:
    """What each piece costs. Raises :class:`TooSlow`."""
    smallest = array("q", [2**62]) * len(pieces)
    totals: list[float] = []
    passes = Passes(budget, calibration)
    for _ in passes:
        with limited(budget.limit):
            totals.append(total(new(), pieces))
            if budget.singly:
                each(new(), pieces, smallest)
    mean = min(totals) / len(pieces) * 1e6
    if not budget.singly:
        return Cost(len(pieces), mean, None, None, passes.calm)
    overhead = clock_cost()
    ordered = sorted(max(took - overhead, 0) / 1000 for took in smallest)
    p99 = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
    return Cost(len(pieces), mean, statistics.median(ordered), p99, passes.calm)


def measure_once(run: Callable[[], object], budget: Budget, calibration: Calibration) -> float:
    """Milliseconds of CPU of one call, the smallest of several. Raises :class:`TooSlow`."""
    times: list[float] = []
    for _ in Passes(budget, calibration):
        gc.collect()
        with limited(budget.limit):
            start = time.thread_time()
            run()
            times.append(time.thread_time() - start)
    return min(times) * 1000


def exponent(costs: Sequence[Cost]) -> float | None:
    """The growth of the total: the slope of log time over log pieces; 1 is linear, 2 quadratic."""
    if len({cost.pieces for cost in costs}) < 2:
        return None
    sizes = [math.log(cost.pieces) for cost in costs]
    times = [math.log(cost.pieces * cost.mean) for cost in costs]
    return statistics.linear_regression(sizes, times).slope
