"""Values of the operator's file, taken out one by one: each is checked, and says its place when it is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from unspool.mcp.settings import McpConfigError

_T = TypeVar("_T")


class Entry:
    """One object of the file. What nobody took is left over, and is warned of."""

    def __init__(self, said: Any, place: str, expand: Callable[[str, str], str]) -> None:
        if not isinstance(said, dict) or not all(isinstance(key, str) for key in said):
            raise McpConfigError(f"{place}: must be an object, with a name for each member")
        self.place = place
        self.said: dict[str, Any] = said
        self._expand = expand
        self._taken: set[str] = set()

    def at(self, key: str) -> str:
        """Where a key stands, for messages."""
        return f"{self.place}.{key}"

    def has(self, key: str) -> bool:
        """Whether the key is there with a value."""
        return self.said.get(key) is not None

    def one_of(self, *keys: str) -> str | None:
        """The one of these names for the same thing that is there; two of them are an error."""
        found = [key for key in keys if self.has(key)]
        self._taken.update(keys)
        if len(found) > 1:
            raise McpConfigError(f"{self.place}: {' and '.join(found)} say the same; leave one out")
        return found[0] if found else None

    def inner(self, key: str) -> Entry | None:
        """The object under a key, as an entry of its own; ``None`` if there is none."""
        said = self.raw(key)
        return None if said is None else Entry(said, self.at(key), self._expand)

    def raw(self, *keys: str) -> Any:
        """The value under one of these names, as it is; ``None`` if there is none."""
        key = self.one_of(*keys)
        return None if key is None else self.said[key]

    def _typed(self, kind: type[_T] | tuple[type[_T], ...], what: str, *keys: str) -> _T | None:
        key = self.one_of(*keys)
        if key is None:
            return None
        value = self.said[key]
        # True is an int to Python.
        if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
            raise McpConfigError(f"{self.at(key)}: must be {what}")
        return value

    def text(self, *keys: str) -> str | None:
        """A text with its variables put in."""
        key = self.one_of(*keys)
        value = self._typed(str, "text", *keys)
        return None if key is None or value is None else self._put_in(value, self.at(key))

    def flag(self, key: str) -> bool | None:
        """True or false."""
        return self._typed(bool, "true or false", key)

    def number(self, *keys: str) -> float | None:
        """A number above 0."""
        key = self.one_of(*keys)
        value: float | None = self._typed((int, float), "a number", *keys)
        if value is not None and not 0 < value < 1e12:
            raise McpConfigError(f"{self.at(str(key))}: must be a number above 0")
        return value

    def whole(self, key: str) -> int | None:
        """A whole number above 0."""
        value = self.number(key)
        if value is not None and value != int(value):
            raise McpConfigError(f"{self.at(key)}: must be a whole number")
        return None if value is None else int(value)

    def texts(self, *keys: str) -> tuple[str, ...]:
        """A list of texts with their variables put in."""
        key = self.one_of(*keys)
        value = self._typed(list, "a list of texts", *keys)
        if key is None or value is None:
            return ()
        if not all(isinstance(each, str) for each in value):
            raise McpConfigError(f"{self.at(key)}: must be a list of texts")
        return tuple(self._put_in(each, f"{self.at(key)}[{number}]") for number, each in enumerate(value))

    def named_texts(self, key: str) -> dict[str, str]:
        """An object of texts with their variables put in; numbers and booleans are taken as they are written."""
        value = self._typed(dict, "an object of texts", key) or {}
        found: dict[str, str] = {}
        for name, each in value.items():
            if isinstance(each, bool):
                each = "true" if each else "false"
            if not isinstance(name, str) or not isinstance(each, (str, int, float)):
                raise McpConfigError(f"{self.at(key)}: must be an object of texts")
            found[name] = self._put_in(str(each), f"{self.at(key)}.{name}")
        return found

    def choice(self, key: str, choices: Iterable[str]) -> Any:
        """One of a few words."""
        value = self.text(key)
        if value is not None and value not in choices:
            raise McpConfigError(f"{self.at(key)}: must be one of {', '.join(choices)}, not {value!r}")
        return value

    def left_over(self, known: Iterable[str] = ()) -> list[str]:
        """A warning for each key that nobody took, with the name that it may be a mistake for."""
        warnings = []
        for key in self.said:
            if key in self._taken:
                continue
            close = get_close_matches(key, [*known, *self._taken], 1)
            meant = f"; is {close[0]} meant?" if close else ""
            warnings.append(f"{self.at(key)} is not known and does nothing{meant}")
        return warnings

    def _put_in(self, text: str, place: str) -> str:
        value = self._expand(text, place)
        if "\0" in value:
            raise McpConfigError(f"{place}: has a NUL character")
        return value


def filled(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """A dataclass with the values that are not ``None``, and its own defaults for the others."""
    names = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if value is not None and name in names})
