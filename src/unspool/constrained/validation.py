"""Checking a finished JSON value against a schema, for what a grammar could not prevent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from unspool.constrained.base import ConstraintError
from unspool.constrained.subschemas import pointer


def problems(text: str, schemas: Iterable[Any]) -> list[str]:
    """What is wrong with a JSON text, one sentence for each place.

    The first schema decides that can be followed to its end: nothing is fetched for a remote ``$ref``, and one
    may lead nowhere.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        return [f"The text is not JSON: {error}"]
    try:
        from jsonschema import Draft202012Validator
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise ConstraintError("Checking values needs jsonschema: pip install 'unspool[constrained]'.") from error

    for schema in schemas:
        try:
            found = list(Draft202012Validator(schema, registry=Registry()).iter_errors(value))
        except (Unresolvable, RecursionError):
            continue
        places = sorted((pointer(tuple(error.absolute_path)) or "The value", error.message) for error in found)
        return [f"{place}: {message}" for place, message in places]
    return []


def is_valid_schema(schema: Any) -> bool:
    """Whether a schema can be used for checking."""
    try:
        from jsonschema import Draft202012Validator, SchemaError
    except ImportError as error:
        raise ConstraintError("Checking values needs jsonschema: pip install 'unspool[constrained]'.") from error

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True
