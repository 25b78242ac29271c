"""Schemas for notations that know none: JSON is walked like every other syntax; what can't be said is refused."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, isfinite
from typing import Any

from unspool.constrained.base import GrammarError, SchemaError
from unspool.constrained.subschemas import Path
from unspool.constrained.turns.nodes import Node, Regex, Seq, seq
from unspool.constrained.turns.patterns import NUMBER, whole_numbers
from unspool.constrained.turns.regular import holes, regular, spelling_none
from unspool.constrained.turns.schemas import Syntax, Walk
from unspool.constrained.turns.values import JsonSyntax

MOST_TIMES = 1000
"""How often something may be demanded again: llama.cpp refuses more than 2,000 repetitions."""

_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_LISTS = ("enum", "anyOf", "oneOf")
_TEXTS = ("pattern", "format", "minLength", "maxLength")
_LIMITS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")


class _Json(JsonSyntax):
    """JSON whose strings spell none of ``marks``, as far as that takes not too many rules."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        super().__init__(())
        self._unspelled = marks

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """A string in quotes."""
        node = super().string(bodies, but)
        parts = node.parts if isinstance(node, Seq) else (node,)
        return seq(*(spelling_none(part, self._unspelled) if isinstance(part, Regex) else part for part in parts))


class PortableWalk(Walk):
    """A walk that makes JSON, too, of texts and expressions. ``marks`` are what its strings should not spell."""

    def __init__(self, *arguments: Any, marks: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._json = _Json(marks)

    def json(self, schema: Any, path: Path = ()) -> Node:
        """A value as JSON."""
        return self.value(schema, self._json, path)

    def plain(self, schema: Any, path: Path) -> dict[str, Any]:
        """The schema without references, and without what can't be said."""
        merged = super().plain(schema, path)
        for keyword, reason in _unsayable(merged).items():
            self.refuse(keyword, path, reason)
            del merged[keyword]
        return merged

    def number_pattern(self, schema: Mapping[str, Any], path: Path) -> str:
        """An expression for the numbers of a schema."""
        return number_pattern(schema)

    def _of_type(
        self, kind: str, schema: dict[str, Any], syntax: Syntax, path: Path, among: frozenset[str]
    ) -> Node:
        try:
            node = super()._of_type(kind, schema, syntax, path, among)
            if kind == "string":
                for hole in holes(node):
                    regular(hole)
            elif kind in ("integer", "number"):
                number_pattern({**schema, "type": kind})
        except (GrammarError, ValueError, LookupError) as error:
            if isinstance(error, SchemaError):
                raise
            named = [keyword for keyword in (*_TEXTS, *_LIMITS) if keyword in schema]
            reason = "no value is left" if isinstance(error, LookupError) else str(error).rstrip(".")
            self.refuse(named[0] if named else "type", path, reason)
            rest = {key: value for key, value in schema.items() if key not in named}
            return super()._of_type(kind, rest, syntax, path, among)
        return node


def _unsayable(schema: Mapping[str, Any]) -> dict[str, str]:
    """The keywords of a merged schema that can't be said without counters and numbers, each with the reason."""
    found = {keyword: "it is no list" for keyword in _LISTS if not isinstance(schema.get(keyword, []), list)}
    for keyword in (*_COUNTS, *_LIMITS):
        if keyword in schema and not _is_number(schema[keyword], whole=keyword in _COUNTS):
            found[keyword] = "it is no number that it could be"
    for keyword in schema.keys() & set(_COUNTS) - found.keys():
        if schema[keyword] > MOST_TIMES:
            found[keyword] = f"{schema[keyword]} is more than the {MOST_TIMES} repetitions that a grammar may have"
    for least, most in (_COUNTS[:2], _COUNTS[2:]):
        if {least, most} <= schema.keys() - found.keys() and schema[least] > schema[most]:
            found[most] = f"it is less than {least}"
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    numbers = "number" in types or (types == [None] and any(keyword in schema for keyword in _LIMITS))
    for keyword in schema.keys() & set(_LIMITS) - found.keys():
        if keyword == "multipleOf":
            if schema[keyword] != 1 or numbers:
                found[keyword] = "a grammar can't calculate"
        elif numbers and (keyword, schema[keyword]) != ("minimum", 0):
            found[keyword] = "a grammar can bound integers only, and numbers by a minimum of 0"
    return found


def _is_number(value: Any, *, whole: bool) -> bool:
    """Whether a value is a finite number; ``whole``: an integer that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return False
    return not whole or (value >= 0 and value == int(value))


def number_pattern(schema: Mapping[str, Any]) -> str:
    """An expression for JSON numbers with the limits that :class:`PortableWalk` leaves in their schema.

    Raises ``LookupError`` with a keyword if there is no such number.
    """
    if schema["type"] == "number":
        return NUMBER.removeprefix("-?") if "minimum" in schema else NUMBER
    least = [ceil(schema["minimum"])] if "minimum" in schema else []
    least += [floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    most = [floor(schema["maximum"])] if "maximum" in schema else []
    most += [ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    return whole_numbers(max(least, default=None), min(most, default=None))
