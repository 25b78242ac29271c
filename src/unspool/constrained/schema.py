"""JSON Schema as a grammar: strict where a schema was demanded, relaxed and said where it was only offered.

A schema is compiled strictly first. What llguidance can't enforce is a :class:`SchemaError` that names the keyword
and its place, or, for an offered schema, left out with a warning, and the finished value is checked instead.
Whitespace is bounded, and so are the strings that a schema describes without a bound, so that a model can't go on
forever in them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from unspool.constrained.base import SchemaError
from unspool.constrained.cache import Cache
from unspool.constrained.grammars import Grammar, Source, guidance, validated
from unspool.constrained.subschemas import Path, Place, endless, pointer, subschemas, without
from unspool.constrained.validation import validator

MAX_STRING = 16_384
"""Characters of a string whose schema says that it is one and gives no ``maxLength``."""

_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,64}"
ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "$comment", "$schema", "deprecated")
)  # keywords that restrict nothing
_TOO_DEEP = "The schema is nested too deeply: about 100 levels can be read."
_MOST_TRIES = 64  # compilations to find the keyword to blame, where the error names none
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
    ``maxLength``, in characters, of strings (``"type": "string"``) without one, ``max_items`` the ``maxItems`` of
    arrays without one. What has a ``format``, ``enum``, ``const`` or ``$ref``, or isn't described, gets none.
    Objects keep the order of their properties; other properties are allowed unless the schema forbids them.
    """
    if not isinstance(schema, str):
        schema = spelled(schema)
    key = (schema, strict, max_string, max_items)
    source = Source("json_schema", schema, strict)
    return _grammars.get(key, lambda: replace(_build(source.text, strict, max_string, max_items), source=source))


def spelled(schema: Any) -> str:
    """A schema, or what holds some, as JSON text. Raises :class:`SchemaError`."""
    try:
        return json.dumps(schema)
    except RecursionError as error:
        raise SchemaError(_TOO_DEEP) from error
    except (TypeError, ValueError) as error:
        raise SchemaError(f"The schema is not JSON: {error}") from error


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
        return _built(readable(text), strict, max_string, max_items)
    except RecursionError as error:
        raise SchemaError(_TOO_DEEP) from error
    except ValueError as error:
        # llguidance's reader; what else it could refuse is found by then.
        raise SchemaError(
            _TOO_DEEP if "recursion" in str(error) else f"The schema can't be read: {error}"
        ) from error


def readable(text: str) -> Any:
    """A schema from text. Raises :class:`SchemaError` if that is no JSON."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"The schema is not JSON: {error}") from error
    reason = _unwritable(schema)
    if reason is None:
        return schema
    places = [
        (keyword, path)
        for path, node in subschemas(schema)
        for keyword, value in node.items()
        if _unwritable({keyword: value}) is not None
    ]
    keyword, path = max(places, key=lambda place: len(place[1]), default=("", ()))
    where = pointer(path).encode(errors="backslashreplace").decode() or "the root"
    raise SchemaError(f"The schema is not JSON: {keyword!r} at {where} holds {reason}.", keyword, pointer(path))


def _unwritable(value: Any) -> str | None:
    """What keeps a value, which Python's reader took for JSON, from being written as that."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "a lone surrogate"
    except ValueError:
        return "a number that is infinite or none"
    return None


def _built(schema: Any, strict: bool, max_string: int | None, max_items: int | None) -> Grammar:
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
    if loop is not None:
        return _relaxed(schema, max_string, max_items)
    bounded = _bounded(schema, max_string, max_items)
    if schema_fault(bounded) is None:
        return Grammar(_grammar(bounded))
    refused = schema_fault(schema)
    if refused is None:
        return Grammar(_grammar(schema))
    if strict:
        keyword, path = _blame(schema, refused, lenient=False)
        raise _refusal(keyword, path, refused)
    return _relaxed(schema, max_string, max_items)


def _relaxed(schema: dict[str, Any], max_string: int | None, max_items: int | None) -> Grammar:
    """The grammar of an offered schema without what can't be enforced."""
    dropped: list[Place] = []
    relaxed = schema
    while (loop := endless(relaxed)) is not None:
        relaxed = without(relaxed, loop, "$ref")
        dropped.append(("$ref", loop))
    while (error := schema_fault(relaxed, lenient=True)) is not None:
        keyword, path = _blame(relaxed, error, lenient=True)
        if not keyword or len(dropped) == _MOST_DROPS:
            raise _refusal(keyword, path, error)
        relaxed = without(relaxed, path, keyword)
        dropped.append((keyword, path))
    bounded = _bounded(relaxed, max_string, max_items)
    text = _grammar(bounded if schema_fault(bounded, lenient=True) is None else relaxed, lenient=True)
    warnings = [
        f"{keyword!r} at {pointer(path) or 'the root'} of the schema can't be enforced while generating."
        for keyword, path in (*dropped, *_ignored(relaxed, text))
    ]
    # What jsonschema itself can't read, such as an unknown type, can't be checked afterwards either.
    usable = [each for each in (schema, relaxed) if validator(each) is not None]
    if not usable:
        warnings.append("A finished value can't be checked against the schema either: jsonschema can't read it.")
    return Grammar(text, tuple(warnings), tuple(map(json.dumps, usable)))


def _ignored(schema: Any, text: str) -> Iterator[Place]:
    """What llguidance says that it ignores in a schema, from whose grammar ``text``."""
    _, messages = validated(text)
    formats = {message.partition(": ")[2] for message in messages if message.startswith("Unknown format")}
    nodes = dict(subschemas(schema))
    for keyword, path in _places(schema, {keyword for message in messages for keyword in _suspects(message)}):
        if keyword != "format" or str(nodes[path]["format"]) in formats:
            yield keyword, path


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
    if applies and limit is not None and f"max{what}" not in node:
        least = node.get(f"min{what}")
        node[f"max{what}"] = max(limit, least) if isinstance(least, int) else limit


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


def schema_fault(schema: Any, lenient: bool = False) -> str | None:
    """Why llguidance refuses a schema; ``None`` if it does not."""
    failed, messages = validated(_grammar(schema, lenient))
    return messages[0].strip() if failed else None


def _suspects(error: str) -> set[str]:
    """The keywords that an error message speaks about."""
    keys = re.search(r"keys: (\[.*?\])", error)
    if keys:
        return set(json.loads(keys[1]))
    return next((set(keywords) for pattern, keywords in _SUSPECTS if pattern.search(error)), set())


def _places(schema: Any, keywords: set[str] | None = None) -> Iterator[Place]:
    """Where these keywords stand, or all that have a meaning."""
    for path, node in subschemas(schema):
        for keyword in node:
            if keyword in keywords if keywords is not None else keyword not in ANNOTATIONS:
                yield keyword, path


def _blame(schema: Any, error: str, lenient: bool) -> Place:
    """The keyword that causes an error and the path of its subschema; ``("", ())`` if no single one does."""
    words = set(re.findall(r"[$\w]+", error))
    for keywords in (_suspects(error), words):
        found = _narrowed(schema, list(_places(schema, keywords)), error, lenient)
        if found is not None:
            return found
    # The deepest go first: all that a keyword stands in could be left out as well.
    others = sorted(_places(schema), key=lambda place: (place[0] not in words, -len(place[1])))
    for keyword, path in others[:_MOST_TRIES]:
        if schema_fault(without(schema, path, keyword), lenient) != error:
            return keyword, path
    return "", ()


def _narrowed(schema: Any, places: list[Place], error: str, lenient: bool) -> Place | None:
    """The one of some places that causes an error, found by halves; ``None`` if no single one does."""
    kind = error.partition(":")[0]

    def fails(kept: list[Place]) -> bool:
        """Whether the error comes without all others, but for those that what is kept stands in."""
        needed = {*kept, *((path[n], path[:n]) for _, path in kept for n in range(len(path)))}
        rest = _without_all(schema, [place for place in places if place not in needed])
        return (schema_fault(rest, lenient) or "").startswith(kind)

    found = places
    while len(found) > 1:
        half = found[: len(found) // 2]
        found = half if fails(half) else found[len(half) :]
    return found[0] if found and (len(places) == 1 or fails(found)) else None


def _without_all(schema: Any, places: list[Place]) -> Any:
    """The schema with many keywords left out."""
    changed = json.loads(json.dumps(schema))
    nodes = dict(subschemas(changed))
    for keyword, path in places:
        del nodes[path][keyword]
    return changed


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
