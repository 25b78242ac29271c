"""What a constraint costs: microseconds for the mask of a token and for taking it.

    python -m benchmarks.mask [TOKENIZER.JSON ...] [--schemas text,string,small,medium,large] [--passes 20]
                              [--backends xgrammar,lm-format-enforcer] [--limit 10] [--json FILE]

Documents are written token by token, under schemas from plain text to 48 definitions. unspool's constraint is
measured beside llguidance called directly, with the same tokenizer data and the same compiled grammar, pass by
pass in turn, so that a busy machine slows both alike; a token's cost is its smallest over the passes, the clock's
own taken off. Other backends that are installed are measured through unspool's adapters. Without files two
vocabularies of the same sizes are made up.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.parser import names
from benchmarks.report import table
from benchmarks.schemas import SIZES, WORKLOADS, Synthetic, documents, grammar, tokenizer
from benchmarks.timing import Budget, Calibration, Passes, TooSlow, clock_cost, limited
from unspool.constrained import (
    ConstraintError,
    LLGuidanceConstraint,
    SchemaError,
    constrain,
    new_mask,
)
from unspool.constrained.guidance import compiled
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of

RATIO = 1.1
"""How many times llguidance's median and p99 unspool's may be."""
OURS, DIRECT = "unspool", "llguidance"
OTHERS = ("xgrammar", "lm-format-enforcer")


@dataclass(frozen=True, slots=True)
class Cell:
    """One contestant on one document; ``median`` and ``p99`` are microseconds a token, mask and accept together.

    ``masks`` and ``accepts`` are the medians of the two; ``fault`` says why there are no figures.
    """

    vocabulary: str
    schema: str
    contestant: str
    tokens: int
    median: float = 0.0
    p99: float = 0.0
    masks: float = 0.0
    accepts: float = 0.0
    calm: bool = True
    fault: str = ""


class Times:
    """The smallest nanoseconds so far of each mask and of each accept of some documents."""

    def __init__(self, vocabulary: Vocabulary, schema: str) -> None:
        self.documents = [vocabulary.encode(document) for document in documents(schema)]
        self.masks = array("q", [2**62]) * sum(map(len, self.documents))
        self.accepts = self.masks[:]

    def add(self, masks: Sequence[int], accepts: Sequence[int]) -> None:
        """The times of one more pass."""
        self.masks = array("q", map(min, self.masks, masks))
        self.accepts = array("q", map(min, self.accepts, accepts))

    def cell(self, vocabulary: str, schema: str, contestant: str, calm: bool) -> Cell:
        """What they come to, without what reading the clock takes."""
        overhead = clock_cost()
        masks = [max(took - overhead, 0) / 1000 for took in self.masks]
        accepts = [max(took - overhead, 0) / 1000 for took in self.accepts]
        both = sorted(map(float.__add__, masks, accepts))
        p99 = both[min(int(len(both) * 0.99), len(both) - 1)]
        median = statistics.median
        return Cell(
            vocabulary, schema, contestant, len(both), median(both), p99, median(masks), median(accepts), calm
        )


def held(new: Callable[[], Any], times: Times) -> None:
    """A pass with constraints."""
    masks, accepts = array("q"), array("q")
    clock = time.perf_counter_ns
    gc.collect()
    for ids in times.documents:
        constraint = new()
        out, mask, accept = new_mask(constraint.vocab_size), constraint.mask, constraint.accept
        for token in ids:
            start = clock()
            mask(out)
            between = clock()
            taken = accept(token)
            end = clock()
            if not taken:
                raise ConstraintError(f"refuses token {len(masks)}")
            masks.append(between - start)
            accepts.append(end - between)
    times.add(masks, accepts)


def direct(new: Callable[[], Any], size: int, times: Times) -> None:
    """A pass with llguidance's own matchers, in the fastest way that leaves them whole when a token is refused."""
    masks, accepts = array("q"), array("q")
    clock = time.perf_counter_ns
    gc.collect()
    for ids in times.documents:
        matcher, out = new(), new_mask(size)
        address, count = out.ctypes.data, out.nbytes
        mask, accept = matcher.unsafe_compute_mask_ptr, matcher.try_consume_tokens
        for token in ids:
            start = clock()
            mask(address, count)
            between = clock()
            taken = accept([token])
            end = clock()
            if not taken:
                raise ConstraintError(f"refuses token {len(masks)}")
            masks.append(between - start)
            accepts.append(end - between)
    times.add(masks, accepts)


def pair(vocabulary: Vocabulary, name: str, schema: str, options: argparse.Namespace) -> list[Cell]:
    """unspool and llguidance under one schema, in turn."""
    rules = grammar(schema)
    mine, theirs = Times(vocabulary, schema), Times(vocabulary, schema)
    passes = Passes(options.budget, options.calibration)
    for _ in passes:
        held(lambda: LLGuidanceConstraint(rules, vocabulary), mine)
        direct(lambda: compiled(rules, vocabulary).deep_copy(), vocabulary.spare, theirs)
    return [mine.cell(name, schema, OURS, passes.calm), theirs.cell(name, schema, DIRECT, passes.calm)]


def other(backend: Any, vocabulary: Vocabulary, name: str, schema: str, options: argparse.Namespace) -> Cell:
    """Another backend under one schema; its cell says so if it can't take it, or takes too long."""
    times = Times(vocabulary, schema)
    passes = Passes(options.budget, options.calibration)
    constrain(True, vocabulary, backend=backend)  # its tokenizer data is made once, outside of the limit
    try:
        with limited(options.limit):
            for _ in passes:
                held(lambda: constrain(WORKLOADS[schema][0], vocabulary, backend=backend), times)
    except ConstraintError as why:
        fault = f"refused: {why.keyword}" if isinstance(why, SchemaError) else str(why)
        return Cell(name, schema, backend, 0, fault=fault)
    except TooSlow:
        if times.masks[-1] == 2**62:
            return Cell(name, schema, backend, 0, fault=f"over {options.limit:g} s")
    return times.cell(name, schema, backend, passes.calm)


def vocabularies(places: Sequence[Path]) -> dict[str, Vocabulary]:
    """The vocabularies to measure on, by name; those of the files, or made up."""
    if places:
        return {
            f"{place.parent.name if place.stem == 'tokenizer' else place.stem}, {found.spare:,}": found
            for place in places
            for found in (vocabulary_of(tokenizer(place)),)
        }
    print("No tokenizer.json was given: the vocabularies are made up.\n")
    return {f"synthetic {name}": vocabulary_of(Synthetic(size)) for name, size in SIZES.items()}


def report(cells: Sequence[Cell], backends: Sequence[str]) -> str:
    """Unspool beside llguidance with their ratio, then the other backends."""
    by_place = {(cell.vocabulary, cell.schema, cell.contestant): cell for cell in cells}
    rows = []
    for name, schema in dict.fromkeys((cell.vocabulary, cell.schema) for cell in cells):
        mine, theirs = by_place[name, schema, OURS], by_place[name, schema, DIRECT]
        rows.append(
            [name, schema, f"{mine.tokens:,}", _figures(mine), _figures(theirs)]
            + [f"{mine.median / theirs.median:.2f} / {mine.p99 / theirs.p99:.2f}"]
            + [_figures(by_place[name, schema, backend]) for backend in backends]
        )
    head = ["vocabulary", "schema", "tokens", OURS, DIRECT, "ratio", *backends]
    return (
        "Microseconds a token, mask and accept: median / p99; * the machine was never calm meanwhile.\n\n"
        + table(head, rows)
    )


def _figures(cell: Cell) -> str:
    return cell.fault or f"{cell.median:.2f} / {cell.p99:.1f}{'' if cell.calm else ' *'}"


def missed(cells: Sequence[Cell]) -> list[str]:
    """What is out of reach."""
    theirs = {(cell.vocabulary, cell.schema): cell for cell in cells if cell.contestant == DIRECT}
    misses = []
    for cell in cells:
        if cell.contestant != OURS:
            continue
        beside = theirs[cell.vocabulary, cell.schema]
        for what, mine, other in (("median", cell.median, beside.median), ("p99", cell.p99, beside.p99)):
            if mine > other * RATIO:
                misses.append(
                    f"Out of reach: {cell.vocabulary}, {cell.schema}: {what} {mine:.2f} us is {mine / other:.2f} "
                    f"times llguidance's {other:.2f}, not {RATIO}."
                )
    return misses


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mask", description=__doc__.split("\n")[0])
    parser.add_argument("tokenizers", nargs="*", type=Path, help="tokenizer.json files; made up without any")
    parser.add_argument("--schemas", type=names(tuple(WORKLOADS)), default=list(WORKLOADS), help="comma-separated")
    parser.add_argument(
        "--backends", type=names(OTHERS), default=list(OTHERS), help="comma-separated; '' for none"
    )
    parser.add_argument("--passes", type=int, default=20, help="passes over each document at least")
    parser.add_argument(
        "--limit", type=float, default=10.0, help="seconds that another backend may take for a cell"
    )
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    options = parser.parse_args(given)
    options.budget = Budget(passes=options.passes, seconds=1.0, patience=5.0)
    options.calibration = Calibration()
    return options


def main(given: list[str] | None = None) -> int:
    """Runs the benchmark and prints its tables; 1 if something is out of reach."""
    options = arguments(given)
    backends, missing = [], []
    for backend in options.backends:
        try:
            constrain(True, Synthetic(300), backend=backend)
            backends.append(backend)
        except ConstraintError as why:
            missing.append(f"Not measured: {backend} ({why})")
    started = time.perf_counter()
    cells: list[Cell] = []
    for name, vocabulary in vocabularies(options.tokenizers).items():
        for schema in options.schemas:
            cells += pair(vocabulary, name, schema, options)
            cells += [other(backend, vocabulary, name, schema, options) for backend in backends]
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"llguidance {version('llguidance')}, {python}, {platform.machine()}, {os.cpu_count()} cores")
    print(f"{options.calibration}\n")
    print(report(cells, backends))
    misses = missed(cells)
    print("\n" + "\n".join([*missing, *misses] or ["Every cell is within reach."]))
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in cells]))
    return bool(misses)


if __name__ == "__main__":
    sys.exit(main())
