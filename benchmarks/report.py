"""The tables that a run prints, and what of the results is out of reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.timing import Cost

MEDIAN = 1.0
"""Microseconds of CPU a chunk that no cell's median may exceed."""
EXPONENT = 1.02
WHOLE = 5.0
"""Milliseconds for a whole output of 256,000 characters."""
STREAMS = 1 / 3
"""Share of a call's chunks that must bring argument text for the call to count as streamed."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One contestant on one output, a piece at a time. ``fault`` is empty if the result is right."""

    contestant: str
    family: str
    case: str
    size: int
    cost: Cost | None
    argument_share: float
    fault: str

    def better(self, other: Streamed | None) -> Streamed:
        """This measurement with the smaller figures of two."""
        return self if other is None or self.cost is None else replace(self, cost=self.cost.better(other.cost))


@dataclass(frozen=True, slots=True)
class Whole:
    """One contestant on one whole output of ``characters``."""

    contestant: str
    family: str
    case: str
    characters: int
    milliseconds: float | None
    fault: str

    def better(self, other: Whole | None) -> Whole:
        """This measurement with the smaller figure of two."""
        if other is None or self.milliseconds is None or other.milliseconds is None:
            return self
        return replace(self, milliseconds=min(self.milliseconds, other.milliseconds))


@dataclass(frozen=True, slots=True)
class Growth:
    """How the total time of one contestant grows over the sizes; 1 is linear."""

    contestant: str
    family: str
    case: str
    exponent: float | None


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run measured."""

    streamed: list[Streamed]
    whole: list[Whole]
    growth: list[Growth]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first two columns left-aligned and the others right-aligned."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = ["-" * width if column < 2 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in [lines[0], rule, *lines[1:]]
    )


def summary(results: Results, name: str) -> str:
    """One contestant: for each size the median, p99 and mean, then growth, streaming and whole outputs."""
    streamed = [cell for cell in results.streamed if cell.contestant == name]
    growth = {(row.family, row.case): row.exponent for row in results.growth if row.contestant == name}
    wholes = {(cell.family, cell.case): cell for cell in results.whole if cell.contestant == name}
    cells = {(cell.family, cell.case, cell.size): cell for cell in streamed}
    sizes = sorted({cell.size for cell in streamed})
    rows = []
    for family, case in dict.fromkeys((cell.family, cell.case) for cell in streamed):
        # A size after one that failed is missing.
        mine = [cells[family, case, size] for size in sizes if (family, case, size) in cells]
        slope = growth[family, case]
        took = wholes.get((family, case))
        # A call in a long answer has too few chunks for a share to mean something.
        share = "" if case == "a" else f"{mine[-1].argument_share:.0%}"
        rows.append(
            [family, case]
            + [_cost(cell.cost) for cell in mine]
            + [""] * (len(sizes) - len(mine))
            + ["" if slope is None else f"{slope:.2f}", share, mine[-1].fault or "yes"]
            + (["" if took is None or took.milliseconds is None else f"{took.milliseconds:.2f}"])
        )
    head = ["format", "case", *(f"{size:,} chunks" for size in sizes), "exponent", "streams", "right", "whole ms"]
    return "Microseconds a chunk: median / p99 / mean; * the machine was never calm meanwhile.\n\n" + table(
        head, rows
    )


def _cost(cost: Cost | None) -> str:
    if cost is None:
        return ""
    return f"{cost.median or 0:.2f} / {cost.p99 or 0:.2f} / {cost.mean:.2f}{'' if cost.calm else ' *'}"


def comparison(results: Results, names: Sequence[str]) -> str:
    """Peers beside the first contestant: mean microseconds a chunk and the ratio of the means."""
    streamed = {(cell.contestant, cell.family, cell.case, cell.size): cell for cell in results.streamed}
    wholes = {(cell.contestant, cell.family, cell.case): cell for cell in results.whole}
    mine, *peers = names
    rows = []
    for family, case in dict.fromkeys((cell.family, cell.case) for cell in results.streamed):
        for size in sorted({cell.size for cell in results.streamed}):
            own = streamed.get((mine, family, case, size))
            if own is None or own.cost is None:
                continue
            base = own.cost.mean
            others = [_peer_streamed(streamed.get((peer, family, case, size)), own, base) for peer in peers]
            if any(others):
                rows.append([family, case, f"{size:,}", f"{base:.2f}", *others])
        took = wholes.get((mine, family, case))
        if took is not None and took.milliseconds:
            others = [_peer_whole(wholes.get((peer, family, case)), took.milliseconds) for peer in peers]
            if any(others):
                rows.append([family, case, "whole, ms", f"{took.milliseconds:.2f}", *others])
    note = (
        "Mean microseconds a chunk (whole outputs: milliseconds), and how many times the first column's.\n"
        "~ holds the arguments back; ! reads it wrong, and what.\n\n"
    )
    return note + table(["format", "case", "chunks", mine, *peers], rows)


def _peer_streamed(cell: Streamed | None, own: Streamed, base: float) -> str:
    if cell is None:
        return ""
    if cell.cost is None:
        return cell.fault
    buffers = " ~" if cell.case != "a" and cell.argument_share < own.argument_share * STREAMS else ""
    return f"{cell.cost.mean:.1f} ({cell.cost.mean / base:.0f}x){buffers}{_wrong(cell.fault)}"


def _peer_whole(cell: Whole | None, base: float) -> str:
    if cell is None:
        return ""
    if cell.milliseconds is None:
        return cell.fault
    return f"{cell.milliseconds:.1f} ({cell.milliseconds / base:.1f}x){_wrong(cell.fault)}"


def _wrong(fault: str) -> str:
    return f" !{fault}" if fault else ""


def missed(results: Results, name: str) -> tuple[list[str], list[str]]:
    """What one contestant read wrong, and which of its figures are out of reach."""
    wrong, misses = [], []
    for cell in results.streamed:
        if cell.contestant != name:
            continue
        where = f"{cell.family} ({cell.case}), {cell.size:,} chunks"
        if cell.fault:
            wrong.append(f"WRONG: {where}: {cell.fault}.")
        if cell.cost is not None and (cell.cost.median or 0) > MEDIAN:
            busy = "" if cell.cost.calm else " (on a busy machine)"
            misses.append(f"Out of reach: {where}: median {cell.cost.median:.2f} us, not {MEDIAN:g}{busy}.")
        # In many small calls most chunks are markup, which brings no arguments.
        if cell.case == "b" and cell.argument_share < STREAMS:
            misses.append(f"Out of reach: {where}: only {cell.argument_share:.0%} of the chunks stream.")
    for row in results.growth:
        if row.contestant == name and row.exponent is not None and row.exponent > EXPONENT:
            misses.append(f"Out of reach: {row.family} ({row.case}): exponent {row.exponent:.3f}, not {EXPONENT}.")
    for took in results.whole:
        if took.contestant != name:
            continue
        where = f"{took.family} ({took.case}), {took.characters:,} characters at once"
        if took.fault:
            wrong.append(f"WRONG: {where}: {took.fault}.")
        if took.milliseconds is not None and took.milliseconds > WHOLE:
            misses.append(f"Out of reach: {where}: {took.milliseconds:.2f} ms, not {WHOLE:g}.")
    return wrong, misses
