"""What a declaration needs beyond the right types: without it the format could be neither read nor written.

Whether it is the format that a model writes, only its samples can say (:mod:`unspool.formats.checking`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from string import Formatter
from typing import Any

from unspool.parsing.declaration import (
    ChannelCalls,
    ChannelLayout,
    ElementCalls,
    Format,
    Frame,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RawArguments,
    Reasoning,
    RelaxedArguments,
    TaggedCalls,
    TaggedLayout,
)

_NEEDED: Mapping[type, tuple[str, ...]] = {
    Reasoning: ("open", "close"),
    JsonCalls: ("name_keys", "arguments_keys"),
    RelaxedArguments: ("quote",),
    RawArguments: ("member",),
    TaggedCalls: ("param_open", "key_end", "value_close"),
    ElementCalls: (
        "section_open",
        "section_close",
        "call_open",
        "call_close",
        "element_open",
        "element_close",
        "name_attribute",
    ),
    ChannelCalls: ("start", "ends"),
}
"""Fields without which nothing can be written or found."""

_EMPTY_TEXTS = {(JsonCalls, "close"), (JsonCalls, "written_list")}
"""Lists in which an empty text says something."""

_FILLED: Mapping[tuple[type, str], tuple[str, ...]] = {
    (NamedCalls, "written_header"): ("name", "index", "id"),
    (TaggedLayout, "name"): ("name", "number"),
    (TaggedLayout, "key"): ("key",),
    (ChannelLayout, "call"): ("name",),
}
"""Texts that the writer fills in, and what may stand in braces there."""


def faults(declared: Any, place: str = "") -> Iterator[str]:
    """What is missing or can't be in a declaration, each with its place."""
    if isinstance(declared, tuple):
        for number, item in enumerate(declared):
            yield from faults(item, f"{place}[{number}]")
    if not is_dataclass(declared) or isinstance(declared, type):
        return
    before = f"{place}." if place else ""
    for name in _needed(declared):
        if not getattr(declared, name):
            yield f"{before}{name}: must not be empty"
    for field in fields(declared):
        value, where = getattr(declared, field.name), before + field.name
        if isinstance(value, tuple) and (type(declared), field.name) not in _EMPTY_TEXTS:
            yield from (f"{where}[{number}]: must not be empty" for number, text in enumerate(value) if text == "")
        if names := _FILLED.get((type(declared), field.name)):
            yield from _unfilled(value, names, where)
        yield from faults(value, where)
    yield from (before + fault for fault in _clashes(declared))


def _needed(declared: Any) -> tuple[str, ...]:
    """The fields that must not be empty, given the others."""
    needed = _NEEDED.get(type(declared), ())
    match declared:
        case PythonCalls() if declared.statements or not declared.bare:
            needed += ("open", "close")
        case TaggedCalls():
            needed += ("call_close",) if declared.call_open else ()
            needed += ("section_open",) if declared.section_per_call else ()
            needed += ("section_close",) if declared.section_open else ()
    return needed


def _clashes(declared: Any) -> Iterator[str]:
    """Values that are wrong by themselves or beside others."""
    match declared:
        case Frame(open="", close=""):
            yield "open: must not be empty where close is"
        case NamedCalls(id_size=size) if size < 0:
            yield f"id_size: {size} is less than 0"
        case Format(calls=JsonCalls(open=(), bare=False)):
            yield "calls.open: must not be empty unless the calls are bare"
        case Format(calls=NamedCalls(open="", header_end=())):
            yield "calls.open: must not be empty where calls.header_end is: nothing tells a call from text"
        case Format(calls=PythonCalls(statements=False)) if "," not in declared.between_calls:
            yield "between_calls: must have a comma in it, since the calls stand in a list"
        case ChannelCalls(calls_in_content=True) if not isinstance(declared.body, TaggedCalls):
            yield "calls_in_content: only a body of the shape 'tagged' can be told from content"


def _unfilled(text: str, names: tuple[str, ...], where: str) -> Iterator[str]:
    """What of a text the writer could not fill in."""
    hint = f"only {' and '.join(f'{{{name}}}' for name in names)} may stand in it; write other braces twice"
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        yield f"{where}: {text!r}: {error}; {hint}"
    else:
        for _, name, spec, conversion in parts:
            if name is not None and (name not in names or spec or conversion):
                yield f"{where}: {text!r} has {{{name}}}; {hint}"
