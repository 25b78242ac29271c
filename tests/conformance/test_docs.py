"""The page on conformance counts what there is, and says of each settled bug report what its test asserts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.test_bugs import CASES, SETTLED
from tests.conformance.documented import rows, table_below
from tests.conformance.test_canitoolcall import FIXTURES, FLOOR
from tests.samples.test_samples import SAMPLES

ROOT = Path(__file__).parents[2]
MEASURES = {name: (what, tests) for name, what, tests in rows(table_below("Conformance"))}


@pytest.mark.parametrize(
    ("measure", "count"), [("canitoolcall", FIXTURES), ("bug reports", len(CASES)), ("samples", len(SAMPLES))]
)
def test_a_measure_has_as_many_as_it_says(measure: str, count: int) -> None:
    assert MEASURES[measure][0].startswith(f"{count} ")


def test_the_number_of_families_is_that_of_the_suite() -> None:
    assert len(FLOOR) == 9
    assert "of nine families" in MEASURES["canitoolcall"][0]


def test_each_measure_names_its_tests() -> None:
    assert all((ROOT / tests.strip("`")).is_file() for _, tests in MEASURES.values())


def test_what_was_settled_about_a_report_is_what_its_test_asserts() -> None:
    documented = {name: settled for name, _, settled in rows(table_below("Bug reports"))}
    assert documented == {name: settled.reason for name, settled in SETTLED.items()}
