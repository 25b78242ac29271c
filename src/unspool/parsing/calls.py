"""From a call's opener to its end: one reader for each shape of :mod:`declaration`.

A reader starts behind the opener that the turn has seen, reads through the closers and leaves the cursor on
what follows. It raises ``NotACall`` when the text is none after all; calls that it closed before are then as
good as confirmed or not, which each shape says. Noise between markers, a few characters of it, is framing:
models put line breaks and stray words there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from unspool.parsing.codecs.json import call_object, finish_arguments, json_object, stop, without_arguments
from unspool.parsing.codecs.python import identifier, keyword_arguments
from unspool.parsing.codecs.relaxed import relaxed_object
from unspool.parsing.codecs.tagged import header_text, tagged_call
from unspool.parsing.declaration import JsonCalls, NamedCalls, PythonCalls, RelaxedArguments, TaggedCalls
from unspool.parsing.reader import HOLD, NotACall, Reader, Steps, Unfinished
from unspool.parsing.scanner import Watch, pattern

_NAME = pattern(r"[^\s<>{}\[\]\"'`]+")
_CALL_ID = pattern(r"(?:functions?\.)?(.*?)(?::[0-9]+)?")


@lru_cache(maxsize=256)
def _seek_watch(literals: tuple[str, ...]) -> Watch:
    return Watch(("", literals))


def seek(r: Reader, literals: tuple[str, ...], limit: int = HOLD, *, keeps_words: bool = False) -> Steps[str]:
    """Which of the literals comes within ``limit`` characters; the cursor goes to it over the noise.

    ``""`` if none does; the cursor then stays. ``keeps_words``: noise with a letter or digit in it is content.
    """
    watch = _seek_watch(literals)
    most = limit + max(map(len, literals))
    offset = 0
    while True:
        # No further than that: the next opener would pay for the same text again.
        window = r.text[r.pos : r.pos + most]
        ended = r.final and r.pos + len(window) == len(r.text)
        found = watch.find(window, offset, ended)
        offset = found.start() if found else len(window)
        if offset > limit:
            return ""
        if found and found.lastindex:
            if keeps_words and any(map(str.isalnum, window[:offset])):
                r.content(r.pos + offset, "text between markers")
            else:
                r.take(r.pos + offset, "framing", "noise between markers")
            return found.group(1)
        if ended:
            return ""
        if found is None:
            r.wait(watch.stop)
        else:
            r.wait_for(watch, offset)
        yield


def trail(
    r: Reader, closers: tuple[str, ...], others: tuple[str, ...] = (), *, keeps_words: bool = True
) -> Steps[None]:
    """Reads a closer that may be missing or doubled, with the noise before it; stops at any of ``others``."""
    closers = tuple(filter(None, closers))
    if not closers:
        return
    mark = yield from seek(r, closers + tuple(filter(None, others)), keeps_words=keeps_words)
    if mark in closers:
        r.take(r.pos + len(mark), "framing", "closes the call")
        while size := (yield from again(r, mark)):
            r.take(r.pos + size, "framing", "closes the call again")


def again(r: Reader, mark: str) -> Steps[int]:
    """The size of the same marker once more, and the layout before it; 0 for none."""
    while True:
        ahead = r.space_end(r.pos) - r.pos
        if ahead > HOLD:
            return 0
        if r.pos + ahead < len(r.text) or r.final:
            return ahead + len(mark) if (yield from r.at((mark,), ahead)) else 0
        yield


def json_calls(r: Reader, shape: JsonCalls, opened: str) -> Steps[None]:
    """One object, or a list whose calls are certain only when the list is closed.

    Bare ones, and those behind an opener without a closer, may follow each other after a separator.
    """
    bare = not opened
    offered_only = bare or shape.offered_only
    while True:
        yield from r.space()
        if (yield from r.at(("{", "["))) == "[":
            yield from json_list(r, shape, offered_only=offered_only)
        elif r.pos < len(r.text) and r.text[r.pos] == "{":
            yield from call_object(r, shape, offered_only=offered_only)
        else:
            stop(r, "no JSON follows the opener")
        r.end_call()
        separators = shape.separators or (",;" if shape.close else "")
        if not (separators and (yield from _separated(r, separators + " \t\r\n"))):
            break
        offered_only = offered_only or not shape.close
    if opened:
        yield from trail(r, shape.close, shape.open)


def _separated(r: Reader, separators: str) -> Steps[bool]:
    """Whether another bare object follows, after a separator; the cursor goes to it."""
    ahead = 0
    while True:
        while r.pos + ahead < len(r.text) and r.text[r.pos + ahead] in separators:
            ahead += 1
            if ahead > HOLD:
                return False
        if r.pos + ahead < len(r.text):
            if r.text[r.pos + ahead] not in "{[":
                return False
            r.begin_call()
            r.take(r.pos + ahead, "framing", "separates calls")
            return True
        if r.final:
            r.take(len(r.text), "framing", "separates calls")
            return False
        yield


def json_list(r: Reader, shape: JsonCalls, *, offered_only: bool) -> Steps[None]:
    """Reads a list of call objects at the cursor."""
    r.take(r.pos + 1, "framing", "list of calls")
    found = False
    while True:
        yield from r.space()
        mark = yield from r.at(("{", ",", "]"))
        if mark == "{":
            yield from call_object(r, shape, offered_only=offered_only)
            found = True
        elif mark == ",":
            r.take(r.pos + 1, "framing", "list of calls")
        elif mark == "]":
            if offered_only and not found:
                raise NotACall("the list is empty")
            r.take(r.pos + 1, "framing", "list of calls")
            return
        else:
            stop(r, "the list holds something else than calls")


_LIST = JsonCalls()


def named_calls(r: Reader, shape: NamedCalls, opened: str) -> Steps[None]:
    """A call with its name in a header, or a section of such calls."""
    if shape.section_open and opened == shape.section_open:
        yield from r.space()
        call = lambda: _named_call(r, shape)  # noqa: E731
        yield from _section(r, (shape.open,), (shape.section_close,), (shape.section_open,), call)
    else:
        yield from _named_call(r, shape)
        yield from trail(r, (shape.section_close,), (shape.open,))


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
        yield from call()
        mark = yield from seek(r, openers + closers + others, keeps_words=True)
        if mark in openers:
            r.begin_call()
    if mark and mark in closers:
        r.take(r.pos + len(mark), "framing", "closes the section")
        while size := (yield from again(r, mark)):
            r.take(r.pos + size, "framing", "closes the section again")


def _refuse(r: Reader) -> NoReturn:
    if r.final:
        raise Unfinished("the text ends before the first call")
    raise NotACall("no call follows the opener")


def _named_call(r: Reader, shape: NamedCalls) -> Steps[None]:
    if shape.list_body:
        yield from r.space()
        if (yield from r.at(("[", "{"))):
            if r.text[r.pos] == "[":
                yield from json_list(r, _LIST, offered_only=False)
            else:
                yield from call_object(r, _LIST, offered_only=False)
            r.end_call()
            return
    name, mark = yield from _header(r, shape)
    fenced = False
    if shape.type_header and mark in shape.header_end:
        name, fenced = yield from _typed_header(r, shape, name)
    name = _checked(r, shape, name)
    yield from r.space()
    body = yield from r.at(("{", shape.close))
    if body != "{":
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


def _header(r: Reader, shape: NamedCalls) -> Steps[tuple[str, str]]:
    yield from r.space()
    text, mark = yield from header_text(r, shape.header_end, shape.header_stops + shape.header_notes)
    if mark in shape.header_notes:
        r.take(r.pos + len(mark), "framing", "call id")
        _, mark = yield from header_text(r, shape.header_end, shape.header_stops)
    return text, mark


def _typed_header(r: Reader, shape: NamedCalls, name: str) -> Steps[tuple[str, bool]]:
    """``type SEP name``, the value perhaps in a code fence; or only ``name SEP`` before the value."""
    yield from r.space()
    if (yield from r.at(("{", shape.close))):
        return name, False
    name, _ = yield from header_text(r, ("\n",), ("{", "```"))
    yield from r.space()
    fenced = bool((yield from r.at(("```",))))
    if fenced:
        r.take(r.pos + 3, "framing", "code fence")
        if (yield from r.at(("json",))):
            r.take(r.pos + 4, "framing", "code fence")
    return name, fenced


def _checked(r: Reader, shape: NamedCalls, header: str) -> str:
    name = header.strip()
    for prefix in shape.prefixes:
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
        yield from tagged_call(r, shape, offered_only=offered_only)
        r.end_call()

    if opened in shape.call_open:
        yield from call(offered_only=bool(shape.section_open))
        if shape.section_open:
            yield from trail(r, shape.section_close, shape.call_open + shape.section_open)
        return
    yield from r.space()
    body = yield from r.at(("{", *shape.section_close))
    if body == "{":
        yield from call_object(r, _LIST, offered_only=False)
        r.end_call()
        yield from trail(r, shape.section_close, shape.section_open)
        return
    if body and shape.section_per_call:
        r.take(r.pos + len(body))
        raise NotACall("there is no call between the markers")
    yield from _section(r, shape.call_open, shape.section_close, shape.section_open, call)


def python_calls(r: Reader, shape: PythonCalls, opened: str) -> Steps[None]:
    """A list of calls, certain only when the list is closed; bare, every name must be an offered tool's."""
    yield from r.space()
    if not (yield from r.at(("[",))):
        stop(r, "no list follows the opener")
    r.take(r.pos + 1, "framing", "list of calls")
    first = True
    while True:
        yield from r.space()
        if not first:
            mark = yield from r.at((",", "]"))
            if not mark:
                stop(r, "a comma or ']' is missing")
            r.take(r.pos + 1, "framing", "list of calls")
            if mark == "]":
                break
            yield from r.space()
            if (yield from r.at(("]",))):
                continue
        name = yield from identifier(r, "name")
        if not opened and name not in r.tools:
            raise NotACall(f"no tool {name!r} was offered")
        yield from r.space()
        if not (yield from r.at(("(",))):
            stop(r, "a bracket is missing after the name")
        r.take(r.pos + 1, "framing", "arguments")
        r.start_call(name)
        yield from keyword_arguments(r)
        finish_arguments(r)
        first = False
    r.end_call()
    if opened:
        yield from trail(r, shape.close, shape.open)
