"""Checking a finished JSON value against a schema, for what a grammar could not prevent.

A schema may be anybody's, so the work is bounded: so many steps for a value, and no pattern that might take long.
What is not looked at for that is not found wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from unspool.constrained.backtracking import most_steps
from unspool.constrained.subschemas import pointer, subschemas

_NAMES = ("$schema", "$id", "id", "$ref", "$dynamicRef", "$anchor", "$dynamicAnchor")
"""Keywords whose values jsonschema uses as text, whatever they are."""
_WITH_PATTERNS = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")
_STEPS = 1_000_000
"""For a value: parts of it, and members of keywords, that are held against each other."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_REFERENCE_STEPS = 20
_PATTERN_STEPS = 10_000_000
"""For a value, by the engine for regular expressions."""
_MOST_PROBLEMS = 100
_MOST_LEVELS = 180
"""Of keywords within each other; each takes up to four frames of the stack, of which Python has a thousand."""


class _TooMuchError(Exception):
    """Checking would take too many steps."""


@contextmanager
def whole_stack() -> Iterator[None]:
    """Where the stack is too small, a ``RecursionError`` says so, as it does anywhere else.

    References are kept in a table of rpds, and where the stack ends within that, it panics: an error that
    nobody catches.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise RecursionError(str(error)) from error


def problems(text: str, schemas: Iterable[Any]) -> list[str]:
    """What is wrong with a JSON text, one sentence for each place.

    The first schema decides that can be followed to its end: nothing is fetched for a remote ``$ref``, and one
    may lead nowhere.
    """
    try:
        value = json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        return [f"The text is not JSON: {error}"]
    for schema in schemas:
        checks = validator(schema)
        if checks is None:
            continue
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        found: list[Any] = []
        try:
            with whole_stack():
                found.extend(islice(checks(schema, registry=Registry()).iter_errors(value), _MOST_PROBLEMS))
        except (Unresolvable, RecursionError):
            continue
        except _TooMuchError:
            pass
        places = sorted((pointer(tuple(error.absolute_path)) or "The value", error.message) for error in found)
        return [f"{place}: {message}" for place, message in places]
    return []


def validator(schema: Any) -> Any:
    """The class of jsonschema that checks values against a schema; ``None`` if it can't be used for that.

    The draft is the one that ``$schema`` names, or else the newest that allows what is in the schema. Patterns in
    Rust's syntax that Python can't read are passed over: the grammar holds to them. The class is for one value.
    """
    try:
        from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator, SchemaError, validators
    except ImportError as error:
        # Only here, since values are checked where there are no masks, and so no numpy, as well.
        from unspool.constrained.base import ConstraintError

        raise ConstraintError("Checking values needs jsonschema: pip install 'unspool[constrained]'.") from error

    if not all(isinstance(node.get(name, ""), str) for _, node in subschemas(schema) for name in _NAMES):
        return None
    named = validators.validator_for(schema, Draft202012Validator)
    for kind in (named, Draft202012Validator, Draft7Validator, Draft4Validator):
        try:
            # Without formats, so that a pattern need not be one of Python's.
            with whole_stack():
                kind.check_schema(schema, format_checker=None)
        except (SchemaError, RecursionError):
            continue
        bounds = _Bounds(schema)
        return validators.extend(kind, {name: bounds.on(name, check) for name, check in kind.VALIDATORS.items()})
    return None


def no_number(name: str) -> None:
    """Refuses ``NaN`` and the infinities, which Python's reader takes for JSON."""
    raise ValueError(f"{name} is no number of JSON.")


class _Bounds:
    """Checks of jsonschema, within the steps that one value may take.

    They find nothing where a pattern can't be read or might take long, or a number is too large.
    """

    def __init__(self, schema: Any) -> None:
        self._steps = _STEPS
        self._pattern_steps = _PATTERN_STEPS
        self._levels = 0
        # What is evaluated elsewhere depends on all of them.
        self._names = list(_patterns_of_names(schema))

    def on(self, keyword: str, check: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterator[Any]]:
        """The check of a keyword, bounded."""

        def bounded(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
            self._spend(_REFERENCE_STEPS if keyword in _REFERENCES else 1 + _size(said) + _size(value))
            if keyword == "uniqueItems" and isinstance(value, list) and any(map(_size, value)):
                self._spend(len(value) ** 2)
            self._levels += 1
            try:
                if self._levels > _MOST_LEVELS:
                    raise RecursionError
                if keyword in _WITH_PATTERNS and self._takes_long(keyword, said, value, schema):
                    return
                yield from check(validator, said, value, schema) or ()
            except (re.error, OverflowError):
                return
            finally:
                self._levels -= 1

        return bounded

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _TooMuchError

    def _takes_long(self, keyword: str, said: Any, value: Any, schema: Any) -> bool:
        """Whether searching might. What is begun counts for the whole value. Raises ``re.error``."""
        if keyword == "pattern":
            patterns, texts = [said], [value] if isinstance(value, str) else []
        else:
            patterns = self._names if keyword == "unevaluatedProperties" else schema.get("patternProperties", ())
            texts = list(value) if isinstance(value, dict) else []
        if not texts:
            return False
        self._spend(len(patterns))
        longest = max(map(len, texts))
        steps = len(texts) * sum(most_steps(pattern, longest) for pattern in patterns)
        if steps > self._pattern_steps:
            return True
        self._pattern_steps -= steps
        return False


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0


def _patterns_of_names(schema: Any) -> Iterator[str]:
    """All that there are, also where only a ``$ref`` leads."""
    if isinstance(schema, dict):
        if isinstance(names := schema.get("patternProperties"), dict):
            yield from names
        for value in schema.values():
            yield from _patterns_of_names(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _patterns_of_names(value)
