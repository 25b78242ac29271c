"""Typed reading of a JSON object, for request decoders.

Each reader checks one field and names it by its dotted path when it is wrong. ``null`` counts as absent, as
clients send it for everything they leave unset. A ``Fields`` remembers which names were asked for, so that a
decoder can say at the end which ones nobody knows.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from typing import Any

from unspool.surfaces.errors import InvalidRequestError, unsupported

log = logging.getLogger(__name__)


def show(value: object) -> str:
    """A short picture of a value for an error message."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"{type(value).__name__} nested too deeply to be shown"
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """The fields of one JSON object at ``path`` of a request (``""``: the body itself)."""

    def __init__(self, value: object, path: str = "") -> None:
        """Raises :class:`InvalidRequestError` if ``value`` is not a JSON object."""
        if not isinstance(value, Mapping):
            raise InvalidRequestError(
                f"{f'`{path}`' if path else 'The request body'} must be a JSON object; it is {show(value)}.",
                path or None,
            )
        self.body: Mapping[str, Any] = value
        self.path = path
        self._asked: set[str] = set()

    def at(self, name: str) -> str:
        """The dotted path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def get(self, name: str) -> Any:
        """The field as it is, ``None`` if absent."""
        self._asked.add(name)
        return self.body.get(name)

    def unread(self) -> list[str]:
        """Names that are set but that no reader asked for."""
        return [name for name, value in self.body.items() if value is not None and name not in self._asked]

    def report_unread(self, ignored: Container[str]) -> None:
        """Says in the log which fields nobody read; ``ignored`` are those that clients send by habit."""
        unknown = sorted(name for name in self.unread() if name not in ignored)
        if unknown:
            log.warning(
                "Ignored %s: %s", f"fields of {self.path}" if self.path else "request fields", ", ".join(unknown)
            )

    def refuse(self, refused: Mapping[str, str]) -> None:
        """Raises :class:`InvalidRequestError` for a demand that can't be met; by field, what it asks for."""
        for name, what in refused.items():
            if self.get(name) not in (None, False, 0, [], {}):
                raise unsupported(self.at(name), what)

    def wrong(self, name: str, must: str) -> InvalidRequestError:
        """The error for a field that is not what it must be."""
        path = self.at(name)
        return InvalidRequestError(f"`{path}` must be {must}; it is {show(self.body.get(name))}.", path)

    def missing(self, name: str) -> InvalidRequestError:
        """The error for a required field that is absent."""
        path = self.at(name)
        return InvalidRequestError(f"`{path}` is required.", path, code="missing_required_parameter")

    def string(self, name: str) -> str | None:
        """A string."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def required_string(self, name: str) -> str:
        """A string that must be there and not be empty."""
        value = self.string(name)
        if value is None:
            raise self.missing(name)
        if not value:
            raise self.wrong(name, "a string that is not empty")
        return value

    def boolean(self, name: str) -> bool | None:
        """``true`` or ``false``."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number in ``low..high``."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number in ``low..high``."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def items(self, name: str) -> list[Any] | None:
        """A list."""
        value = self.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """A JSON object."""
        value = self.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(name, "a JSON object")
        return value

    def fields(self, name: str) -> Fields | None:
        """A JSON object, ready for reading its own fields."""
        value = self.get(name)
        return None if value is None else Fields(value, self.at(name))
