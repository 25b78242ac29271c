"""Walking a JSON Schema: where its subschemas are, changing one, and whether any finite value can satisfy it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[str, Path]
"""A keyword, and the path of the subschema it stands in."""

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = (
    *("items", "additionalItems", "additionalProperties", "propertyNames", "contains", "not", "if", "then"),
    *("else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)


def subschemas(schema: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every subschema that is an object, with its path, outer ones first; values such as ``enum`` are none."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key, value in schema.items():
        if key in _BY_NAME and isinstance(value, dict):
            for name, member in value.items():
                yield from subschemas(member, (*path, key, name))
        elif key in _LISTS and isinstance(value, list):
            for number, member in enumerate(value):
                yield from subschemas(member, (*path, key, number))
        elif key in _SINGLE:
            yield from subschemas(value, (*path, key))


def pointer(path: Path) -> str:
    """A path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def without(schema: Any, path: Path, keyword: str) -> Any:
    """The schema with one keyword of one subschema left out; what is not on the way is shared."""
    if not path:
        return {key: value for key, value in schema.items() if key != keyword}
    changed: Any = list(schema) if isinstance(schema, list) else dict(schema)
    changed[path[0]] = without(schema[path[0]], path[1:], keyword)
    return changed


def resolve(schema: Any, reference: str) -> Any:
    """What a local ``$ref`` points to; ``LookupError`` if that is nothing or somewhere else."""
    if not reference.startswith("#") or (reference[1:] and reference[1] != "/"):
        raise LookupError(reference)
    from urllib.parse import unquote

    found = schema
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (TypeError, ValueError) as error:
            raise LookupError(reference) from error
    return found


def endless(schema: Any) -> Path | None:
    """The subschema whose ``$ref`` only ever leads back to itself, if no finite value satisfies the schema."""
    nodes: dict[int, Any] = {}
    finite: set[int] = set()

    def ready(node: Any) -> bool:
        if not isinstance(node, dict):
            return node is not False
        nodes.setdefault(id(node), node)
        return id(node) in finite

    ready(schema)
    grown = True
    while grown:
        known = len(nodes), len(finite)
        for key, node in list(nodes.items()):
            if key not in finite and _has_finite_value(node, schema, ready):
                finite.add(key)
        grown = known != (len(nodes), len(finite))
    if not isinstance(schema, dict) or id(schema) in finite:
        return None
    for path, node in subschemas(schema):
        if "$ref" in node and id(node) in nodes and id(node) not in finite:
            return path
    return None


def _has_finite_value(node: dict[str, Any], root: Any, ready: Any) -> bool:
    """Whether a subschema has a finite value as far as ``ready`` knows its parts to have one."""
    parts: list[Any] = list(node.get("allOf", ()) if isinstance(node.get("allOf"), list) else ())
    if isinstance(node.get("$ref"), str):
        try:
            parts.append(resolve(root, node["$ref"]))
        except LookupError:
            return True  # a mistake of another kind
    if "const" not in node and "enum" not in node:
        parts += _needed(node)
    results = [ready(part) for part in parts]
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            # Every branch is looked at, or one would never become ready.
            branches = [ready(branch) for branch in node[key]]
            results.append(any(branches))
    return all(results)


def _needed(node: dict[str, Any]) -> list[Any]:
    """The subschemas of the members that an object or array must have."""
    required, properties = node.get("required"), node.get("properties")
    if node.get("type") == "object" and isinstance(required, list) and isinstance(properties, dict):
        return [properties[name] for name in required if isinstance(name, str) and name in properties]
    count, first = node.get("minItems", 0), node.get("prefixItems", [])
    if node.get("type") == "array" and isinstance(count, int) and count > 0 and isinstance(first, list):
        return first[:count] + ([node["items"]] if count > len(first) and "items" in node else [])
    return []
