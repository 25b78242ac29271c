"""JSON Schema: what is held to it, what is refused and where, what is relaxed, and that every call can finish."""

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
from unspool.constrained.subschemas import endless, pointer, resolve, subschemas, without

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

    def test_a_schema_can_not_loosen_itself(self) -> None:
        with pytest.raises(SchemaError, match="'not'"):
            json_schema({"x-guidance": {"lenient": True}, "not": {"type": "string"}})

    @pytest.mark.parametrize("schema", ["{", "[]", "3", False, {"default": {1, 2}}])
    def test_what_is_no_schema(self, schema: Any) -> None:
        with pytest.raises(SchemaError, match=r"is not JSON|must be an object that allows some value"):
            json_schema(schema)

    @pytest.mark.parametrize(
        ("number", "keyword"), [("BUG-068", "type"), ("BUG-069", "$ref"), ("BUG-070", "pattern")]
    )
    def test_reported_schemas_are_refused_before_generation(self, number: str, keyword: str) -> None:
        with pytest.raises(SchemaError) as caught:
            json_schema(of_bug(number))
        assert caught.value.keyword == keyword
        assert BUGS[number]["expected"].get("error_contains", "") in str(caught.value)


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


class TestSubschemas:
    def test_every_place_but_values(self) -> None:
        schema = {
            "properties": {"enum": {"enum": [{"type": "x"}]}},
            "items": [{"type": "a"}],
            "prefixItems": [True, {"const": {"type": "x"}}],
            "not": {"$defs": {"d": {}}},
        }
        assert [pointer(path) for path, _ in subschemas(schema)] == [
            "",
            "/properties/enum",
            "/items/0",
            "/prefixItems/1",
            "/not",
            "/not/$defs/d",
        ]

    def test_leaving_out_a_keyword_changes_nothing_else(self) -> None:
        schema = {"anyOf": [{"a": 1}, {"a": 2, "b": 3}]}
        assert without(schema, ("anyOf", 1), "a") == {"anyOf": [{"a": 1}, {"b": 3}]}
        assert schema == {"anyOf": [{"a": 1}, {"a": 2, "b": 3}]}

    def test_local_references(self) -> None:
        schema = {"a": [{"b/c": 1, "d e": 2}]}
        assert resolve(schema, "#") is schema
        assert resolve(schema, "#/a/0/b~1c") == 1
        assert resolve(schema, "#/a/0/d%20e") == 2
        for reference in ("#/b", "#/a/x", "#/a/9", "#/a/0/d e/x", "#anchor", "other.json#/a"):
            with pytest.raises(LookupError):
                resolve(schema, reference)

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "properties": {"next": {"$ref": "#"}}},
            {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                "required": ["next"],
            },
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "array", "minItems": 1, "prefixItems": [{"const": 1}], "items": {"$ref": "#"}},
            {"oneOf": [{"type": "array", "minItems": 1, "items": {"$ref": "#"}}, {"type": "integer"}]},
            {"type": ["object", "null"], "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            {"enum": [1], "type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            {"$ref": "#/$defs/missing"},
            {"type": "object", "required": ["a", 3]},
            True,
        ],
    )
    def test_schemas_with_a_finite_value(self, schema: Any) -> None:
        assert endless(schema) is None

    @pytest.mark.parametrize(
        ("schema", "place"),
        [
            ({"$ref": "#"}, ""),
            ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, ""),
            ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "/properties/a"),
            ({"type": "array", "minItems": 2, "prefixItems": [{}], "items": {"$ref": "#"}}, "/items"),
            ({"allOf": [{"type": "object"}, {"$ref": "#"}]}, "/allOf/1"),
            ({"anyOf": [{"$ref": "#"}, {"$ref": "#/anyOf/0"}]}, "/anyOf/0"),
        ],
    )
    def test_schemas_without_one(self, schema: Any, place: str) -> None:
        found = endless(schema)
        assert found is not None
        assert pointer(found) == place
