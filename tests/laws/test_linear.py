"""Law 4: the work is linear in the text, counted in characters and not by a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.laws.strategies import FORMATS, every_format
from tests.laws.workloads import workloads

MOST = 64
"""Examined characters a fed one, at most: a marker that turns out to be none may have a whole header looked at."""


Counts: TypeAlias = dict[str, dict[str, list[tuple[int, int]]]]


@pytest.fixture(scope="module")
def counts() -> Counts:
    """For each format and workload: fed and examined characters at each size."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.laws.counting"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: Counts = json.loads(run.stdout)
    return found


@every_format
def test_more_text_is_as_much_more_work(name: str, counts: Counts) -> None:
    assert counts[name].keys() == workloads(FORMATS[name]).keys()
    for workload, ((fed, examined), (more_fed, more_examined)) in counts[name].items():
        assert more_fed > 2 * fed, workload
        assert more_examined <= MOST * more_fed, workload
        # What is examined again and again would grow by the square.
        assert more_examined / examined <= 3 * more_fed / fed, workload
