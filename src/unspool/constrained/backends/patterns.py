"""Regular expressions that every backend reads alike."""

from __future__ import annotations

import re

from unspool.constrained.base import GrammarError

_PIECE = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[dws]|[nrtfv]|[^\w\s])"  # an escape that all know
    r"|\[\^?(?:\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[dws]|[nrtfv]|[^\w\s])|(?!&&|--|~~)[^\\\[\]])+\]"
    r"|\((?!\?)|\(\?:|\)"
    r"|\{\d+(?:,\d*)?\}\??|[*+?|]"
    r"|[^\\\[\](){}*+?|^$.]"
)


def foreign(pattern: str) -> int | None:
    """The index of what backends read in different ways, or not at all; ``None`` if there is nothing.

    ``^`` may stand at the beginning and ``$`` at the end.
    """
    position = 1 if pattern.startswith("^") else 0
    while position < len(pattern):
        if pattern[position] == "$" and position == len(pattern) - 1:
            return None
        found = _PIECE.match(pattern, position)
        if found is None:
            return position
        position = found.end()
    return None


def read_alike(pattern: str, backend: str) -> str:
    """The expression, if a backend reads it as all do. Raises :class:`GrammarError`, which names the place."""
    index = foreign(pattern)
    if index is not None:
        raise GrammarError(
            f"{backend} reads this regular expression otherwise from index {index} on: "
            f"{pattern[index : index + 8]!r}. Spell it without, or use llguidance."
        )
    return pattern
