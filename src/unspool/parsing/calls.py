"""From a call's opener to its end: one reader for each shape of :mod:`declaration`.

A reader starts behind the opener that the turn has seen, reads through the closers and leaves the cursor on
what follows. It raises ``NotACall`` when the text is none after all; calls that it closed before are then as
good as confirmed or not, which each shape says. Noise between markers, a few characters of it, is framing:
models put line breaks and stray words there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from unspool.parsing.callobject import call_objects, without_arguments
from unspool.parsing.codecs.elements import element_call
from unspool.parsing.codecs.json import finish_arguments, json_object
from unspool.parsing.codecs.python import identifier, keyword_arguments, word_end
from unspool.parsing.codecs.raw import raw_text
from unspool.parsing.codecs.relaxed import relaxed_object
from unspool.parsing.codecs.tagged import tagged_call
from unspool.parsing.declaration import (
    ElementCalls,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RawArguments,
    RelaxedArguments,
    TaggedCalls,
)
from unspool.parsing.markers import cut_closer, header_text, header_watch, seek, trail
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import pattern
from unspool.parsing.schema import AnyTool
from unspool.parsing.signals import HOLD, Finder, NotACall, Steps, Unfinished

_NAME = pattern(r"[^\s<>{}\[\]\"'`]+")
_CALL_ID = pattern(r"(?:functions?\.)?(.*?)(?::[0-9]+)?")
_PLAIN = JsonCalls()
"""Call objects with the usual members, where the format's own calls are something else."""


def json_calls(r: Reader, shape: JsonCalls, opened: str) -> Steps[None]:
    """One object, or a list whose calls are certain only when the list is closed.

    Bare ones, and those behind an opener without a closer, may follow each other after a separator.
    """
    bare = not opened
    offered_only = bare or shape.offered_only
    while True:
        opening = yield from r.next(("{", "["))
        if not opening:
            stop(r, "no JSON follows the opener")
        yield from call_objects(r, shape, opening, offered_only=offered_only)
        separators = shape.separators or (",;" if shape.close else "")
        marks = shape.close + shape.open + r.reopens
        if not (separators and (yield from _separated(r, separators + " \t\r\n", marks))):
            break
        offered_only = offered_only or not shape.close
    if opened:
        yield from trail(r, shape.close, shape.open)


@lru_cache(maxsize=64)
def _other_than(characters: str) -> Callable[[str], object]:
    return pattern(f"[^{re.escape(characters)}]").search


def _separated(r: Reader, separators: str, others: tuple[str, ...]) -> Steps[bool]:
    """Whether another bare object follows, after a separator; the cursor goes to it.

    ``others`` are markers that may begin like one.
    """
    other = _other_than(separators)
    ahead = 0
    while True:
        while r.pos + ahead < len(r.text) and r.text[r.pos + ahead] in separators:
            ahead += 1
            if ahead > HOLD:
                return False
        if r.pos + ahead < len(r.text):
            if (yield from r.at(("{", "[", *others), ahead)) not in ("{", "["):
                return False
            r.begin_call()
            r.take(r.pos + ahead, "framing", "separates calls")
            return True
        if r.final:
            r.take(len(r.text), "framing", "separates calls")
            return False
        r.wait(other)
        yield


def named_calls(r: Reader, shape: NamedCalls, opened: str) -> Steps[None]:
    """A call with its name in a header, or a section of such calls."""
    if shape.section_open and opened == shape.section_open:
        yield from r.space()
        call = lambda: _named_call(r, shape)  # noqa: E731
        yield from _section(r, (shape.open,), (shape.section_close,), (shape.section_open,), call)
    else:
        yield from _named_call(r, shape)
        yield from trail(r, (shape.section_close,), (shape.open,))


def routed_calls(r: Reader, shape: NamedCalls, ends: tuple[str, ...]) -> Steps[None]:
    """The calls of a message that one of ``ends`` ends, which is left to who reads the message."""
    if (yield from seek(r, (shape.open, *ends))) != shape.open:
        _refuse(r)
    yield from _section(r, (shape.open,), (), ends, lambda: _named_call(r, shape))


def _section(
    r: Reader,
    openers: tuple[str, ...],
    closers: tuple[str, ...],
    others: tuple[str, ...],
    call: Callable[[], Steps[None]],
) -> Steps[None]:
    """Reads the calls of a section through its closer, which may be missing behind the last call.

    Before the first call a few stray words are noise; behind one they are content. ``others`` begin the next
    section.
    """
    start = r.offset
    mark = yield from seek(r, openers + closers)
    if mark not in openers:
        if not mark:
            _refuse(r)
        r.take(r.pos + len(mark), "framing", "closes the section")
        if r.offset - len(mark) > start:
            raise NotACall("the section holds no call")
        return
    while mark and mark in openers:
        r.take(r.pos + len(mark), "framing", "opens a call")
        r.settle()
        yield from call()
        mark = yield from seek(r, openers + closers + others, keeps_words=True)
        if mark in openers:
            r.begin_call()
    if not mark:
        cut_closer(r, closers + openers)
    elif mark in closers:
        r.take(r.pos + len(mark), "framing", "closes the section")
        while size := (yield from r.ahead((mark,))):
            r.take(r.pos + size, "framing", "closes the section again")


def _refuse(r: Reader) -> NoReturn:
    if r.final:
        raise Unfinished("the text ends before the first call")
    raise NotACall("no call follows the opener")


def _named_call(r: Reader, shape: NamedCalls) -> Steps[None]:
    if shape.list_body:
        header_end = header_watch(shape.header_end, ("[", "{", *shape.header_stops, *shape.header_notes)).stop
        if opening := (yield from r.next(("[", "{"), header_end)):
            yield from call_objects(r, _PLAIN, opening, offered_only=False)
            yield from trail(r, (shape.close,))
            return
    if shape.offered_only and not isinstance(r.tools, AnyTool):
        name, mark = yield from _offered_header(r, shape)
    else:
        name, mark = yield from _header(r, shape)
        if isinstance(shape.arguments, RawArguments) and mark not in shape.header_end:
            raise NotACall("the header of the call has no end")
    fenced = False
    if shape.type_header and mark in shape.header_end:
        name, fenced = yield from _typed_header(r, shape, name)
    name = _checked(r, shape, name)
    if isinstance(shape.arguments, RawArguments):
        name = (yield from _first_word(r, name)) or name
    body = yield from r.next(("{", shape.close))
    if body != "{":
        if not body and isinstance(shape.arguments, RawArguments):
            yield from _raw_call(r, shape, shape.arguments, name)
            return
        if not body:
            stop(r, "no object follows the name")
        without_arguments(r, name)
        r.close_call()
        r.end_call()
        yield from trail(r, (shape.close,))
        return
    r.start_call(name)
    if isinstance(shape.arguments, RelaxedArguments):
        yield from relaxed_object(r, shape.arguments.quote)
        r.close_call()
    else:
        yield from json_object(r, r.arguments, streams=True)
        finish_arguments(r)
    r.end_call()
    if fenced:
        yield from trail(r, ("```",), (shape.close,))
    yield from trail(r, (shape.close,), (shape.open, shape.section_open, shape.section_close))


def _raw_call(r: Reader, shape: NamedCalls, arguments: RawArguments, name: str) -> Steps[None]:
    if r.pos == len(r.text):
        raise Unfinished("the text ends before the arguments")
    r.start_call(name)
    yield from raw_text(r, arguments.member, arguments.written_after, shape.close)
    r.close_call()
    r.end_call()
    yield from trail(r, (shape.close,))


def _first_word(r: Reader, header: str) -> Steps[str]:
    """The offered name that is the first word of a body, consumed; ``""`` if it is none."""
    names = {header, *r.tools} if header in r.tools else set(r.tools)
    yield from r.space()
    found = yield from r.at(tuple(name + space for name in sorted(names) for space in " \t\n"))
    if found:
        r.take(r.pos + len(found) - 1, "name", "first word of the body")
    return found[:-1]


def _offered_header(r: Reader, shape: NamedCalls) -> Steps[tuple[str, str]]:
    """Reads an offered name and the end of the header, both as they are written, without anything around them."""
    headers = {name + end: (name, end) for name in r.tools for end in shape.header_end}
    found = yield from r.at(tuple(headers))
    if not found:
        if r.final and any(header.startswith(r.text[r.pos :]) for header in headers):
            raise Unfinished("the text ends inside the header of a call")
        raise NotACall("no offered name follows the opener")
    name, end = headers[found]
    r.take(r.pos + len(name), "name", "header")
    r.take(r.pos + len(end), "framing", "end of the header")
    return name, end


def _header(r: Reader, shape: NamedCalls) -> Steps[tuple[str, str]]:
    ends, stops = shape.header_end, shape.header_stops + shape.header_notes + shape.header_ids
    yield from r.space(header_watch(ends, stops).stop)
    text, mark = yield from header_text(r, ends, stops)
    if mark in shape.header_ids:
        r.take(r.pos + len(mark), "framing", "end of the call id")
        text, mark = yield from header_text(r, ends, shape.header_stops + shape.header_notes)
    if mark in shape.header_notes:
        r.take(r.pos + len(mark), "framing", "call id")
        _, mark = yield from header_text(r, shape.header_end, shape.header_stops)
    return text, mark


def _typed_header(r: Reader, shape: NamedCalls, name: str) -> Steps[tuple[str, bool]]:
    """``type SEP name``, the value perhaps in a code fence; or only ``name SEP`` before the value."""
    if (yield from r.next(("{", shape.close), header_watch(("\n",), ("{", "```", shape.close)).stop)):
        return name, False
    name, _ = yield from header_text(r, ("\n",), ("{", "```"))
    fenced = bool((yield from r.next(("```",))))
    if fenced:
        r.take(r.pos + 3, "framing", "code fence")
        if (yield from r.at(("json",))):
            r.take(r.pos + 4, "framing", "code fence")
    return name, fenced


def _checked(r: Reader, shape: NamedCalls, header: str) -> str:
    name = header.strip()
    for prefix in map(r.spell, shape.prefixes):
        if name.startswith(prefix):
            name = name.removeprefix(prefix).strip()
            break
    if shape.id_header:
        found = _CALL_ID.fullmatch(name)
        assert found is not None
        name = found.group(1)
        if name.isdigit() and name not in r.tools:
            # Only a counter: clear when there is only one tool.
            if len(r.tools) != 1:
                raise NotACall("the call id has no name")
            name = next(iter(r.tools))
    if not _NAME.fullmatch(name):
        raise NotACall(f"{header.strip()!r} is no name")
    return name


def tagged_calls(r: Reader, shape: TaggedCalls, opened: str) -> Steps[None]:
    """A call made of elements, or a section of such calls; without its section only an offered name counts."""

    def call(offered_only: bool = False) -> Steps[None]:
        if not (shape.json_body and (yield from _json_body(r, shape, offered_only=offered_only))):
            yield from tagged_call(r, shape, offered_only=offered_only)
            r.end_call()

    if opened in shape.call_open:
        yield from call(offered_only=bool(shape.section_open))
        if shape.section_open:
            yield from trail(r, shape.section_close, shape.call_open + shape.section_open)
        return
    body = yield from r.next(("{", *shape.section_close))
    if body == "{":
        yield from call_objects(r, _PLAIN, body, offered_only=False)
        yield from trail(r, shape.section_close, shape.section_open)
        return
    if body and shape.section_per_call:
        r.take(r.pos + len(body))
        raise NotACall("there is no call between the markers")
    yield from _section(r, shape.call_open, shape.section_close, shape.section_open, call)


def element_calls(r: Reader, shape: ElementCalls, opened: str) -> Steps[None]:
    """A call made of nested elements, or a section of such calls; without its section an offered name counts."""

    def call(offered_only: bool = False) -> Steps[None]:
        yield from element_call(r, shape, offered_only=offered_only)
        r.end_call()

    if opened == shape.call_open:
        yield from call(offered_only=True)
        yield from trail(r, (shape.section_close,), (shape.call_open, shape.section_open))
    else:
        yield from r.space()
        yield from _section(r, (shape.call_open,), (shape.section_close,), (shape.section_open,), call)


def _json_body(r: Reader, shape: TaggedCalls, *, offered_only: bool) -> Steps[bool]:
    """Reads a call, or a list of calls, that stands as JSON behind a call's opener; ``False`` if none does."""
    opening = yield from r.next(("{", "["))
    if not opening:
        return False
    yield from call_objects(r, _PLAIN, opening, offered_only=offered_only)
    yield from trail(r, shape.call_close, shape.call_open + shape.section_close)
    return True


def python_calls(r: Reader, shape: PythonCalls, opened: str) -> Steps[None]:
    """A list of calls, or calls as statements; bare, every name must be an offered tool's."""
    if (yield from r.next(("[",), word_end if shape.statements else None)):
        yield from _python_list(r, shape, opened)
    elif shape.statements:
        yield from _statements(r, shape)
    else:
        stop(r, "no list follows the opener")
    if opened:
        yield from trail(r, shape.close, shape.open)


def _python_list(r: Reader, shape: PythonCalls, opened: str) -> Steps[None]:
    """A list of calls, certain only when the list is closed."""
    r.take(r.pos + 1, "framing", "list of calls")
    first = True
    while True:
        if first:
            yield from r.space(word_end)
        else:
            mark = yield from r.next((",", "]"))
            if not mark:
                stop(r, "a comma or ']' is missing")
            r.take(r.pos + 1, "framing", "list of calls")
            if mark == "]":
                break
            if (yield from r.next(("]",), word_end)):
                continue
        yield from _python_call(r, shape, offered_only=not opened)
        first = False
    r.end_call()


def _python_call(r: Reader, shape: PythonCalls, *, offered_only: bool) -> Steps[None]:
    name = yield from identifier(r, "name")
    if offered_only and name not in r.tools:
        raise NotACall(f"no tool {name!r} was offered")
    if not (yield from r.next(("(",))):
        stop(r, "a bracket is missing after the name")
    r.take(r.pos + 1, "framing", "arguments")
    r.start_call(name)
    yield from keyword_arguments(r, loose=shape.loose_quotes)
    finish_arguments(r)


@lru_cache(maxsize=64)
def _statement_end(closers: tuple[str, ...]) -> Finder:
    """Finds what ends the name of the next call, or shows that none comes."""
    begins = "".join(closer[0] for closer in closers if closer)
    return pattern(rf"[\s,;=:()\[\]{{}}'\"{re.escape(begins)}]").search


def _statements(r: Reader, shape: PythonCalls) -> Steps[None]:
    """Calls one after another, each certain at its closing bracket, perhaps in a code fence."""
    closers = shape.close
    if shape.fence and (yield from r.at(("```",))):
        r.take(r.pos + 3, "framing", "code fence")
        if (yield from r.at((shape.fence,))):
            r.take(r.pos + len(shape.fence), "framing", "code fence")
        closers = ("```", *closers)
        yield from r.space(word_end)
    between = _statement_end(closers)
    while True:
        yield from _python_call(r, shape, offered_only=False)
        r.end_call()
        while (yield from r.next((",", ";"), between)):
            r.take(r.pos + 1, "framing", "separates calls")
        if r.pos == len(r.text):
            return
        if closer := (yield from r.at(closers)):
            break
        r.begin_call()
    if closer == "```":
        r.take(r.pos + 3, "framing", "code fence")
