"""An object with bare keys and strings between quote markers, said as JSON while it is read.

Strings are not escaped: only the quote marker ends one. Keys run to the colon. Everything else bare is JSON if
it is, or one of Python's constants, or else text.
"""

from __future__ import annotations

from functools import lru_cache

from unspool.parsing.codecs.json import escape, json_string, load, quote, stop
from unspool.parsing.codecs.python import CONSTANTS, DEPTH, NUMBERS
from unspool.parsing.reader import NotACall, Reader, Steps, Unfinished
from unspool.parsing.scanner import Watch, pattern

_KEY = pattern("[^:{}\\[\\],\ud800-\udfff]*+")
_BARE = pattern("[^,{}\\[\\]\ud800-\udfff]*+")


@lru_cache(maxsize=64)
def _quote_watch(mark: str) -> Watch:
    return Watch(("", (mark,)))


def relaxed_object(r: Reader, mark: str, depth: int = DEPTH) -> Steps[None]:
    """Reads ``{key:value,...}`` at the cursor; ``mark`` quotes strings."""
    if not depth:
        raise NotACall("the arguments are nested too deeply")
    r.take(r.pos + 1, "arguments", "object")
    r.arguments("{")
    keys: set[str] = set()
    while True:
        yield from r.space()
        if (yield from r.at(("}", ","))):
            r.settle()
        if (yield from r.at(("}",))):
            break
        if keys:
            if not (yield from r.at((",",))):
                stop(r, "a comma or '}' is missing")
            r.take(r.pos + 1, "arguments", "comma")
            yield from r.space()
            if (yield from r.at(("}",))):
                break
        key = yield from _key(r, mark)
        if key in keys:
            raise NotACall(f"the key {key!r} is there twice")
        r.arguments((", " if keys else "") + quote(key) + ": ")
        keys.add(key)
        yield from r.space()
        yield from _value(r, mark, depth - 1)
    r.take(r.pos + 1, "arguments", "object")
    r.arguments("}")


def _key(r: Reader, mark: str) -> Steps[str]:
    opening = yield from r.at((mark, '"'))
    if opening == mark:
        parts: list[str] = []
        yield from _quoted(r, mark, parts)
        key = "".join(parts)
    elif opening:
        key = yield from json_string(r, "key")
    else:
        key = (yield from _run(r, _KEY)).strip()
    yield from r.space()
    if not key or not (yield from r.at((":",))):
        stop(r, "a key is missing")
    r.take(r.pos + 1, "arguments", "key")
    return key


def _run(r: Reader, kind: object) -> Steps[str]:
    parts: list[str] = []
    while True:
        found = kind.match(r.text, r.pos)  # type: ignore[attr-defined]
        parts.append(r.take(found.end(), "arguments", "bare text"))
        if r.pos < len(r.text):
            return r.spell("".join(parts))
        if r.final:
            raise Unfinished("the text ends inside the arguments")
        yield


def _quoted(r: Reader, mark: str, parts: list[str] | None) -> Steps[None]:
    """Reads a string between quote markers into ``parts``, or out as JSON."""
    watch = _quote_watch(mark)
    r.take(r.pos + len(mark), "arguments", "quote")
    if parts is None:
        r.arguments('"')
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if end > r.pos:
            text = r.spell(r.take(end, "arguments", "string"))
            if parts is None:
                r.arguments(escape(text))
            else:
                parts.append(text)
        if found and found.lastindex:
            r.take(found.end(), "arguments", "quote")
            if parts is None:
                r.arguments('"')
            return
        if r.final:
            raise Unfinished("the text ends inside a string")
        if found:
            r.wait_for(watch)
        elif parts is None:
            r.flow(watch.stop, r.arguments_sink(escape))
        yield


def _value(r: Reader, mark: str, depth: int) -> Steps[None]:
    opening = yield from r.at((mark, '"', "{", "["))
    if opening == mark:
        yield from _quoted(r, mark, None)
    elif opening == '"':
        r.arguments(quote((yield from json_string(r, "string"))))
    elif opening == "{":
        yield from relaxed_object(r, mark, depth)
    elif opening == "[":
        yield from _list(r, mark, depth)
    else:
        text = (yield from _run(r, _BARE)).strip()
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
    r.take(r.pos + 1, "arguments", "list")
    r.arguments("[")
    first = True
    while True:
        yield from r.space()
        if (yield from r.at(("]",))):
            break
        if not first:
            if not (yield from r.at((",",))):
                stop(r, "a comma or ']' is missing")
            r.take(r.pos + 1, "arguments", "comma")
            r.arguments(", ")
            yield from r.space()
        if numbers := NUMBERS.match(r.text, r.pos):
            r.arguments(r.take(numbers.end(), "arguments", "numbers"))
        yield from _value(r, mark, depth - 1)
        first = False
    r.take(r.pos + 1, "arguments", "list")
    r.arguments("]")
