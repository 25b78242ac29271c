"""The part of JSON Schema that a backend enforces, and what of a schema lies outside.

A backend that ignores keywords gets only schemas in which it ignores nothing. A subschema has one form: a
``$ref``, a ``const``, an ``enum``, a type with keywords of that type, or an ``anyOf``; what stands beside it is
outside. Where a type is only implied, by keywords that all speak of one, it is required: the texts are fewer,
never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unspool.constrained.base import ConstraintError, SchemaError
from unspool.constrained.grammars import Grammar, Source
from unspool.constrained.schema import readable
from unspool.constrained.subschemas import Path, endless, pointer, subschemas
from unspool.constrained.turns.keywords import kinds_of
from unspool.constrained.validation import whole_stack

KEYWORDS: Mapping[str, frozenset[str]] = {
    kind: frozenset(keywords.split())
    for kind, keywords in {
        "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
        "string": "minLength maxLength pattern format",
        "array": "items additionalItems prefixItems contains minContains maxContains minItems maxItems "
        "uniqueItems unevaluatedItems",
        "object": "properties patternProperties additionalProperties propertyNames required minProperties "
        "maxProperties dependentRequired dependentSchemas dependencies unevaluatedProperties",
    }.items()
}
"""The keywords that restrict values of one type; ``integer`` has those of ``number``."""

RESTRICTING = frozenset(
    [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "type",
        "const",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
    ]
).union(*KEYWORDS.values())
"""Every keyword that restricts anything; all others say something about a value, or about the schema."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """What a backend, by its ``name``, enforces.

    ``keywords`` by type, besides which ``doubts`` names those of a subschema that it would get wrong all the same.
    """

    name: str
    keywords: Mapping[str, frozenset[str]]
    doubts: Callable[[Mapping[str, Any]], Iterator[str]]


def schema_grammar(source: Source, fragment: Fragment) -> Grammar:
    """The part of a schema that a backend enforces, as a grammar whose text is that schema.

    Raises :class:`SchemaError` for a schema that is none, that no finite value satisfies, or, if it was demanded,
    that is more than the backend enforces. Otherwise ``Grammar.warnings`` say what was left out, and
    ``Grammar.problems`` checks a finished value.
    """
    try:
        return _reduced(source, fragment)
    except RecursionError as error:
        raise SchemaError("The schema is nested too deeply: about 100 levels can be read.") from error


def _reduced(source: Source, fragment: Fragment) -> Grammar:
    schema = _read(source.text)
    reduced = _read(source.text)
    reduced.pop("$id", None)
    gaps = [(keyword, path) for path, node in subschemas(reduced) for keyword in _reduce(node, path, fragment)]
    if gaps and source.strict:
        raise _refusal(fragment, *gaps[0])
    loop = endless(reduced)
    if loop is not None:
        raise SchemaError(
            f"No finite value satisfies the schema: $ref at {_place(loop)} leads to none.", "$ref", pointer(loop)
        )
    warnings = tuple(
        f"{keyword!r} at {_place(path)} of the schema can't be enforced by {fragment.name}."
        for keyword, path in gaps
    )
    return Grammar(json.dumps(reduced), warnings, (json.dumps(schema),) if gaps else (), source)


def _read(text: str) -> dict[str, Any]:
    """A schema from JSON text. Raises :class:`SchemaError` for what is none."""
    try:
        from jsonschema import Draft202012Validator
        from jsonschema import SchemaError as MetaschemaError
    except ImportError as error:
        raise ConstraintError("Reading schemas needs jsonschema: pip install 'unspool[constrained]'.") from error
    schema = readable(text)
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise SchemaError("The schema must be an object that allows some value.")
    try:
        with whole_stack():
            Draft202012Validator.check_schema(schema)
    except MetaschemaError as error:
        *path, keyword = error.absolute_path or ("",)
        raise SchemaError(
            f"The schema is wrong at {_place(tuple(error.absolute_path))}: {error.message}.",
            str(keyword),
            pointer(tuple(path)),
        ) from error
    return schema


def _reduce(node: dict[str, Any], path: Path, fragment: Fragment) -> list[str]:
    """Brings a subschema into the fragment, in place. Returns the keywords that are outside of it."""
    gaps = ["$id"] if "$id" in node and path else []
    if gaps:
        del node["$id"]
    if "oneOf" in node and RESTRICTING & node.keys() == {"oneOf"}:
        # At least one of them is what can be had.
        node["anyOf"] = node.pop("oneOf")
        gaps.append("oneOf")
    if RESTRICTING & node.keys() == {"allOf"} and len(node["allOf"]) == 1:
        node["anyOf"] = node.pop("allOf")
    _settle_type(node)
    _declare_required(node)
    outside = sorted((RESTRICTING & node.keys()) - _form(node, fragment))
    for keyword in outside:
        del node[keyword]
    doubtful = list(dict.fromkeys(fragment.doubts(node)))
    for keyword in doubtful:
        del node[keyword]
    return [*gaps, *outside, *doubtful]


def _settle_type(node: dict[str, Any]) -> None:
    """Makes an implied type explicit, and takes a type into the values that are listed beside it."""
    found = RESTRICTING & node.keys()
    if "type" in found and not {"const", "enum"}.isdisjoint(found):
        types = node["type"] if isinstance(node["type"], list) else [node["type"]]
        values = [node["const"]] if "const" in node else node["enum"]
        fitting = [value for value in values if not kinds_of(value).isdisjoint(types)]
        if fitting:
            node.update({"const": fitting[0]} if "const" in node else {"enum": fitting})
            del node["type"]
    elif found.isdisjoint(("$ref", "type", "const", "enum")):
        implied = [kind for kind, keywords in KEYWORDS.items() if keywords & found]
        if len(implied) == 1:
            node["type"] = implied[0]


def _declare_required(node: dict[str, Any]) -> None:
    """Makes properties that are only required declared ones, of which backends know whether they came."""
    others = node.get("additionalProperties", {})
    if others is False or "patternProperties" in node or "required" not in node:
        return
    declared = node.setdefault("properties", {})
    for name in node["required"]:
        declared.setdefault(name, others)


def _form(node: Mapping[str, Any], fragment: Fragment) -> frozenset[str]:
    """The keywords of a subschema's form."""
    for keyword in ("$ref", "const", "enum"):
        if keyword in node:
            local = keyword != "$ref" or node["$ref"] == "#" or node["$ref"].startswith("#/")
            return frozenset((keyword,)) if local else frozenset()
    if "type" not in node:
        return frozenset(("anyOf",))
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    kinds = {"number" if kind == "integer" else kind for kind in types}
    return frozenset(("type",)).union(*(fragment.keywords.get(kind, ()) for kind in kinds))


def _refusal(fragment: Fragment, keyword: str, path: Path) -> SchemaError:
    return SchemaError(
        f"The schema can't be enforced by {fragment.name}: {keyword!r} at {_place(path)}. "
        "Leave it out, don't demand the schema, or use llguidance.",
        keyword,
        pointer(path),
    )


def _place(path: Path) -> str:
    return pointer(path) or "the root"
