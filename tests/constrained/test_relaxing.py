"""An offered schema: held as far as it can be, with warnings for the rest, and the finished value checked."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from tests.constrained.test_schema import accepts
from unspool.constrained import SchemaError, json_schema


class TestRelaxing:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
        "required": ["tags"],
    }

    def test_an_offered_schema_is_held_as_far_as_possible_and_says_what_is_left(self) -> None:
        grammar = json_schema(self.SCHEMA, strict=False)
        assert grammar.warnings == (
            "'uniqueItems' at /properties/tags of the schema can't be enforced while generating.",
        )
        assert accepts(self.SCHEMA, {"tags": [1, 1]}, strict=False)
        assert not accepts(self.SCHEMA, {"tags": ["x"]}, strict=False)

    def test_the_finished_value_is_checked(self) -> None:
        grammar = json_schema(self.SCHEMA, strict=False)
        assert grammar.problems('{"tags": [1, 2]}') == []
        (problem,) = grammar.problems('{"tags": [1, 1]}')
        assert problem.startswith("/tags: ")
        assert grammar.problems('{"tags": [1')[0].startswith("The text is not JSON: ")
        assert json_schema({"not": {"type": "object"}}, strict=False).problems("{}")[0].startswith("The value: ")

    @pytest.mark.parametrize(
        ("schema", "good", "bad"),
        [
            (
                {"properties": {"a": {"type": "string", "pattern": r"^\p{L}+$"}, "b": {"uniqueItems": True}}},
                {"a": "x", "b": [1, 2]},
                {"a": "x", "b": [1, 1]},
            ),
            (
                {"patternProperties": {r"^\p{L}$": {"type": "integer"}}, "additionalProperties": {"not": {}}},
                {"x": 1},
                None,
            ),
            ({"type": "array", "items": [{"type": "integer"}], "uniqueItems": True}, [1, 2], [1, 1]),
            (
                {"properties": {"a": {"exclusiveMinimum": True, "minimum": 3}, "b": {"uniqueItems": True}}},
                {"a": 4, "b": [1]},
                {"a": 3, "b": [1]},
            ),
            (
                {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "not": {"enum": [4]}},
                3,
                4,
            ),
        ],
    )
    def test_in_whatever_draft_and_syntax_of_patterns_it_is(self, schema: Any, good: Any, bad: Any) -> None:
        grammar = json_schema(schema, strict=False)
        assert grammar.warnings
        assert grammar.problems(json.dumps(good)) == []
        assert bad is None or len(grammar.problems(json.dumps(bad))) == 1

    def test_where_nothing_can_be_checked_a_warning_says_so(self) -> None:
        grammar = json_schema({"type": "string", "format": "postcode", "title": 3}, strict=False)
        assert grammar.warnings[1:] == (
            "A finished value can't be checked against the schema either: jsonschema can't read it.",
        )
        assert grammar.problems('"x"') == []

    @pytest.mark.parametrize("keyword", ["$schema", "$id", "$ref", "$dynamicRef"])
    @pytest.mark.parametrize("value", [5, True, None, ["a"], {"a": 1}])
    def test_nor_where_a_name_is_no_text(self, keyword: str, value: Any) -> None:
        schema = {"not": {"const": 1}, "properties": {"a": {keyword: value}}, keyword: value}
        assert json_schema(schema, strict=False).problems('{"a": 1}') == []

    def test_a_format_may_be_anything_where_nothing_refers_to_it(self) -> None:
        odd = {"a": {"format": {"b": 1}}}
        schema = {"not": {"const": 1}, "$defs": odd, "format": "postcode", "type": "string"}
        warnings = json_schema(schema, strict=False).warnings
        assert [warning.split(" of ")[0] for warning in warnings[:2]] == [
            "'not' at the root",
            "'format' at the root",
        ]

    def test_only_formats_that_are_unknown_are_warned_of(self) -> None:
        names = {"date": "date", "code": "postcode", "odd": 'a"] b'}
        schema = {"properties": {name: {"type": "string", "format": kind} for name, kind in names.items()}}
        grammar = json_schema(schema, strict=False)
        assert [warning.split(" of ")[0] for warning in grammar.warnings] == [
            "'format' at /properties/code",
            "'format' at /properties/odd",
        ]

    def test_bounds_of_strings_are_none_of_the_schema(self) -> None:
        schema = {"allOf": [{"type": "string"}, {"minLength": 10}], "not": {"const": "no"}}
        (warning,) = json_schema(schema, strict=False, max_string=8).warnings
        assert warning.startswith("'not'")
        assert accepts(schema, "x" * 12, strict=False, max_string=8)
        (warning,) = json_schema({"type": "string", "minLength": 1e300}, strict=False).warnings
        assert warning.startswith("'minLength'")

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a": 1e999}', '{"a": NaN}', '{"a": ' + "9" * 5000 + "}"])
    def test_whatever_was_written_can_be_checked(self, text: str) -> None:
        schema = {"properties": {"a": {"multipleOf": 0.1, "minimum": 1}}, "not": {"const": 1}}
        assert isinstance(json_schema(schema, strict=False).problems(text), list)

    def test_a_schema_that_is_enforced_has_nothing_to_check(self) -> None:
        grammar = json_schema({"type": "integer"}, strict=False)
        assert (grammar.warnings, grammar.problems('"x"')) == ((), [])

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            (
                {"type": "object", "properties": {"a": {"type": "any"}, "b": {"type": "integer"}}},
                {"a": [], "b": 1},
            ),
            ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, {"a": "x"}),
            ({"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}, {"a": 1}),
            ({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]}, {"a": 1}),
            ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "long enough"),
        ],
    )
    def test_not_even_a_wrong_schema_blocks_a_request_that_only_offers_it(self, schema: Any, value: Any) -> None:
        assert len(json_schema(schema, strict=False).warnings) == 1
        assert accepts(schema, value, strict=False)
        assert json_schema(schema, strict=False).problems(json.dumps(value)) == []

    def test_what_a_pattern_with_look_ahead_refuses_is_found_afterwards(self) -> None:
        grammar = json_schema({"type": "string", "pattern": "^(?!a)"}, strict=False)
        assert grammar.problems('"b"') == []
        assert len(grammar.problems('"a"')) == 1

    def test_a_reference_that_the_grammar_can_not_follow_is_followed_afterwards(self) -> None:
        schema = {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", "type": "integer"}}}
        grammar = json_schema(schema, strict=False)
        assert grammar.problems("1") == []
        assert grammar.problems('"x"') == ["The value: 'x' is not of type 'integer'"]

    def test_what_stands_beside_a_reference_to_nowhere_is_checked(self) -> None:
        schema = {"properties": {"a": {"$ref": "https://example.com/x"}, "b": {"uniqueItems": True}}}
        grammar = json_schema(schema, strict=False)
        assert grammar.problems('{"a": 1, "b": [1]}') == []
        assert len(grammar.problems('{"a": 1, "b": [1, 1]}')) == 1

    def test_nothing_can_be_said_against_a_schema_that_never_ends(self) -> None:
        assert json_schema({"$ref": "#"}, strict=False).problems("1") == []

    def test_a_contradiction_of_the_schema_can_not_be_relaxed_for_ever(self) -> None:
        schema = {"anyOf": [{"type": "junk"} for _ in range(40)]}
        with pytest.raises(SchemaError, match="can't be enforced"):
            json_schema(schema, strict=False)
