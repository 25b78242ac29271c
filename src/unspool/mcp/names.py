"""The names that the model sees: a server's label and a tool's name, within what every API takes.

A name is never taken apart again: what it leads to is in a map. Two tools never share one.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

LONGEST = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_DIGITS = 8


def exposed_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The exposed name of each tool, given by its server's label and its own name.

    It is ``server__tool``, with ``_`` for what may not stand in a name. Where that is too long or the same for
    two, a part of a hash stands at its end, so that a name doesn't depend on which came first.
    """
    digits = dict.fromkeys(tools, 0)
    while True:
        names = {tool: _exposed(*tool, count) for tool, count in digits.items()}
        counts = Counter(names.values())
        clashing = [tool for tool, name in names.items() if counts[name] > 1]
        if not clashing:
            return names
        for tool in clashing:
            digits[tool] += _DIGITS


def _exposed(server: str, tool: str, digits: int) -> str:
    name = _OTHER.sub("_", f"{server}__{tool}")
    if len(name) > LONGEST:
        digits = max(digits, _DIGITS)
    if not digits:
        return name
    end = "_" + hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:digits]
    return name[: LONGEST - len(end)] + end
