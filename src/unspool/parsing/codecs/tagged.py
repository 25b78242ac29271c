"""Arguments as elements: one text value a parameter, its type from the schema or from the element itself.

Values are not escaped, so a closer inside a value is told from the real one by what follows it: a closer counts
only where the next token is legal after it. A value whose closer is missing ends where the next declared
parameter or the end of the call begins. A string streams as it grows; every other value waits for its end.
The first of two values for one parameter is the one that counts, since it may have been sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from html import unescape

from unspool.parsing.codecs.json import escape, finish_arguments, json_object, quote, stop
from unspool.parsing.declaration import TaggedCalls
from unspool.parsing.reader import HEADER, HOLD, NotACall, Reader, Steps, Unfinished, no_space
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.schema import JSON, STRING, UNTYPED, Tool, Types, convert, fate, named_type

_ATTRIBUTE = pattern(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>/]+))""")
_NOTHING = Tool("")


def attributes(header: str, *, entities: bool = False) -> dict[str, str]:
    """The attributes of an element's header; quotes may be double, single or missing."""
    found = {}
    for match in _ATTRIBUTE.finditer(header):
        value = next(group for group in match.groups()[1:] if group is not None)
        found[match.group(1)] = unescape(value) if entities else value
    return found


@lru_cache(maxsize=256)
def _value_watch(shape: TaggedCalls, barriers: tuple[str, ...]) -> Watch:
    """Group 1 closes a value, 2 opens the next parameter, 3 closes the call, 4 ends what the call stands in,
    group 5 opens the next call.
    """
    return Watch(
        (shape.value_pad, shape.value_close),
        (shape.value_pad, shape.param_open),
        (shape.value_pad, shape.call_close),
        ("", barriers),
        (shape.value_pad, shape.call_open if shape.open_ends else ()),
    )


def header_text(r: Reader, ends: tuple[str, ...], stops: tuple[str, ...] = ()) -> Steps[tuple[str, str]]:
    """Reads up to one of ``ends`` (consumed) or ``stops`` (not); returns the text and what ended it."""
    watch = _header_watch(ends, stops + r.barriers)
    most = HEADER + max(map(len, ends + stops + r.barriers))
    offset = 0
    while True:
        window = r.text[r.pos : r.pos + most]
        ended = r.final and r.pos + len(window) == len(r.text)
        found = watch.find(window, offset, ended)
        offset = found.start() if found else len(window)
        if offset > HEADER:
            r.take(r.pos + HEADER)
            raise NotACall("the header of the call has no end")
        if found and found.lastindex:
            text = r.spell(r.take(r.pos + offset, "name", "header"))
            mark = found.group(found.lastindex)
            if mark in r.barriers:
                raise NotACall("the reasoning ends inside a header")
            if found.lastindex == 1:
                r.take(r.pos + len(mark), "framing", "end of the header")
            return text, mark
        if ended:
            raise Unfinished("the text ends inside the header of a call")
        if found is None:
            r.wait(watch.stop)
        else:
            r.wait_for(watch, offset)
        yield


@lru_cache(maxsize=256)
def _header_watch(ends: tuple[str, ...], stops: tuple[str, ...]) -> Watch:
    return Watch(("", ends), ("", stops))


class Arguments:
    """The object that grows while parameters come."""

    __slots__ = ("_keys", "r")

    def __init__(self, r: Reader) -> None:
        self.r = r
        self._keys: set[str] = set()

    def key(self, key: str) -> bool:
        """Begins a member; ``False`` if the key was there before."""
        if key in self._keys:
            return False
        self.r.arguments(("{" if not self._keys else ", ") + quote(key) + ": ")
        self._keys.add(key)
        return True

    def has(self, key: str) -> bool:
        return key in self._keys

    @property
    def empty(self) -> bool:
        return not self._keys

    def end(self) -> None:
        self.r.arguments("{}" if not self._keys else "}")


def tagged_call(r: Reader, shape: TaggedCalls, *, offered_only: bool) -> Steps[None]:
    """Reads one call, the cursor behind its opener, and closes it."""
    yield from r.space()
    header, _ = yield from header_text(r, shape.header_end, shape.header_stops)
    closed = bool(shape.name_attribute) and header.rstrip().endswith("/")
    if shape.name_attribute:
        name = attributes(header, entities=shape.attribute_entities).get(shape.name_attribute, "")
    else:
        name = header.strip()
    if not name or any(char.isspace() or char in "<>" for char in name):
        raise NotACall("the call has no name")
    if offered_only and name not in r.tools:
        raise NotACall(f"no tool {name!r} was offered")
    tool = r.tools.get(name, _NOTHING)
    r.start_call(name)
    arguments = Arguments(r)
    if not closed:
        yield from _parameters(r, shape, tool, arguments)
    if arguments.empty and r.argument_text():
        return finish_arguments(r)
    arguments.end()
    r.close_call()


def _parameters(r: Reader, shape: TaggedCalls, tool: Tool, arguments: Arguments) -> Steps[None]:
    whole = ("{",) if shape.section_open and not shape.whole_open else (shape.whole_open,)
    endings = shape.section_close + shape.call_open + r.stops
    while True:
        yield from r.space()
        mark = yield from r.at(shape.param_open + shape.call_close + endings + whole)
        if mark in shape.param_open:
            r.take(r.pos + len(mark), "framing", "opens a parameter")
            yield from _parameter(r, shape, tool, arguments)
        elif mark in shape.call_close:
            r.take(r.pos + len(mark), "framing", "closes the call")
            return
        elif mark and mark in whole and arguments.empty:
            yield from _whole(r, shape)
        elif (mark and mark in endings) or (r.final and r.pos == len(r.text) and not r.cut):
            # The closer is missing, but every parameter is complete.
            return
        else:
            stop(r, "text inside the call that is no parameter")


def _whole(r: Reader, shape: TaggedCalls) -> Steps[None]:
    """All arguments as one JSON object."""
    if shape.whole_open:
        r.take(r.pos + len(shape.whole_open), "framing", "opens the arguments")
        yield from header_text(r, shape.key_end)
    if (yield from r.at(("{",))) != "{":
        stop(r, "the arguments are no object")
    yield from json_object(r, r.arguments, streams=True)
    yield from r.space()
    if shape.whole_close and (yield from r.at((shape.whole_close,))):
        r.take(r.pos + len(shape.whole_close), "framing", "closes the arguments")
    yield from r.space()
    if mark := (yield from r.at(shape.call_close)):
        r.take(r.pos + len(mark), "framing", "closes the call")
    elif not (yield from r.at(shape.section_close)) and not r.final:
        raise NotACall("text behind the arguments")


def _parameter(r: Reader, shape: TaggedCalls, tool: Tool, arguments: Arguments) -> Steps[None]:
    alone = shape.param_open + shape.call_close if shape.drops_keys_alone else ()
    header, mark = yield from header_text(r, shape.key_end, alone)
    if mark in alone:
        return
    types: Types | None = None
    if shape.key_attribute:
        found = attributes(header, entities=shape.attribute_entities)
        key = found.get(shape.key_attribute, "")
        flag = found.get(shape.type_attribute) if shape.type_attribute else None
        if flag in ("true", "string"):
            types = STRING
        elif flag is not None:
            # What is no JSON may still be Python's spelling of the type.
            types = JSON | (frozenset({flag}) if flag != "false" else tool.type_of(key) - STRING)
    else:
        key = header.strip()
    if not key:
        raise NotACall("a parameter has no name")
    types = tool.type_of(key) if types is None else types
    if shape.type_element:
        named = yield from _type_element(r, *shape.type_element)
        types = types or named
    if shape.value_open:
        yield from r.space()
        if (yield from r.at((shape.value_open,))):
            r.take(r.pos + len(shape.value_open), "framing", "opens the value")
        elif alone and (yield from r.at(alone)):
            return
    yield from r.pad(shape.value_pad, "the template's newline before a value")
    value = Value(r, types, arguments.key(key), python=shape.python_values)
    if shape.verbatim and (yield from r.at((shape.verbatim[0],))):
        yield from _verbatim(r, shape, *shape.verbatim, value)
    else:
        yield from _value(r, shape, tool, arguments, value)
    value.end()


def _type_element(r: Reader, opener: str, closer: str) -> Steps[Types]:
    """The type that an element between key and value names; empty without one."""
    yield from r.space()
    if not (yield from r.at((opener,))):
        return UNTYPED
    r.take(r.pos + len(opener), "framing", "opens the type")
    name, _ = yield from header_text(r, (closer,))
    return named_type(name)


def _verbatim(r: Reader, shape: TaggedCalls, opener: str, closer: str, value: Value) -> Steps[None]:
    """Reads a value between two markers of its own; the closer counts only where the value may end."""
    r.take(r.pos + len(opener), "framing", "verbatim")
    watch = _header_watch((closer,), ())
    while True:
        found = watch.find(r.text, r.pos, r.final)
        value.text(found.start() if found else len(r.text))
        if found is None:
            if r.final:
                raise Unfinished("the text ends inside a value")
            value.flow(watch.stop)
        elif not found.lastindex:
            r.wait_for(watch)
        elif (yield from _followed_by(r, len(closer), shape.value_close + shape.param_open + shape.call_close)):
            r.take(r.pos + len(closer), "framing", "end of what is verbatim")
            yield from r.space()
            if mark := (yield from r.at(shape.value_close)):
                r.take(r.pos + len(mark), "framing", "closes the value")
            return
        else:
            value.text(r.pos + 1)
            continue
        yield


class Value:
    """One value's text on its way to JSON: streamed once it can only be a string, otherwise held."""

    __slots__ = ("_fate", "_held", "_python", "_r", "_types", "_wanted")

    def __init__(self, r: Reader, types: Types, wanted: bool, *, python: bool = False) -> None:
        self._r = r
        self._types = types
        self._wanted = wanted
        self._python = python
        self._held: list[str] = []
        self._decide()

    def _decide(self) -> None:
        text = "".join(self._held)
        self._fate = fate(self._types, text, python=self._python)
        if self._fate == "text":
            if self._wanted:
                self._r.arguments('"' + escape(text))
            self._held.clear()

    def text(self, end: int) -> None:
        """Everything up to ``end`` belongs to the value."""
        if end == self._r.pos:
            return
        text = self._r.spell(self._r.take(end, "arguments", "value"))
        if self._fate == "text":
            if self._wanted:
                self._r.arguments(escape(text))
            return
        self._held.append(text)
        if self._fate == "open":
            self._decide()

    def flow(self, stop: Callable[[str], object]) -> None:
        """Lets plain text pass while nothing else is due."""
        if self._fate == "text" and self._wanted:
            self._r.flow(stop, self._r.arguments_sink(escape))

    def end(self) -> None:
        """The value is complete."""
        if not self._wanted:
            return
        if self._fate == "text":
            self._r.arguments('"')
        else:
            self._r.arguments(convert("".join(self._held), self._types, python=self._python))


def _value(r: Reader, shape: TaggedCalls, tool: Tool, arguments: Arguments, value: Value) -> Steps[None]:
    """Reads a value up to its closer, or to where a missing closer must have been."""
    watch = _value_watch(shape, r.barriers)
    while True:
        found = watch.find(r.text, r.pos, r.final)
        if found is None:
            value.text(len(r.text))
            if r.final:
                raise Unfinished("the text ends inside a value")
            value.flow(watch.stop)
            yield
            continue
        value.text(found.start())
        if not found.lastindex:
            r.wait_for(watch)
            yield
            continue
        literal = found.group(found.lastindex)
        size = found.end() - found.start()
        if found.lastindex == 4:
            raise NotACall("the reasoning ends inside a value")
        if found.lastindex == 5:
            if r.certain(literal) or (yield from _names_tool(r, shape, size)):
                r.take(r.pos + size - len(literal), "framing", "the call's closer is missing")
                return
        elif found.lastindex == 1:
            after = shape.param_open + shape.call_close + shape.section_close + shape.call_open + r.stops
            if r.certain(literal) or (yield from _followed_by(r, size, after)):
                r.take(r.pos + size, "framing", "closes the value")
                return
        elif found.lastindex == 2:
            if r.certain(literal) or (yield from _names_parameter(r, shape, size, tool, arguments)):
                r.take(r.pos + size - len(literal), "framing", "the value's closer is missing")
                return
        elif r.certain(literal) or (
            yield from _followed_by(r, size, shape.section_close + shape.section_open + shape.call_open + r.stops)
        ):
            r.take(r.pos + size - len(literal), "framing", "the value's closer is missing")
            return
        # Only letters: the value goes on behind the marker's first character.
        value.text(r.pos + max(size - len(literal), 0) + 1)


def _names_tool(r: Reader, shape: TaggedCalls, offset: int) -> Steps[bool]:
    """Whether an offered tool is named ``offset`` characters ahead."""
    while True:
        text = r.text[r.pos + offset : r.pos + offset + HEADER]
        ends = [at for mark in shape.header_stops if (at := text.find(mark)) >= 0]
        if ends or len(text) == HEADER or r.final:
            return text[: min(ends, default=0)].strip() in r.tools
        yield


def _followed_by(r: Reader, offset: int, literals: tuple[str, ...]) -> Steps[bool]:
    """Whether, after whitespace, one of the literals or the end of the text stands ``offset`` ahead."""
    while True:
        ahead = r.space_end(r.pos + offset) - r.pos
        if ahead - offset > HOLD:
            return False
        if r.pos + ahead < len(r.text):
            return bool((yield from r.at(literals, ahead)))
        if r.final:
            return True
        r.wait(no_space)
        yield


def _names_parameter(r: Reader, shape: TaggedCalls, offset: int, tool: Tool, arguments: Arguments) -> Steps[bool]:
    """Whether a declared parameter that has no value yet is named ``offset`` characters ahead."""
    while True:
        text = r.text[r.pos + offset : r.pos + offset + HEADER]
        for end in shape.key_end:
            header, mark, _ = text.partition(end)
            if mark:
                key = attributes(header).get(shape.key_attribute, "") if shape.key_attribute else header.strip()
                return key in tool.types and not arguments.has(key)
        if len(text) == HEADER or r.final:
            return False
        yield
