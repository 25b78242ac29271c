"""Arguments as elements: one text value a parameter, its type from the schema or from the element itself.

Values are not escaped, so a closer inside a value is told from the real one by what follows it: a closer counts
only where the next token is legal after it. A value whose closer is missing ends where the next declared
parameter or the end of the call begins. A string streams as it grows; every other value waits for its end.
The first of two values for one parameter is the one that counts, since it may have been sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from functools import lru_cache
from html import unescape

from unspool.parsing.codecs.json import escape, finish_arguments, json_object, quote
from unspool.parsing.declaration import TaggedCalls
from unspool.parsing.markers import header_text, header_watch, upto
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.schema import JSON, STRING, UNTYPED, Tool, Types, convert, fate, named_type
from unspool.parsing.signals import HEADER, HOLD, NotACall, Steps

_ATTRIBUTE = pattern(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>/]+))""")
_no_name = pattern(r"[\s<>]").search
_NOTHING = Tool("")


def attributes(header: str, *, entities: bool = False) -> dict[str, str]:
    """The attributes of an element's header; quotes may be double, single or missing."""
    found = {}
    for match in _ATTRIBUTE.finditer(header):
        # The one kind of quotes that was there is the last group.
        value = match[match.lastindex or 0]
        found[match.group(1)] = unescape(value) if entities else value
    return found


@lru_cache(maxsize=256)
def _value_watch(pad: str, loose: tuple[str, ...], barriers: tuple[str, ...], *marks: tuple[str, ...]) -> Watch:
    """Looks for the markers around values, in groups; those that are loose are text there.

    Group 1 closes a value, 2 opens the next parameter, 3 closes the call, 4 opens the next call, 5 ends what the
    call stands in.
    """
    groups = [(pad, tuple(mark for mark in group if mark not in loose)) for group in marks]
    return Watch(*groups, ("", barriers))


def _unquoted(name: str, known: Container[str]) -> str:
    """A name or key without the quotes around it, unless it is known with them."""
    quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "\"'" and name not in known
    return name[1:-1] if quoted else name


def _key(shape: TaggedCalls, header: str, known: Container[str]) -> tuple[str, dict[str, str]]:
    """A parameter's key and the attributes of its element."""
    if not shape.key_attribute:
        return _unquoted(header.strip(), known), {}
    found = attributes(header, entities=shape.attribute_entities)
    return found.get(shape.key_attribute, ""), found


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
    yield from r.space(header_watch(shape.header_end, shape.header_stops).stop)
    header, _ = yield from header_text(r, shape.header_end, shape.header_stops)
    closed = bool(shape.name_attribute) and header.rstrip().endswith("/")
    if shape.name_attribute:
        name = attributes(header, entities=shape.attribute_entities).get(shape.name_attribute, "")
    else:
        name = _unquoted(header.strip(), r.tools)
    if not name or _no_name(name):
        raise NotACall("the call has no name")
    if shape.qualified:
        name = _offered_name(name, r.tools)
    if offered_only and name not in r.tools:
        raise NotACall(f"no tool {name!r} was offered")
    yield from tagged_arguments(r, shape, name, closed=closed)


def _offered_name(name: str, tools: Collection[str]) -> str:
    """The offered tool that a name means, whatever its namespace; a doubled name counts once."""
    if name in tools:
        return name
    half = name[: len(name) // 2]
    name = half if name == f"{half}.{half}" else name
    last = name.rpartition(".")[2]
    if name not in tools and last in tools:
        return last
    longer = [tool for tool in tools if tool.endswith(f".{name}")]
    return longer[0] if len(longer) == 1 else name


def tagged_arguments(r: Reader, shape: TaggedCalls, name: str, *, closed: bool = False) -> Steps[None]:
    """Reads the elements of a call to this tool and closes it; ``closed``: there are none."""
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
    marks = shape.param_open + shape.call_close + endings + whole
    while True:
        mark = yield from r.next(marks)
        if mark:
            r.settle()
        if mark in shape.param_open:
            r.take(r.pos + len(mark), "framing", "opens a parameter")
            yield from _parameter(r, shape, mark, tool, arguments)
        elif (mark and mark in endings) or (not mark and r.final and r.pos == len(r.text) and not r.cut):
            # The closer is missing, but every parameter is complete.
            return
        elif mark in shape.call_close:
            r.take(r.pos + len(mark), "framing", "closes the call")
            return
        elif mark and mark in whole and arguments.empty:
            yield from _whole(r, shape)
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
    if shape.whole_close and (yield from r.next((shape.whole_close,))):
        r.take(r.pos + len(shape.whole_close), "framing", "closes the arguments")
    if mark := (yield from r.next(shape.call_close)):
        r.take(r.pos + len(mark), "framing", "closes the call")
    elif not (yield from r.at(shape.section_close)) and not r.final:
        raise NotACall("text behind the arguments")


def _parameter(r: Reader, shape: TaggedCalls, opened: str, tool: Tool, arguments: Arguments) -> Steps[None]:
    alone = shape.param_open + shape.call_close if shape.drops_keys_alone else ()
    header, mark = yield from header_text(r, shape.key_end, alone)
    if mark in alone:
        return
    types: Types | None = None
    key, found = _key(shape, header, tool.types)
    flag = found.get(shape.type_attribute)
    if flag in ("true", "string"):
        types = STRING
    elif flag is not None:
        # What is no JSON may still be Python's spelling of the type.
        types = JSON | (frozenset({flag}) if flag != "false" else tool.type_of(key) - STRING)
    if not key:
        raise NotACall("a parameter has no name")
    types = tool.type_of(key) if types is None else types
    if shape.type_element:
        named = yield from _type_element(r, *shape.type_element)
        types = types or named
    if shape.value_open:
        begins = yield from r.next((shape.value_open, *alone))
        if begins == shape.value_open:
            r.take(r.pos + len(shape.value_open), "framing", "opens the value")
        elif begins:
            return
    yield from r.pad(shape.value_pad, "the template's newline before a value")
    value = Value(r, types, arguments.key(key), python=shape.python_values)
    if shape.verbatim and (yield from r.at((shape.verbatim[0],))):
        yield from _verbatim(r, shape, *shape.verbatim, value)
    else:
        yield from _value(r, shape, opened, tool, arguments, value)
    value.end()


def _type_element(r: Reader, opener: str, closer: str) -> Steps[Types]:
    """The type that an element between key and value names; empty without one."""
    if not (yield from r.next((opener,))):
        return UNTYPED
    r.take(r.pos + len(opener), "framing", "opens the type")
    name, _ = yield from header_text(r, (closer,))
    return named_type(name)


def _verbatim(r: Reader, shape: TaggedCalls, opener: str, closer: str, value: Value) -> Steps[None]:
    """Reads a value between two markers of its own; the closer counts only where the value may end."""
    r.take(r.pos + len(opener), "framing", "verbatim")
    watch = header_watch((closer,), ())
    while True:
        yield from upto(r, watch, value)
        if (yield from _followed_by(r, len(closer), shape.value_close + shape.param_open + shape.call_close)):
            r.take(r.pos + len(closer), "framing", "end of what is verbatim")
            if mark := (yield from r.next(shape.value_close)):
                r.take(r.pos + len(mark), "framing", "closes the value")
            return
        value.text(r.pos + 1)


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
        elif self._fate != "open":
            self._r.flow(stop, self._r.raw_sink(self._held))

    def end(self) -> None:
        """The value is complete."""
        if not self._wanted:
            return
        if self._fate == "text":
            self._r.arguments('"')
        else:
            self._r.arguments(convert("".join(self._held), self._types, python=self._python))


def _value(
    r: Reader, shape: TaggedCalls, opened: str, tool: Tool, arguments: Arguments, value: Value
) -> Steps[None]:
    """Reads a value up to its closer, or to where a missing closer must have been."""
    # Unless the marker of the parameter is loose itself, loose markers are text in its value.
    loose = () if opened in shape.loose else shape.loose
    nexts = shape.call_open if shape.open_ends else ()
    watch = _value_watch(
        shape.value_pad, loose, r.barriers, shape.value_close, shape.param_open, shape.call_close, nexts
    )
    while True:
        found = yield from upto(r, watch, value)
        assert found.lastindex
        literal = found.group(found.lastindex)
        size = found.end() - found.start()
        if found.lastindex == 5:
            raise NotACall("the reasoning ends inside a value")
        if found.lastindex == 4:
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
    if (yield from r.ahead(literals, offset)):
        return True
    end = r.space_end(r.pos + offset)
    return r.final and end == len(r.text) and end - r.pos - offset <= HOLD


def _names_parameter(r: Reader, shape: TaggedCalls, offset: int, tool: Tool, arguments: Arguments) -> Steps[bool]:
    """Whether a declared parameter that has no value yet is named ``offset`` characters ahead."""
    while True:
        text = r.text[r.pos + offset : r.pos + offset + HEADER]
        for end in shape.key_end:
            header, mark, _ = text.partition(end)
            if mark and any(other in header for other in shape.param_open + shape.value_close):
                return False
            if mark:
                key, _ = _key(shape, header, tool.types)
                return key in tool.types and not arguments.has(key)
        if len(text) == HEADER or r.final:
            return False
        yield
