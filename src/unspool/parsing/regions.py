"""Turns as a checkpoint's response template declares them: regions between two expressions.

Outside a region the first opener wins, inside only the region's own closer counts. What stands outside belongs to
the region without an opener, if there is one. A call's arguments are read by their own grammar where they are
JSON or Python, so that a closer inside a string is letters and the arguments can stream; otherwise the region is
read as a whole once it has closed.

The layout around a region's text is not part of it, unless the template says ``"strip": false``: it waits for
what follows. At most :data:`HOLD` characters do; a longer run is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from unspool.parsing.calls import json_calls, python_calls
from unspool.parsing.codecs.json import finish_arguments, json_object, load, stop
from unspool.parsing.codecs.relaxed import relaxed_object
from unspool.parsing.contents import PLACEHOLDER, calls_of
from unspool.parsing.declaration import JsonCalls, PythonCalls, Region, RegionCalls
from unspool.parsing.delimiters import Delimiter, Delimiters, Found
from unspool.parsing.expressions import Expression, Text, names
from unspool.parsing.reader import HOLD, NotACall, Reader, Steps, Unfinished, content_sink, reasoning_sink
from unspool.parsing.scanner import Watch, pattern

_Read: TypeAlias = "Callable[[Reader, _Reading, Mapping[str, str]], Steps[None]]"

_layout = pattern(r"\s*+").match
_in_string = pattern(r'(?:[^"\\]|\\.)*+').match


@dataclass(frozen=True, slots=True)
class _Reading:
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


@dataclass(frozen=True, slots=True)
class _Grammar:
    readings: Mapping[str, _Reading]
    outside: Delimiters
    sink: _Reading | None
    ahead: _Reading | None
    calls: frozenset[str]
    """The names of the regions that are calls."""


@dataclass(slots=True)
class _Said:
    """What the turn has said: kinds of text, and how many characters of layout last if too many to wait."""

    kinds: set[str] = field(default_factory=set)
    run: int = 0


@lru_cache(maxsize=128)
def _compiled(shape: RegionCalls, offered: bool) -> _Grammar:
    openers = [(each.name, each.open, False) for each in shape.regions if each.kind == "calls"] if offered else []
    readings = {region.name: _reading(region, openers if region.ends_at_call else []) for region in shape.regions}
    sink = next((each for each in readings.values() if not (each.region.open or each.region.ahead)), None)
    marks = [
        (region.name, region.open, False)
        for region in shape.regions
        # What nobody offered is text like the text around it.
        if region.open and (offered or region.kind != "calls" or sink is None)
    ]
    if sink is not None and sink.region.close:
        marks.append((sink.region.name, sink.region.close, True))
    return _Grammar(
        readings,
        Delimiters(marks, stops="" if sink is None else _layout_stop(sink.region)),
        sink,
        next((reading for reading in readings.values() if reading.region.ahead), None),
        frozenset(region.name for region in shape.regions if region.kind == "calls"),
    )


def _layout_stop(region: Region) -> str:
    return r"\s\Z" if region.content.strip and region.kind != "calls" else ""


def _reading(region: Region, calls: Sequence[tuple[str, Expression, bool]]) -> _Reading:
    marks = [(region.name, region.close, True)] if region.close else []
    read, name, objects = _arguments_reader(region) if region.kind == "calls" else (_buffered, "", JsonCalls())
    quotes = {}
    if region.kind == "calls" and read is _buffered and region.content.parser == "json":
        pairs = (*region.content.string_delims, ('"', '"'))
        quotes = {f"{region.name} quote {number}": closing for number, (_, closing) in enumerate(pairs)}
        marks += [(key, (Text(opening),), True) for key, (opening, _) in zip(quotes, pairs, strict=True)]
    stops = _layout_stop(region)
    closer = Delimiters(marks, stops=stops)
    watch = Delimiters([*marks, *calls], stops=stops) if calls else closer
    return _Reading(region, closer, watch, read, name, objects, quotes)


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
        return (_objects if plain and not region.each else _buffered), "", objects
    name, arguments = _placeholder(function.get("name")), _placeholder(function.get("arguments"))
    group = name if name in names(region.open) else ""
    prefix = "" if region.each else "content."
    members = [path.removeprefix(prefix) for path in (name, arguments) if path.startswith(prefix)]
    if plain and not group and len(members) == 2 and all(key and "." not in key for key in members):
        return _objects, "", JsonCalls(name_keys=(members[0],), arguments_keys=(members[1],))
    if region.each or arguments != "content" or not group or content.parser != "json":
        return _buffered, group, objects
    if plain:
        return _named, group, objects
    one = len(content.string_delims) == 1 and content.string_delims[0][0] == content.string_delims[0][1]
    return (_relaxed if one else _buffered), group, objects


def _placeholder(value: Any) -> str:
    found = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return found.group(1) if found else ""


def regions(r: Reader, shape: RegionCalls, *, offered: bool) -> Steps[None]:
    """Reads a whole turn."""
    g = _compiled(shape, offered)
    said = _Said()
    reading = (yield from _ahead(r, g.ahead)) if g.ahead is not None else None
    while True:
        if reading is None:
            found = yield from _text(r, g.outside, g, None, said)
            if found is None:
                return
            reading = g.readings[found.name or ""]
            mark = g.outside.marks[found.name or ""]
            if reading.region.kind == "calls" and reading is not g.sink:
                if offered:
                    yield from _call(r, reading, found, mark, said)
                else:
                    yield from _verbatim(r, reading, found, said)
                reading = None
                continue
            closes = reading is g.sink
            yield from _pass(r, mark, found, f"{'closes' if closes else 'opens'} {reading.region.name!r}")
            if closes:
                reading = None
                continue
        found = yield from _text(r, reading.watch, g, reading, said)
        if found is None:
            return
        if found.name in g.calls:
            reading = None
            continue
        yield from _pass(r, reading.closer.marks[reading.region.name], found, f"closes {reading.region.name!r}")
        reading = None


def _pass(r: Reader, mark: Delimiter, found: Found, note: str) -> Steps[None]:
    """Reads a delimiter and the layout behind it."""
    r.take(found.end, "framing", note)
    yield from _after(r, mark)


def _after(r: Reader, mark: Delimiter) -> Steps[None]:
    for _ in range(mark.most_after):
        while r.pos == len(r.text):
            if r.final:
                return
            yield
        if mark.after is None or mark.after(r.text, r.pos) is None:
            return
        r.take(r.pos + 1, "framing", "layout behind a delimiter")


def _ahead(r: Reader, reading: _Reading) -> Steps[_Reading | None]:
    """Whether the output starts in the region whose closer comes somewhere ahead; all of it waits for that.

    Only where the prompt doesn't say it.
    """
    while r.pos == len(r.text):
        if r.final:
            return None
        yield
    if r.in_prompt:
        return None
    comes = yield from _comes(r, Delimiters([("ahead", (Text(reading.region.ahead),), True)]))
    opener = reading.region.open
    begins = bool(opener) and isinstance(opener[0], Text) and r.text.lstrip().startswith(opener[0].text)
    return reading if comes and not begins else None


def _comes(r: Reader, closer: Delimiters) -> Steps[bool]:
    """Whether a delimiter comes before the end; all text waits for the answer, and none is read for good."""
    start = r.offset
    held: list[str] = []

    def hold(delta: str) -> list[Any]:
        held.append(delta)
        return []

    while True:
        found = closer.find(r.text, r.pos, r.final)
        comes = found is not None and found.name is not None
        if comes or r.final:
            r.rewind("".join(held) + r.text[r.pos :], start)
            return comes
        held.append(r.take(found.start if found else len(r.text), "framing", "waits for a closer"))
        if found is None:
            r.flow(closer.stop, hold)
        yield


@dataclass(slots=True)
class _Stretch:
    """Text that is being read: ``lead`` while only layout came, ``begun`` once it was said in this region."""

    r: Reader
    region: Region | None
    said: _Said
    lead: bool
    begun: bool = False

    @property
    def reasons(self) -> bool:
        """Whether it is reasoning."""
        return self.region is not None and self.region.kind == "reasoning"

    def say(self, end: int, note: str = "") -> None:
        """Says the text up to ``end``; without a region it is dropped."""
        r, region = self.r, self.region
        if region is None:
            r.take(end, "framing", "outside every region")
        elif end > r.pos:
            if not self.begun and region.join and region.kind in self.said.kinds:
                r.insert(region.join, reasoning=self.reasons)
            self.begun = True
            self.said.kinds.add(region.kind)
            if self.reasons:
                r.reasoning(end, note or "inside reasoning")
            else:
                r.content(end, note or "plain text")

    def read(self, end: int) -> None:
        """Says what is certain of the text up to ``end``, without the layout around it."""
        r, region = self.r, self.region
        if self.lead:
            ahead = min(_layout_end(r.text, r.pos), end)
            if ahead == end and ahead - r.pos <= HOLD:
                return
            self.lead = False
            first = region is not None and (region.join is not None or region.kind not in self.said.kinds)
            if first and ahead - r.pos <= HOLD:
                r.take(ahead, "framing", "layout around a region")
        strip = region is not None and region.content.strip
        self.say(_end_of_text(r, end, self.said) if strip else end)


def _text(r: Reader, watch: Delimiters, g: _Grammar, reading: _Reading | None, said: _Said) -> Steps[Found | None]:
    """Reads text up to the next delimiter, or to the end (``None``); without ``reading`` that outside regions."""
    said.run = 0
    shown = reading or g.sink
    region = None if shown is None else shown.region
    stretch = _Stretch(r, region, said, lead=region is not None and region.content.strip)
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start if found else len(r.text)
        stretch.read(end)
        if reading is not None and found is not None and found.name and found.name in g.calls:
            size = found.end - r.pos
            verdict = yield from _verdict(r, reading, g.readings[found.name], found)
            if verdict == "text":
                stretch.lead = False
                stretch.say(r.pos + size, "a marker that opens no call")
                continue
            if verdict == "drafted":
                watch = reading.closer
                continue
            found = watch.find(r.text, r.pos, r.final)
            end = found.start if found else len(r.text)
        if r.final if found is None else found.name is not None:
            # If the call turns out to be none, the layout before it is text.
            if reading is not None or stretch.lead or found is None or found.name not in g.calls:
                r.take(end, "framing", "layout around a region")
            return found
        if stretch.begun and found is None and not said.run:
            r.flow(watch.stop, reasoning_sink if stretch.reasons else content_sink)
        yield


def _verdict(
    r: Reader, reading: _Reading, call: _Reading, found: Found
) -> Steps[Literal["text", "drafted", "call"]]:
    """What a call's opener inside a region means that was never opened in the output.

    It ends the region if it opens a call to an offered tool and no closer follows; from such an opener on, the
    text waits for the closer or the end. Nothing is read for good.
    """
    if not (yield from _offered(r, call, reading.watch.marks[call.region.name], found)):
        return "text"
    return "drafted" if (yield from _comes(r, reading.closer)) else "call"


def _offered(r: Reader, call: _Reading, mark: Delimiter, found: Found) -> Steps[bool]:
    """Whether an opener opens a call to an offered tool."""
    if call.name:
        return r.spell(found.groups.get(call.name, "")) in r.tools
    if call.read is _buffered:
        return False
    size = found.end - r.pos

    def attempt() -> Steps[None]:
        r.take(r.pos + size)
        yield from _after(r, mark)
        yield from call.read(r, call, {})

    try:
        return (yield from r.probe(attempt())) in r.tools
    except Unfinished:
        return False


def _layout_end(text: str, pos: int) -> int:
    found = _layout(text, pos)
    assert found is not None
    return found.end()


def _end_of_text(r: Reader, end: int, said: _Said) -> int:
    """Where the text before ``end`` ends without its layout, unless there is so much that it is text."""
    size = end - r.pos
    if not size:
        return end
    layout = size - len(r.text[r.pos : end].rstrip())
    run = layout + (said.run if layout == size else 0)
    if run > HOLD:
        said.run = run
        return end
    if layout < size:
        said.run = 0
    return end - layout


def _verbatim(r: Reader, reading: _Reading, found: Found, said: _Said) -> Steps[None]:
    """Reads a call that nobody offered, where text outside regions would be dropped: content, as it is."""
    note = "a call, but no tools were offered"
    said.kinds.add("content")
    r.content(found.end, note)
    while True:
        closer = reading.closer.find(r.text, r.pos, r.final)
        if closer is not None and closer.name == reading.region.name:
            r.content(closer.end, note)
            return
        r.content(closer.start if closer and closer.name is None else len(r.text), note)
        if r.final:
            return
        yield


def _call(r: Reader, reading: _Reading, found: Found, mark: Delimiter, said: _Said) -> Steps[None]:
    r.begin_call()
    start = r.offset
    try:
        yield from _pass(r, mark, found, "opens a call")
        yield from reading.read(r, reading, {key: r.spell(text) for key, text in found.groups.items()})
    except NotACall as why:
        nothing = r.offset == start
        r.reject_call(why)
        said.kinds.add("content")
        if nothing:
            # An opener that is only a look ahead: the text behind it is none of a call.
            r.content(min(r.pos + 1, len(r.text)), f"no call: {why}")
        return
    r.end_call()


def _named(r: Reader, reading: _Reading, groups: Mapping[str, str]) -> Steps[None]:
    """The name stood in the opener; the region is the arguments, one JSON object."""
    yield from _start(r, reading, groups)
    yield from json_object(r, r.arguments, streams=True)
    finish_arguments(r)
    r.end_call()
    yield from _trail(r, reading)


def _relaxed(r: Reader, reading: _Reading, groups: Mapping[str, str]) -> Steps[None]:
    """Like :func:`_named`, with bare keys and strings between markers of their own."""
    yield from _start(r, reading, groups)
    yield from relaxed_object(r, reading.region.content.string_delims[0][0])
    finish_arguments(r)
    r.end_call()
    yield from _trail(r, reading)


def _start(r: Reader, reading: _Reading, groups: Mapping[str, str]) -> Steps[None]:
    name = groups.get(reading.name, "")
    if not name.strip():
        raise NotACall("the call has no name")
    yield from r.space()
    if not (yield from r.at(("{",))):
        stop(r, "the arguments are no object")
    r.start_call(name)


def _objects(r: Reader, reading: _Reading, _: Mapping[str, str]) -> Steps[None]:
    """The region is an object that holds a call's name and arguments, or a list of them."""
    yield from json_calls(r, reading.objects, "a region")
    yield from _trail(r, reading)


def _python(r: Reader, reading: _Reading, _: Mapping[str, str]) -> Steps[None]:
    """The region is a list of keyword calls."""
    yield from python_calls(r, PythonCalls(), "a region")
    yield from _trail(r, reading)


def _trail(r: Reader, reading: _Reading) -> Steps[None]:
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
            yield from _after(r, watch.marks[reading.region.name])
            return
        if ends or (not near and len(window) > HOLD):
            return
        yield


def _buffered(r: Reader, reading: _Reading, groups: Mapping[str, str]) -> Steps[None]:
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
        yield from _after(r, watch.marks[region.name])


def _quoted(r: Reader, closing: str, parts: list[str]) -> Steps[None]:
    """Reads the rest of a string, in which a closer is letters."""
    watch = Watch(("", (closing,)))
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
