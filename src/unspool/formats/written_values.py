"""Values of arguments as each codec writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from unspool.parsing.codecs.elements import ITEM, TEXT
from unspool.parsing.codecs.json import Number, dump
from unspool.parsing.declaration import ElementCalls, PythonCalls


def relaxed(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{relaxed(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(relaxed(item, quote) for item in value) + "]"
    return dump(value)


def python_repr(value: Any) -> str:
    """The value as Python shows it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {python_repr(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(python_repr, value)) + "]"
    return value.text if isinstance(value, Number) else repr(value)


TAG = re.compile(r"[^\s<>/][^\s<>]*")


def element(shape: ElementCalls, name: str, value: Any, layout: str = "") -> str:
    before = f"{shape.element_open}{name}>"
    after = f"{shape.element_close}{name}>"
    if isinstance(value, str):
        return before + value + after
    if not (isinstance(value, list | Mapping) and _reads_back(value)):
        return before + dump(value) + after
    members = [(ITEM, item) for item in value] if isinstance(value, list) else value.items()
    inside = layout.join(element(shape, key, item) for key, item in members)
    return before + layout + inside + layout + after


def _reads_back(value: Any) -> bool:
    """Whether elements carry the value without a schema; if not, its JSON does."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return True
        return False
    if isinstance(value, Mapping):
        names = set(value)
        tags = all(map(TAG.fullmatch, names)) and TEXT not in names and names != {ITEM}
        return bool(value) and tags and all(map(_reads_back, value.values()))
    return not isinstance(value, list) or (bool(value) and all(map(_reads_back, value)))


def python_literal(shape: PythonCalls, value: Any) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        if shape.quote == "'":
            text = "'" + text[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return text
    if isinstance(value, dict | list) and shape.json_containers:
        return dump(value)
    if isinstance(value, Mapping):
        items = (f"{python_literal(shape, key)}: {python_literal(shape, item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(python_literal(shape, item) for item in value) + "]"
    return value.text if isinstance(value, Number) else repr(value)
