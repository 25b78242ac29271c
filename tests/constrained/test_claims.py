"""No keyword is under-constrained in silence: an example of each claim, and JSON-Schema-Test-Suite if present."""

from __future__ import annotations

import json

import pytest

from tests.constrained import schema_page
from tests.constrained.claims import APPROXIMATE, CLAIMS, IN_PART, NOTHING, REFUSED
from tests.constrained.suite import ABSENT, DATA, Tally, cases
from tests.constrained.test_schema import accepts
from unspool.constrained import SchemaError, json_schema

CLAIMED = {name: claim for name, claim in CLAIMS.items() if claim.claim != REFUSED}
REFUSALS = {name: claim for name, claim in CLAIMS.items() if claim.claim == REFUSED}


@pytest.mark.parametrize("name", CLAIMED)
def test_what_is_claimed_is_enforced(name: str) -> None:
    claim = CLAIMED[name]
    assert [value for value in claim.valid if not accepts(claim.schema, value)] == []
    assert [value for value in claim.invalid if accepts(claim.schema, value)] == []


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_not_claimed_is_refused_by_name(name: str) -> None:
    claim = REFUSALS[name]
    with pytest.raises(SchemaError) as caught:
        json_schema(claim.schema)
    assert (claim.keyword or name) in (caught.value.keyword, *caught.value.args[0].split("'"))


@pytest.mark.parametrize("name", [name for name, claim in REFUSALS.items() if claim.valid])
def test_what_is_offered_with_it_says_so_and_is_checked_afterwards(name: str) -> None:
    claim = REFUSALS[name]
    grammar = json_schema(claim.schema, strict=False)
    assert any((claim.keyword or name) in warning for warning in grammar.warnings)
    assert [value for value in claim.valid if not accepts(claim.schema, value, strict=False)] == []
    assert [value for value in claim.invalid if not grammar.problems(json.dumps(value))] == []


@pytest.fixture(scope="module")
def tallies() -> dict[str, dict[str, Tally]]:
    if not DATA.is_dir():
        pytest.skip(ABSENT)
    return schema_page.measured()


class TestSuite:
    """On the suite's own data, with every backend that is installed."""

    def test_every_keyword_of_it_has_a_claim(self, tallies: dict[str, dict[str, Tally]]) -> None:
        assert CLAIMS.keys() == {case.keyword for case in cases()}

    def test_nothing_invalid_gets_through_a_demanded_schema(self, tallies: dict[str, dict[str, Tally]]) -> None:
        approximate = {name for name, claim in CLAIMS.items() if claim.claim == APPROXIMATE}
        for column, by_name in tallies.items():
            if column.endswith("offered"):
                continue
            passed = {name for name, tally in by_name.items() if tally.passed}
            assert passed == (approximate if column == "llguidance" else set()), column

    def test_what_gets_through_an_offered_one_is_found_afterwards(
        self, tallies: dict[str, dict[str, Tally]]
    ) -> None:
        passed = {name for name, tally in tallies["llguidance, offered"].items() if tally.passed}
        assert {name for name in passed if not name.startswith("format")} == {"dynamicRef", "refRemote"}

    def test_claims(self, tallies: dict[str, dict[str, Tally]]) -> None:
        for name, tally in tallies["llguidance"].items():
            claim = CLAIMS[name].claim
            tested = tally.valid + tally.invalid
            assert (tested == 0) == (claim == REFUSED), name
            assert tally.refused or claim != IN_PART, name
            assert claim != NOTHING or not tally.refused, name

    def test_the_page_has_these_tables(self, tallies: dict[str, dict[str, Tally]]) -> None:
        page = schema_page.PAGE.read_text("utf-8")
        assert page == schema_page.rendered(page, tallies), "run: make docs"


def test_columns_that_are_not_measured_stay() -> None:
    page = "before\n\n| keyword | claim |\n|---|---|\n| type | x | 1 | 2 | 3 | 4 |\n\nafter\n"
    tally = Tally(schemas=2, refused=1, valid=3, accepted=2, invalid=4, rejected=1, found=3)
    rendered = schema_page.rendered(page, {"xgrammar": dict.fromkeys(CLAIMS, tally)})
    assert "\n| type | enforced | 1 | 2 | 2/3, 1+3/4, 1/2 refused | 4 |\n" in rendered
    assert rendered.startswith("before\n\n| keyword | claim | llguidance |")
    assert rendered.endswith("\n\nafter\n")
