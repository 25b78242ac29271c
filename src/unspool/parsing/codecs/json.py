"""JSON inside a call: passed through as it is written, its end found by its own grammar.

Outside strings only the nesting is followed; whole runs of structure and complete strings are one regular
expression match. Inside a string a closing marker is just letters. Whether the text was JSON at all is decided
once, by the standard library, when the value is complete. Two slips have one reading and are mended on the
way: a backslash before a letter that no escape has, and a raw control character inside a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import pattern
from unspool.parsing.signals import NotACall, Steps, Unfinished

_PLAIN = r'[^"\\\x00-\x1f]*+'
_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_BODY = rf"{_PLAIN}(?:{_ESCAPE}{_PLAIN})*+"
_LOOSE = r"[ \t\r\n0-9eE+\-.,:truefalsn]"
_in_string = pattern(_BODY)
_structure = pattern(rf'(?:{_LOOSE}++|"{_BODY}")*+')
_level_in_string = pattern(rf'{_BODY}(?:(")(?:{_LOOSE}++|"{_BODY}")*+("{_BODY})?)?').fullmatch
_level_structure = pattern(rf'(?:{_LOOSE}++|"{_BODY}")*+("{_BODY})?').fullmatch
"""Text in which nothing opens or closes but strings; group 1 is the last one if a string ended or began."""

string_end = pattern(r'["\\\x00-\x1f]').search
_structure_stop = pattern(f"[^{_LOOSE[1:]}").search
_string = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_surrogate = pattern("[\ud800-\udfff]")
_any_string = pattern(f"{_string}?")
"""Without its closing quote it goes to the end: no later quote is tried as its beginning."""
_control = pattern(r"\\.|[\x00-\x1f]")
_LOOSE_NUMBER = pattern(r"([+-]?)(?=\.?[0-9])([0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_settled = pattern(rf"(?:[\[\]{{}}]|{_LOOSE}|{_string}(?=[ \t\r\n]*+[,:\]}}]))*+")
_SCALAR = r"0-9eE+\-.truefalsn"
_scalar = pattern(f"[{_SCALAR}]*+").match
_scalar_end = pattern(f"[^{_SCALAR}]").search
_partial_escape = pattern(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")

_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _uncounted(_: str) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is spelled."""

    text: str


_decode = json.JSONDecoder(parse_constant=_reject_constant).decode
_decode_long = json.JSONDecoder(parse_constant=_reject_constant, parse_int=_uncounted).decode


def load(text: str) -> Any:
    """The value of a JSON text, strictly; raises ``ValueError`` for anything else, however deep.

    A number goes on as it is spelled, so what Python makes of it does not matter: a whole number too long for
    Python is JSON too, and makes all whole numbers of its text 0 here.
    """
    try:
        try:
            return _decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            return _decode_long(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


_decode_spelled = json.JSONDecoder(parse_constant=_reject_constant, parse_int=Number, parse_float=Number).decode


def load_spelled(text: str) -> Any:
    """The value of a JSON text, strictly, numbers as they are spelled; raises ``ValueError`` for anything else."""
    try:
        return _decode_spelled(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(value: Any) -> str:
    """The JSON text of a value that may hold numbers as they were spelled; other scripts are left readable."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Number):
        return value.text
    if isinstance(value, Mapping):
        members = []
        for key, item in value.items():  # a generator would take two frames a level
            members.append(f"{quote(key)}: {dump(item)}")
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value, allow_nan=False)


def number(text: str) -> str | None:
    """The JSON text of a decimal number, sign, zeros and point perhaps where JSON has none; else ``None``."""
    found = _LOOSE_NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, whole, fraction, exponent = found.groups("")
    digits = whole.lstrip("0") or "0"
    return sign.strip("+") + digits + (fraction and fraction.ljust(2, "0")) + exponent


def without_controls(text: str) -> str:
    """The text with raw control characters inside its strings escaped."""
    return _any_string.sub(lambda found: _control.sub(_escaped_control, found.group()), text)


def _escaped_control(found: re.Match[str]) -> str:
    return _CONTROLS.get(found.group(), found.group())


class _Place:
    """Where inside a JSON value the text is: how deep, and whether in a string."""

    __slots__ = ("depth", "string")

    def __init__(self) -> None:
        self.depth = 0
        self.string = False

    def inside(self, r: Reader) -> Callable[[str], bool]:
        """For :meth:`Reader.flow`: whether all of a delta goes on inside the value; the place then moves on."""

        def whole(delta: str) -> bool:
            string = self.string
            if level := (_level_in_string if string else _level_structure)(delta):
                if level.lastindex == 1:
                    self.string = not string
                    r.stop = _structure_stop if string else string_end
                return True
            depth = self.depth
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
                r.stop = string_end if string else _structure_stop
            return True

        return whole


def escape(text: str) -> str:
    """The text as the inside of a JSON string."""
    return quote(text)[1:-1]


def quote(text: str) -> str:
    """The text as a JSON string, other scripts left readable; halves of surrogate pairs are escapes."""
    quoted = encode_basestring(text)
    return quoted if quoted.isascii() else _surrogate.sub(_escaped_surrogate, quoted)


def _escaped_surrogate(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


def json_object(r: Reader, say: Callable[[str], None], *, streams: bool, note: str = "arguments") -> Steps[None]:
    """Reads one JSON object or array at the cursor and says its text, mended where the module says.

    ``streams``: the text goes out through the open call as it comes. Raises :class:`NotACall` at a character
    that no JSON has there, :class:`Unfinished` if the text ends first.
    """
    r.settle()
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
                    r.settle()
                    return
            else:
                # Said all the same: a stream that was cut here has said it already.
                say(r.spell(r.take(pos)))
                r.settle(_settled_size)
                raise NotACall(f"{r.spell(char)!r} has no place in JSON")
        if pos > r.pos:
            say(r.spell(r.take(pos, "arguments", note)))
        if r.final:
            raise Unfinished("the text ends inside the arguments")
        if streams:
            r.flow(string_end if place.string else _structure_stop, r.arguments_sink(), inside)
        yield


def _settled_size(text: str) -> int:
    """How much of a text that turned out not to be JSON was JSON for sure.

    A string before something that can't follow one may have been closed by a quote of the text behind it, and
    a bracket there may be another marker's.
    """
    found = _settled.match(text, 0)
    assert found is not None
    return len(found.group().rstrip("[{"))


def json_string(r: Reader, note: str, limit: int | None = None) -> Steps[str]:
    """Reads one JSON string at the cursor and returns its value; more than ``limit`` characters are no name."""
    if not r.text.startswith('"', r.pos):
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
            r.wait(string_end)
        yield
    text = r.spell("".join(parts))
    value: str = load(f'"{text}"') if "\\" in text else text
    return value


def skip_scalar(r: Reader) -> Steps[None]:
    """Reads a number or a constant at the cursor."""
    parts: list[str] = []
    while True:
        found = _scalar(r.text, r.pos)
        assert found is not None
        parts.append(r.take(found.end(), "framing", "member"))
        if r.pos < len(r.text):
            break
        if r.final:
            raise Unfinished("the text ends inside a value")
        r.wait(_scalar_end)
        yield
    text = "".join(parts)
    if not text:
        raise NotACall(f"{r.spell(r.text[r.pos])!r} is no JSON value")
    try:
        load(text)
    except ValueError:
        raise NotACall(f"{text!r} is no JSON value") from None


def finish_arguments(r: Reader) -> None:
    """Checks that the object that was said as arguments is JSON, then closes the call."""
    text = r.argument_text()
    try:
        load(text)
    except ValueError as why:
        raise NotACall(f"the arguments are no JSON: {why}") from None
    r.close_call()
