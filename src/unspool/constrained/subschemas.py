"""Walking a JSON Schema: where its subschemas are, changing one, and whether any finite value can satisfy it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[str, Path]
"""A keyword, and the path of the subschema it stands in."""

_Need: TypeAlias = tuple[int, list[int]]
"""Who needs something, and what meets the need: any one of these."""

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


def steps(reference: str) -> Path:
    """The path that a local ``$ref`` names; ``LookupError`` if it is no pointer into the same schema."""
    if not reference.startswith("#") or (reference[1:] and reference[1] != "/"):
        raise LookupError(reference)
    from urllib.parse import unquote

    return tuple(part.replace("~1", "/").replace("~0", "~") for part in unquote(reference[1:]).split("/")[1:])


def resolve(schema: Any, reference: str) -> Any:
    """What a local ``$ref`` points to; ``LookupError`` if that is nothing or somewhere else."""
    found = schema
    for key in steps(reference):
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (TypeError, ValueError) as error:
            raise LookupError(reference) from error
    return found


def endless(schema: Any) -> Path | None:
    """The subschema whose ``$ref`` only ever leads back to itself, if no finite value satisfies the schema."""
    if not isinstance(schema, dict):
        return None
    nodes = {id(schema): schema}
    needs: list[_Need] = []
    reached = [schema]
    for node in reached:  # which grows meanwhile
        for parts in _needs(node, schema):
            if any(part is not False and not isinstance(part, dict) for part in parts):
                continue
            members = [part for part in parts if isinstance(part, dict)]
            needs.append((id(node), list(map(id, members))))
            reached += (part for part in members if id(part) not in nodes)
            nodes.update((id(part), part) for part in members)
    finite = _satisfiable(nodes, needs)
    if id(schema) in finite:
        return None
    for path, node in subschemas(schema):
        if "$ref" in node and id(node) in nodes and id(node) not in finite:
            return path
    return None


def _satisfiable(keys: Iterable[int], needs: list[_Need]) -> set[int]:
    """Which keys have all their needs met, given that those can be met without a circle."""
    unmet = Counter(key for key, _ in needs)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    for number, (_, options) in enumerate(needs):
        for option in options:
            waiting[option].append(number)
    met = [key for key in keys if not unmet[key]]
    done: set[int] = set()
    for found in met:  # which grows meanwhile
        for number in waiting[found]:
            if number not in done:
                done.add(number)
                key, _ = needs[number]
                unmet[key] -= 1
                if not unmet[key]:
                    met.append(key)
    return set(met)


def _needs(node: dict[str, Any], root: Any) -> list[list[Any]]:
    """What must have a finite value for a subschema to have one: of each list, one member."""
    parts: list[Any] = list(node["allOf"]) if isinstance(node.get("allOf"), list) else []
    if isinstance(node.get("$ref"), str):
        try:
            parts.append(resolve(root, node["$ref"]))
        except LookupError:
            return []  # a mistake of another kind
    if "const" not in node and "enum" not in node:
        parts += _needed(node)
    branches = [node[key] for key in ("anyOf", "oneOf") if isinstance(node.get(key), list)]
    return [*([part] for part in parts), *branches]


def _needed(node: dict[str, Any]) -> list[Any]:
    """The subschemas of the members that an object or array must have."""
    required, properties = node.get("required"), node.get("properties")
    if node.get("type") == "object" and isinstance(required, list) and isinstance(properties, dict):
        return [properties[name] for name in required if isinstance(name, str) and name in properties]
    count, first = node.get("minItems", 0), node.get("prefixItems", [])
    if node.get("type") == "array" and isinstance(count, int) and count > 0 and isinstance(first, list):
        return first[:count] + ([node["items"]] if count > len(first) and "items" in node else [])
    return []
