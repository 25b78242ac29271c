"""Schemas without a notation for them: numbers by their digits, and what is refused."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.constrained.turns.acceptor import refused
from unspool.constrained.base import SchemaError
from unspool.constrained.turns.gbnf import to_gbnf
from unspool.constrained.turns.nodes import Node, Tree
from unspool.constrained.turns.patterns import number_pattern
from unspool.constrained.turns.portable import PortableWalk


def walked(schema: Any, *, strict: bool = True) -> tuple[str, list[str]]:
    """The grammar of a schema's JSON and the warnings about it."""
    rules: dict[str, Node] = {}
    warnings: list[str] = []
    node = PortableWalk(schema, "the answer", strict=strict, rules=rules, warnings=warnings).json(schema)
    return to_gbnf(Tree(node, rules)), warnings


@pytest.mark.parametrize("seed", range(40))
def test_integers_between_two_limits(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice((9, 120, 3000))
    low, high = sorted(chance.randint(-size, size) for _ in range(2))
    pattern = re.compile(number_pattern({"type": "integer", "minimum": low, "maximum": high}))
    for value in range(-2 * size, 2 * size, max(1, size // 500)):
        assert bool(pattern.fullmatch(str(value))) is (low <= value <= high)
    for value in (low - 1, low, high, high + 1):
        assert bool(pattern.fullmatch(str(value))) is (low <= value <= high)
    assert not pattern.fullmatch("01")
    assert not pattern.fullmatch("-0")


@pytest.mark.parametrize(
    ("limits", "least", "most"),
    [
        ({"minimum": 1.5}, 2, None),
        ({"exclusiveMinimum": 3, "minimum": 2}, 4, None),
        ({"exclusiveMaximum": 3.5}, None, 3),
        ({"maximum": -7}, None, -7),
        ({}, None, None),
    ],
)
def test_integers_with_one_limit(limits: dict[str, Any], least: int | None, most: int | None) -> None:
    pattern = re.compile(number_pattern({"type": "integer", **limits}))
    for value in (-(10**14), -1234, -8, -7, -1, 0, 1, 2, 3, 4, 5, 99, 10**14):
        fits = (least is None or value >= least) and (most is None or value <= most)
        assert bool(pattern.fullmatch(str(value))) is fits, value


def test_numbers() -> None:
    assert re.fullmatch(number_pattern({"type": "number"}), "-1.5e+3")
    assert not re.fullmatch(number_pattern({"type": "number", "minimum": 0}), "-1.5")
    with pytest.raises(LookupError):
        number_pattern({"type": "integer", "minimum": 5, "exclusiveMaximum": 5})


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "at": {"$ref": "#/$defs/At"},
        "tags": {"type": "array", "items": {"enum": ["a", 1, None]}, "minItems": 1, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[a-c]+$", "maxLength": 3},
        "free": {},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"At": {"type": ["object", "null"], "properties": {"x": {"type": "number"}, "in": {"$ref": "#"}}}},
}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Zoë!"}',
        '{"name":"ab","at":null}',
        '{ "name": "ab", "at": {"x": -1.5e3, "in": {"name": "cd"}}, "tags": ["a", null] }',
        '{"name": "ab", "code": "abc", "free": {"k": [1, "two\\n\\u00e9", true, {}]}}',
        '{"name": "ab", "free": []}',
    ],
)
def test_valid_json_is_in_the_grammar(text: str) -> None:
    assert refused(walked(SCHEMA)[0], text) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a"}',
        '{"name": "abcde"}',
        "{}",
        '{"at": null, "name": "ab"}',
        '{"name": "ab", "tags": []}',
        '{"name": "ab", "tags": ["a", 1, null]}',
        '{"name": "ab", "code": "abcc"}',
        '{"name": "ab", "code": "d"}',
        '{"name": "ab", "more": 1}',
        '{"name": "ab"},',
        '{"name": "ab\x00"}',
        '{"name": "a\nb"}',
    ],
)
def test_other_json_is_not(text: str) -> None:
    assert refused(walked(SCHEMA)[0], text) is not None


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer", "reason"),
    [
        ({"items": {"type": "number", "maximum": 1.5}}, "maximum", "/items", "bound integers only"),
        ({"items": {"type": "integer", "multipleOf": 3}}, "multipleOf", "/items", "can't calculate"),
        ({"items": {"minimum": 3}}, "minimum", "/items", "bound integers only"),
        ({"type": "array", "maxItems": 5000}, "maxItems", "", "more than the 1000 repetitions"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "maxItems", "", "less than minItems"),
        ({"type": "string", "maxLength": 1001}, "maxLength", "", "more than the 1000 repetitions"),
        ({"type": "string", "pattern": r"\bx"}, "pattern", "", r"the escape \\b"),
        ({"type": "string", "pattern": "^ab$", "minLength": 3}, "pattern", "", "contradicts itself"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "minimum", "", "no value is left"),
        ({"type": "array", "minItems": "2"}, "minItems", "", "no number that it could be"),
        ({"type": "string", "maxLength": 2.5}, "maxLength", "", "no number that it could be"),
        ({"type": "integer", "maximum": None}, "maximum", "", "no number that it could be"),
        ({"type": "integer", "enum": 7}, "enum", "", "no list"),
        ({"uniqueItems": True}, "uniqueItems", "", "no equivalent"),
    ],
)
def test_what_can_t_be_said_is_refused_or_left_out_with_a_warning(
    schema: Any, keyword: str, pointer: str, reason: str
) -> None:
    schema = {"type": "array", **schema} if "items" in schema else schema
    with pytest.raises(SchemaError, match=reason) as error:
        walked(schema)
    assert (error.value.keyword, error.value.pointer) == (keyword, pointer)
    grammar, warnings = walked(schema, strict=False)
    assert any(keyword in warning for warning in warnings)
    assert refused(grammar, {"string": '"abx"', "integer": "7"}.get(str(schema.get("type")), "[1, 1, 1]")) is None


@pytest.mark.parametrize("strict", [True, False])
def test_what_is_no_json_is_refused(strict: bool) -> None:
    schema = {"type": "array", "items": {"minimum": float("inf")}}
    with pytest.raises(SchemaError, match="the answer: The schema is not JSON: 'minimum' at /items") as error:
        walked(schema, strict=strict)
    assert (error.value.keyword, error.value.pointer) == ("minimum", "/items")


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"allOf": [{"type": "integer"}, False]}, "false", ""),
        (
            {"items": {"allOf": [{"properties": {"a": {}}}], "additionalProperties": False}},
            "additionalProperties",
            "/items",
        ),
    ],
)
def test_parts_that_bar_each_other_are_refused(schema: Any, keyword: str, pointer: str) -> None:
    with pytest.raises(SchemaError) as error:
        walked(schema)
    assert (error.value.keyword, error.value.pointer) == (keyword, pointer)
    assert any(keyword in warning for warning in walked(schema, strict=False)[1])


def test_what_stands_beside_a_reference_counts() -> None:
    schema = {
        "$ref": "#/$defs/list",
        "maxItems": 1,
        "$defs": {"list": {"type": "array", "items": {"type": "null"}}},
    }
    assert refused(walked(schema)[0], "[null]") is None
    assert refused(walked(schema)[0], "[null, null]") is not None


def test_what_refers_to_itself_may_be_null() -> None:
    link = {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None}
    node = {"type": "object", "properties": {"next": link}, "required": ["next"], "additionalProperties": False}
    grammar = walked({**link, "$defs": {"Node": node}})[0]
    for text in ("null", '{"next": null}', '{"next": {"next": null}}'):
        assert refused(grammar, text) is None
    assert refused(grammar, '{"next": {}}') is not None


def test_a_reference_to_another_document_is_left_out_with_a_warning() -> None:
    grammar, warnings = walked({"$ref": "https://example.com/schema.json"}, strict=False)
    assert "'$ref' at the root" in warnings[0]
    assert refused(grammar, '{"a": 1}') is None


def test_what_is_nested_too_deeply_is_refused() -> None:
    chain = {f"D{n}": {"type": "array", "items": {"$ref": f"#/$defs/D{n + 1}"}} for n in range(300)}
    with pytest.raises(SchemaError, match="The schema of the answer is nested too deeply"):
        walked({"$ref": "#/$defs/D0", "$defs": {**chain, "D300": {}}})


def test_what_is_merely_an_annotation_is_passed_over() -> None:
    assert walked({"type": "integer", "description": "n", "multipleOf": 1, "default": 3})[1] == []
