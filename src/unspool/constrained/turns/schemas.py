"""A tool's parameters as trees of nodes, where values are not JSON.

JSON is left to llguidance, which knows all of JSON Schema. Elsewhere (elements, Python literals, relaxed objects)
the schema is walked here: types, ``enum``, ``const``, ``properties``, ``required``, ``additionalProperties``,
``items`` and their counts, ``anyOf``, ``allOf``, local ``$ref`` (also circular), and what is said about strings
and numbers. Anything else is refused with its keyword and place, or left out with a warning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Protocol, TypeAlias

from unspool.constrained.base import SchemaError
from unspool.constrained.grammars import Grammar
from unspool.constrained.schema import ANNOTATIONS, MAX_STRING, json_schema, readable, schema_fault, spelled
from unspool.constrained.subschemas import Path, endless, pointer, resolve, steps, without
from unspool.constrained.turns.keywords import (
    ARRAYS,
    COUNTS,
    LIMITS,
    OBJECTS,
    TEXTS,
    TYPES,
    both,
    kinds_of,
    malformed,
    overlapping,
    same,
    types_of,
)
from unspool.constrained.turns.nodes import (
    EMPTY,
    Alt,
    Free,
    Json,
    Many,
    Member,
    Members,
    Node,
    Ref,
    Regex,
    alt,
    constants,
)
from unspool.constrained.turns.patterns import number_pattern, string_bodies
from unspool.constrained.turns.regular import holes
from unspool.constrained.turns.texts import text_fault
from unspool.constrained.validation import problems

_KNOWN = {*TEXTS, *LIMITS, *OBJECTS, *ARRAYS, "type", "enum", "const", "anyOf", "oneOf", "allOf"}
_SILENT = ANNOTATIONS | {"$ref", "$defs", "definitions", "$id", "nullable"}
"""The keywords that restrict nothing themselves; what a reference leads to may."""
Spell: TypeAlias = Callable[[str | None, Node, tuple[str, ...]], Node]

_DEEPEST = 64  # subschemas in one another, none of them through a reference


class Syntax(Protocol):
    """How values are spelled; no text among them may spell one of ``marks``."""

    marks: tuple[str, ...]

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value; ``in_text`` if any text may stand in its place."""
        ...

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """Text that matches expressions, and that no reader can take for a value of one of the types ``but``.

        Where there are none, nothing but text may come.
        """
        ...

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number under a schema; ``in_text`` if text may stand in its place, so that both look alike."""
        ...

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """A list (``kind`` is ``"array"``) or an object."""
        ...

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A member; ``key`` is ``None`` for whatever key there may be besides ``names``."""
        ...

    def anything(self, walk: Walk) -> Node:
        """A value of any kind."""
        ...


class Walk:
    """One tool's parameters, and everything that is found wrong with them.

    ``where`` says whose schema it is, for messages. ``rules`` takes what refers to itself. Without ``strict`` what
    can't be enforced is left out, and ``warnings`` say so. ``max_string`` is that of
    :func:`~unspool.constrained.schema.json_schema`, for values that are JSON.
    """

    most_times: ClassVar[int] = 10**9
    """How often something may be demanded again: llguidance reads numbers of 32 bits."""

    def __init__(
        self,
        root: Mapping[str, Any],
        where: str,
        *,
        strict: bool,
        rules: dict[str, Node],
        warnings: list[str],
        max_string: int | None = MAX_STRING,
    ) -> None:
        self.root = root
        self.strict = strict
        self.rules = rules
        self._where = where
        self._max_string = max_string
        self._warnings = warnings
        self._open: dict[tuple[int, str], str] = {}

    def refuse(self, keyword: str, path: Path, reason: str = "it has no equivalent in this format") -> None:
        """Says that a keyword can't be enforced. Raises :class:`SchemaError` where that was demanded."""
        place = pointer(path) or "the root"
        if self.strict:
            raise SchemaError(
                f"The schema of {self._where} can't be enforced: {keyword!r} at {place}: {reason}. "
                'Leave it out, or don\'t demand it by "strict".',
                keyword,
                pointer(path),
            )
        self._warnings.append(
            f"{keyword!r} at {place} of the schema of {self._where} can't be enforced while generating: {reason}."
        )

    def json(self, schema: Any, path: Path = ()) -> Node:
        """A value as JSON."""
        try:
            grammar = json_schema(_alone(schema, self.root), strict=self.strict, max_string=self._max_string)
        except SchemaError as error:
            raise SchemaError(f"{self._where}: {error}", error.keyword, pointer(path) + error.pointer) from error
        self._warnings += [f"{self._where}: {warning}" for warning in grammar.warnings]
        return Json(schema_of(grammar))

    def value(self, schema: Any, syntax: Syntax, path: Path = ()) -> Node:
        """A value in some syntax."""
        if isinstance(schema, Mapping) and _refers(schema):
            return self._shared(schema, syntax, path)
        return alt(self._options(self.plain(schema, path), syntax, path))

    def plain(self, schema: Any, path: Path) -> dict[str, Any]:
        """The schema without ``$ref`` and ``allOf``, merged from what they bring. Values that exist only."""
        if not isinstance(schema, Mapping):
            if schema is False:
                self.refuse("false", path, "no value can satisfy it")
            elif schema is not True:
                self.refuse("schema", path, "it is no schema")
            return {}
        merged: dict[str, Any] = {}
        seen: list[Any] = []
        pending: list[Any] = [schema]
        while pending:
            part = pending.pop(0)
            if part is False:
                self.refuse("false", path, "no value can satisfy it")
            if not isinstance(part, Mapping) or any(part is other for other in seen):
                continue
            seen.append(part)
            if isinstance(part.get("$ref"), str):
                pending.append(self._target(part["$ref"], path))
            if isinstance(part.get("allOf"), list):
                pending += part["allOf"]
            self._merge(merged, part, path)
        self._check_others(seen, path)
        for keyword, reason in self.unsayable(merged).items():
            self.refuse(keyword, path, reason)
            del merged[keyword]
        return merged

    def unsayable(self, schema: Mapping[str, Any]) -> dict[str, str]:
        """The keywords of a merged schema that can't be held to, each with the reason."""
        found = {
            keyword: f"{schema[keyword]} is more than the {self.most_times} repetitions that a grammar may have"
            for keyword in COUNTS
            if schema.get(keyword, 0) > self.most_times
        }
        for least, most in (COUNTS[:2], COUNTS[2:]):
            if {least, most} <= schema.keys() - found.keys() and schema[least] > schema[most]:
                found[most] = f"it is less than {least}"
        return found

    def _check_others(self, parts: Iterable[Mapping[str, Any]], path: Path) -> None:
        """Refuses ``additionalProperties`` that would bar properties of another of the merged parts."""
        names = {name for part in parts for name in _properties(part)}
        for part in parts:
            if part.get("additionalProperties", True) is not True and not names <= _properties(part).keys():
                self.refuse("additionalProperties", path, "it bars properties that are declared beside it")

    def _target(self, reference: str, path: Path) -> Any:
        try:
            return resolve(self.root, reference)
        except LookupError:
            self.refuse("$ref", path, f"{reference} leads nowhere in this schema")
            return {}

    def _merge(self, merged: dict[str, Any], part: Mapping[str, Any], path: Path) -> None:
        for keyword, value in part.items():
            wrong = malformed(keyword, value)
            if wrong is not None:
                self.refuse(keyword, path, wrong)
            elif keyword in _SILENT or keyword == "allOf":
                continue
            elif keyword not in _KNOWN:
                self.refuse(keyword, path)
            elif keyword not in merged:
                merged[keyword] = value
            elif not same(merged[keyword], value):
                together = both(keyword, merged[keyword], value)
                if together is None:
                    self.refuse(keyword, path, "two different ones of it apply")
                else:
                    merged[keyword] = together

    def _shared(self, schema: Mapping[str, Any], syntax: Syntax, path: Path) -> Node:
        """A value that a reference leads to: a rule of its own, since that may refer to itself."""
        key = id(syntax), json.dumps({key: value for key, value in schema.items() if key not in ANNOTATIONS})
        if key not in self._open:
            name = f"shared_{len(self.rules)}"
            self._open[key] = name
            self.rules[name] = EMPTY  # until it is known
            merged = self.plain(schema, path)
            with suppress(LookupError):
                path = steps(str(schema.get("$ref")))  # as deep as it is declared, not as it is used
            self.rules[name] = alt(self._options(merged, syntax, path))
        return Ref(self._open[key])

    def _options(
        self, schema: dict[str, Any], syntax: Syntax, path: Path, among: frozenset[str] = frozenset()
    ) -> Iterable[Node]:
        """What may stand for a value; ``among`` are the types that others in its place may have."""
        self._check_depth(path)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return self._branches(schema, keyword, syntax, path, among)
        types = types_of(schema)
        among |= frozenset(TYPES if types is None else types)
        if "enum" in schema or "const" in schema:
            return self._constants(schema, syntax, path, among)
        if types is None:
            return [syntax.anything(self)]
        return [self._of_type(kind, schema, syntax, path, among) for kind in types]

    def _check_depth(self, path: Path) -> None:
        if len(path) > _DEEPEST:
            raise SchemaError(f"The schema of {self._where} is nested too deeply.", "", pointer(path))

    def settle(self) -> None:
        """Makes sure that the whole schema is JSON, and that a value of it can come to an end."""
        try:
            readable(spelled(self.root))
        except SchemaError as error:
            raise SchemaError(f"{self._where}: {error}", error.keyword, error.pointer) from error
        while (loop := endless(self.root)) is not None:
            self.refuse("$ref", loop, "no finite value satisfies it")
            self.root = without(self.root, loop, "$ref")

    def objects(self) -> list[tuple[Path, dict[str, Any]]]:
        """What a tool's arguments may be: objects without branches, each with its place in the tool's schema."""
        self.settle()
        found = self._objects(self.plain(self.root, ()), ())
        if not found:
            self.refuse("type", (), "arguments are an object, which it does not allow")
        return found or [((), {"type": "object"})]

    def _objects(self, schema: dict[str, Any], path: Path) -> list[tuple[Path, dict[str, Any]]]:
        self._check_depth(path)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                branches = enumerate(self._merged(schema, keyword, path))
                return [
                    each for number, branch in branches for each in self._objects(branch, (*path, keyword, number))
                ]
        if "enum" in schema or "const" in schema:
            return [(path, _exactly(value)) for value in self._fitting(schema) if isinstance(value, Mapping)]
        return [(path, schema)] if "object" in (types_of(schema) or TYPES) else []

    def _merged(self, schema: dict[str, Any], keyword: str, path: Path) -> list[dict[str, Any]]:
        """The branches under a keyword, each with what stands beside it."""
        rest = {key: value for key, value in schema.items() if key != keyword}
        branches = [
            self.plain({"allOf": [branch, rest]}, (*path, keyword, number))
            for number, branch in enumerate(schema[keyword])
        ]
        kinds = [overlapping(types_of(branch) or TYPES) for branch in branches]
        if keyword == "oneOf" and any(a & b for n, a in enumerate(kinds) for b in kinds[:n]):
            self.refuse(keyword, path, "its branches are not of different types")
        return branches

    def _branches(
        self, schema: dict[str, Any], keyword: str, syntax: Syntax, path: Path, among: frozenset[str]
    ) -> Iterable[Node]:
        branches = self._merged(schema, keyword, path)
        among = among.union(*(overlapping(types_of(branch) or TYPES) for branch in branches))
        options: list[Node] = []
        for number, branch in enumerate(branches):
            options += self._options(branch, syntax, (*path, keyword, number), among)
        return options

    def _constants(
        self, schema: dict[str, Any], syntax: Syntax, path: Path, among: frozenset[str]
    ) -> Iterable[Node]:
        keyword = "const" if "const" in schema else "enum"
        fitting = self._fitting(schema)
        marked = [value for value in fitting if _spells(value, syntax.marks)]
        if marked:
            self.refuse(keyword, path, f"{marked[0]!r} spells a marker of this format")
            fitting = [value for value in fitting if value not in marked]
        if not fitting:
            self.refuse(keyword, path, "no value is left of it")
            return [syntax.anything(self)]
        return [syntax.constant(value, in_text=len(among) > 1) for value in constants(fitting)]

    def _fitting(self, schema: Mapping[str, Any]) -> list[Any]:
        """The values that a schema lists and allows."""
        keyword = "const" if "const" in schema else "enum"
        values = [schema["const"]] if keyword == "const" else schema["enum"]
        types = types_of({key: value for key, value in schema.items() if key == "type"})
        fitting = [value for value in values if types is None or not kinds_of(value).isdisjoint(types)]
        if schema.keys() - {keyword, "type"}:
            whole = _alone(schema, self.root)
            fitting = [value for value in fitting if not problems(json.dumps(value), [whole])]
        return fitting

    def _of_type(
        self, kind: str, schema: dict[str, Any], syntax: Syntax, path: Path, among: frozenset[str]
    ) -> Node:
        in_text = "string" in among
        if kind == "string":
            return self._text(schema, syntax, path, among - {"string"})
        if kind == "boolean":
            return alt(syntax.constant(value, in_text=in_text) for value in (True, False))
        if kind == "null":
            return syntax.constant(None, in_text=in_text)
        if kind in ("array", "object"):
            return syntax.container(self, kind, schema, path)
        limits = {keyword: schema[keyword] for keyword in LIMITS if keyword in schema}
        wrong = self.number_fault({"type": kind, **limits}) if limits else None
        if wrong is not None:
            self.refuse(next(iter(limits)), path, wrong)
            limits = {}
        return syntax.number(self, {"type": kind, **limits}, path, in_text=in_text)

    def _text(self, schema: Mapping[str, Any], syntax: Syntax, path: Path, but: frozenset[str]) -> Node:
        """Text, without the spellings in which none of what is demanded can be said."""
        node = syntax.string(self.bodies(schema, path), but)
        named = [keyword for keyword in TEXTS if keyword in schema]
        if not named:
            return node
        options = node.options if isinstance(node, Alt) else (node,)
        faults = [next(filter(None, map(self.text_fault, holes(option))), None) for option in options]
        kept = [option for option, wrong in zip(options, faults, strict=True) if wrong is None]
        if kept:
            return alt(kept)
        self.refuse(named[0], path, str(faults[0]))
        return syntax.string((), but)

    def text_fault(self, hole: Free | Regex) -> str | None:
        """Why no text can stand in a hole, or none can be held to it."""
        if isinstance(hole, Regex):
            return text_fault(hole)
        return text_fault(Regex(hole.body)) if hole.body else None

    def number_fault(self, schema: Mapping[str, Any]) -> str | None:
        """Why there is no number of this kind between these limits, or none can be held to them."""
        return schema_fault(dict(schema))

    def bodies(self, schema: Mapping[str, Any], path: Path) -> tuple[str, ...]:
        """What a schema's keywords about strings mean for their text."""
        kept = {key: value for key, value in schema.items() if key in TEXTS}
        while True:
            try:
                return string_bodies(kept)
            except LookupError as error:
                keyword = str(error.args[0])
                self.refuse(keyword, path, f"{kept[keyword]!r} can't be checked in text that is not JSON")
                del kept[keyword]

    def number_pattern(self, schema: Mapping[str, Any], path: Path) -> str:
        """An expression for the numbers of a schema, whose limits can be kept for integers alone."""
        whole = schema["type"] == "integer"
        for keyword in (each for each in LIMITS if each in schema):
            if not whole or keyword == "multipleOf":
                self.refuse(keyword, path, "it can't be checked where text may stand as well")
                return number_pattern({"type": schema["type"]})
        return number_pattern(schema)

    def entries(self, schema: Mapping[str, Any], syntax: Syntax, path: Path, separator: Node) -> Node:
        """The entries of an array, with this between them."""
        entry = self.value(schema.get("items", True), syntax, (*path, "items"))
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        return Many(entry, separator, int(least), None if most is None else int(most))

    def members(
        self, schema: Mapping[str, Any], syntax: Syntax, path: Path, separator: Node, spell: Spell | None = None
    ) -> Members:
        """The members of an object: the declared ones, and others where the schema says so or declares none.

        ``spell`` puts a key and a value together, ``syntax.member`` unless given.
        """
        spell = spell or syntax.member
        properties = _properties(schema)
        needed = schema.get("required")
        needed = [name for name in needed if isinstance(name, str)] if isinstance(needed, list) else []
        others = schema.get("additionalProperties", not properties)
        undeclared = schema.get("additionalProperties", True)
        values = {name: properties.get(name, undeclared) for name in (*properties, *needed)}
        barred = [name for name in needed if values[name] is False]
        if barred:
            self.refuse("required", path, f"{barred[0]!r} is not allowed to come")
        names = tuple(values)
        members = [
            Member(spell(name, self.value(value, syntax, (*path, "properties", name)), ()), name in needed)
            for name, value in values.items()
            if value is not False
        ]
        extra = None
        if others is not False:
            extra = spell(None, self.value(others, syntax, (*path, "additionalProperties")), names)
        return Members(tuple(members), separator, extra)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties that a schema declares."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _refers(schema: Mapping[str, Any]) -> bool:
    """Whether a reference stands for the value itself, alone or among others."""
    lists = [schema[key] for key in ("allOf", "anyOf", "oneOf") if isinstance(schema.get(key), list)]
    return isinstance(schema.get("$ref"), str) or any(
        isinstance(branch, Mapping) and _refers(branch) for branches in lists for branch in branches
    )


def _exactly(value: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that allows this object alone."""
    return {
        "type": "object",
        "properties": {key: {"const": member} for key, member in value.items()},
        "required": list(value),
        "additionalProperties": False,
    }


def _spells(value: Any, marks: Iterable[str]) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return any(mark in text for mark in marks if mark)


def schema_of(grammar: Grammar) -> str:
    """The schema inside a grammar of one, with llguidance's options in it."""
    return json.dumps(json.loads(grammar.text)["grammars"][0]["json_schema"], ensure_ascii=False)


def _alone(schema: Any, root: Mapping[str, Any]) -> Any:
    """A subschema by itself: what it refers to comes along."""
    if schema is root or "$ref" not in json.dumps(schema):
        return schema

    def moved(node: Any) -> Any:
        if isinstance(node, Mapping):
            return {
                key: "#/$defs/root" + value[1:]
                if key == "$ref" and isinstance(value, str) and value.startswith("#")
                else moved(value)
                for key, value in node.items()
            }
        return [moved(item) for item in node] if isinstance(node, list) else node

    return {**moved(schema), "$defs": {"root": moved(root)}}
