"""Regular expressions, in the part of Rust's syntax that llguidance takes, for what stands outside JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

ANY = "(?s:.*)"
SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"

_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?" + _ZONE
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

FORMATS: Mapping[str, str] = {
    "date": rf"{_DATE}|[0-9]{{4}}-(?:(?:0[13578]|1[02])-(?:29|3[01])|(?:0[469]|11)-(?:29|30))",
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "ipv4": rf"(?:{_OCTET}\.){{3}}{_OCTET}",
    "email": r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+",
}
"""Formats of strings whose values can be held to where they are not JSON."""

STRINGS = frozenset(("minLength", "maxLength", "pattern", "format"))
"""The keywords that restrict strings."""


def literal(text: str) -> str:
    """An expression for exactly this text, as it can stand between the slashes of a Lark terminal."""
    found = []
    for char in text:
        if char in SPECIAL:
            found.append("\\" + char)
        elif char.isprintable():
            found.append(char)
        else:
            found.append(f"\\x{{{ord(char):x}}}")
    return "".join(found)


def one_of(texts: Iterable[str]) -> str:
    """An expression for one of these texts."""
    return "(?:" + "|".join(map(literal, texts)) + ")"


def containing(texts: Iterable[str]) -> str:
    """An expression for every text that has one of these in it."""
    return ANY + one_of(texts) + ANY


def string_bodies(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What a schema's keywords about strings mean for the text of one, to be matched all together.

    Raises ``LookupError`` with the keyword that can't be said so.
    """
    found = []
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    for keyword, value in (("minLength", least), ("maxLength", 0 if most is None else most)):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 0:
            raise LookupError(keyword)
    if least or most is not None:
        found.append(f"(?s:.{{{int(least)},{'' if most is None else int(most)}}})")
    if "pattern" in schema:
        found.append(anywhere(schema["pattern"]))
    if "format" in schema:
        if schema["format"] not in FORMATS:
            raise LookupError("format")
        found.append(f"(?:{FORMATS[schema['format']]})")
    return tuple(found)


def anywhere(pattern: Any) -> str:
    """An expression for texts in which a pattern is found; its anchors at both ends are known.

    Raises ``LookupError``.
    """
    if not isinstance(pattern, str):
        raise LookupError("pattern")
    branches = []
    for branch in _branches(pattern):
        starts, ends = branch.startswith("^"), _ends_with_anchor(branch)
        inner = branch[starts : len(branch) - ends]
        if _anchored(inner):
            raise LookupError("pattern")
        branches.append(("" if starts else ANY) + f"(?:{inner})" + ("" if ends else ANY))
    return "(?:" + "|".join(branches) + ")"


_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""An escape, a class of characters, or one character of an expression."""


def _branches(pattern: str) -> list[str]:
    """The alternatives of an expression that are in no group."""
    branches, depth = [""], 0
    for part in _PARTS.findall(pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += part
    return branches


def _ends_with_anchor(branch: str) -> bool:
    parts = _PARTS.findall(branch)
    return bool(parts) and parts[-1] == "$"


def _anchored(branch: str) -> bool:
    """Whether an anchor stands where it can't be left out, such as in a group."""
    return not {"^", "$"}.isdisjoint(_PARTS.findall(branch))
