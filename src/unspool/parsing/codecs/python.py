"""Keyword arguments of a Python call, said as JSON while they are read.

Only literals are values: strings, numbers, constants (Python's or JSON's spelling), lists, tuples, dicts with
string keys, nested to a fixed depth. Strings stream; an escape is decoded and encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from unspool.parsing.codecs.json import escape, number, quote
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import pattern
from unspool.parsing.signals import HEADER, HOLD, NotACall, Steps, Unfinished, no_space

DEPTH = 64
"""Deepest nesting of a value."""

_GROUPED = pattern(r"[+-]?[0-9]+(?:_[0-9]+)*")
_OTHER_BASE = pattern(r"[+-]?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_NUMBERS = pattern(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?,\s*+(?=-?[0-9]))++")
"""A run of numbers, each with its comma, before another number: the same in JSON, Python and relaxed JSON."""

_WORD = pattern(r"[^\s,=:()\[\]{}'\"]*+")
word_end = pattern(r"[\s,=:()\[\]{}'\"]").search
"""For :meth:`Reader.space`: what no word holds."""

_NAME = pattern(r"[^\W\d][\w.\-]*")
_ESCAPE = pattern(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|[^xuU0-7\r]|\r(?!\n)|[xuU])"
)
_PARTIAL_ESCAPE = pattern(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-7]{1,2}|\r)?\Z")


_ODD = "\\x00-\\x1f\ud800-\udfff"
"""Characters that stand for themselves in Python and not in JSON."""


def _double_quotes(text: str) -> str:
    return text.replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class _Run:
    """Text and escapes that mean the same in a JSON string, inside quotes of one kind; ``say`` does the rest."""

    match: Callable[[str, int], re.Match[str] | None]
    whole: Callable[[str], object]
    stop: Callable[[str], object]
    say: Callable[[str], str] | None


def _run(quote: str, escapes: str, say: Callable[[str], str] | None) -> _Run:
    plain = rf"[^\\{quote}{_ODD}]*+"
    run = pattern(rf"{plain}(?:\\(?:[{escapes}]|u[0-9a-fA-F]{{4}}){plain})*+")
    return _Run(run.match, run.fullmatch, pattern(rf"[\\{quote}{_ODD}]").search, say)


_RUNS = {'"': _run('"', r'\\nrtbf"', None), "'": _run("'", r"\\nrtbf", _double_quotes)}

CONSTANTS = {
    "True": "true",
    "true": "true",
    "False": "false",
    "false": "false",
    "None": "null",
    "null": "null",
}
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0"}


def word(r: Reader, note: str, limit: int | None = None) -> Steps[str]:
    """Reads up to the next delimiter, at most ``limit`` characters."""
    parts: list[str] = []
    size = 0
    while True:
        # No further than that: what is no word is read again for the next opener.
        end = len(r.text) if limit is None else r.pos + limit + 1 - size
        found = _WORD.match(r.text, r.pos, end)
        assert found is not None
        size += found.end() - r.pos
        if limit is not None and size > limit:
            raise NotACall("a word is too long")
        parts.append(r.take(found.end(), "name" if note == "name" else "arguments", note))
        if r.pos < len(r.text):
            return r.spell("".join(parts))
        if r.final:
            raise Unfinished("the text ends inside a call")
        r.wait(word_end)
        yield


def identifier(r: Reader, note: str) -> Steps[str]:
    """Reads a dotted name."""
    name = yield from word(r, note, HEADER)
    if not _NAME.fullmatch(name):
        raise NotACall(f"{name!r} is no name")
    return name


def keyword_arguments(r: Reader, *, loose: bool = False) -> Steps[None]:
    """Reads ``key=value, ...)`` behind the opening bracket, through the closing one.

    ``loose``: a quote that ends no string where one can end is a letter of it.
    """
    keys: set[str] = set()
    while True:
        mark = yield from (r.next((")", ",")) if keys else r.next((")",), word_end))
        if mark:
            r.settle()
        if mark == ")":
            r.take(r.pos + 1, "framing", "closes the call")
            r.arguments("{}" if not keys else "}")
            return
        if keys:
            comma(r, mark, ")")
            if (yield from r.next((")",), word_end)):
                continue
        key = yield from identifier(r, "keyword")
        if not (yield from r.next(("=",))):
            stop(r, "arguments without a keyword are no call")
        if key in keys:
            raise NotACall(f"the keyword {key!r} is there twice")
        r.take(r.pos + 1, "framing", "keyword")
        opening = yield from r.next(_OPENINGS)
        r.arguments(("{" if not keys else ", ") + quote(key) + ": ")
        keys.add(key)
        yield from _value(r, opening, DEPTH, ",)" if loose else "")


def comma(r: Reader, mark: str, closer: str) -> None:
    """Consumes the comma that must stand here; ``mark`` is what was found."""
    if not mark:
        stop(r, f"a comma or {closer!r} is missing")
    r.take(r.pos + 1, "arguments", "comma")


_OPENINGS = ("'", '"', "[", "(", "{")


def _value(r: Reader, opening: str, depth: int, after: str = "") -> Steps[None]:
    """Reads one literal and says it as JSON; ``opening`` is which of :data:`_OPENINGS` it begins with.

    A string ends only before ``after``, if there is any.
    """
    if not depth:
        raise NotACall("the arguments are nested too deeply")
    if opening in ("'", '"'):
        yield from string(r, opening, after)
    elif opening == "{":
        yield from _dict(r, depth - 1, loose=bool(after))
    elif opening == "(":
        yield from _parenthesised(r, depth - 1, loose=bool(after))
    elif opening:
        yield from _list(r, depth - 1, loose=bool(after))
    else:
        text = yield from word(r, "value")
        if not text:
            stop(r, "a value is missing")
        r.arguments(CONSTANTS.get(text) or _number(text))


def _number(text: str) -> str:
    """The JSON text of a Python number; leading zeros, which Python forbids, are left out: models write them."""
    if _OTHER_BASE.fullmatch(text):
        return str(int(text, 0)) if len(text) < HEADER else quote(text)
    spelled = number(text.replace("_", "") if _GROUPED.fullmatch(text) else text)
    if spelled is None:
        raise NotACall(f"{text!r} is no value")
    return spelled


def literal(text: str) -> str | None:
    """The JSON text of the Python literal that the whole text is, or ``None``."""
    r = Reader(tools={}, atomic=True, parallel=True, spelled=None, trace=False)
    r.text = text
    r.final = True
    try:
        # A text that has ended is never waited for: the first step is the last.
        next(_value(r, text[:1] if text.startswith(_OPENINGS) else "", DEPTH), None)
    except NotACall:
        return None
    return r.argument_text() if r.pos == len(text) else None


def items(r: Reader, closer: str, item: Callable[[], Steps[None]], *, first: bool = True) -> Steps[None]:
    """Reads items with commas between them, and says the commas; the cursor then is at the closer.

    Behind the last item a comma may stand as well. ``first``: no item was read yet.
    """
    while True:
        mark = yield from r.next((closer,) if first else (closer, ","))
        if mark == closer:
            return
        if not first:
            comma(r, mark, closer)
            if (yield from r.next((closer,))):
                return
            r.arguments(", ")
        yield from item()
        first = False


def run_of_numbers(r: Reader) -> None:
    """Reads the numbers at the cursor that stand before another number, as they are spelled."""
    if found := _NUMBERS.match(r.text, r.pos):
        r.arguments(r.take(found.end(), "arguments", "numbers"))


def _parenthesised(r: Reader, depth: int, *, loose: bool) -> Steps[None]:
    """A tuple, or the only value in brackets that stand for nothing; the first comma tells."""
    r.take(r.pos + 1, "arguments", "bracket")
    put = r.hold_arguments()
    opening = yield from r.next((")", *_OPENINGS))
    empty = opening == ")"
    if not empty:
        yield from _value(r, opening, depth, ",)" if loose else "")
        if (yield from r.next((")", ","))) == ")":
            r.take(r.pos + 1, "arguments", "bracket")
            put("")
            return
    put("[")
    yield from _items(r, depth, ")", first=empty, loose=loose)


def _list(r: Reader, depth: int, *, loose: bool) -> Steps[None]:
    r.take(r.pos + 1, "arguments", "list")
    r.arguments("[")
    yield from _items(r, depth, "]", first=True, loose=loose)


def _items(r: Reader, depth: int, closer: str, *, first: bool, loose: bool) -> Steps[None]:
    """Reads a list from one of its items on, through its closer."""

    def item() -> Steps[None]:
        run_of_numbers(r)
        yield from _value(r, (yield from r.next(_OPENINGS)), depth, "," + closer if loose else "")

    yield from items(r, closer, item, first=first)
    r.take(r.pos + 1, "arguments", "list")
    r.arguments("]")


def _dict(r: Reader, depth: int, *, loose: bool) -> Steps[None]:
    def item() -> Steps[None]:
        mark = yield from r.next(("'", '"'))
        if not mark:
            stop(r, "a key that is no string")
        yield from string(r, mark, ":" if loose else "")
        if not (yield from r.next((":",))):
            stop(r, "a colon is missing after a key")
        r.take(r.pos + 1, "arguments", "dict")
        r.arguments(": ")
        yield from _value(r, (yield from r.next(_OPENINGS)), depth, ",}" if loose else "")

    r.take(r.pos + 1, "arguments", "dict")
    r.arguments("{")
    yield from items(r, "}", item)
    r.take(r.pos + 1, "arguments", "dict")
    r.arguments("}")


def string(r: Reader, mark: str, after: str = "") -> Steps[None]:
    """Reads a string in single, double or triple quotes, the cursor at the opening one.

    With ``after``, a single quote before something else than one of these characters is a letter.
    """
    closer = yield from r.at((mark * 3, mark * 2, mark))
    if closer == mark * 2 and after and not (yield from _before(r, after, 2)):
        closer = mark
    if closer == mark * 2:
        r.take(r.pos + 2, "arguments", "string")
        r.arguments('""')
        return
    r.take(r.pos + len(closer), "arguments", "string")
    r.arguments('"')
    run = _RUNS[mark]
    while True:
        found = run.match(r.text, r.pos)
        assert found is not None
        end = found.end()
        if end > r.pos:
            text = r.spell(r.take(end, "arguments", "string"))
            r.arguments(run.say(text) if run.say else text)
        if r.pos == len(r.text):
            if r.final:
                raise Unfinished("the text ends inside a string")
            r.flow(run.stop, r.arguments_sink(run.say), run.whole)
            yield
        elif r.text[r.pos] == "\\":
            if not r.final and _PARTIAL_ESCAPE.match(r.text, r.pos):
                yield
                continue
            escaped = _ESCAPE.match(r.text, r.pos)
            if escaped is None:
                raise Unfinished("the text ends inside a string")
            r.arguments(escape(_decoded(r.take(escaped.end(), "arguments", "escape"))))
        elif (
            r.text[r.pos] == mark
            and (closer == mark or (yield from r.at((closer,))))
            and (not after or len(closer) > 1 or (yield from _before(r, after, 1)))
        ):
            r.take(r.pos + len(closer), "arguments", "string")
            r.arguments('"')
            return
        else:
            r.arguments(escape(r.spell(r.take(r.pos + 1, "arguments", "string"))))


def _before(r: Reader, characters: str, offset: int) -> Steps[bool]:
    """Whether one of the characters, or the end of the text, comes ``offset`` characters ahead, after layout."""
    while True:
        end = r.space_end(r.pos + offset)
        if end - r.pos > HOLD:
            return False
        if end < len(r.text):
            return r.text[end] in characters
        if r.final:
            return True
        r.wait(no_space)
        yield


def _decoded(text: str) -> str:
    """What an escape stands for; one that Python does not know stands for itself."""
    body = text[1:]
    if body in _SIMPLE:
        return _SIMPLE[body]
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code < 0x110000 else text
    if body[0] in "01234567":
        return chr(int(body, 8))
    if body in ("\n", "\r\n", "\r"):
        return ""
    return body if body in ("\\", "'", '"') else text
