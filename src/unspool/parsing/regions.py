"""Turns as a checkpoint's response template declares them: regions between two expressions.

Outside a region the first opener wins, inside only the region's own closer counts. What stands outside belongs to
the region without an opener, if there is one.

The layout around a region's text is not part of it, unless the template says ``"strip": false``: it waits for
what follows. At most :data:`HOLD` characters do; a longer run is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from unspool.parsing.declaration import Region, RegionCalls
from unspool.parsing.delimiters import Delimiter, Delimiters, Found
from unspool.parsing.expressions import Text
from unspool.parsing.reader import Reader
from unspool.parsing.region_calls import Reading, after, buffered, compiled_region, layout_stop
from unspool.parsing.scanner import pattern
from unspool.parsing.signals import HOLD, NotACall, Steps, Unfinished, content_sink, reasoning_sink

_layout = pattern(r"\s*+").match


@dataclass(frozen=True, slots=True)
class _Grammar:
    readings: Mapping[str, Reading]
    outside: Delimiters
    sink: Reading | None
    ahead: Reading | None
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
    readings = {each.name: compiled_region(each, openers if each.ends_at_call else []) for each in shape.regions}
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
        Delimiters(marks, stops="" if sink is None else layout_stop(sink.region)),
        sink,
        next((reading for reading in readings.values() if reading.region.ahead), None),
        frozenset(region.name for region in shape.regions if region.kind == "calls"),
    )


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
            prefilled = r.in_prompt
            opener = r.text[found.start : found.end]
            yield from _pass(r, mark, found, f"{'closes' if closes else 'opens'} {reading.region.name!r}")
            if closes:
                reading = None
                continue
            if prefilled and (size := (yield from r.ahead((opener,)))):
                r.take(r.pos + size, "framing", "opener repeated after the prompt's")
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
    yield from after(r, mark)


def _ahead(r: Reader, reading: Reading) -> Steps[Reading | None]:
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


def _text(r: Reader, watch: Delimiters, g: _Grammar, reading: Reading | None, said: _Said) -> Steps[Found | None]:
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
    r: Reader, reading: Reading, call: Reading, found: Found
) -> Steps[Literal["text", "drafted", "call"]]:
    """What a call's opener inside a region means that was never opened in the output.

    It ends the region if it opens a call to an offered tool and no closer follows; from such an opener on, the
    text waits for the closer or the end. Nothing is read for good.
    """
    if not (yield from _offered(r, call, reading.watch.marks[call.region.name], found)):
        return "text"
    name = reading.region.name
    if name not in r.unclosed and (yield from _comes(r, reading.closer)):
        return "drafted"
    r.unclosed.add(name)
    return "call"


def _offered(r: Reader, call: Reading, mark: Delimiter, found: Found) -> Steps[bool]:
    """Whether an opener opens a call to an offered tool."""
    if call.name:
        return r.spell(found.groups.get(call.name, "")) in r.tools
    if call.read is buffered:
        return False
    size = found.end - r.pos

    def attempt() -> Steps[None]:
        r.take(r.pos + size)
        yield from after(r, mark)
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


def _verbatim(r: Reader, reading: Reading, found: Found, said: _Said) -> Steps[None]:
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


def _call(r: Reader, reading: Reading, found: Found, mark: Delimiter, said: _Said) -> Steps[None]:
    r.begin_call()
    start = r.offset
    try:
        yield from _pass(r, mark, found, "opens a call")
        yield from reading.read(r, reading, {key: r.spell(text) for key, text in found.groups.items()})
    except NotACall as why:
        nothing = r.offset == start
        # What its region had is text as a whole; the next opener is looked for behind it.
        r.settle()
        r.reject_call(why)
        said.kinds.add("content")
        if nothing:
            # An opener that is only a look ahead: the text behind it is none of a call.
            r.content(min(r.pos + 1, len(r.text)), f"no call: {why}")
        return
    r.end_call()
