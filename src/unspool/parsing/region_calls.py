"""The calls in a response template's regions: from behind the opener to behind the closer.

Arguments that are JSON or Python are read by their own grammar, so that a closer inside a string is letters and
the arguments can stream. Any other region is read as a whole, once it has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from unspool.parsing.calls import json_calls, python_calls
from unspool.parsing.codecs.json import finish_arguments, json_object, load
from unspool.parsing.codecs.relaxed import quote_watch, relaxed_object
from unspool.parsing.contents import PLACEHOLDER, calls_of
from unspool.parsing.declaration import JsonCalls, PythonCalls, Region
from unspool.parsing.delimiters import Delimiter, Delimiters, Found
from unspool.parsing.expressions import Expression, Text, names
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import pattern
from unspool.parsing.signals import HOLD, NotACall, Steps, Unfinished

_Read: TypeAlias = "Callable[[Reader, Reading, Mapping[str, str]], Steps[None]]"

_in_string = pattern(r'(?:[^"\\]|\\.)*+').match


@dataclass(frozen=True, slots=True)
class Reading:
    """One region, compiled. ``closer`` is looked for inside, ``watch`` as well finds the calls that may end it.

    ``name`` is the group of the opener that names the call.
    """

    region: Region
    closer: Delimiters
    watch: Delimiters
    read: _Read
    name: str = ""
    objects: JsonCalls = field(default_factory=JsonCalls)
    quotes: Mapping[str, str] = field(default_factory=dict)


def layout_stop(region: Region) -> str:
    """What besides delimiters keeps a region's text from flowing: layout that may turn out to be its end."""
    return r"\s\Z" if region.content.strip and region.kind != "calls" else ""


def compiled_region(region: Region, calls: Sequence[tuple[str, Expression, bool]]) -> Reading:
    """A region, ready to be read; ``calls`` are the openers that may end it."""
    marks = [(region.name, region.close, True)] if region.close else []
    read, name, objects = _arguments_reader(region) if region.kind == "calls" else (buffered, "", JsonCalls())
    quotes = {}
    if region.kind == "calls" and read is buffered and region.content.parser == "json":
        pairs = (*region.content.string_delims, ('"', '"'))
        quotes = {f"{region.name} quote {number}": closing for number, (_, closing) in enumerate(pairs)}
        marks += [(key, (Text(opening),), True) for key, (opening, _) in zip(quotes, pairs, strict=True)]
    stops = layout_stop(region)
    closer = Delimiters(marks, stops=stops)
    watch = Delimiters([*marks, *calls], stops=stops) if calls else closer
    return Reading(region, closer, watch, read, name, objects, quotes)


def _arguments_reader(region: Region) -> tuple[_Read, str, JsonCalls]:
    """How the text of a call's region is read: by which reader, the call's name, the members of its object."""
    content = region.content
    objects = JsonCalls()
    if content.parser == "python-call-list":
        return _python, "", objects
    plain = content.parser == "json" and not (content.string_delims or content.unquoted_keys)
    made = load(region.transform) if region.transform else "{content}"
    function = made.get("function", made) if isinstance(made, dict) else made
    if not isinstance(function, dict):
        # Without a transform the text may be the whole call, in which the function is a member.
        return (_objects if plain and not region.each and isinstance(made, dict) else buffered), "", objects
    name, arguments = _placeholder(function.get("name")), _placeholder(function.get("arguments"))
    group = name if name in names(region.open) else ""
    prefix = "" if region.each else "content."
    members = [path.removeprefix(prefix) for path in (name, arguments) if path.startswith(prefix)]
    if plain and not group and len(members) == 2 and all(key and "." not in key for key in members):
        return _objects, "", JsonCalls(name_keys=(members[0],), arguments_keys=(members[1],))
    if region.each or arguments != "content" or not group or content.parser != "json":
        return buffered, group, objects
    if plain:
        return _named, group, objects
    one = len(content.string_delims) == 1 and content.string_delims[0][0] == content.string_delims[0][1]
    return (_relaxed if one else buffered), group, objects


def _placeholder(value: Any) -> str:
    found = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return found.group(1) if found else ""


def after(r: Reader, mark: Delimiter) -> Steps[None]:
    """Skips the layout behind a delimiter."""
    for _ in range(mark.most_after):
        while r.pos == len(r.text):
            if r.final:
                return
            yield
        if mark.after is None or mark.after(r.text, r.pos) is None:
            return
        r.take(r.pos + 1, "framing", "layout behind a delimiter")


def _named(r: Reader, reading: Reading, groups: Mapping[str, str]) -> Steps[None]:
    """The name stood in the opener; the region is the arguments, one JSON object."""
    yield from _start(r, reading, groups)
    yield from json_object(r, r.arguments, streams=True)
    finish_arguments(r)
    r.end_call()
    yield from _trail(r, reading)


def _relaxed(r: Reader, reading: Reading, groups: Mapping[str, str]) -> Steps[None]:
    """Like :func:`_named`, with bare keys and strings between markers of their own."""
    yield from _start(r, reading, groups)
    yield from relaxed_object(r, reading.region.content.string_delims[0][0])
    finish_arguments(r)
    r.end_call()
    yield from _trail(r, reading)


def _start(r: Reader, reading: Reading, groups: Mapping[str, str]) -> Steps[None]:
    name = groups.get(reading.name, "")
    if not name.strip():
        raise NotACall("the call has no name")
    yield from r.space()
    if not (yield from r.at(("{",))):
        stop(r, "the arguments are no object")
    r.start_call(name)


def _objects(r: Reader, reading: Reading, _: Mapping[str, str]) -> Steps[None]:
    """The region is an object that holds a call's name and arguments, or a list of them."""
    yield from json_calls(r, reading.objects, "a region")
    yield from _trail(r, reading)


def _python(r: Reader, reading: Reading, _: Mapping[str, str]) -> Steps[None]:
    """The region is a list of keyword calls."""
    yield from python_calls(r, PythonCalls(), "a region")
    yield from _trail(r, reading)


def _trail(r: Reader, reading: Reading) -> Steps[None]:
    """Reads the closer behind complete arguments, with the noise before it; it may be missing."""
    watch = reading.closer
    if not watch.marks:
        return
    while True:
        window = r.text[r.pos : r.pos + HOLD + watch.widest]
        ends = r.final and r.pos + len(window) == len(r.text)
        found = watch.find(window, 0, ends)
        if ends and found is None and (begun := watch.find(window, 0, False)):
            found = Found(begun.start, len(window), reading.region.name)
        near = found is not None and found.start <= HOLD
        if near and found is not None and found.name is not None:
            start = r.pos
            if any(map(str.isalnum, window[: found.start])):
                r.content(start + found.start, "text before a closer")
            r.take(start + found.end, "framing", "closes the call")
            yield from after(r, watch.marks[reading.region.name])
            return
        if ends or (not near and len(window) > HOLD):
            return
        yield


def buffered(r: Reader, reading: Reading, groups: Mapping[str, str]) -> Steps[None]:
    """The region is read as a whole."""
    region, watch = reading.region, reading.closer
    parts: list[str] = []
    while True:
        found = watch.find(r.text, r.pos, r.final)
        ends = r.final and found is None
        begun = watch.find(r.text, r.pos, False) if ends else found
        parts.append(r.take(begun.start if begun else len(r.text), "arguments", "a call's region"))
        if ends and r.cut:
            raise Unfinished("the text ends inside a call")
        if ends or (found is not None and found.name == region.name):
            break
        if found is not None and found.name is not None:
            parts.append(r.take(found.end, "arguments", "quote"))
            yield from _quoted(r, reading.quotes[found.name], parts)
            continue
        if found is None:
            r.flow(watch.stop, r.raw_sink(parts))
        yield
    r.take(len(r.text) if found is None else found.end, "framing", "closes the call")
    scope = {**groups, **({} if found is None else {key: r.spell(text) for key, text in found.groups.items()})}
    try:
        calls = calls_of(region, "".join(parts), scope, r.tools, r.spell, closed=found is not None)
    except (ValueError, RecursionError) as why:
        raise NotACall(str(why)) from None
    for name, arguments in calls:
        r.start_call(name)
        r.arguments(arguments)
        r.close_call()
    r.end_call()
    if found is not None:
        yield from after(r, watch.marks[region.name])


def _quoted(r: Reader, closing: str, parts: list[str]) -> Steps[None]:
    """Reads the rest of a string, in which a closer is letters."""
    watch = quote_watch(closing)
    while True:
        if closing == '"':
            inside = _in_string(r.text, r.pos)
            assert inside is not None
            end, close = inside.end(), inside.end() + 1
            whole = r.text.startswith('"', end)
        else:
            found = watch.find(r.text, r.pos, r.final)
            end = found.start() if found else len(r.text)
            close = found.end() if found else end
            whole = found is not None and found.lastindex is not None
        parts.append(r.take(close if whole else end, "arguments", "string"))
        if whole:
            return
        if r.final:
            raise Unfinished("the text ends inside a string")
        yield
