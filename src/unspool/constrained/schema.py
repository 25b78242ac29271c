"""JSON Schema as a grammar: strict where a schema was demanded, relaxed and said where it was only offered.

A schema is compiled strictly first. What llguidance can't enforce is a :class:`SchemaError` that names the keyword
and its place, or, for an offered schema, left out with a warning, and the finished value is checked instead.
Whitespace is bounded, and so are strings that the schema leaves unbounded, so that a model can't go on forever.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from unspool.constrained.base import SchemaError
from unspool.constrained.cache import Cache
from unspool.constrained.grammars import Grammar, Source, guidance
from unspool.constrained.subschemas import Path, endless, pointer, subschemas, without
from unspool.constrained.validation import is_valid_schema

MAX_STRING = 16_384
"""Characters of a string whose schema gives no ``maxLength``."""

_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,64}"
_ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$comment", "$schema", "deprecated")
)  # keywords that restrict nothing
_MOST_TRIES = 64  # compilations to find the keyword to blame
_MOST_DROPS = 32  # keywords to leave out of an offered schema

_SUSPECTS = (
    (re.compile(r"^Unknown format"), ("format",)),
    (re.compile(r"^Invalid type"), ("type",)),
    (re.compile(r"^oneOf"), ("oneOf",)),
    (re.compile(r"regex|look-around|repetition"), ("pattern", "patternProperties")),
    (re.compile(r"^(Pointer|Resource|Unresolvable|circular)|\$?ref\b"), ("$ref",)),
)

_grammars: Cache[Grammar] = Cache(256)


def json_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    strict: bool = True,
    max_string: int | None = MAX_STRING,
    max_items: int | None = None,
) -> Grammar:
    """JSON text that a schema (an object, a truth value or JSON text) allows.

    ``strict``: the schema was demanded, so what can't be enforced raises :class:`SchemaError`; otherwise that is
    left out, ``Grammar.warnings`` say so and ``Grammar.problems`` checks a finished value. ``max_string`` is the
    ``maxLength``, in characters, of strings without one, ``max_items`` the ``maxItems`` of arrays without one.
    Objects keep the order of their properties; other properties are allowed unless the schema forbids them.
    """
    if not isinstance(schema, str):
        try:
            schema = json.dumps(schema)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"The schema is not JSON: {error}") from error
    key = (schema, strict, max_string, max_items)
    source = Source("json_schema", schema, strict)
    return _grammars.get(key, lambda: replace(_build(source.text, strict, max_string, max_items), source=source))


def json_object(*, max_string: int | None = MAX_STRING) -> Grammar:
    """Any JSON object (``response_format: json_object``); ``max_string`` as in :func:`json_schema`."""
    any_value: dict[str, Any] = {
        "type": ["null", "boolean", "number", "string", "array", "object"],
        "items": {"$ref": "#/$defs/value"},
        "additionalProperties": {"$ref": "#/$defs/value"},
    }
    return json_schema(
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/value"}, "$defs": {"value": any_value}},
        max_string=max_string,
    )


def _build(text: str, strict: bool, max_string: int | None, max_items: int | None) -> Grammar:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"The schema is not JSON: {error}") from error
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise SchemaError("The schema must be an object that allows some value.")
    if all(str(node.get("$ref", "#")).startswith("#") for _, node in subschemas(schema)):
        # Nothing refers to the schema by its name, which need not even be a URI.
        schema = {key: value for key, value in schema.items() if key != "$id"}
    loop = endless(schema)
    if loop is not None and strict:
        raise SchemaError(
            f"No finite value satisfies the schema: $ref at {pointer(loop) or 'the root'} leads to none.",
            "$ref",
            pointer(loop),
        )
    bounded = _bounded(schema, max_string, max_items)
    if loop is not None:
        return _relaxed(schema, bounded)
    if _error(bounded) is None:
        return Grammar(_grammar(bounded))
    refused = _error(schema)
    if refused is None:
        return Grammar(_grammar(schema))
    if strict:
        keyword, path = _blame(schema, refused, lenient=False)
        raise _refusal(keyword, path, refused)
    return _relaxed(schema, bounded)


def _relaxed(schema: dict[str, Any], bounded: dict[str, Any]) -> Grammar:
    """The grammar of an offered schema without what can't be enforced."""
    dropped: list[tuple[str, Path]] = []
    relaxed = bounded
    while (loop := endless(relaxed)) is not None:
        relaxed = without(relaxed, loop, "$ref")
        dropped.append(("$ref", loop))
    while (error := _error(relaxed, lenient=True)) is not None:
        keyword, path = _blame(relaxed, error, lenient=True)
        if not keyword or len(dropped) == _MOST_DROPS:
            raise _refusal(keyword, path, error)
        relaxed = without(relaxed, path, keyword)
        dropped.append((keyword, path))
    text = _grammar(relaxed, lenient=True)
    _, messages = guidance().validate_grammar_with_warnings(text)
    ignored = {keyword for message in messages for keyword in _suspects(message)}
    places = [*dropped, *_places(relaxed, ignored)]
    warnings = tuple(
        f"{keyword!r} at {pointer(path) or 'the root'} of the schema can't be enforced while generating."
        for keyword, path in places
    )
    # What jsonschema itself can't read, such as an unknown type, can't be checked afterwards either.
    return Grammar(text, warnings, tuple(json.dumps(each) for each in (schema, relaxed) if is_valid_schema(each)))


def _bounded(schema: Any, max_string: int | None, max_items: int | None) -> Any:
    """The schema with bounds on the strings and arrays that have none."""
    bounded = json.loads(json.dumps(schema))
    for _, node in subschemas(bounded):
        if not {"const", "enum", "$ref", "format"}.isdisjoint(node):
            continue
        types = node.get("type")
        types = types if isinstance(types, list) else [types]
        _bound(node, "string" in types, "Length", max_string)
        _bound(node, "array" in types, "Items", max_items)
    return bounded


def _bound(node: dict[str, Any], applies: bool, what: str, limit: int | None) -> None:
    least = node.get(f"min{what}", 0)
    if applies and limit is not None and f"max{what}" not in node and isinstance(least, int | float):
        node[f"max{what}"] = max(limit, int(least))


def _grammar(schema: Any, lenient: bool = False) -> str:
    # Options that a schema brings itself (x-guidance) must not loosen anything, so all are given.
    options = {
        "whitespace_flexible": True,
        "whitespace_pattern": _WHITESPACE,
        "coerce_one_of": lenient,
        "lenient": lenient,
    }
    text: str = guidance().grammar_from_json_schema(json.dumps(schema), overrides=options)
    return text


def _error(schema: Any, lenient: bool = False) -> str | None:
    """Why llguidance refuses a schema."""
    failed, messages = guidance().validate_grammar_with_warnings(_grammar(schema, lenient))
    return messages[0].strip() if failed else None


def _suspects(error: str) -> set[str]:
    """The keywords that an error message speaks about."""
    keys = re.search(r"keys: (\[.*?\])", error)
    if keys:
        return set(json.loads(keys[1]))
    return next((set(keywords) for pattern, keywords in _SUSPECTS if pattern.search(error)), set())


def _places(schema: Any, keywords: set[str] | None = None) -> Iterator[tuple[str, Path]]:
    """Where these keywords stand, or all that have a meaning."""
    for path, node in subschemas(schema):
        for keyword in node:
            if keyword in keywords if keywords is not None else keyword not in _ANNOTATIONS:
                yield keyword, path


def _blame(schema: Any, error: str, lenient: bool) -> tuple[str, Path]:
    """The keyword that causes an error and the path of its subschema; ``("", ())`` if no single one does."""
    places = list(_places(schema, _suspects(error)))
    if len(places) == 1:
        return places[0]
    kind = error.partition(":")[0]
    for place in places[:_MOST_TRIES]:
        others = [other for other in places if other != place]
        if (_error(_without_all(schema, others), lenient) or "").startswith(kind):
            return place
    words = set(re.findall(r"\w+", error))
    for keyword, path in sorted(_places(schema), key=lambda place: place[0] not in words)[:_MOST_TRIES]:
        if _error(without(schema, path, keyword), lenient) != error:
            return keyword, path
    return "", ()


def _without_all(schema: Any, places: list[tuple[str, Path]]) -> Any:
    # The deepest go first, so that no path leads into what is gone.
    for keyword, path in sorted(places, key=lambda place: -len(place[1])):
        schema = without(schema, path, keyword)
    return schema


def _refusal(keyword: str, path: Path, error: str) -> SchemaError:
    reason = re.sub(r"\s*\n\s*", " ", error)
    if not keyword:
        return SchemaError(f"The schema can't be enforced: {reason}")
    where = pointer(path) or "the root"
    return SchemaError(
        f"The schema can't be enforced: {keyword!r} at {where}: {reason}. "
        "Leave it out, or don't demand the schema.",
        keyword,
        pointer(path),
    )
