"""What keywords of a schema say: whether it means anything, of which types, and what two of them say together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
"""The types of JSON Schema."""

LIMITS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
"""The keywords that restrict numbers."""

TEXTS = ("pattern", "format", "minLength", "maxLength")
"""The keywords that restrict strings."""

COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
"""The keywords that count, each minimum before its maximum."""

OBJECTS = frozenset(("properties", "required", "additionalProperties"))
ARRAYS = frozenset(("items", "minItems", "maxItems"))
"""The keywords that say what is in a container."""


def malformed(keyword: str, value: Any) -> str | None:
    """Why a keyword can't have this value; ``None`` if it can, or nothing is known of it."""
    if keyword in COUNTS:
        return None if _is_count(value) else _NO_NUMBER
    if keyword in LIMITS:
        return None if _is_number(value) and (keyword != "multipleOf" or value > 0) else _NO_NUMBER
    fits, reason = _SHAPES.get(keyword, (None, ""))
    return None if fits is None or fits(value) else reason


_NO_NUMBER = "it is no number that it could be"


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return isinstance(value, float) and isfinite(value)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _are_types(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _are_names(names) and bool(names) and set(names) <= set(TYPES)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_are_types, "it is no type and no list of types"),
    "enum": (lambda value: isinstance(value, list), "it is no list"),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), (_are_schemas, "it is no list of schemas")),
    **dict.fromkeys(("items", "additionalProperties"), (_is_schema, "it is no schema")),
    **dict.fromkeys(
        ("properties", "$defs", "definitions"), (lambda value: isinstance(value, Mapping), "it is no object")
    ),
    "required": (_are_names, "it is no list of names"),
    **dict.fromkeys(("pattern", "format", "$ref"), (_is_text, "it is no text")),
}


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The types that a merged schema names or shows; ``None`` if it is silent."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = tuple(kind for kind in TYPES if kind in names)
    if types:
        return tuple(kind for kind in types if kind != "integer" or "number" not in types)
    if "enum" in schema or "const" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        kinds = frozenset[str]().union(*map(kinds_of, values)) - {"number"}
        return tuple(kind for kind in TYPES if kind in kinds)
    for keywords, kind in ((OBJECTS, "object"), (ARRAYS, "array"), (TEXTS, "string"), (LIMITS, "number")):
        if any(keyword in schema for keyword in keywords):
            return (kind,)
    return None


def overlapping(types: Iterable[str]) -> frozenset[str]:
    """Types of which a value may have one; each integer is a number."""
    found = frozenset(types)
    return found | {"integer"} if "number" in found else found


def kinds_of(value: Any) -> frozenset[str]:
    """The types that a value has in JSON Schema."""
    match value:
        case bool():
            return frozenset(("boolean",))
        case None:
            return frozenset(("null",))
        case int():
            return frozenset(("integer", "number"))
        case float():
            return frozenset(("integer", "number") if value.is_integer() else ("number",))
        case str():
            return frozenset(("string",))
        case list():
            return frozenset(("array",))
    return frozenset(("object",))


_STRICTER: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minLength", "minItems", "minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxLength", "maxItems", "maximum", "exclusiveMaximum"), min),
}


def both(keyword: str, one: Any, other: Any) -> Any:
    """The value of a keyword that says what two of it say together; ``None`` if there is none."""
    if keyword in _STRICTER and isinstance(one, int | float) and isinstance(other, int | float):
        return _STRICTER[keyword](one, other)
    if keyword == "required" and isinstance(one, list) and isinstance(other, list):
        return [*one, *(name for name in other if name not in one)]
    if keyword == "properties" and isinstance(one, Mapping) and isinstance(other, Mapping):
        return {
            **one,
            **{key: {"allOf": [one[key], value]} if key in one else value for key, value in other.items()},
        }
    if keyword == "type":
        names = one if isinstance(one, list) else [one]
        others = other if isinstance(other, list) else [other]
        kept = [name for name in names if name in others or (name == "integer" and "number" in others)]
        kept += [name for name in others if name == "integer" and "number" in names and name not in kept]
        return kept or None
    if keyword == "enum" and isinstance(one, list) and isinstance(other, list):
        return [value for value in one if any(same(value, each) for each in other)] or None
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two values are one in JSON Schema, where a truth value is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)
