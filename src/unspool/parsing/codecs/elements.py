"""Arguments as elements named after their parameters, nested as the values are, typed by the schema.

A marker stands before every tag, so text needs no escapes, and the names are property names, not XML's. An
element's value is clear only at its end: with children it is an object or a list, without it is text that the
schema types. So a parameter goes out when it is complete; only one that can have no children streams.

A closer of another name closes the element all the same, unless it belongs to an element further out: then the
closers between are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from unspool.parsing.codecs.json import quote
from unspool.parsing.codecs.python import DEPTH
from unspool.parsing.codecs.raw import Gathered
from unspool.parsing.codecs.tagged import Arguments, Value, attributes
from unspool.parsing.declaration import ElementCalls
from unspool.parsing.markers import header_text, upto
from unspool.parsing.reader import Reader, stop
from unspool.parsing.scanner import Watch, pattern
from unspool.parsing.schema import Schema, Tool, convert
from unspool.parsing.signals import HEADER, NotACall, Steps

ITEM = "item"
"""The name of an element that is an entry of a list, whatever the schema says."""

TEXT = "$text"
"""The member that holds text beside children."""

_CONTAINERS = frozenset({"array", "object"})
_tag_end = pattern(">").search


@dataclass(slots=True)
class _Element:
    """An element that is complete: its text without that of its children, and the children by name."""

    text: str = ""
    children: list[tuple[str, _Element]] = field(default_factory=list)


@dataclass(slots=True)
class _Held:
    """A parameter that may be repeated and then is a list."""

    name: str
    schema: Schema
    elements: list[_Element]

    @property
    def json(self) -> str:
        return _member(self.elements, self.schema)


@lru_cache(maxsize=64)
def _tag_watch(shape: ElementCalls) -> Watch:
    """Group 1 begins a closing tag, group 2 an opening one."""
    return Watch(("", (shape.element_close,)), ("", (shape.element_open,)))


def element_call(r: Reader, shape: ElementCalls, *, offered_only: bool) -> Steps[None]:
    """Reads one call, the cursor behind its opener, and closes it."""
    header, _ = yield from header_text(r, (">",))
    name = attributes(header).get(shape.name_attribute, "")
    if not name:
        raise NotACall("the call has no name")
    if offered_only and name not in r.tools:
        raise NotACall(f"no tool {name!r} was offered")
    tool = r.tools.get(name, Tool(""))
    r.start_call(name)
    arguments = Arguments(r)
    yield from _parameters(r, shape, tool, arguments)
    arguments.end()
    r.close_call()


def _parameters(r: Reader, shape: ElementCalls, tool: Tool, arguments: Arguments) -> Steps[None]:
    endings = (shape.section_close, shape.call_open, shape.section_open, *r.stops)
    held: _Held | None = None
    while True:
        mark = yield from r.next((shape.call_close, shape.element_open, shape.element_close, *endings))
        if mark == shape.element_open:
            held = yield from _parameter(r, shape, tool, arguments, held)
            continue
        if mark == shape.element_close:
            r.take(r.pos + len(mark), "framing", "closes nothing")
            yield from header_text(r, (">",))
            continue
        if mark == shape.call_close:
            r.take(r.pos + len(mark), "framing", "closes the call")
        elif not mark and not (r.final and r.pos == len(r.text) and not r.cut):
            stop(r, "text inside the call that is no parameter")
        _say(arguments, held)
        return


def _say(arguments: Arguments, held: _Held | None) -> None:
    if held is not None and arguments.key(held.name):
        arguments.r.arguments(held.json)


def _parameter(
    r: Reader, shape: ElementCalls, tool: Tool, arguments: Arguments, held: _Held | None
) -> Steps[_Held | None]:
    """Reads one parameter; returns it if it waits for a repetition of itself."""
    name = yield from _open(r, shape)
    schema = tool.schema.member(name)
    types = schema.types
    if types and types.isdisjoint(_CONTAINERS):
        _say(arguments, held)
        value = Value(r, types, arguments.key(name))
        yield from _leaf(r, shape, name, tool, arguments, value)
        value.end()
        return None
    element = yield from _element(r, shape, (name,))
    if held is not None and held.name == name:
        if not types or "array" in types:
            held.elements.append(element)
        return held
    _say(arguments, held)
    return _Held(name, schema, [element])


def _open(r: Reader, shape: ElementCalls) -> Steps[str]:
    r.take(r.pos + len(shape.element_open), "framing", "opens an element")
    header, _ = yield from header_text(r, (">",))
    name = header.strip()
    if not name or any(map(str.isspace, name)):
        raise NotACall(f"{name!r} is no name of an element")
    return name


def _tag(r: Reader, size: int) -> Steps[str]:
    """The name in the tag whose marker of this size is at the cursor; ``""`` if that is only text."""
    while True:
        name, end, _ = r.text[r.pos + size : r.pos + size + HEADER].partition(">")
        if end or len(name) == HEADER or r.final:
            return name if end and name and not any(map(str.isspace, name)) else ""
        r.wait(_tag_end)
        yield


def _leaf(
    r: Reader, shape: ElementCalls, name: str, tool: Tool, arguments: Arguments, value: Value
) -> Steps[None]:
    """Reads a value that has no children, through its closer if it has one."""
    watch = _tag_watch(shape)
    while True:
        found = yield from upto(r, watch, value)
        tag = yield from _tag(r, len(found.group()))
        if found.lastindex == 1 and tag:
            yield from _close(r, shape, (name,), tag)
            return
        if (yield from _ends_call(r, shape)) or (tag in tool.types and not arguments.has(tag)):
            return
        value.text(r.pos + 1)


def _ends_call(r: Reader, shape: ElementCalls) -> Steps[bool]:
    outer = (shape.call_close, shape.section_close, shape.call_open, shape.section_open)
    return bool((yield from r.at(outer)))


def _close(r: Reader, shape: ElementCalls, names: tuple[str, ...], tag: str) -> Steps[None]:
    """Consumes the closing tag at the cursor, unless an element further out is closed by it."""
    if tag != names[-1] and (tag in names or (yield from _ends_call(r, shape))):
        return
    r.take(r.pos + len(shape.element_close) + len(tag) + 1, "framing", "closes an element")


def _element(r: Reader, shape: ElementCalls, names: tuple[str, ...]) -> Steps[_Element]:
    """Reads an element behind its opener through its closer; ``names`` are those that are open, its own last."""
    if len(names) > DEPTH:
        raise NotACall("the arguments are nested too deeply")
    watch = _tag_watch(shape)
    element = _Element()
    texts = Gathered(r, "value")
    while True:
        found = yield from upto(r, watch, texts)
        tag = yield from _tag(r, len(found.group()))
        if found.lastindex == 1 and tag:
            yield from _close(r, shape, names, tag)
            break
        if (yield from _ends_call(r, shape)):
            break
        if not tag:
            texts.text(r.pos + 1)
            continue
        child = yield from _open(r, shape)
        element.children.append((child, (yield from _element(r, shape, (*names, child)))))
    element.text = "".join(texts.parts)
    return element


def _json(element: _Element, schema: Schema) -> str:
    """The element as JSON: a list where the schema or the children's names say so, an object, or text."""
    types = schema.types
    if not element.children:
        if element.text.strip() or not types or "string" in types:
            return convert(element.text, types)
        return "[]" if "array" in types else "{}"
    text = element.text.strip()
    names = {name for name, _ in element.children}
    if not text and "object" not in types and ("array" in types or names == {ITEM}):
        return _list([child for _, child in element.children], schema.entry)
    members: dict[str, list[_Element]] = {}
    for name, child in element.children:
        members.setdefault(name, []).append(child)
    said = [f"{quote(name)}: {_member(same, schema.member(name))}" for name, same in members.items()]
    if text and TEXT not in members:
        said.insert(0, f"{quote(TEXT)}: {quote(text)}")
    return "{" + ", ".join(said) + "}"


def _member(same: list[_Element], schema: Schema) -> str:
    """The value of a member: of its only element, or a list of all that have its name."""
    if len(same) == 1:
        return _json(same[0], schema)
    return _list(same, schema.entry if "array" in schema.types else schema)


def _list(elements: list[_Element], schema: Schema) -> str:
    return "[" + ", ".join(_json(element, schema) for element in elements) + "]"
