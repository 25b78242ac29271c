"""Regular expressions, in the part of Rust's syntax that llguidance takes, for what stands outside JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor
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
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+",
}
"""Formats of strings whose values can be held to where they are not JSON."""


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


def length_alone(bodies: tuple[str, ...]) -> str | None:
    """The repetition, such as ``{2,5}``, if these expressions demand nothing but how many characters there are."""
    found = _LENGTH.fullmatch(bodies[0]) if len(bodies) == 1 else None
    return found and found[1]


_LENGTH = re.compile(r"\(\?s:\.(\{\d+,\d*\})\)")


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
        branches.append(("" if starts else ANY) + f"(?:{_of_ascii(inner)})" + ("" if ends else ANY))
    return "(?:" + "|".join(branches) + ")"


_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""An escape, a class of characters, or one character of an expression."""


_CLASSES: Mapping[str, str] = {
    r"\d": "0-9",
    r"\D": r"\x{0}-/:-\x{10ffff}",
    r"\w": "0-9A-Za-z_",
    r"\W": r"\x{0}-/:-@\x{5b}-\x{5e}`{-\x{10ffff}",
}
"""What these classes are in JSON Schema: of ASCII, whereas Rust has digits and letters of every script."""


_IN_CLASS = re.compile(r"\\.", re.DOTALL)


def _of_ascii(pattern: str) -> str:
    """The expression with its classes of digits and letters spelled out."""
    parts = []
    for part in _PARTS.findall(pattern):
        if part in _CLASSES:
            parts.append(f"[{_CLASSES[part]}]")
        elif part.startswith("["):
            parts.append(_IN_CLASS.sub(lambda found: _CLASSES.get(found[0], found[0]), part))
        else:
            parts.append(part)
    return "".join(parts)


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


def whole_numbers(least: int | None, most: int | None) -> str:
    """An expression for the integers between two, both of them included (``None``: no limit)."""
    if least is not None and most is not None and least > most:
        raise LookupError("maximum")
    branches = []
    if least is None or least < 0:
        upper = None if least is None else -least
        lower = 1 if most is None or most >= 0 else -most
        branches.append("-" + _positive(lower, upper))
    if (least is None or least <= 0) and (most is None or most >= 0):
        branches.append("0")
    if most is None or most > 0:
        branches.append(_positive(max(least or 1, 1), most))
    return "(?:" + "|".join(branches) + ")"


def _positive(least: int, most: int | None) -> str:
    """An expression for the integers from one above 0 up to another."""
    digits = str(least)
    if most is None:
        more = f"[1-9][0-9]{{{len(digits)},}}"
        return f"(?:{_between(digits, '9' * len(digits))}|{more})"
    top = str(most)
    branches = []
    for size in range(len(digits), len(top) + 1):
        low = digits if size == len(digits) else "1" + "0" * (size - 1)
        high = top if size == len(top) else "9" * size
        branches.append(_between(low, high))
    return "(?:" + "|".join(branches) + ")"


def _between(low: str, high: str) -> str:
    """An expression for the numbers between two that have as many digits."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    branches = [f"{first}{_between(low[1:], '9' * rest)}"]
    if first + 1 < last:
        branches.append(f"[{first + 1}-{last - 1}][0-9]{{{rest}}}")
    branches.append(f"{last}{_between('0' * rest, high[1:])}")
    return "(?:" + "|".join(branches) + ")"


def number_pattern(schema: Mapping[str, Any]) -> str:
    """An expression for JSON numbers with the limits that :class:`PortableWalk` leaves in their schema.

    Raises ``LookupError`` with a keyword if there is no such number.
    """
    if schema["type"] == "number":
        return NUMBER.removeprefix("-?") if "minimum" in schema else NUMBER
    least = [ceil(schema["minimum"])] if "minimum" in schema else []
    least += [floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    most = [floor(schema["maximum"])] if "maximum" in schema else []
    most += [ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    return whole_numbers(max(least, default=None), min(most, default=None))
