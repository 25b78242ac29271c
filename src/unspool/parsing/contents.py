"""What the text of a response template's region means: content parsers, and the template a call is made from.

Everything here reads the text of one region as a whole, once, when the region has closed. Whatever is wrong with
that text is a ``ValueError``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from unspool.parsing.codecs.json import dump, load, load_spelled, quote
from unspool.parsing.declaration import Region, RegionContent
from unspool.parsing.expressions import Class, Expression, Group, Opaque, Repeat, Text, anything, ended, single
from unspool.parsing.scanner import pattern
from unspool.parsing.schema import UNTYPED, Tool, Types, convert

Spell = Callable[[str], str]

PLACEHOLDER = pattern(r"\{(\w+(?:\.\w+)*)\}")
"""What a string of a transform may be, as a whole: a value's name, and keys inside that value."""

_TEXTUAL = ("xml-inline", "kv-lines")


def calls_of(
    region: Region, text: str, groups: Mapping[str, str], tools: Mapping[str, Tool], spell: Spell, *, closed: bool
) -> list[tuple[str, str]]:
    """Name and arguments (JSON text) of each call that a region's text spells.

    ``groups`` are the named groups of its delimiters, ``spell`` writes special tokens out. Without a closer the
    text must be whole by itself.
    """
    value = _read(region.content, text, spell, closed=closed)
    made = _made(region, value, groups)
    textual = region.content.parser in _TEXTUAL
    return [_call(call, tools, textual=textual) for call in (made if isinstance(made, list) else [made])]


def _made(region: Region, value: Any, groups: Mapping[str, str]) -> Any:
    if not region.transform:
        return value
    transform = load(region.transform)
    if not region.each:
        return _apply(transform, {**groups, "content": value})
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("the region holds no list of objects")
    return [_apply(transform, {**groups, **item}) for item in value]


def _apply(transform: Any, scope: Mapping[str, Any]) -> Any:
    """The transform with its placeholders filled in."""
    if isinstance(transform, dict):
        return {key: _apply(value, scope) for key, value in transform.items()}
    if isinstance(transform, list):
        return [_apply(value, scope) for value in transform]
    found = PLACEHOLDER.fullmatch(transform) if isinstance(transform, str) else None
    if found is None:
        return transform
    value: Any = scope
    for key in found.group(1).split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise ValueError(f"the region has no {found.group(1)!r}")
        value = value[key]
    return value


def _call(call: Any, tools: Mapping[str, Tool], *, textual: bool) -> tuple[str, str]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise ValueError("the region holds no call")
    name = function.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the call has no name")
    tool = tools.get(name)
    arguments = function.get("arguments", function.get("parameters"))
    if isinstance(arguments, str):
        arguments = load_spelled(arguments) if arguments.strip() else {}
    elif arguments is None:
        if tool is None or tool.required:
            raise ValueError("the call has no arguments")
        arguments = {}
    if not isinstance(arguments, dict):
        raise ValueError("the arguments are no object")
    if not textual:
        return name, dump(arguments)
    members = (f"{quote(key)}: {_typed(value, _types(tool, key))}" for key, value in arguments.items())
    return name, "{" + ", ".join(members) + "}"


def _types(tool: Tool | None, parameter: str) -> Types:
    return UNTYPED if tool is None else tool.type_of(parameter)


def _typed(value: Any, types: Types) -> str:
    """The JSON text of an argument: text by the parameter's types, and text where the schema is silent."""
    if isinstance(value, str):
        return convert(value, types) if types else quote(value)
    if isinstance(value, list) and types and "array" not in types:
        return f"[{', '.join(_typed(item, types) for item in value)}]"
    return dump(value)


def _read(content: RegionContent, text: str, spell: Spell, *, closed: bool = True) -> Any:
    """The value that a content parser makes of a text."""
    match content.parser:
        case "json":
            return _json(content, text, spell)
        case "xml-inline":
            return _elements(content, text, spell, closed=closed)
        case "kv-lines":
            return _lines(content, text, spell)
    plain = _text(content, spell(text))
    match content.parser:
        case "int":
            return int(plain)
        case "float":
            return float(plain)
        case "bool":
            return plain.lower() in ("true", "1")
    return plain


def _text(content: RegionContent, text: str) -> str:
    return text.strip() if content.strip else text


def _value(content: RegionContent, text: str, spell: Spell) -> Any:
    return spell(text) if content.value is None else _read(content.value, text, spell)


def _json(content: RegionContent, text: str, spell: Spell) -> Any:
    try:
        return load_spelled(spell(_plain_json(content, text)))
    except ValueError:
        if content.allow_non_json:
            return _text(content, spell(text))
        raise


def _plain_json(content: RegionContent, text: str) -> str:
    """The text with bare keys quoted and strings between other delimiters in JSON's quotes, left to right."""
    # What has no end goes to the end of the text: nothing later is tried as its beginning.
    sources = [r'"(?:[^"\\]|\\.)*+"?']
    for number, (opening, closing) in enumerate(content.string_delims):
        sources.append(f"{re.escape(opening)}(?P<string{number}>.*?){re.escape(closing)}")
        sources.append(f"{re.escape(opening)}.*")
    if content.unquoted_keys:
        sources.append(r"(?<=[{,])(?P<before>\s*)(?P<key>\w+)(?P<after>\s*):")

    def mended(found: re.Match[str]) -> str:
        if found.lastgroup is None:
            return found.group()
        if found.lastgroup == "after":
            return f"{found['before']}{quote(found['key'])}{found['after']}:"
        return quote(found[found.lastgroup])

    return pattern("|".join(sources)).sub(mended, text)


@dataclass(frozen=True, slots=True)
class _Tag:
    """One element's expression, so compiled that elements which never end cost no more than others.

    ``ending``: no element ends behind the last place where this text stands. ``stripped``: the value's last layout
    is none of it.
    """

    find: re.Pattern[str]
    ending: str
    stripped: bool
    kept: bool


@lru_cache(maxsize=64)
def _tag(tag: Expression) -> _Tag:
    stripped = False
    match tag:
        case (
            *before,
            Group((Repeat((Class(),), _, None, "?") as text,), "value") as value,
            layout,
            Text() as ending,
        ):
            if anything(text) and isinstance(layout, Repeat) and single(layout) == r"\s" and not layout.least:
                stripped, tag = True, (*before, value, ending)
    source = "".join(ended((node,), bounded=isinstance(node, Group) and node.name == "key") for node in tag)
    last = tag[-1]
    return _Tag(pattern(source), last.text if isinstance(last, Text) else "", stripped, isinstance(last, Opaque))


def _elements(content: RegionContent, text: str, spell: Spell, *, closed: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    merged: set[str] = set()
    tag = _tag(content.tag)
    text = spell(text) if tag.kept else text
    end = 0
    most = text.rfind(tag.ending) + len(tag.ending) if tag.ending in text else 0
    for found in tag.find.finditer(text[:most]):
        end = found.end()
        groups = found.groupdict()
        key = spell(groups["key"] or "")
        raw = groups.get("value") or ""
        value = _value(content, raw.rstrip() if tag.stripped else raw, spell)
        if key in out and content.merge_duplicates:
            if key not in merged:
                merged.add(key)
                out[key] = [out[key]]
            out[key].append(value)
        else:
            out[key] = value
    # Text without one element makes no call without arguments, and a text that was cut may miss some.
    if (not out or not closed) and text[end:].strip():
        raise ValueError("the region holds something else than elements")
    return out


def _lines(content: RegionContent, text: str, spell: Spell) -> dict[str, Any]:
    out = {}
    for line in text.split(content.line_sep):
        key, separator, value = _text(content, line).partition(content.kv_sep)
        if separator:
            out[spell(_text(content, key))] = _value(content, _text(content, value), spell)
    if not out and text.strip():
        raise ValueError("the region holds no lines of keys and values")
    return out
