"""Types of textual values, from the tool's JSON Schema and never from their looks.

Each tool's parameters are resolved once per request into a set of JSON types per parameter: local ``$ref``
only, each schema visited once, unions kept as sets. The set is known before a value's first character, so it also
decides whether the value may stream. The conversion rule is the one that the official templates and the
conformance suites agree on; it is the same for every format with textual values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from unspool.parsing.codecs.json import load, number, quote, without_controls
from unspool.parsing.codecs.python import CONSTANTS, literal
from unspool.parsing.scanner import pattern

Types: TypeAlias = frozenset[str]

STRING: Types = frozenset({"string"})
JSON: Types = frozenset({"json"})
"""The value says itself that it is JSON (``string="false"``): whatever JSON it is, or else text."""
UNTYPED: Types = frozenset()

_NAMES = {
    **dict.fromkeys(("string", "str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(
        ("integer", "int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "unsigned"),
        "integer",
    ),
    **dict.fromkeys(("number", "float", "float32", "float64", "double"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("object", "dict", "map"), "object"),
    **dict.fromkeys(("array", "arr", "list", "sequence", "tuple"), "array"),
    **dict.fromkeys(("null", "none", "nil"), "null"),
}
_MOST_PARTS = 256

_INTEGER = pattern(r"-?[0-9]+")
_WHOLE = pattern(r"(-?[0-9]+)\.0+")
_NUMBER_SO_FAR = pattern(r"\s*[+-]?[0-9.eE+-]*\s*")


class Schema:
    """A place in a tool's schema, for values whose parts are typed one by one; each place resolved once."""

    __slots__ = ("_entry", "_members", "_parts", "_root", "types")

    def __init__(self, schemas: Iterable[Any] = (), root: Mapping[str, Any] | None = None) -> None:
        self._root = root or {}
        self._parts = [part for schema in schemas for part in _parts(schema, self._root, set())]
        self._members: dict[str, Schema] = {}
        self._entry: Schema | None = None
        self.types: Types = frozenset().union(*map(_own_types, self._parts))

    def member(self, name: str) -> Schema:
        """The schema of an object's member."""
        if name not in self._members:
            properties = [
                part["properties"] for part in self._parts if isinstance(part.get("properties"), Mapping)
            ]
            declared = [members[name] for members in properties if name in members]
            others = [part.get("additionalProperties") for part in self._parts]
            self._members[name] = Schema(declared or others, self._root)
        return self._members[name]

    @property
    def entry(self) -> Schema:
        """The schema of a list's entries."""
        if self._entry is None:
            self._entry = Schema([part.get("items") for part in self._parts], self._root)
        return self._entry


@dataclass(frozen=True, slots=True)
class Tool:
    """An offered tool: its name, its parameters' types, which are required, the type of undeclared ones."""

    name: str
    types: Mapping[str, Types] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    others: Types = UNTYPED
    schema: Schema = field(default_factory=Schema)

    def type_of(self, parameter: str) -> Types:
        """The JSON types the parameter may have; empty if the schema is silent."""
        return self.types.get(parameter, self.others)


class AnyTool(dict[str, Tool]):
    """The tools of a request that does not name them: whatever the model calls is offered, without a schema."""

    def __contains__(self, name: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


def offered_tools(tools: Iterable[Mapping[str, Any]] | AnyTool | None) -> dict[str, Tool]:
    """Resolves OpenAI function tools (also the bare ``{"name", "parameters"}`` form), by name."""
    if isinstance(tools, AnyTool):
        return tools
    offered = {}
    if isinstance(tools, Mapping | str):
        raise TypeError(f"tools must be a list of OpenAI function tools, not a {type(tools).__name__}")
    for place, tool in enumerate(tools or ()):
        function = function_of(tool, place)
        schema = function.get("parameters", function.get("input_schema"))
        offered[function["name"]] = _tool(function["name"], schema if isinstance(schema, Mapping) else {})
    return offered


def function_of(tool: Any, place: int) -> Mapping[str, Any]:
    """The function that a tool is, which has a name. Raises ``ValueError`` for what is none."""
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
        raise ValueError(f"tools[{place}] must be a function tool with a name, not {tool!r}")
    return function


def _tool(name: str, schema: Mapping[str, Any]) -> Tool:
    types: dict[str, Types] = {}
    required: list[str] = []
    others: Types = UNTYPED
    for part in _parts(schema, schema, set()):
        properties = part.get("properties")
        if isinstance(properties, Mapping):
            for key, value in properties.items():
                types[str(key)] = types.get(str(key), UNTYPED) | resolve(value, schema)
        if isinstance(part.get("required"), list):
            required += [key for key in part["required"] if isinstance(key, str)]
        if isinstance(part.get("additionalProperties"), Mapping):
            others = resolve(part["additionalProperties"], schema)
    return Tool(name, types, tuple(required), others, Schema([schema], schema))


def _parts(schema: Any, root: Mapping[str, Any], seen: set[int]) -> list[Mapping[str, Any]]:
    """The schema and whatever it refers to or combines, each once: a schema may refer to itself."""
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > _MOST_PARTS:
        return []
    seen.add(id(schema))
    parts = [schema, *_parts(_refer(schema, root), root, seen)]
    for combiner in ("allOf", "anyOf", "oneOf"):
        options = schema.get(combiner)
        for option in options if isinstance(options, list) else ():
            parts += _parts(option, root, seen)
    return parts


def _refer(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """What a local ``$ref`` points to, ``None`` if there is none."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target: Any = root
    for step in reference.split("/")[1:]:
        key = _percent_decoded(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = target.get(key)
        elif isinstance(target, list) and key.isascii() and key.isdigit() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


def _percent_decoded(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote  # rarely needed, and slow to import

    return unquote(text)


def resolve(schema: Any, root: Mapping[str, Any]) -> Types:
    """The JSON types a value of this schema may have; empty if nothing says.

    A list of values says it best: whatever else is allowed, only types of those values are left.
    """
    types: Types = frozenset().union(*map(_own_types, _parts(schema, root, set())))
    for part in _at_once(schema, root, set()):
        listed = _listed_types(part)
        wider = listed | {"number"} if "integer" in listed else listed
        types = types & wider or types if listed else types
    return types


def _at_once(schema: Any, root: Mapping[str, Any], seen: set[int]) -> list[Mapping[str, Any]]:
    """The schemas that a value must all satisfy: this one, what it refers to, and ``allOf``."""
    if not isinstance(schema, Mapping) or id(schema) in seen or len(seen) > _MOST_PARTS:
        return []
    seen.add(id(schema))
    every = schema.get("allOf")
    parts = [schema, *_at_once(_refer(schema, root), root, seen)]
    for part in every if isinstance(every, list) else ():
        parts += _at_once(part, root, seen)
    return parts


def _listed_types(schema: Mapping[str, Any]) -> set[str]:
    """The types of the values that ``enum`` or ``const`` list."""
    values = list(schema["enum"]) if isinstance(schema.get("enum"), list) else []
    return {_type_of(value) for value in [*values, *([schema["const"]] if "const" in schema else [])]}


def _own_types(schema: Mapping[str, Any]) -> set[str]:
    """What a schema itself says about its type, without what it refers to."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = {_NAMES[name.lower()] for name in names if isinstance(name, str) and name.lower() in _NAMES}
    if not types:
        types |= _listed_types(schema)
    if not types and isinstance(schema.get("properties"), Mapping):
        types.add("object")
    if not types and "items" in schema:
        types.add("array")
    if schema.get("nullable") is True:
        types.add("null")
    return types


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


LONGEST = 64
"""Characters after which a value in a union with string is a string, unless it began with a bracket."""


def named_type(name: str) -> Types:
    """The type of this name, in any of its spellings; empty for an unknown one."""
    return frozenset(filter(None, (_NAMES.get(name.strip().lower()),)))


def fate(types: Types, text: str, *, python: bool = False) -> Literal["text", "open", "held"]:
    """What a value that begins with ``text`` can be: only a string, not known yet, or known at its end.

    ``python``: it may be a Python literal.
    """
    if types == STRING:
        return "text"
    if types and "string" not in types:
        return "held"
    start = text[:LONGEST].strip()
    if start[:1] in ("{", "["):
        containers = {"{": {"object", "json"}, "[": {"array", "json"}}[start[0]]
        return "held" if not types or not types.isdisjoint(containers) else "text"
    if len(text) > LONGEST:
        return "text"
    if not start:
        return "open"
    if (not types or not types.isdisjoint({"integer", "number"})) and _NUMBER_SO_FAR.fullmatch(text):
        return "open"
    words = any(word.startswith(start) for word, said in CONSTANTS.items() if python or word == said)
    return "open" if words and (not types or not types.isdisjoint({"boolean", "null"})) else "text"


def convert(text: str, types: Types, *, python: bool = False) -> str:
    """The JSON text that the value's text stands for under these types.

    A string type alone keeps the text. In a union with string, another member wins only if the text is exactly
    its JSON. Without a string, or with ``python``, Python's spellings count too. What fits nothing stays text.
    """
    if types == STRING:
        return quote(text)
    stripped = text.strip()
    if not types.isdisjoint(JSON):
        found = _exact(stripped, JSON)
        if found is not None or types == JSON:
            return found or quote(text)
    elif not types or "string" in types:
        found = _exact(stripped, types)
        if found is None and python:
            spelled = CONSTANTS.get(stripped) or literal(stripped)
            found = _exact(spelled, types) if spelled is not None else None
        return found or quote(text)
    for member in ("null", "integer", "number", "boolean", "object", "array"):
        if member in types:
            found = _CONVERT[member](stripped)
            if found is not None:
                return found
    return quote(text)


def _exact(text: str, types: Types) -> str | None:
    try:
        value = load(text)
    except ValueError:
        return None
    kind = _type_of(value)
    fits = types <= JSON or kind in types or (kind == "integer" and "number" in types)
    return text if fits and (kind != "string" or types == JSON) else None


def _null(text: str) -> str | None:
    return "null" if text.lower() in ("null", "none") else None


def _integer(text: str) -> str | None:
    found = _INTEGER.fullmatch(text) or _WHOLE.fullmatch(text)
    if found is None:
        return None
    digits = found.group(1) if found.re is _WHOLE else text
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    digits = digits.lstrip("0") or "0"
    return digits if digits == "0" else sign + digits


def _boolean(text: str) -> str | None:
    return {"true": "true", "1": "true", "false": "false", "0": "false"}.get(text.lower())


def _container(text: str, kind: type, bracket: str) -> str | None:
    """A JSON text of this kind as it is; else JSON with raw control characters, or a Python literal."""
    if not text.startswith(bracket):
        return None
    for spelled in (text, without_controls(text)):
        try:
            return spelled if isinstance(load(spelled), kind) else None
        except ValueError:
            continue
    return literal(text)


def _object(text: str) -> str | None:
    return _container(text, dict, "{")


def _array(text: str) -> str | None:
    return _container(text, list, "[")


_CONVERT = {
    "null": _null,
    "integer": _integer,
    "number": number,
    "boolean": _boolean,
    "object": _object,
    "array": _array,
}
