"""JSON-Schema-Test-Suite, draft 2020-12, as a measure of what a backend enforces.

Its data stays outside this project: it is looked for in ``../shared/jsonschema/json-schema-test-suite`` beside the
checkout, or where ``UNSPOOL_SCHEMA_SUITE`` points. Every instance is written in some ways (the order of members,
whitespace, ``2.0`` as ``2``) and fed character by character: a valid one has to get through in one of them, an
invalid one in none.

Most schemas of the suite name no type, so that a keyword is tested on values that it does not speak of. Each such
schema is measured as it is and with the type that its keyword speaks of.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.constrained.vocabularies import Letters
from unspool.constrained import Grammar, GrammarError
from unspool.constrained.backends import constrain
from unspool.constrained.backends.fragment import KEYWORDS

ROOT = Path(__file__).parents[2]
SUITE = os.environ.get("UNSPOOL_SCHEMA_SUITE", ROOT.parent / "shared" / "jsonschema" / "json-schema-test-suite")
DATA = Path(SUITE, "draft2020-12")
ABSENT = f"There is no JSON-Schema-Test-Suite at {DATA}; set UNSPOOL_SCHEMA_SUITE to measure against it."

_MOST_ORDERED = 4  # members of an object that are tried in every order
_IS: dict[str, Callable[[Any], bool]] = {
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One schema with its instances, each with whether it is valid; ``keyword`` is what it is about."""

    keyword: str
    title: str
    schema: Any
    instances: tuple[tuple[Any, bool], ...]


@dataclass(slots=True)
class Tally:
    """How a backend did on the cases of one keyword.

    Of ``schemas`` it ``refused`` some. Of the others' ``valid`` instances it ``accepted`` some; of the ``invalid``
    ones it ``rejected`` some while they were written and ``found`` others afterwards. ``passed`` are those that it
    did neither.
    """

    schemas: int = 0
    refused: int = 0
    valid: int = 0
    accepted: int = 0
    invalid: int = 0
    rejected: int = 0
    found: int = 0
    passed: tuple[tuple[Case, Any], ...] = ()


@cache
def cases(data: Path = DATA) -> tuple[Case, ...]:
    """All cases, with those of the single formats."""
    found: list[Case] = []
    for path in [*sorted(data.glob("*.json")), *sorted((data / "optional" / "format").glob("*.json"))]:
        keyword = path.stem if path.parent == data else f"format: {path.stem}"
        for group in json.loads(path.read_text("utf-8")):
            instances = tuple((test["data"], test["valid"]) for test in group["tests"])
            case = Case(keyword, group["description"], group["schema"], instances)
            found += [case, *_typed(case)]
    return tuple(found)


def _typed(case: Case) -> Iterator[Case]:
    """A case with the type that its keyword speaks of, if it names none."""
    name = case.keyword.partition(":")[0]
    types = [kind for kind, keywords in KEYWORDS.items() if name in keywords]
    if types and isinstance(case.schema, dict) and "type" not in case.schema:
        instances = tuple(pair for pair in case.instances if _IS[types[0]](pair[0]))
        yield Case(case.keyword, f"{case.title}, {types[0]}", {**case.schema, "type": types[0]}, instances)


@cache
def letters(data: Path = DATA) -> Letters:
    """One token a character of the suite, and an end token."""
    characters = {
        character
        for case in cases(data)
        for part in (case.schema, [value for value, _ in case.instances])
        for character in json.dumps(part, ensure_ascii=False)
        if character > "\x7f" and character.isprintable()
    }
    return Letters(words=sorted(characters), special=["<|end|>"], end=["<|end|>"])


def spellings(value: Any) -> Iterator[str]:
    """An instance as JSON, in some of its ways."""
    orders: Any = [value]
    if isinstance(value, dict) and 1 < len(value) <= _MOST_ORDERED:
        orders = map(dict, itertools.permutations(value.items()))
    for ordered in orders:
        yield json.dumps(ordered, ensure_ascii=False)
        yield json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, float) and value.is_integer():
        yield str(int(value))


def gets_through(constraint: Any, text: str, tokens: dict[str, int]) -> bool:
    """Whether a constraint takes a whole text as a complete one; it is as before after that."""
    taken = 0
    for character in text:
        if character not in tokens or not constraint.accept(tokens[character]):
            break
        taken += 1
    complete: bool = taken == len(text) and constraint.may_end
    constraint.rollback(taken)
    return complete


def measure(backend: Any, strict: bool, data: Path = DATA) -> dict[str, Tally]:
    """How a backend does, by keyword."""
    vocabulary = letters(data)
    tokens = {vocabulary.piece(token).decode("utf-8", "replace"): token for token in range(vocabulary.size)}
    tallies: dict[str, Tally] = {}
    for case in cases(data):
        tally = tallies.setdefault(case.keyword, Tally())
        tally.schemas += 1
        try:
            constraint: Any = constrain(case.schema, vocabulary, backend=backend, strict=strict)
        except GrammarError:
            tally.refused += 1
            continue
        for value, valid in case.instances:
            through = any(gets_through(constraint, text, tokens) for text in spellings(value))
            _count(tally, case, value, valid, through, constraint.grammar)
    return tallies


def _count(tally: Tally, case: Case, value: Any, valid: bool, through: bool, grammar: Grammar) -> None:
    if valid:
        tally.valid += 1
        tally.accepted += through
        return
    tally.invalid += 1
    if not through:
        tally.rejected += 1
    elif grammar.problems(json.dumps(value)):
        tally.found += 1
    else:
        tally.passed += ((case, value),)
