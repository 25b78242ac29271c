"""JSON Schema: what is held to it, what is refused and where, and that every call can finish."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from tests.constrained.bugs import BUGS
from tests.constrained.vocabularies import Letters, choices, takes
from unspool.constrained import (
    GrammarError,
    LLGuidanceConstraint,
    SchemaError,
    json_object,
    json_schema,
)

LETTERS = Letters(special=["<|end|>"], end=["<|end|>"])
(END,) = LETTERS.special


def accepts(schema: Any, value: Any, **options: Any) -> bool:
    """Whether a schema's grammar takes a value as JSON up to its end."""
    return accepts_text(schema, json.dumps(value, ensure_ascii=False), **options)


def accepts_text(schema: Any, text: str, **options: Any) -> bool:
    """Whether a schema's grammar takes a JSON text up to its end."""
    tokens = [*text.encode(), END]
    return takes(LLGuidanceConstraint(json_schema(schema, **options), LETTERS), tokens) == len(tokens)


def of_bug(number: str) -> Any:
    """The schema in the request of a reported bug."""
    return BUGS[number]["input"]["request"]["response_format"]["json_schema"]["schema"]


class TestEnforcing:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
            "at": {"$ref": "#/$defs/At"},
        },
        "required": ["name"],
        "additionalProperties": False,
        "$defs": {"At": {"type": ["object", "null"], "properties": {"x": {"type": "integer", "minimum": 3}}}},
    }

    @pytest.mark.parametrize(
        "value",
        [
            {"name": "Zoë"},
            {"name": 'q"\n', "tags": ["a", "b"], "at": None},
            {"name": "abcd", "at": {"x": 3, "other": [1, {"y": 2}]}},
        ],
    )
    def test_what_the_schema_allows(self, value: Any) -> None:
        assert accepts(self.SCHEMA, value)
        assert accepts_text(self.SCHEMA, json.dumps(value, ensure_ascii=False, indent=4))

    @pytest.mark.parametrize(
        "value",
        [
            {},
            {"name": "a"},
            {"name": "abcde"},
            {"name": "ab", "tags": ["c"]},
            {"name": "ab", "tags": ["a", "a", "a"]},
            {"name": "ab", "at": {"x": 2}},
            {"name": "ab", "extra": 1},
            [],
            "text",
        ],
    )
    def test_what_it_does_not(self, value: Any) -> None:
        assert not accepts(self.SCHEMA, value)

    def test_a_schema_may_be_text_or_true(self) -> None:
        assert accepts('{"type": "integer"}', 12)
        assert not accepts('{"type": "integer"}', "x")
        assert accepts(True, {"any": [1, None]})

    @pytest.mark.parametrize("name", ["#user", "any of two", "https://example.com/user#/definitions/name"])
    def test_the_name_of_a_schema_may_be_anything_if_nothing_refers_to_it(self, name: str) -> None:
        schema = {"$id": name, "$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}
        assert accepts(schema, 1)
        assert not accepts(schema, "x")

    def test_a_schema_may_refer_to_itself_by_name(self) -> None:
        schema = {
            "$id": "https://example.com/a",
            "$ref": "https://example.com/a#/$defs/b",
            "$defs": {"b": {"type": "integer"}},
        }
        assert accepts(schema, 1)
        assert not accepts(schema, "x")

    def test_any_object(self) -> None:
        held = LLGuidanceConstraint(json_object(), LETTERS)
        tokens = [*b'{"a": [1, {"b": null}, "x"], "c": {}}', END]
        assert takes(held, tokens) == len(tokens)
        assert takes(LLGuidanceConstraint(json_object(), LETTERS), [*b"[1]"]) == 0

    @pytest.mark.parametrize("number", ["BUG-071", "BUG-072"])
    def test_references_as_in_reported_bugs(self, number: str) -> None:
        candidates = BUGS[number]["input"]["candidate_outputs"]
        assert accepts_text(of_bug(number), candidates["legal"])
        assert not accepts_text(of_bug(number), candidates["illegal"])


class TestFinishing:
    def test_strings_without_a_bound_have_one(self) -> None:
        assert accepts({"type": "string"}, "x" * 8, max_string=8)
        assert not accepts({"type": "string"}, "x" * 9, max_string=8)
        assert not accepts({"type": ["string", "null"]}, "x" * 9, max_string=8)
        assert not accepts({"type": "string", "pattern": "^x*$"}, "x" * 9, max_string=8)

    def test_a_bound_of_the_schema_stands(self) -> None:
        assert accepts({"type": "string", "maxLength": 12}, "x" * 12, max_string=8)
        assert accepts({"type": "string", "minLength": 12}, "x" * 12, max_string=8)

    def test_bounds_reach_every_string_and_leave_values_alone(self) -> None:
        schema = {
            "type": "object",
            "properties": {"type": {"type": "string"}, "e": {"enum": ["long enough", {"type": "string"}]}},
            "additionalProperties": {"anyOf": [{"type": "array", "items": {"type": "string"}}]},
        }
        assert accepts(schema, {"type": "x" * 8, "e": "long enough", "o": ["x" * 8]}, max_string=8)
        assert accepts(schema, {"e": {"type": "string"}}, max_string=8)
        assert not accepts(schema, {"type": "x" * 9}, max_string=8)
        assert not accepts(schema, {"o": ["x" * 9]}, max_string=8)

    def test_any_object_has_bounded_strings(self) -> None:
        held = LLGuidanceConstraint(json_object(max_string=8), LETTERS)
        assert takes(held, [*b'{"a": ["123456789"]}']) == 16

    def test_arrays_where_asked(self) -> None:
        assert accepts({"type": "array"}, [1, 2, 3])
        assert not accepts({"type": "array"}, [1, 2, 3], max_items=2)

    def test_a_bound_that_contradicts_the_schema_is_left_out(self) -> None:
        schema = {"allOf": [{"type": "string"}, {"minLength": 10}]}
        assert accepts(schema, "x" * 12, max_string=8)

    def test_whitespace_has_an_end(self) -> None:
        held = LLGuidanceConstraint(json_schema({"type": "object"}), LETTERS)
        assert takes(held, [ord("{"), *b" " * 100]) == 65
        assert not choices(held) & {ord(" "), ord("\n"), ord("\t")}

    def test_a_model_that_never_wants_to_end_a_string_has_to(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        held = LLGuidanceConstraint(json_schema({**schema, "additionalProperties": False}, max_string=50), LETTERS)
        written = bytearray()
        while not held.is_stopped:
            wanted = choices(held)
            token = ord("z") if ord("z") in wanted else min(wanted - {END, *b" \t\r\n"})
            assert held.accept(token)
            written.append(token)
        assert json.loads(written) == {"a": "z" * 50}


class TestRefusing:
    @pytest.mark.parametrize(
        ("schema", "keyword", "place"),
        [
            ({"not": {"type": "string"}}, "not", ""),
            ({"properties": {"x": {"not": {}}}}, "not", "/properties/x"),
            ({"items": {"anyOf": [{}, {"propertyNames": {}}]}}, "propertyNames", "/items/anyOf/1"),
            ({"properties": {"a/b~c": {"uniqueItems": True}}}, "uniqueItems", "/properties/a~1b~0c"),
            ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "if": {}}}}, "if", "/$defs/A"),
            ({"type": "string", "format": "postcode"}, "format", ""),
            ({"properties": {"a": {"type": "string", "pattern": "(?=x)"}}}, "pattern", "/properties/a"),
            ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "oneOf", ""),
            ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "$ref", "/properties/a"),
            ({"properties": {"a": {"$ref": "https://example.com/x"}}}, "$ref", "/properties/a"),
            ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum", ""),
            ({"type": "object", "required": ["a"], "properties": {"a": False}}, "required", ""),
            ({"properties": {"a": {"type": 5}}}, "type", "/properties/a"),
            ({"$id": "#user", "$ref": "other"}, "$ref", ""),
        ],
    )
    def test_a_demanded_schema_names_the_keyword_and_its_place(
        self, schema: dict[str, Any], keyword: str, place: str
    ) -> None:
        with pytest.raises(SchemaError) as caught:
            json_schema(schema)
        assert (caught.value.keyword, caught.value.pointer) == (keyword, place)
        assert repr(keyword) in str(caught.value)
        assert (place or "the root") in str(caught.value)
        assert isinstance(caught.value, GrammarError)

    def test_of_several_the_one_at_fault_is_named(self) -> None:
        good = {"type": "string", "pattern": "^a+$"}
        schema = {"properties": {"a": good, "b": {"type": "string", "pattern": "(x"}, "c": good}}
        with pytest.raises(SchemaError) as caught:
            json_schema(schema)
        assert caught.value.pointer == "/properties/b"

    @pytest.mark.parametrize(
        ("good", "bad", "keyword"),
        [
            ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "("}, "pattern"),
            ({"type": "string", "format": "date"}, {"type": "string", "format": "nope"}, "format"),
            ({"type": "string", "minLength": 3}, {"type": "string", "minLength": "3"}, "minLength"),
            ({"oneOf": [{"type": "null"}]}, {"oneOf": [{}, {}]}, "oneOf"),
        ],
    )
    @pytest.mark.parametrize("place", [0, 64, 99])
    def test_of_a_hundred_too(self, good: Any, bad: Any, keyword: str, place: int) -> None:
        names = [f"k{number}" for number in range(100)]
        schema = {
            "type": "object",
            "properties": {name: bad if name == f"k{place}" else good for name in names},
            "required": [f"k{(place + 1) % 100}"],
            "additionalProperties": False,
        }
        with pytest.raises(SchemaError) as caught:
            json_schema(schema)
        assert (caught.value.keyword, caught.value.pointer) == (keyword, f"/properties/k{place}")
        warnings = json_schema(schema, strict=False).warnings
        assert any(warning.startswith(f"'{keyword}' at /properties/k{place} of") for warning in warnings)
        # Of oneOf it isn't said which are taken as anyOf.
        assert len(warnings) == 1 or keyword == "oneOf"
        assert not accepts(schema, {"k1": 5}, strict=False)

    def test_the_innermost_is_named(self) -> None:
        with pytest.raises(SchemaError) as caught:
            json_schema({"properties": {"a": {"properties": {"b": {"properties": 5}}}}})
        assert (caught.value.keyword, caught.value.pointer) == ("properties", "/properties/a/properties/b")

    def test_a_schema_can_not_loosen_itself(self) -> None:
        with pytest.raises(SchemaError, match="'not'"):
            json_schema({"x-guidance": {"lenient": True}, "not": {"type": "string"}})

    @pytest.mark.parametrize("schema", ["{", "[]", "3", False, {"default": {1, 2}}])
    def test_what_is_no_schema(self, schema: Any) -> None:
        with pytest.raises(SchemaError, match=r"is not JSON|must be an object that allows some value"):
            json_schema(schema)

    @pytest.mark.parametrize("strict", [True, False])
    @pytest.mark.parametrize(
        ("schema", "keyword", "place", "message"),
        [
            ('{"type": "string", "minLength": 1e999}', "minLength", "", "'minLength' at the root holds a number"),
            (
                '{"properties": {"a": {"const": NaN}}}',
                "const",
                "/properties/a",
                "holds a number that is infinite or none",
            ),
            ('{"maximum": -Infinity}', "maximum", "", "holds a number that is infinite or none"),
            ({"properties": {"a": {"maximum": float("inf")}}}, "maximum", "/properties/a", "at /properties/a"),
            ('{"items": {"const": "\\ud800"}}', "const", "/items", "lone surrogate"),
            ({"items": {"enum": [[{"\udfff": 1}]]}}, "enum", "/items", "lone surrogate"),
            ({"properties": {"\ud800": {}}}, "properties", "", "lone surrogate"),
        ],
    )
    def test_what_json_does_not_have_is_found_where_it_stands(
        self, schema: Any, keyword: str, place: str, message: str, strict: bool
    ) -> None:
        with pytest.raises(SchemaError, match=message) as caught:
            json_schema(schema, strict=strict)
        assert (caught.value.keyword, caught.value.pointer) == (keyword, place)

    @pytest.mark.parametrize("levels", [130, 600, 5000, 100_000])
    def test_a_schema_may_be_too_deep(self, levels: int) -> None:
        with pytest.raises(SchemaError, match="nested too deeply"):
            json_schema('{"items": ' * levels + "{}" + "}" * levels, strict=False)
        schema: Any = {}
        for _ in range(levels):
            schema = {"allOf": [schema]}
        with pytest.raises(SchemaError, match="nested too deeply"):
            json_schema(schema)

    @pytest.mark.parametrize(
        ("schema", "keyword"),
        [
            ({"type": "object", "required": ["a"], "properties": ["a"]}, "properties"),
            ({"type": "object", "required": ["a"], "properties": 5}, "properties"),
            ({"type": "array", "minItems": 1, "prefixItems": 5}, "prefixItems"),
            ({"type": "array", "minItems": 1, "prefixItems": {"a": 1}}, "prefixItems"),
            ({"type": "array", "minItems": 1, "items": 5}, "items"),
            ({"allOf": 5}, "allOf"),
            ({"$ref": 5}, "$ref"),
            ({"$ref": "#/enum/0/x", "enum": ["text"]}, "$ref"),
            ({"type": "string", "maxLength": [1]}, "maxLength"),
            ({"type": "array", "minItems": ["x" + "é" * 80]}, "minItems"),  # llguidance cuts it inside a letter
        ],
    )
    def test_values_of_another_type_than_the_keyword_has(self, schema: Any, keyword: str) -> None:
        with pytest.raises(SchemaError) as caught:
            json_schema(schema)
        assert (caught.value.keyword, caught.value.pointer) == (keyword, "")
        (warning,) = json_schema(schema, strict=False).warnings
        assert warning.startswith(f"{keyword!r} at the root")

    @pytest.mark.parametrize(
        ("number", "keyword"), [("BUG-068", "type"), ("BUG-069", "$ref"), ("BUG-070", "pattern")]
    )
    def test_reported_schemas_are_refused_before_generation(self, number: str, keyword: str) -> None:
        with pytest.raises(SchemaError) as caught:
            json_schema(of_bug(number))
        assert caught.value.keyword == keyword
        assert BUGS[number]["expected"].get("error_contains", "") in str(caught.value)
