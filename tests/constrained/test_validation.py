"""Values against schemas that are anybody's: what is wrong is found, within bounds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from rpds import HashTrieMap

from unspool.constrained import validation
from unspool.constrained.validation import problems


def checked(value: Any, schema: Any) -> list[str]:
    return problems(json.dumps(value), [schema])


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The patterns that are searched for."""
    found: list[str] = []
    search = re.search

    def counted(pattern: Any, text: str, flags: int = 0) -> re.Match[str] | None:
        found.append(pattern)
        return search(pattern, text, flags)

    monkeypatch.setattr("jsonschema._keywords.re.search", counted)
    return found


EXPLODES = "^(a+)+$"
LONG = "a" * 60 + "!"


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (LONG, {"pattern": EXPLODES}),
        ({LONG: 1}, {"patternProperties": {EXPLODES: False}}),
        ({LONG: 1}, {"patternProperties": {EXPLODES: True}, "additionalProperties": False}),
        ({LONG: 1}, {"allOf": [{"$ref": "#/x/y"}], "x": {"y": {"patternProperties": {EXPLODES: True}}}}),
        (
            {LONG: 1},
            {
                "allOf": [{"$ref": "#/x/y"}],
                "unevaluatedProperties": False,
                "x": {"y": {"patternProperties": {EXPLODES: True}}},
            },
        ),
    ],
)
def test_a_pattern_that_may_explode_is_not_searched_for(searched: list[str], value: Any, schema: Any) -> None:
    assert checked(value, schema) == []
    assert [pattern for pattern in searched if EXPLODES in pattern] == []


def test_what_stands_beside_it_is_checked(searched: list[str]) -> None:
    schema = {"properties": {"a": {"pattern": EXPLODES, "maxLength": 9}, "b": {"pattern": "^x+$"}}}
    found = checked({"a": LONG, "b": "y"}, schema)
    assert [problem.partition(":")[0] for problem in found] == ["/a", "/b"]
    assert checked({"a": "aa!"}, schema) == ["/a: 'aa!' does not match '^(a+)+$'"]
    assert "^x+$" in searched


def test_many_searches_count_together(searched: list[str]) -> None:
    value = ["x" * 1000] * 100
    assert checked(value, {"items": {"pattern": "^.*foo.*$"}}) != []
    assert 0 < searched.count("^.*foo.*$") < 10


def test_references_that_double_end(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    spend = validation._Bounds._spend

    def counted(self: Any, more: int) -> None:
        steps.append(more)
        spend(self, more)

    monkeypatch.setattr(validation._Bounds, "_spend", counted)
    definitions: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    schema = {"$defs": {**definitions, "a60": {}}, "required": ["b"], "$ref": "#/$defs/a0"}
    assert checked({"a": 1}, {**schema, "$ref": "#/$defs/a55"}) == ["The value: 'b' is a required property"]
    checked({"a": 1}, schema)
    assert sum(steps) < 1_100_000


def test_unique_items_that_can_not_be_sorted_are_bounded() -> None:
    few = [{"n": number % 500} for number in range(501)]
    assert checked(few, {"uniqueItems": True}) != []
    assert checked(few * 4, {"uniqueItems": True}) == []
    assert checked([1, 2, 1] * 2000, {"uniqueItems": True}) != []


def test_not_every_problem_is_told() -> None:
    assert len(checked([1] * 5000, {"items": {"type": "string"}})) == 100


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(("levels", "found"), [(80, 1), (100, 0), (400, 0)])
def test_as_many_levels_are_looked_at_as_the_stack_has_room_for(levels: int, found: int) -> None:
    assert len(checked(nested(levels), {"type": "object", "properties": {"a": {"$ref": "#"}}})) == found


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("beside", [{"unevaluatedItems": False}, {"unevaluatedProperties": False}, {}])
def test_of_a_schema_that_never_ends_the_next_one_decides(keyword: str, beside: dict[str, Any]) -> None:
    for value in ([1], {"a": 1}):
        assert problems(json.dumps(value), [{**beside, keyword: "#"}, {"type": "integer"}]) != []


def test_a_stack_that_ends_within_the_table_of_references_is_an_ordinary_error() -> None:
    class Name:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RecursionError

    table = HashTrieMap({Name(): 1})
    with pytest.raises(RecursionError), validation.whole_stack():
        table.get(Name())


def test_other_errors_are_not_taken_for_that() -> None:
    with pytest.raises(KeyboardInterrupt), validation.whole_stack():
        raise KeyboardInterrupt
