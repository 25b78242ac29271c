"""Walking a schema: its subschemas, leaving out a keyword, references, and whether a finite value exists."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.constrained.subschemas import endless, pointer, resolve, subschemas, without


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
            {"anyOf": [False, True], "oneOf": [{"$ref": "#/oneOf/0"}, 5]},
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
            ({"anyOf": [{"$ref": "#"}, False]}, "/anyOf/0"),
            ({"oneOf": [{"$ref": "#"}], "anyOf": [{"type": "null"}]}, "/oneOf/0"),
        ],
    )
    def test_schemas_without_one(self, schema: Any, place: str) -> None:
        found = endless(schema)
        assert found is not None
        assert pointer(found) == place

    def test_a_long_chain_of_references_is_followed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        followed: list[str] = []

        def count(schema: Any, reference: str) -> Any:
            followed.append(reference)
            return resolve(schema, reference)

        monkeypatch.setattr("unspool.constrained.subschemas.resolve", count)
        chain: dict[str, Any] = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(3000)}
        assert endless({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {"type": "integer"}}}) is None
        assert len(followed) == 3001
        last = {"$ref": "#/$defs/d2999"}
        assert endless({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": last}}) == ()
