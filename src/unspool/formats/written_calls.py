"""Calls as each shape of the declaration writes them: the other half of ``parsing/calls.py``."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from unspool.formats.written_values import (
    TAG,
    Number,
    element,
    json_text,
    python_literal,
    python_repr,
    read_arguments,
    relaxed,
)
from unspool.message import ToolCall
from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    ElementCalls,
    Format,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RelaxedArguments,
    TaggedCalls,
)


class WriteError(ValueError):
    """The format can't carry something of the message; the text says what."""


_SPACES = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)
"""A string of a JSON text, or the layout between its parts."""


_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def written_calls(fmt: Format, calls: tuple[ToolCall, ...]) -> str:
    """All calls of a message, with the markers around them. Raises :class:`WriteError`."""
    shape = fmt.calls
    if shape is None:
        raise WriteError(f"the format {fmt.name!r} has no calls; leave the message's calls out")
    parts = [_WRITERS[type(shape)](shape, call, number) for number, call in enumerate(calls)]
    return _around(fmt, shape, parts)


def _around(fmt: Format, shape: Calls, parts: list[str]) -> str:
    joined = fmt.between_calls.join(parts)
    match shape:
        case JsonCalls(written_list=(before, between, after)):
            return _json_frame(shape, before + between.join(parts) + after)
        case NamedCalls():
            return shape.section_open + joined + shape.section_close
        case TaggedCalls(section_per_call=False) if shape.section_open:
            pad = shape.written.section_pad
            return shape.section_open[0] + pad + joined + pad + shape.section_close[0]
        case ElementCalls():
            return shape.section_open + shape.layout + joined + shape.layout + shape.section_close
        case PythonCalls():
            return _python_calls(shape, joined)
    return joined


def written_bodies(fmt: Format, shape: ChannelCalls, calls: tuple[ToolCall, ...]) -> list[tuple[str, str]]:
    """The bodies of the messages that hold the calls, each with its tool's name."""
    body = shape.body
    if isinstance(body, JsonArguments):
        return [(call.name, call.arguments) for call in calls]
    parts = [(call.name, _WRITERS[type(body)](body, call, number)) for number, call in enumerate(calls)]
    if parts and shape.written.shared:
        return [(parts[0][0], _around(fmt, body, [text for _, text in parts]))]
    return [(name, _around(fmt, body, [text])) for name, text in parts]


def _json_call(shape: JsonCalls, call: ToolCall, number: int) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    if shape.name_is_key:
        text = f"{{{name}: {call.arguments}}}"
    else:
        members = [f'"{shape.name_keys[0]}": {name}', f'"{shape.arguments_keys[0]}": {call.arguments}']
        if shape.id_key:
            members.insert(0, f'"{shape.id_key}": "{number}"')
        text = "{" + ", ".join(members) + "}"
    if shape.compact:
        text = _SPACES.sub(lambda found: found.group(1) or "", text)
    return text if shape.bare or shape.written_list else _json_frame(shape, text)


def _json_frame(shape: JsonCalls, text: str) -> str:
    if not shape.open or shape.bare:
        return text
    return shape.open[0] + shape.body_pad + text + shape.body_end + (shape.close[0] if shape.close else "")


def _named_call(shape: NamedCalls, call: ToolCall, number: int) -> str:
    header = shape.written_header.format(name=call.name, index=number, id=_wire_id(shape.id_size, call, number))
    if isinstance(shape.arguments, RelaxedArguments):
        value = relaxed(read_arguments(call.arguments), shape.arguments.quote)
    else:
        before = shape.arguments.written_before if isinstance(shape.arguments, JsonArguments) else ""
        value = before + call.arguments + shape.arguments.written_after
    return shape.open + header + value + shape.close


def _wire_id(size: int, call: ToolCall, number: int) -> str:
    """The call's own id where the format can write it, otherwise one made from it."""
    if len(call.id) == size and all(char in _ID_LETTERS for char in call.id):
        return call.id
    digest = sha256(f"{number} {call.id}".encode("utf-8", "surrogatepass")).digest()
    return "".join(_ID_LETTERS[byte % len(_ID_LETTERS)] for byte in digest[:size])


KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    Number: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def _tagged_call(shape: TaggedCalls, call: ToolCall, number: int) -> str:
    layout = shape.written
    name = layout.name.format(name=attribute(shape, call.name), number=number + 1)
    end = shape.header_end[0] if shape.header_end else ""
    text = shape.call_open[0] + name + end + layout.after_header if shape.call_open else ""
    arguments = read_arguments(call.arguments)
    for key, value in arguments.items():
        text += shape.param_open[0] + layout.key.format(key=attribute(shape, key))
        if layout.types == "string":
            text += f' {shape.type_attribute}="{"true" if isinstance(value, str) else "false"}"'
        elif layout.types == "kind":
            text += f' {shape.type_attribute}="{KINDS[type(value)]}"'
        text += shape.key_end[0] + layout.between_key_value + shape.value_open + shape.value_pad
        text += _tagged_value(shape, value)
        text += shape.value_pad + shape.value_close[0] + layout.after_param
    text += "" if arguments else layout.empty
    text += shape.call_close[0] if shape.call_open else ""
    if shape.section_per_call:
        text = shape.section_open[0] + layout.section_pad + text + layout.section_pad + shape.section_close[0]
    return text


def _tagged_value(shape: TaggedCalls, value: Any) -> str:
    if not isinstance(value, str):
        return python_repr(value) if shape.python_values else json_text(value)
    if shape.verbatim and "<" in value:
        return shape.verbatim[0] + value + shape.verbatim[1]
    return value


def attribute(shape: TaggedCalls, text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;") if shape.attribute_entities else text


def _element_call(shape: ElementCalls, call: ToolCall, _: int) -> str:
    text = f'{shape.call_open}{shape.name_attribute}="{call.name}">{shape.layout}'
    for key, value in read_arguments(call.arguments).items():
        if not TAG.fullmatch(key):
            raise WriteError(f"{key!r} can't name an element, so a call of {call.name!r} can't be written")
        text += element(shape, key, value, shape.layout) + shape.layout
    return text + shape.call_close


def _python_calls(shape: PythonCalls, calls: str) -> str:
    if shape.statements:
        before, after = (f"```{shape.fence}\n", "\n```") if shape.fence else ("", "")
        return f"{shape.open[0]}\n{before}{calls}{after}\n{shape.close[0]}"
    return f"[{calls}]" if shape.bare else f"{shape.open[0]}[{calls}]{shape.close[0]}"


def _python_call(shape: PythonCalls, call: ToolCall, _: int) -> str:
    arguments = read_arguments(call.arguments)
    for key in arguments:
        if not key.isidentifier():
            raise WriteError(f"{key!r} is no Python keyword, so a call of {call.name!r} can't be written")
    return f"{call.name}({', '.join(f'{key}={python_literal(shape, value)}' for key, value in arguments.items())})"


_WRITERS: dict[type, Any] = {
    JsonCalls: _json_call,
    NamedCalls: _named_call,
    TaggedCalls: _tagged_call,
    ElementCalls: _element_call,
    PythonCalls: _python_call,
}


def stands_bare(calls: Calls | None) -> bool:
    """Whether calls are written without markers, so that nothing can come before them."""
    if isinstance(calls, NamedCalls):
        return not calls.open
    return isinstance(calls, JsonCalls | PythonCalls) and calls.bare
