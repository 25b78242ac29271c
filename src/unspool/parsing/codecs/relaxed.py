"""An object with bare keys and strings between quote markers, said as JSON while it is read.

Strings are not escaped: only the quote marker ends one. Keys run to the colon. Everything else bare is JSON if
it is, or one of Python's constants, or else text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from unspool.parsing.codecs.json import json_string, load, quote
from unspool.parsing.codecs.python import CONSTANTS, DEPTH, comma, items, run_of_numbers
from unspool.parsing.codecs.raw import Gathered, Spoken
from unspool.parsing.markers import Taker, upto
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.signals import Finder, NotACall, Steps, Unfinished

_NO_KEY = ":{}\\[\\],\ud800-\udfff"
_KEY = pattern(f"[^{_NO_KEY}]*+")
_bare_key_end = pattern(f"[{_NO_KEY}]").search
_NO_BARE = ",{}\\[\\]\ud800-\udfff"
_BARE = pattern(f"[^{_NO_BARE}]*+")
_bare_end = pattern(f"[{_NO_BARE}]").search


@lru_cache(maxsize=64)
def quote_watch(mark: str) -> Watch:
    """Looks for a quote marker."""
    return Watch(("", (mark,)))


@lru_cache(maxsize=64)
def _key_end(mark: str) -> Finder:
    """For :meth:`Reader.space`: what no bare key holds, and what a quoted one may begin with."""
    return pattern(f'[{_NO_KEY}"{re.escape(mark[0])}]').search


def relaxed_object(r: Reader, mark: str, depth: int = DEPTH) -> Steps[None]:
    """Reads ``{key:value,...}`` at the cursor; ``mark`` quotes strings."""
    if not depth:
        raise NotACall("the arguments are nested too deeply")
    r.take(r.pos + 1, "arguments", "object")
    r.arguments("{")
    keys: set[str] = set()
    key_end = _key_end(mark)
    while True:
        closing = yield from (r.next(("}", ",")) if keys else r.next(("}",), key_end))
        if closing:
            r.settle()
        if closing == "}":
            break
        if keys:
            comma(r, closing, "}")
            if (yield from r.next(("}",), key_end)):
                break
        key = yield from _key(r, mark)
        if key in keys:
            raise NotACall(f"the key {key!r} is there twice")
        r.arguments((", " if keys else "") + quote(key) + ": ")
        keys.add(key)
        yield from _value(r, mark, depth - 1)
    r.take(r.pos + 1, "arguments", "object")
    r.arguments("}")


def _key(r: Reader, mark: str) -> Steps[str]:
    opening = yield from r.at((mark, '"'))
    if opening == mark:
        gathered = Gathered(r, "string")
        yield from _quoted(r, mark, gathered)
        key = "".join(gathered.parts)
    elif opening:
        key = yield from json_string(r, "key")
    else:
        key = (yield from _run(r, _KEY, _bare_key_end)).strip()
    colon = yield from r.next((":",))
    if not key or not colon:
        stop(r, "a key is missing")
    r.take(r.pos + 1, "arguments", "key")
    return key


def _run(r: Reader, kind: re.Pattern[str], end: Callable[[str], object]) -> Steps[str]:
    """Reads all characters of a kind; ``end`` finds others."""
    parts: list[str] = []
    while True:
        found = kind.match(r.text, r.pos)
        assert found is not None
        parts.append(r.take(found.end(), "arguments", "bare text"))
        if r.pos < len(r.text):
            return r.spell("".join(parts))
        if r.final:
            raise Unfinished("the text ends inside the arguments")
        r.wait(end)
        yield


def _quoted(r: Reader, mark: str, taker: Taker) -> Steps[None]:
    """Reads a string between quote markers."""
    r.take(r.pos + len(mark), "arguments", "quote")
    found = yield from upto(r, quote_watch(mark), taker)
    r.take(found.end(), "arguments", "quote")


def _value(r: Reader, mark: str, depth: int) -> Steps[None]:
    opening = yield from r.next((mark, '"', "{", "["))
    if opening == mark:
        r.arguments('"')
        yield from _quoted(r, mark, Spoken(r, "string"))
        r.arguments('"')
    elif opening == '"':
        r.arguments(quote((yield from json_string(r, "string"))))
    elif opening == "{":
        yield from relaxed_object(r, mark, depth)
    elif opening == "[":
        yield from _list(r, mark, depth)
    else:
        text = (yield from _run(r, _BARE, _bare_end)).strip()
        if not text:
            stop(r, "a value is missing")
        text = CONSTANTS.get(text, text)
        try:
            load(text)
            r.arguments(text)
        except ValueError:
            r.arguments(quote(text))


def _list(r: Reader, mark: str, depth: int) -> Steps[None]:
    if not depth:
        raise NotACall("the arguments are nested too deeply")

    def item() -> Steps[None]:
        run_of_numbers(r)
        yield from _value(r, mark, depth - 1)

    r.take(r.pos + 1, "arguments", "list")
    r.arguments("[")
    yield from items(r, "]", item)
    r.take(r.pos + 1, "arguments", "list")
    r.arguments("]")
