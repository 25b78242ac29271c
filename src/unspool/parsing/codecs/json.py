"""JSON inside a call: passed through as it is written, its end found by its own grammar.

Outside strings only the nesting is followed; whole runs of structure and complete strings are one regular
expression match. Inside a string a closing marker is just letters. Whether the text was JSON at all is decided
once, by the standard library, when the value is complete. Two slips have one reading and are mended on the
way: a backslash before a letter that no escape has, and a raw control character inside a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, NoReturn

from unspool.parsing.declaration import JsonCalls
from unspool.parsing.reader import HEADER, NotACall, Reader, Steps, Unfinished
from unspool.parsing.scanner import pattern

_PLAIN = r'[^"\\\x00-\x1f]*+'
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_BODY = rf"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*+"
_LOOSE = r"[ \t\r\n0-9eE+\-.,:truefalsn]"
_in_string = pattern(_BODY)
_structure = pattern(rf'(?:{_LOOSE}++|"{_BODY}")*+')
_string_stop = pattern(r'["\\\x00-\x1f]').search
_structure_stop = pattern(f"[^{_LOOSE[1:]}").search
_partial_escape = pattern(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")

_BESIDES = ("type", "id", "function", "index")
"""Members that a call may have besides name and arguments."""

_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_reject_constant).decode


def load(text: str) -> Any:
    """The value of a JSON text, strictly; raises ``ValueError`` for anything else, however deep."""
    try:
        return _decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _Place:
    """Where inside a JSON value the text is: how deep, and whether in a string."""

    __slots__ = ("depth", "string")

    def __init__(self) -> None:
        self.depth = 0
        self.string = False

    def inside(self, r: Reader) -> Callable[[str], bool]:
        """For :meth:`Reader.flow`: whether all of a delta goes on inside the value; the place then moves on."""

        def whole(delta: str) -> bool:
            depth, string = self.depth, self.string
            pos, end = 0, len(delta)
            while pos < end:
                found = (_in_string if string else _structure).match(delta, pos)
                assert found is not None
                pos = found.end()
                if pos == end:
                    break
                char = delta[pos]
                if char == '"':
                    string = not string
                elif string:
                    return False
                elif char in "{[":
                    depth += 1
                elif char in "}]" and depth > 1:
                    depth -= 1
                else:
                    return False
                pos += 1
            self.depth = depth
            if string is not self.string:
                self.string = string
                r.stop_at(_string_stop if string else _structure_stop)
            return True

        return whole


def escape(text: str) -> str:
    """The text as the inside of a JSON string."""
    return encode_basestring(text)[1:-1]


def quote(text: str) -> str:
    """The text as a JSON string, other scripts left readable."""
    return encode_basestring(text)


def json_object(r: Reader, say: Callable[[str], None], *, streams: bool, note: str = "arguments") -> Steps[None]:
    """Reads one JSON object or array at the cursor and says its text, mended where the module says.

    ``streams``: the text goes out through the open call as it comes. Raises :class:`NotACall` at a character
    that no JSON has there, :class:`Unfinished` if the text ends first.
    """
    place = _Place()
    inside = place.inside(r)
    while True:
        text = r.text
        pos = r.pos
        while True:
            found = (_in_string if place.string else _structure).match(text, pos)
            assert found is not None
            pos = found.end()
            if pos == len(text):
                break
            char = text[pos]
            if place.string:
                if char == '"':
                    place.string = False
                    pos += 1
                elif char == "\\":
                    if not r.final and _partial_escape.match(text, pos):
                        break
                    say(r.spell(r.take(pos, "arguments", note)) + "\\\\")
                    pos += 1
                    r.take(pos, "arguments", "a backslash that is no escape, doubled")
                else:
                    say(r.spell(r.take(pos, "arguments", note)) + _CONTROLS[char])
                    pos += 1
                    r.take(pos, "arguments", "a control character, escaped")
            elif char == '"':
                place.string = True
                pos += 1
            elif char in "{[":
                place.depth += 1
                pos += 1
            elif char in "}]":
                place.depth -= 1
                pos += 1
                if place.depth == 0:
                    say(r.spell(r.take(pos, "arguments", note)))
                    return
            else:
                # Said all the same: a stream that was cut here has said it already.
                say(r.spell(r.take(pos)))
                raise NotACall(f"{r.spell(char)!r} has no place in JSON")
        if pos > r.pos:
            say(r.spell(r.take(pos, "arguments", note)))
        if r.final:
            raise Unfinished("the text ends inside the arguments")
        if streams:
            r.flow(_string_stop if place.string else _structure_stop, r.arguments_sink(), inside)
        yield


def json_string(r: Reader, note: str, limit: int | None = None) -> Steps[str]:
    """Reads one JSON string at the cursor and returns its value; more than ``limit`` characters are no name."""
    if not (yield from r.at(('"',))):
        stop(r, "a string is missing")
    parts: list[str] = []
    size = 0
    r.take(r.pos + 1, "framing", "quote")
    while True:
        found = _in_string.match(r.text, r.pos)
        assert found is not None
        end = found.end()
        size += end - r.pos
        if limit is not None and size > limit:
            raise NotACall("a name is too long")
        parts.append(r.take(end, "name" if note == "name" else "framing", note))
        if end < len(r.text):
            char = r.text[end]
            if char == '"':
                r.take(end + 1, "framing", "quote")
                break
            if char != "\\" or r.final or not _partial_escape.match(r.text, end):
                parts.append(_CONTROLS[char] if char != "\\" else "\\\\")
                r.take(end + 1, "framing", note)
                continue
        if r.final:
            raise Unfinished("the text ends inside a string")
        if end == len(r.text):
            r.wait(_string_stop)
        yield
    text = r.spell("".join(parts))
    value: str = load(f'"{text}"') if "\\" in text else text
    return value


def scalar(r: Reader) -> Steps[str]:
    """Reads a number or a constant at the cursor and returns its text."""
    parts: list[str] = []
    while True:
        found = pattern(r"[0-9eE+\-.truefalsn]*+").match(r.text, r.pos)
        assert found is not None
        parts.append(r.take(found.end(), "framing", "member"))
        if r.pos < len(r.text):
            break
        if r.final:
            raise Unfinished("the text ends inside a value")
        yield
    text = "".join(parts)
    if not text:
        raise NotACall(f"{r.spell(r.text[r.pos])!r} is no JSON value")
    try:
        load(text)
    except ValueError:
        raise NotACall(f"{text!r} is no JSON value") from None
    return text


def finish_arguments(r: Reader) -> None:
    """Checks that the object that was said as arguments is JSON, then closes the call."""
    text = r.argument_text()
    try:
        load(text)
    except ValueError as why:
        raise NotACall(f"the arguments are no JSON: {why}") from None
    r.close_call()


def _unwrap(value: str) -> str:
    """Arguments that were encoded twice: the string's own text, if that is an object."""
    inner = value if value.strip() else "{}"
    try:
        if not isinstance(load(inner), dict):
            raise NotACall("the arguments are no object")
    except ValueError as why:
        raise NotACall(f"the arguments are no JSON: {why}") from None
    return inner


def call_object(r: Reader, shape: JsonCalls, *, offered_only: bool) -> Steps[None]:
    """Reads one object that holds a call's name and arguments, in either order, and closes the call.

    Arguments that come before the name wait for it. ``offered_only``: a name that was not offered, or a member
    that a call does not have, makes it no call.
    """
    if shape.name_is_key:
        yield from _keyed_call(r, offered_only=offered_only)
        return
    name: str | None = None
    early: list[str] | None = None
    seen = False
    unknown = ""
    r.take(r.pos + 1, "framing", "call object")
    while True:
        yield from r.space()
        mark = yield from r.at(('"', "}", ","))
        if mark in ("}", ","):
            r.take(r.pos + 1, "framing", "call object")
            if mark == "}":
                break
            continue
        key = yield from json_string(r, "member name", HEADER)
        yield from r.space()
        if not (yield from r.at((":",))):
            stop(r, "a colon is missing after a member name")
        r.take(r.pos + 1, "framing", "call object")
        yield from r.space()
        if key in shape.name_keys and name is None:
            name = yield from json_string(r, "name", HEADER)
            _check_name(r, name, offered_only)
            if early is not None:
                r.start_call(name)
                for piece in early:
                    r.arguments(piece)
        elif key in shape.arguments_keys and not seen:
            seen = True
            if name is None:
                early = []
                yield from _arguments_value(r, early.append, streams=False)
            else:
                r.start_call(name)
                yield from _arguments_value(r, r.arguments, streams=True)
        else:
            if key not in _BESIDES and key != shape.id_key:
                unknown = key
            if unknown and offered_only:
                raise NotACall(f"a call has no member {key!r}")
            yield from _skip_value(r, only_short=offered_only)
    if name is None:
        raise NotACall("the object has no name")
    if not seen:
        if unknown:
            raise NotACall(f"a call has no member {unknown!r}, and there are no arguments")
        without_arguments(r, name)
    finish_arguments(r)


def _keyed_call(r: Reader, *, offered_only: bool) -> Steps[None]:
    """Reads one object whose only key is the name and whose value is the arguments."""
    r.take(r.pos + 1, "framing", "call object")
    yield from r.space()
    name = yield from json_string(r, "name", HEADER)
    _check_name(r, name, offered_only)
    yield from r.space()
    if not (yield from r.at((":",))):
        stop(r, "a colon is missing after the name")
    r.take(r.pos + 1, "framing", "call object")
    yield from r.space()
    r.start_call(name)
    yield from _arguments_value(r, r.arguments, streams=True)
    yield from r.space()
    if not (yield from r.at(("}",))):
        stop(r, "a call has no second name")
    r.take(r.pos + 1, "framing", "call object")
    finish_arguments(r)


def _check_name(r: Reader, name: str, offered_only: bool) -> None:
    if not name.strip():
        raise NotACall("the name is empty")
    if offered_only and name not in r.tools:
        raise NotACall(f"no tool {name!r} was offered")


def without_arguments(r: Reader, name: str) -> None:
    """A call with only a name is one if the offered tool needs no arguments."""
    tool = r.tools.get(name)
    if tool is None or tool.required:
        raise NotACall("the call has no arguments")
    r.start_call(name)
    r.arguments("{}")


def _arguments_value(r: Reader, say: Callable[[str], None], *, streams: bool) -> Steps[None]:
    opening = yield from r.at(("{", "[", '"'))
    if opening == "{":
        yield from json_object(r, say, streams=streams)
    elif opening == '"':
        say(_unwrap((yield from json_string(r, "arguments, encoded twice"))))
    elif (yield from r.at(("null",))):
        r.take(r.pos + 4, "arguments", "no arguments")
        say("{}")
    else:
        stop(r, "the arguments are no object")


def _skip_value(r: Reader, *, only_short: bool) -> Steps[None]:
    """Reads the value of a member that is neither name nor arguments."""
    opening = yield from r.at(("{", "[", '"'))
    if opening == '"':
        yield from json_string(r, "member", HEADER if only_short else None)
    elif opening and only_short:
        raise NotACall("a call has no such member")
    elif opening:
        yield from json_object(r, _ignore, streams=False, note="member")
    else:
        yield from scalar(r)


def _ignore(_: str) -> None:
    return


def stop(r: Reader, why: str) -> NoReturn:
    """Raises what fits: the text ended, perhaps in the middle of a marker, or what stands here is wrong."""
    if r.final and r.pos in (len(r.text), r.torn):
        raise Unfinished("the text ends inside a call")
    raise NotACall(why)
