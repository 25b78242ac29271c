"""Checking a finished JSON value against a schema, for what a grammar could not prevent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from unspool.constrained.subschemas import pointer, subschemas

_NAMES = ("$schema", "$id", "id", "$ref", "$dynamicRef", "$anchor", "$dynamicAnchor")
"""Keywords whose values jsonschema uses as text, whatever they are."""
_WITH_PATTERNS = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")
_LENIENT = (*_WITH_PATTERNS, "multipleOf")


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

        try:
            found = list(checks(schema, registry=Registry()).iter_errors(value))
        except (Unresolvable, RecursionError):
            continue
        places = sorted((pointer(tuple(error.absolute_path)) or "The value", error.message) for error in found)
        return [f"{place}: {message}" for place, message in places]
    return []


def validator(schema: Any) -> Any:
    """The class of jsonschema that checks values against a schema; ``None`` if it can't be used for that.

    The draft is the one that ``$schema`` names, or else the newest that allows what is in the schema. Patterns in
    Rust's syntax that Python can't read are passed over: the grammar holds to them.
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
            kind.check_schema(schema, format_checker=None)
        except (SchemaError, RecursionError):
            continue
        checks = {name: _lenient(kind.VALIDATORS[name]) for name in _LENIENT if name in kind.VALIDATORS}
        return validators.extend(kind, checks)
    return None


def no_number(name: str) -> None:
    """Refuses ``NaN`` and the infinities, which Python's reader takes for JSON."""
    raise ValueError(f"{name} is no number of JSON.")


def _lenient(check: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterator[Any]]:
    """A check of jsonschema that finds nothing where a pattern can't be read, or a number is too large for it."""

    def lenient(*arguments: Any) -> Iterator[Any]:
        try:
            yield from check(*arguments) or ()
        except (re.error, OverflowError):
            return

    return lenient
