"""What unspool claims for each keyword of JSON Schema with llguidance, and an example of it.

The claims are the words of the tables in ``docs/schema.md``. What the grammar of a demanded schema lets through is
valid (ENFORCED), with some uses of the keyword refused (IN_PART), or all that restrict (REFUSED); some invalid
values get through (APPROXIMATE); the keyword restricts nothing (NOTHING).
"""

from __future__ import annotations

from typing import Any, NamedTuple

ENFORCED = "enforced"
IN_PART = "enforced or refused"
REFUSED = "refused"
APPROXIMATE = "approximate"
NOTHING = "restricts nothing"


class Claim(NamedTuple):
    """A claim, with a schema (for IN_PART one that is enforced) and values that it allows and forbids."""

    claim: str
    schema: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]
    keyword: str = ""
    """What a refusal names, if that is not the file of the suite."""


_OBJECT = {"type": "object", "additionalProperties": False}
_INTEGER = {"type": "integer"}

_REFUSED_FORMATS = (
    *("idn-email", "idn-hostname", "iri", "iri-reference", "json-pointer", "regex", "relative-json-pointer"),
    *("uri-reference", "uri-template"),
)

CLAIMS: dict[str, Claim] = {
    "additionalProperties": Claim(
        ENFORCED, {"type": "object", "additionalProperties": _INTEGER}, ({}, {"a": 1}), ({"a": "x"},)
    ),
    "allOf": Claim(ENFORCED, {"allOf": [_INTEGER, {"minimum": 3}]}, (3, 40), (2, "x")),
    "anchor": Claim(
        ENFORCED, {"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "integer"}}}, (1,), ("x", None)
    ),
    "anyOf": Claim(ENFORCED, {"anyOf": [_INTEGER, {"type": "null"}]}, (1, None), ("x", 1.5)),
    "boolean_schema": Claim(ENFORCED, True, (1, "x", [None]), ()),
    "const": Claim(ENFORCED, {"const": {"a": [1, "x"]}}, ({"a": [1, "x"]},), ({"a": [1]}, {}, 1)),
    "contains": Claim(REFUSED, {"type": "array", "contains": _INTEGER}, ([1],), (["x"],)),
    "content": Claim(NOTHING, {"contentMediaType": "application/json"}, ("{", 1), ()),
    "default": Claim(NOTHING, {"type": "integer", "default": "x"}, (1,), ("x",)),
    "defs": Claim(REFUSED, {"$ref": "https://json-schema.org/draft/2020-12/schema"}, (), (), "$ref"),
    "dependentRequired": Claim(
        REFUSED, {"type": "object", "dependentRequired": {"a": ["b"]}}, ({"a": 1, "b": 1}, {}), ({"a": 1},)
    ),
    "dependentSchemas": Claim(
        REFUSED, {"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}}, ({},), ({"a": 1},)
    ),
    "dynamicRef": Claim(
        REFUSED,
        {"type": "array", "items": {"$dynamicRef": "#a"}, "$defs": {"x": {"$dynamicAnchor": "a", **_INTEGER}}},
        ([1],),
        (["x"],),
        "$dynamicRef",
    ),
    "enum": Claim(ENFORCED, {"enum": [1, "x", None, {"a": 1}]}, (1, "x", None, {"a": 1}), (2, "y", {})),
    "exclusiveMaximum": Claim(ENFORCED, {"type": "number", "exclusiveMaximum": 3}, (2.5, -1), (3, 4.5)),
    "exclusiveMinimum": Claim(ENFORCED, {"type": "number", "exclusiveMinimum": 3}, (3.5, 10), (3, -4)),
    "format": Claim(IN_PART, {"type": "string", "format": "ipv4"}, ("127.0.0.1",), ("127.0.0", "x")),
    "if-then-else": Claim(
        REFUSED, {"if": _INTEGER, "then": {"minimum": 3}, "else": {"maxLength": 2}}, (3, "ab"), (2, "abc"), "if"
    ),
    "infinite-loop-detection": Claim(
        ENFORCED,
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        ({}, {"next": {"next": {}}}),
        ({"next": 1},),
    ),
    "items": Claim(ENFORCED, {"type": "array", "items": _INTEGER}, ([], [1, 2]), (["x"], [1, None])),
    "maxContains": Claim(
        REFUSED, {"type": "array", "contains": _INTEGER, "maxContains": 1}, ([1],), ([1, 1],), "contains"
    ),
    "maxItems": Claim(ENFORCED, {"type": "array", "maxItems": 1}, ([], [1]), ([1, 2],)),
    "maxLength": Claim(ENFORCED, {"type": "string", "maxLength": 2}, ("", "é\n"), ("abc",)),
    "maxProperties": Claim(ENFORCED, {"type": "object", "maxProperties": 1}, ({}, {"a": 1}), ({"a": 1, "b": 1},)),
    "maximum": Claim(ENFORCED, {"type": "number", "maximum": 3}, (3, -1.5), (3.5, 10)),
    "minContains": Claim(
        REFUSED, {"type": "array", "contains": _INTEGER, "minContains": 2}, ([1, 1],), ([1],), "contains"
    ),
    "minItems": Claim(ENFORCED, {"type": "array", "minItems": 1}, ([1], [1, 2]), ([],)),
    "minLength": Claim(ENFORCED, {"type": "string", "minLength": 2}, ("é\n", "abc"), ("", "a")),
    "minProperties": Claim(ENFORCED, {"type": "object", "minProperties": 1}, ({"a": 1},), ({},)),
    "minimum": Claim(ENFORCED, {"type": "number", "minimum": 3}, (3, 10.5), (2.5, -3)),
    "multipleOf": Claim(ENFORCED, {"type": "integer", "multipleOf": 3}, (3, -6, 0), (1, 4)),
    "not": Claim(REFUSED, {"not": _INTEGER}, ("x",), (1,)),
    "oneOf": Claim(IN_PART, {"oneOf": [_INTEGER, {"type": "string"}]}, (1, "x"), (None, 1.5)),
    "pattern": Claim(ENFORCED, {"type": "string", "pattern": "b+"}, ("abbc", "b"), ("ac", "")),
    "patternProperties": Claim(
        IN_PART, {**_OBJECT, "patternProperties": {"^a": _INTEGER}}, ({}, {"ab": 1}), ({"ab": "x"}, {"b": 1})
    ),
    "prefixItems": Claim(
        ENFORCED,
        {"type": "array", "prefixItems": [_INTEGER, {"type": "null"}]},
        ([1, None, "x"], []),
        (["x"], [1, 1]),
    ),
    "properties": Claim(
        ENFORCED, {"type": "object", "properties": {"a": _INTEGER}}, ({}, {"a": 1, "b": "x"}), ({"a": "x"},)
    ),
    "propertyNames": Claim(
        REFUSED, {"type": "object", "propertyNames": {"maxLength": 1}}, ({"a": 1},), ({"ab": 1},)
    ),
    "ref": Claim(ENFORCED, {"$ref": "#/$defs/a", "$defs": {"a": _INTEGER}}, (1,), ("x",)),
    "refRemote": Claim(REFUSED, {"$ref": "https://example.com/a.json"}, (1,), (), "$ref"),
    "required": Claim(
        ENFORCED, {"type": "object", "required": ["a", "b"]}, ({"a": 1, "b": 1},), ({"a": 1}, {"b": 1}, {})
    ),
    "type": Claim(ENFORCED, {"type": ["integer", "null"]}, (1, None), ("x", 1.5, [])),
    "unevaluatedItems": Claim(
        REFUSED, {"type": "array", "prefixItems": [True], "unevaluatedItems": False}, ([1],), ([1, 2],)
    ),
    "unevaluatedProperties": Claim(
        REFUSED,
        {"type": "object", "properties": {"a": True}, "unevaluatedProperties": False},
        ({"a": 1},),
        ({"b": 1},),
    ),
    "uniqueItems": Claim(REFUSED, {"type": "array", "uniqueItems": True}, ([1, 2],), ([1, 1],)),
    "vocabulary": Claim(REFUSED, {"$schema": "https://example.com/own"}, (), (), "https://example.com/own"),
    "format: date-time": Claim(
        APPROXIMATE, {"type": "string", "format": "date-time"}, ("2024-02-29T10:00:00Z",), ("2024-02-29", "x")
    ),
    "format: date": Claim(APPROXIMATE, {"type": "string", "format": "date"}, ("2024-02-29",), ("2024-13-01", "x")),
    "format: duration": Claim(ENFORCED, {"type": "string", "format": "duration"}, ("P1DT12H",), ("P", "1D")),
    "format: ecmascript-regex": Claim(REFUSED, {"type": "string", "format": "regex"}, ("a",), (), "format"),
    "format: email": Claim(ENFORCED, {"type": "string", "format": "email"}, ("a@b.org",), ("a", "@b")),
    "format: hostname": Claim(APPROXIMATE, {"type": "string", "format": "hostname"}, ("a.b",), ("-a", "a b")),
    "format: ipv4": Claim(ENFORCED, {"type": "string", "format": "ipv4"}, ("10.0.0.255",), ("10.0.0.256", "1.1")),
    "format: ipv6": Claim(ENFORCED, {"type": "string", "format": "ipv6"}, ("::1", "fe80::a"), ("12345::", "x")),
    "format: time": Claim(APPROXIMATE, {"type": "string", "format": "time"}, ("10:00:00Z",), ("25:00:00Z", "x")),
    "format: unknown": Claim(NOTHING, {"type": "string", "format": "unknown"}, ("x",), ()),
    "format: uri": Claim(ENFORCED, {"type": "string", "format": "uri"}, ("https://a.org/b?c#d",), ("/b", "a b")),
    "format: uuid": Claim(
        ENFORCED,
        {"type": "string", "format": "uuid"},
        ("2eb8aa08-aa98-11ea-b4aa-73b441d16380",),
        ("2eb8aa08-aa98-11ea-b4aa", "x"),
    ),
    **{
        f"format: {name}": Claim(REFUSED, {"type": "string", "format": name}, ("x",), (), "format")
        for name in _REFUSED_FORMATS
    },
}
"""By the file of JSON-Schema-Test-Suite that a keyword has."""
