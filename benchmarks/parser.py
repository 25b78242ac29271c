"""What the parser costs: microseconds of CPU a chunk, and how that grows with the length of the output.

    python -m benchmarks.parser [--formats hermes,glm47] [--cases a,b,c] [--sizes 1000,4000,16000] [--full]
                                [--peers sglang,vllm,mlx_lm] [--rounds 3] [--json FILE] [--quick]

Each family is measured on (a) long reasoning, content and one call, (b) one call whose argument is a source
file and (c) fifty parallel calls, one token-like piece a chunk, and on parsing a whole output of 256,000
characters at once. Peers that are installed are measured in the same run, cell by cell, so that a busy machine
slows everybody alike. :mod:`benchmarks.timing` says how time is taken, :mod:`benchmarks.workloads` what is parsed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS, Contestant, Outcome, installed
from benchmarks.peers.unspool import contestant as unspool_contestant
from benchmarks.report import Growth, Results, Streamed, Whole, comparison, missed, summary
from benchmarks.timing import Budget, Calibration, TooSlow, exponent, limited, measure, measure_once
from benchmarks.workloads import CASES, FAMILIES, Workload, whole, workload

SIZES = (1000, 4000, 16000)
LARGEST = 64000
WHOLE = 256_000


def check(who: Contestant, new: Callable[[], Any], work: Workload, limit: float) -> Outcome:
    """Reads the output once, untimed, and keeps what comes back."""
    with limited(limit):
        stream = new()
        outputs = [stream.feed(piece) for piece in work.pieces]
        outputs.append(stream.finish())
    return who.read(work, outputs)


def run_streamed(who: Contestant, work: Workload, budget: Budget, calibration: Calibration) -> Streamed | None:
    """Measures a contestant on one output; ``None`` if it can't stream this family."""
    new = who.stream(work)
    if new is None:
        return None
    cost, share = None, 0.0
    try:
        outcome = check(who, new, work, budget.limit)
        fault = outcome.fault(work)
        share = outcome.argument_pieces / len(work.pieces)
        cost = measure(new, work.pieces, budget, calibration)
    except TooSlow as why:
        fault = str(why)
    except Exception as why:  # a peer may fail in any way; its cell then says so
        fault = f"{type(why).__name__}: {why}"[:80]
    return Streamed(who.name, work.family, work.case, work.size, cost, share, fault)


def run_whole(who: Contestant, work: Workload, budget: Budget, calibration: Calibration) -> Whole | None:
    """Measures a contestant on one whole output; ``None`` if it can't parse this family."""
    run = who.whole(work)
    if run is None:
        return None
    took = None
    try:
        with limited(budget.limit):
            fault = who.read_whole(work, run()).fault(work)
        took = measure_once(run, budget, calibration)
    except TooSlow as why:
        fault = str(why)
    except Exception as why:  # as above
        fault = f"{type(why).__name__}: {why}"[:80]
    return Whole(who.name, work.family, work.case, len(work.raw), took, fault)


def run(options: argparse.Namespace, contestants: list[Contestant], calibration: Calibration) -> Results:
    """Measures everything as often as asked; of each cell the smallest figures stay."""
    streamed: dict[tuple[str, str, str, int], Streamed] = {}
    wholes: dict[tuple[str, str, str], Whole] = {}
    for _, family, case in itertools.product(range(options.rounds), options.formats, options.cases):
        for who in contestants:
            budget = options.budget if who is contestants[0] else options.peer_budget
            for size in options.sizes:
                cell = run_streamed(who, workload(family, case, size), budget, calibration)
                if cell is None:
                    break
                place = (who.name, family, case, size)
                streamed[place] = cell.better(streamed.get(place))
                if cell.cost is None:
                    # A size after one that took too long is not tried.
                    break
            if options.whole and (took := run_whole(who, whole(family, case, WHOLE), budget, calibration)):
                wholes[who.name, family, case] = took.better(wholes.get((who.name, family, case)))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    growth = []
    for name, family, case in dict.fromkeys(place[:3] for place in streamed):
        row = [streamed.get((name, family, case, size)) for size in options.sizes]
        costs = [cell.cost for cell in row if cell is not None and cell.cost is not None]
        growth.append(Growth(name, family, case, exponent(costs)))
    return Results(list(streamed.values()), list(wholes.values()), growth)


def names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Reads a list, separated by commas, of what is known."""

    def read(text: str) -> list[str]:
        given = [name for name in text.split(",") if name]
        for name in given:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return given

    return read


def numbers(text: str) -> list[int]:
    """Reads a list of numbers, separated by commas."""
    return sorted({int(number) for number in text.split(",")})


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parser", description=__doc__.split("\n")[0])
    parser.add_argument("--formats", type=names(FAMILIES), default=list(FAMILIES), help="comma-separated")
    parser.add_argument(
        "--cases",
        type=names(tuple(CASES)),
        default=list(CASES),
        help="; ".join(f"{k}: {v}" for k, v in CASES.items()),
    )
    parser.add_argument("--sizes", type=numbers, default=list(SIZES), help="chunks, comma-separated")
    parser.add_argument("--full", action="store_true", help=f"also {LARGEST:,} chunks")
    parser.add_argument("--quick", action="store_true", help="fewer passes and no size above 4,000 chunks")
    parser.add_argument("--rounds", type=int, default=1, help="measure all this often, keep the smallest figures")
    parser.add_argument("--no-whole", dest="whole", action="store_false", help="leave out whole outputs")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS), help="comma-separated; '' for none")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds that one pass of a peer may take")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    options = parser.parse_args(given)
    if options.full:
        options.sizes = sorted({*options.sizes, LARGEST})
    if options.quick:
        options.sizes = [size for size in options.sizes if size <= 4000] or [1000]
    options.budget = Budget(passes=2, seconds=0.0, patience=0.0) if options.quick else Budget()
    options.peer_budget = Budget(passes=1, seconds=0.0, patience=0.0, limit=options.limit, singly=False)
    return options


def main(given: list[str] | None = None) -> int:
    """Runs the benchmark and prints its tables; 1 if unspool itself read something wrong."""
    options = arguments(given)
    # Some peers log every output they can't read; that is not what is measured here.
    logging.disable(logging.CRITICAL)
    peers, missing = installed(options.peers)
    contestants: list[Contestant] = [unspool_contestant(), *peers]
    calibration = Calibration()
    started = time.perf_counter()
    before = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    results = run(options, contestants, calibration)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine = f"{python}, {platform.machine()}, {os.cpu_count()} cores"
    print(f"{contestants[0].name}, {machine}; load {before:.1f} at the start; {calibration}\n")
    print(summary(results, contestants[0].name))
    if peers:
        print(f"\nPeers, {calibration}\n")
        print(comparison(results, [who.name for who in contestants]))
    for name, why in missing.items():
        print(f"Not measured: {name} ({why}).")
    wrong, misses = missed(results, contestants[0].name)
    print("\n" + ("\n".join(wrong + misses) or "Every cell is within reach."))
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(
            json.dumps(asdict(results) | {"machine": machine, "calibration_ms": calibration.times})
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
