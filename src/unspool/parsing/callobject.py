"""A call as a JSON object that holds its name and arguments, and lists of such objects."""

from __future__ import annotations

from collections.abc import Callable

from unspool.parsing.codecs.json import finish_arguments, json_object, json_string, load, skip_scalar, string_end
from unspool.parsing.declaration import JsonCalls
from unspool.parsing.reader import Reader, stop
from unspool.parsing.signals import HEADER, NotACall, Steps

_BESIDES = ("type", "id", "function", "index")
"""Members that a call may have besides name and arguments."""


def call_objects(r: Reader, shape: JsonCalls, opening: str, *, offered_only: bool) -> Steps[None]:
    """Reads one call object at the cursor, or a list of them if ``opening`` is ``[``; they are certain then.

    ``offered_only``: a name that was not offered, or a member that a call does not have, makes it no call.
    """
    if opening == "[":
        yield from _list(r, shape, offered_only=offered_only)
    else:
        yield from _call_object(r, shape, offered_only=offered_only)
    r.end_call()


def _list(r: Reader, shape: JsonCalls, *, offered_only: bool) -> Steps[None]:
    r.take(r.pos + 1, "framing", "list of calls")
    found = False
    while True:
        mark = yield from r.next(("{", ",", "]"))
        if mark == "{":
            yield from _call_object(r, shape, offered_only=offered_only)
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


def _call_object(r: Reader, shape: JsonCalls, *, offered_only: bool) -> Steps[None]:
    """Reads one object that holds a call's name and arguments, in either order, and closes the call.

    Arguments that come before the name wait for it.
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
        mark = yield from r.next(('"', "}", ","), string_end, '"')
        if mark:
            r.settle()
        if mark in ("}", ","):
            r.take(r.pos + 1, "framing", "call object")
            if mark == "}":
                break
            continue
        key = yield from json_string(r, "member name", HEADER)
        if not (yield from r.next((":",))):
            stop(r, "a colon is missing after a member name")
        r.take(r.pos + 1, "framing", "call object")
        names = name is None and key in shape.name_keys
        opening = yield from r.next(("{", "[", '"'), string_end if names else None, '"')
        if names:
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
                yield from _arguments_value(r, opening, early.append, streams=False)
            else:
                r.start_call(name)
                yield from _arguments_value(r, opening, r.arguments, streams=True)
        else:
            if key not in _BESIDES and key != shape.id_key:
                unknown = key
            if unknown and offered_only:
                raise NotACall(f"a call has no member {key!r}")
            yield from _skip_value(r, opening, only_short=offered_only)
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
    yield from r.next(('"',), string_end, '"')
    name = yield from json_string(r, "name", HEADER)
    _check_name(r, name, offered_only)
    if not (yield from r.next((":",))):
        stop(r, "a colon is missing after the name")
    r.take(r.pos + 1, "framing", "call object")
    opening = yield from r.next(("{", "[", '"'))
    r.start_call(name)
    yield from _arguments_value(r, opening, r.arguments, streams=True)
    if not (yield from r.next(("}",))):
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


def _arguments_value(r: Reader, opening: str, say: Callable[[str], None], *, streams: bool) -> Steps[None]:
    if opening == "{":
        yield from json_object(r, say, streams=streams)
    elif opening == '"':
        say(_unwrap((yield from json_string(r, "arguments, encoded twice"))))
    elif (yield from r.at(("null",))):
        r.take(r.pos + 4, "arguments", "no arguments")
        say("{}")
    else:
        stop(r, "the arguments are no object")


def _skip_value(r: Reader, opening: str, *, only_short: bool) -> Steps[None]:
    """Reads the value of a member that is neither name nor arguments."""
    if opening == '"':
        yield from json_string(r, "member", HEADER if only_short else None)
    elif opening and only_short:
        raise NotACall("a call has no such member")
    elif opening:
        yield from json_object(r, _ignore, streams=False, note="member")
    else:
        yield from skip_scalar(r)


def _ignore(_: str) -> None:
    return


def _unwrap(value: str) -> str:
    """Arguments that were encoded twice: the string's own text, if that is an object."""
    inner = value if value.strip() else "{}"
    try:
        if not isinstance(load(inner), dict):
            raise NotACall("the arguments are no object")
    except ValueError as why:
        raise NotACall(f"the arguments are no JSON: {why}") from None
    return inner
