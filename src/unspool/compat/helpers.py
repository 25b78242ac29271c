"""Small functions that plugins import from their engine's utilities, with the meanings they have there."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from typing import Any


class AnyTokenizer:
    """The name of the type of tokenizers, for annotations."""


def is_list_of(value: object, kind: type, **_: Any) -> bool:
    """Whether a value is a list of such things."""
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def partial_tag_overlap(text: str, tag: str) -> int:
    """How many characters at the end of the text are the beginning of the tag, the whole tag not counted."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if text.endswith(tag[:size])), 0)


def find_common_prefix(first: str, second: str) -> str:
    """What both texts begin with."""
    size = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    return first[: min(len(first), len(second)) if size is None else size]


def find_common_suffix(first: str, second: str) -> str:
    """What both texts end with, of characters that are neither letters nor digits."""
    size = 0
    while size < min(len(first), len(second)):
        char = first[-1 - size]
        if char != second[-1 - size] or char.isalnum():
            break
        size += 1
    return first[len(first) - size :]


def extract_intermediate_diff(current: str, old: str) -> str:
    """What is new in the middle: without the common end, and then without the common beginning."""
    end = find_common_suffix(current, old)
    old = old.removesuffix(end)
    start = find_common_prefix(current, old)
    return current.removesuffix(end).removeprefix(start)


def find_all_indices(text: str, part: str) -> list[int]:
    """Every place at which the part begins."""
    return [at for at in range(len(text)) if text.startswith(part, at)] if part else []


def is_complete_json(text: str) -> bool:
    """Whether the text is one whole JSON value."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def consume_space(at: int, text: str) -> int:
    """The place of the first character from ``at`` on that is no whitespace."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def safe_literal_eval(text: str) -> Any:
    """The value of a Python literal."""
    return ast.literal_eval(text)


def partial_json_loads(text: str, flags: Any) -> tuple[Any, int]:
    """The value of JSON that may be cut, and how long it is; needs the package ``partial_json_parser``."""
    loads = import_module("partial_json_parser").loads
    try:
        return loads(text, flags), len(text)
    except json.JSONDecodeError as error:
        if "Extra data" in error.msg:
            value, end = json.JSONDecoder().raw_decode(text)
            return value, end
        raise


TOOL_HELPERS = {
    "consume_space": consume_space,
    "extract_intermediate_diff": extract_intermediate_diff,
    "find_all_indices": find_all_indices,
    "find_common_prefix": find_common_prefix,
    "find_common_suffix": find_common_suffix,
    "is_complete_json": is_complete_json,
    "partial_json_loads": partial_json_loads,
    "partial_tag_overlap": partial_tag_overlap,
    "safe_literal_eval": safe_literal_eval,
    "Tool": Any,
}
