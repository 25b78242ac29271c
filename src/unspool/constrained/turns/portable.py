"""Schemas for notations that know none: JSON is walked like every other syntax; what can't be said is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unspool.constrained.base import GrammarError, SchemaError
from unspool.constrained.subschemas import Path
from unspool.constrained.turns.keywords import LIMITS
from unspool.constrained.turns.nodes import Free, Node, Regex, Seq, seq
from unspool.constrained.turns.patterns import number_pattern
from unspool.constrained.turns.regular import regular, spelling_none
from unspool.constrained.turns.schemas import Walk
from unspool.constrained.turns.values import JsonSyntax, any_value


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

    def anything(self, walk: Walk) -> Node:
        """A value of any kind; tools and the answer have different marks."""
        return any_value(self, walk, f"json_value_{len(self._unspelled)}")


class PortableWalk(Walk):
    """A walk that makes JSON, too, of texts and expressions. ``marks`` are what its strings should not spell."""

    most_times = 1000
    """llama.cpp refuses more than 2,000 repetitions."""

    def __init__(self, *arguments: Any, marks: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._json = _Json(marks)

    def json(self, schema: Any, path: Path = ()) -> Node:
        """A value as JSON."""
        if schema is not self.root:
            return self.value(schema, self._json, path)
        self.settle()
        try:
            return self.value(self.root, self._json, path)
        except RecursionError as error:
            raise SchemaError(f"The schema of {self._where} is nested too deeply.") from error

    def unsayable(self, schema: Mapping[str, Any]) -> dict[str, str]:
        """What can't be said without calculating, too."""
        found = super().unsayable(schema)
        types = schema.get("type")
        types = types if isinstance(types, list) else [types]
        numbers = "number" in types or (types == [None] and any(keyword in schema for keyword in LIMITS))
        for keyword in (each for each in LIMITS if each in schema):
            if keyword == "multipleOf":
                if schema[keyword] != 1 or numbers:
                    found[keyword] = "a grammar can't calculate"
            elif numbers and (keyword, schema[keyword]) != ("minimum", 0):
                found[keyword] = "a grammar can bound integers only, and numbers by a minimum of 0"
        return found

    def number_pattern(self, schema: Mapping[str, Any], path: Path) -> str:
        """An expression for the numbers of a schema."""
        return number_pattern(schema)

    def number_fault(self, schema: Mapping[str, Any]) -> str | None:
        """Why there is no such number."""
        try:
            number_pattern(schema)
        except LookupError:
            return "no value is left"
        return None

    def text_fault(self, hole: Free | Regex) -> str | None:
        """Why there is no such text, or none without an automaton that is too large."""
        try:
            regular(hole)
        except (GrammarError, ValueError) as error:
            return str(error).rstrip(".")
        return None
