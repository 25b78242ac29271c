"""Messages whose header routes them (Harmony and its kin): reasoning, content, or calls.

A turn is a row of messages: header, marker, body, end marker. The header decides what the body is. A header that
never reaches its body is skipped up to the next message, so one garbled message costs nothing but itself. Bodies
of built-in tools (recipients that are no function) are framing: the server that has such tools reads them from
the raw text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from unspool.parsing.calls import json_calls, routed_calls, tagged_calls
from unspool.parsing.codecs.json import finish_arguments, json_object
from unspool.parsing.codecs.tagged import tagged_arguments, tagged_call
from unspool.parsing.declaration import ChannelCalls, JsonArguments, JsonCalls, NamedCalls, TaggedCalls
from unspool.parsing.markers import cut_closer, cut_marker
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.signals import HEADER, HOLD, Finder, NotACall, Steps, no_space

_RECIPIENT = pattern(r"(?:^|\s)to=(\S+)")
_WORD = pattern(r"\S*+")

Route: TypeAlias = Literal["reasoning", "content", "call", "drop"]


@dataclass(frozen=True, slots=True)
class _Messages:
    """A declaration, compiled."""

    shape: ChannelCalls
    routes: Mapping[str, Route]
    """By channel, recipient or marker."""
    marks: tuple[str, ...]
    """What ends a header."""
    begins: tuple[str, ...]
    """What a header begins with, unless it is a word."""
    stops: tuple[str, ...]
    """What ends a body, or begins the next message."""
    header: Watch
    """Group 1 begins the body, group 2 ends the message before it had one, group 3 starts another message."""
    text: Watch
    """Group 1 ends a body, group 2 starts the next message without an end."""
    word_end: Finder
    """Finds what ends a word before a marker, the beginning of the marker included."""
    body: JsonArguments | JsonCalls | NamedCalls | TaggedCalls


@lru_cache(maxsize=64)
def _compiled(shape: ChannelCalls) -> _Messages:
    routes: dict[str, Route] = {
        **dict.fromkeys(shape.reasoning, "reasoning"),
        **dict.fromkeys(shape.content, "content"),
        **dict.fromkeys(shape.calls, "call"),
        **dict.fromkeys(shape.dropped, "drop"),
    }
    by_marker = shape.routed_by == "marker"
    marks = tuple(routes) if by_marker else (shape.message,)
    begins = (*marks, shape.channel, shape.constrain, *(() if by_marker else (" to=", "to=")))
    if shape.spaced:
        begins += tuple(f" {mark}" for mark in begins if mark)
    body = shape.body
    stops = (*shape.ends, shape.start)
    if isinstance(body, TaggedCalls) and not body.call_open:
        body = replace(body, call_close=shape.ends)
    elif isinstance(body, TaggedCalls):
        # Where the next section would begin, the message's end stops a search as well.
        body = replace(body, section_open=body.section_open + stops)
    begun = "".join(sorted({mark[0] for mark in (*marks, *stops) if mark}))
    return _Messages(
        shape=shape,
        routes=routes,
        marks=marks,
        begins=(*begins, *shape.ends),
        stops=stops,
        header=Watch(("", marks), ("", shape.ends), ("", (shape.start,))),
        text=Watch(("", shape.ends), ("", (shape.start,))),
        word_end=pattern(rf"[\s{re.escape(begun)}]").search,
        body=body,
    )


def call_markers(shape: ChannelCalls) -> tuple[str, ...]:
    """Texts by which a call can be told in an output."""
    if isinstance(shape.body, TaggedCalls) and shape.body.call_open:
        return shape.body.section_open + shape.body.call_open
    return shape.calls if shape.routed_by == "marker" else (f"to={shape.functions}",)


def channels(r: Reader, shape: ChannelCalls, *, offered: bool) -> Steps[None]:
    """Reads all messages of a turn; the prompt has already named the role."""
    m = _compiled(shape)
    r.stops += m.stops
    opened = True
    while True:
        opened = yield from _start(r, m, opened)
        if r.final and r.pos == len(r.text):
            return
        begins = bool((yield from r.at(m.begins))) or (shape.named and (yield from _named(r, m)))
        if not begins:
            if r.spoke:
                cut_closer(r, (shape.start, *m.begins, *((shape.role,) if opened else ())))
            # Plain text where a header should be: the model does not speak the format.
            yield from _text(r, m, "content")
        else:
            r.begin_call()
            header = yield from _header(r, m)
            if header is None:
                r.end_call()
            else:
                yield from _message(r, m, *header, offered=offered)
        opened = False


def _start(r: Reader, m: _Messages, opened: bool) -> Steps[bool]:
    """Skips the opening of a message: start marker and role; whether it is ``opened`` then."""
    shape = m.shape
    by_marker = shape.routed_by == "marker"
    roles = (shape.role, f" {shape.role}") if shape.spaced else (shape.role,)
    while True:
        # A marker may be layout.
        if opened and by_marker and (yield from r.at(m.marks)):
            return True
        ahead = r.space_end(r.pos) - r.pos
        if ahead <= HOLD:
            if r.pos + ahead == len(r.text) and not r.final:
                r.wait(no_space)
                yield
                continue
            if (r.pos + ahead == len(r.text) and r.spoke) or (yield from r.at((shape.start,), ahead)):
                r.take(r.pos + ahead, "framing", "layout between messages")
        if not (yield from r.at((shape.start,))):
            return opened
        r.take(r.pos + len(shape.start), "framing", "starts a message")
        opened = True
        if role := (yield from r.at(roles)):
            r.take(r.pos + len(role), "framing", "role")


def _named(r: Reader, m: _Messages) -> Steps[bool]:
    """Whether a word stands here and then a marker that ends a header."""
    while True:
        window = r.text[r.pos : r.pos + HEADER]
        found = m.header.find(window, 0, r.final)
        end = found.start() if found else len(window)
        word = _WORD.match(window)
        assert word is not None
        if word.end() < end or end == HEADER:
            return False
        if found and found.lastindex:
            return found.lastindex == 1
        if r.final:
            if r.cut and any((name + mark).startswith(window) for name in r.tools for mark in m.marks):
                r.take(len(r.text), "cut", "the name of a call cut by the token limit")
            return False
        if found:
            r.wait_for(m.header, end)
        else:
            r.wait(m.word_end)
        yield


def _header(r: Reader, m: _Messages) -> Steps[tuple[str, str] | None]:
    """Reads a header and the marker that ends it; ``None`` if no body follows."""
    watch = m.header
    parts: list[str] = []
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        parts.append(r.take(end, "framing", "header"))
        if found and found.lastindex:
            if found.lastindex < 3:
                r.take(found.end(), "framing", "end of the header")
            return ("".join(parts)[:HEADER], found.group(1)) if found.lastindex == 1 else None
        if r.final:
            return None
        if sum(map(len, parts)) > HEADER:
            parts = ["".join(parts)[:HEADER]]
        if found is None:
            r.wait(watch.stop)
        else:
            r.wait_for(watch)
        yield


def _route(m: _Messages, header: str, mark: str, tools: Container[str]) -> tuple[Route, str]:
    """What a body is, by its header, and the function it calls.

    Of several channel parts the last one counts; the role's recipient then belongs to a garbled beginning.
    """
    shape = m.shape
    if shape.routed_by == "marker":
        return m.routes[mark], header.strip()
    role, *parts = header.split(shape.channel) if shape.channel else (header,)
    named = _before(parts[-1], shape.constrain) if parts else ""
    found = _RECIPIENT.search(named)
    if found is None and len(parts) < 2:
        found = _RECIPIENT.search(_before(role, shape.constrain))
    recipient = found.group(1) if found else ""
    if shape.routed_by == "recipient":
        return (m.routes.get(recipient, "call") if recipient else shape.unnamed), recipient
    if shape.functions and recipient.startswith(shape.functions):
        return "call", recipient.removeprefix(shape.functions)
    if recipient and (recipient in tools or recipient not in (shape.role, "user", "all")):
        return ("drop" if shape.functions and recipient not in tools else "call"), recipient
    words = named.split()
    return m.routes.get(words[0] if words else "", shape.unnamed), ""


def _before(text: str, marker: str) -> str:
    return text.partition(marker)[0] if marker else text


def _message(r: Reader, m: _Messages, header: str, mark: str, *, offered: bool) -> Steps[None]:
    r.settle()
    route, name = _route(m, header, mark, r.tools)
    if route == "call":
        if offered:
            yield from _attempt(r, m, _body(r, m, name, mark))
        else:
            r.reject_call(NotACall("no tools were offered"))
            yield from _text(r, m, "content")
        return
    r.end_call()
    if m.shape.spaced:
        yield from r.pad(" ", "layout after a marker")
    if route == "content" and offered and m.shape.calls_in_content:
        yield from _calls_in_content(r, m)
    else:
        yield from _text(r, m, route)


def _attempt(r: Reader, m: _Messages, calls: Steps[None]) -> Steps[None]:
    """Reads a message by the steps for its calls; what is none is content."""
    found = yield from r.attempt(calls)
    yield from _text(r, m, "drop" if found else "content")


def _body(r: Reader, m: _Messages, name: str, mark: str) -> Steps[None]:
    """Reads what the body of a call holds."""
    match m.body:
        case JsonCalls():
            yield from json_calls(r, m.body, mark)
        case NamedCalls():
            yield from routed_calls(r, m.body, m.stops)
        case TaggedCalls(call_open=()):
            _check(name)
            yield from tagged_arguments(r, m.body, name)
        case TaggedCalls():
            opener = yield from _opener(r, m)
            if not opener:
                stop(r, "no call follows the header")
            while opener:
                yield from tagged_calls(r, m.body, opener)
                r.begin_call()
                opener = yield from _opener(r, m)
        case _:
            _check(name)
            r.start_call(name)
            yield from r.space()
            if (yield from r.at(m.shape.ends)):
                raise NotACall("the message is empty")
            if not (yield from r.at(("{",))):
                stop(r, "the arguments are no object")
            yield from json_object(r, r.arguments, streams=True)
            finish_arguments(r)


def _check(name: str) -> None:
    if not name:
        raise NotACall("the call has no name")


def _opener(r: Reader, m: _Messages) -> Steps[str]:
    """Reads the opener of a section of calls, or of a call without one; ``""`` if none is next."""
    shape = m.shape.body
    assert isinstance(shape, TaggedCalls)
    yield from r.space()
    mark = yield from r.at(shape.section_open + shape.call_open)
    if mark:
        r.take(r.pos + len(mark), "framing", "opens the calls")
        yield from r.space()
        if (yield from r.at(m.stops)):
            raise NotACall("there is no call behind the opener")
    return mark


def _calls_in_content(r: Reader, m: _Messages) -> Steps[None]:
    """Reads a body of text that may be nothing but a section of calls; they count once the message ends there."""
    shape = m.shape.body
    assert isinstance(shape, TaggedCalls)
    mark = yield from r.at(shape.section_open)
    if not mark:
        yield from _text(r, m, "content")
        return
    r.begin_call()
    r.take(r.pos + len(mark), "framing", "opens the calls")
    yield from _attempt(r, m, _only_calls(r, m, shape))


def _only_calls(r: Reader, m: _Messages, shape: TaggedCalls) -> Steps[None]:
    """Reads a section of calls behind its opener, up to the end of the message."""
    mark = ""
    while mark not in shape.section_close:
        if mark:
            yield from tagged_call(r, shape, offered_only=True)
        yield from r.space()
        mark = yield from r.at(shape.call_open + (shape.section_close if mark else ()))
        if not mark:
            stop(r, "what is between the markers is no call")
        r.take(r.pos + len(mark), "framing", "opens or closes a call")
    yield from r.space()
    if not (yield from r.at(m.stops)) and r.pos < len(r.text):
        raise NotACall("text follows the calls")


def _text(r: Reader, m: _Messages, route: Route) -> Steps[None]:
    """Reads a body of text through the end of its message."""
    r.spoke = True
    watch = m.text
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if found is None and r.final:
            end = cut_marker(r, watch, m.stops)
        if route == "content":
            r.content(end)
        elif route == "reasoning":
            r.reasoning(end)
        else:
            r.take(end, "framing", "no text for the user")
        if found and found.lastindex:
            if found.lastindex == 1:
                r.take(found.end(), "framing", "ends the message")
            return
        if r.final:
            r.take(len(r.text), "cut", "a marker cut by the token limit")
            return
        if found:
            r.wait_for(watch)
        elif route == "drop":
            r.wait(watch.stop)
        else:
            r.flow_text(watch, reasoning=route == "reasoning")
        yield
