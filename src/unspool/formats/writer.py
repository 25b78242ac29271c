"""The writer: a message as the exact text the model would have written.

It reads the same declarations as the parser, so ``parse(write(message)) == message``. What a format can't carry
(reasoning where it has none, a keyword that is no identifier) is an error that says so, never left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from unspool.formats.registry import get_format
from unspool.message import Message, ToolCall
from unspool.parsing.binding import bound
from unspool.parsing.codecs.elements import ITEM, TEXT
from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    ElementCalls,
    Format,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    Reasoning,
    RegionCalls,
    RelaxedArguments,
    TaggedCalls,
)
from unspool.parsing.parser import turn_tail
from unspool.parsing.turn import openers

_SPACES = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)
"""A string of a JSON text, or the layout between its parts."""
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of the message's JSON, spelled as it is."""

    text: str


_read = json.JSONDecoder(parse_int=_Number, parse_float=_Number).decode


class WriteError(ValueError):
    """The format can't carry something of the message; the text says what."""


def write(format: str | Format, message: Message, *, prompt: str | None = None) -> str:
    """What the model would have written after ``prompt`` (default: the format's own start) for this message.

    The terminator of the turn is not included. Raises :class:`WriteError`.
    """
    fmt = bound(get_format(format), prompt=prompt)
    tail = turn_tail(fmt, prompt)
    if isinstance(fmt.calls, RegionCalls):
        raise WriteError(
            f"the format {fmt.name!r} was read from a response template, which says how to read an output and not "
            "how one is written; write with the family's own format"
        )
    if isinstance(fmt.calls, ChannelCalls):
        return _channels(fmt, fmt.calls, message).removeprefix(tail)
    if message.content and message.tool_calls and stands_bare(fmt.calls):
        raise WriteError(f"calls of {fmt.name!r} have no markers, so no text can stand before them; leave it out")
    opened = _open_block(fmt, tail)
    calls = _calls(fmt, message.tool_calls) if message.tool_calls else ""
    block = opened or (fmt.reasoning[0] if fmt.reasoning and message.reasoning is not None else None)
    if block is None or not (block.holds_calls and block.writes_inside):
        text = _reasoning(fmt, message.reasoning, opened)
    else:
        text, calls = _reasoning_with_calls(fmt, block, message, calls, opened=opened is not None), ""
    if opened is None and message.reasoning is None:
        text = _layout(fmt, tail) + text
    text += _answer(fmt, message.content or "", calls, tail) + fmt.turn_end
    return text.removeprefix(_begun(fmt, tail))


def _begun(fmt: Format, tail: str) -> str:
    """The beginning of a frame or a call with which the prompt ends."""
    frames = tuple(frame.open for frame in fmt.frames if frame.open != tail)
    begun = tail in openers(fmt) or any(mark.startswith(tail) for mark in frames)
    return tail if begun else ""


def _answer(fmt: Format, content: str, calls: str, tail: str) -> str:
    """Content and calls with the frames around them."""
    frame = next(
        (frame for frame in fmt.frames if frame.written == "always" or (frame.written == "content" and content)),
        None,
    )
    if frame is None:
        before = after = ""
    else:
        before = "" if tail.endswith((frame.open, frame.open + frame.open_pad)) else frame.open + frame.open_pad
        after = frame.close_pad + frame.close + frame.after
    if calls and fmt.calls_first:
        return calls + fmt.calls_end + before + content + after
    if calls:
        layout = fmt.before_call if content else fmt.before_call_alone
        inside = frame is not None and frame.holds_calls
        text = before + content + (layout + calls + after if inside else after + layout + calls)
    else:
        text = before + content + after + (fmt.content_end if content else "")
    return text + (fmt.calls_end if calls else "")


def _layout(fmt: Format, tail: str) -> str:
    """The layout that is due: at the start of the turn, or behind the closer with which the prompt ends."""
    if not tail:
        return fmt.lead
    for block in fmt.reasoning:
        if tail.endswith(block.close):
            return block.after if block.after_prompt is None else block.after_prompt
    return ""


def _open_block(fmt: Format, tail: str) -> Reasoning | None:
    """The reasoning block that the prompt leaves open."""
    for block in fmt.reasoning:
        if block.open in tail and tail.rfind(block.open) > tail.rfind(block.close):
            return block
    return None


def _reasoning(fmt: Format, reasoning: str | None, opened: Reasoning | None) -> str:
    if reasoning is None:
        return opened.close_pad + opened.close + opened.after if opened else ""
    if not fmt.reasoning:
        raise WriteError(f"the format {fmt.name!r} has no reasoning; leave the message's reasoning out")
    block = opened or fmt.reasoning[0]
    before = "" if opened else fmt.lead + block.open + block.open_pad
    return before + reasoning + block.close_pad + block.close + block.after


def _reasoning_with_calls(fmt: Format, block: Reasoning, message: Message, calls: str, *, opened: bool) -> str:
    """A block in which the message's calls stand."""
    text = "" if opened else fmt.lead + block.open + block.open_pad
    text += message.reasoning or ""
    if calls:
        text += (fmt.before_call if message.reasoning else fmt.before_call_alone) + calls + fmt.calls_end
        if not block.closes_last and not message.content:
            return text
    after = block.after if message.content or not calls else ""
    return text + block.close_pad + block.close + after


def _calls(fmt: Format, calls: tuple[ToolCall, ...]) -> str:
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
        value = _relaxed(_read(call.arguments), shape.arguments.quote)
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


def _relaxed(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_relaxed(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_relaxed(item, quote) for item in value) + "]"
    return _json(value)


def _json(value: Any) -> str:
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_json(key)}: {_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    _Number: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def _tagged_call(shape: TaggedCalls, call: ToolCall, number: int) -> str:
    layout = shape.written
    name = layout.name.format(name=_attribute(shape, call.name), number=number + 1)
    end = shape.header_end[0] if shape.header_end else ""
    text = shape.call_open[0] + name + end + layout.after_header if shape.call_open else ""
    arguments = _read(call.arguments)
    for key, value in arguments.items():
        text += shape.param_open[0] + layout.key.format(key=_attribute(shape, key))
        if layout.types == "string":
            text += f' {shape.type_attribute}="{"true" if isinstance(value, str) else "false"}"'
        elif layout.types == "kind":
            text += f' {shape.type_attribute}="{_KINDS[type(value)]}"'
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
        return _repr(value) if shape.python_values else _json(value)
    if shape.verbatim and "<" in value:
        return shape.verbatim[0] + value + shape.verbatim[1]
    return value


def _repr(value: Any) -> str:
    """The value as Python shows it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_repr(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_repr, value)) + "]"
    return value.text if isinstance(value, _Number) else repr(value)


def _attribute(shape: TaggedCalls, text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;") if shape.attribute_entities else text


def _element_call(shape: ElementCalls, call: ToolCall, _: int) -> str:
    text = f'{shape.call_open}{shape.name_attribute}="{call.name}">{shape.layout}'
    for key, value in _read(call.arguments).items():
        if not _TAG.fullmatch(key):
            raise WriteError(f"{key!r} can't name an element, so a call of {call.name!r} can't be written")
        text += _element(shape, key, value, shape.layout) + shape.layout
    return text + shape.call_close


_TAG = re.compile(r"[^\s<>/][^\s<>]*")


def _element(shape: ElementCalls, name: str, value: Any, layout: str = "") -> str:
    before = f"{shape.element_open}{name}>"
    after = f"{shape.element_close}{name}>"
    if isinstance(value, str):
        return before + value + after
    if not (isinstance(value, list | Mapping) and _reads_back(value)):
        return before + _json(value) + after
    members = [(ITEM, item) for item in value] if isinstance(value, list) else value.items()
    inside = layout.join(_element(shape, key, item) for key, item in members)
    return before + layout + inside + layout + after


def _reads_back(value: Any) -> bool:
    """Whether elements carry the value without a schema; if not, its JSON does."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return True
        return False
    if isinstance(value, Mapping):
        names = set(value)
        tags = all(map(_TAG.fullmatch, names)) and TEXT not in names and names != {ITEM}
        return bool(value) and tags and all(map(_reads_back, value.values()))
    return not isinstance(value, list) or (bool(value) and all(map(_reads_back, value)))


def _python_calls(shape: PythonCalls, calls: str) -> str:
    if shape.statements:
        before, after = (f"```{shape.fence}\n", "\n```") if shape.fence else ("", "")
        return f"{shape.open[0]}\n{before}{calls}{after}\n{shape.close[0]}"
    return f"[{calls}]" if shape.bare else f"{shape.open[0]}[{calls}]{shape.close[0]}"


def _python_call(shape: PythonCalls, call: ToolCall, _: int) -> str:
    arguments = _read(call.arguments)
    for key in arguments:
        if not key.isidentifier():
            raise WriteError(f"{key!r} is no Python keyword, so a call of {call.name!r} can't be written")
    return f"{call.name}({', '.join(f'{key}={_python(shape, value)}' for key, value in arguments.items())})"


def _python(shape: PythonCalls, value: Any) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        if shape.quote == "'":
            text = "'" + text[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
        return text
    if isinstance(value, dict | list) and shape.json_containers:
        return _json(value)
    if isinstance(value, Mapping):
        items = (f"{_python(shape, key)}: {_python(shape, item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_python(shape, item) for item in value) + "]"
    return value.text if isinstance(value, _Number) else repr(value)


_WRITERS: dict[type, Any] = {
    JsonCalls: _json_call,
    NamedCalls: _named_call,
    TaggedCalls: _tagged_call,
    ElementCalls: _element_call,
    PythonCalls: _python_call,
}


def _channels(fmt: Format, shape: ChannelCalls, message: Message) -> str:
    layout = shape.written
    last = layout.last
    texts = []
    if message.reasoning is not None:
        texts.append((layout.reasoning + message.reasoning, layout.end))
    if message.content is not None:
        header = layout.preamble if message.tool_calls else layout.content
        texts.append((header + message.content, layout.end))
    for name, text in _bodies(fmt, shape, message.tool_calls):
        texts.append((layout.call.format(name=name) + text, layout.call_end))
        last = layout.last_call
    ends = [end + layout.next for _, end in texts[:-1]] + [last]
    return "".join(text + end for (text, _), end in zip(texts, ends, strict=False))


def _bodies(fmt: Format, shape: ChannelCalls, calls: tuple[ToolCall, ...]) -> list[tuple[str, str]]:
    """The bodies of the messages that hold the calls, each with its tool's name."""
    body = shape.body
    if isinstance(body, JsonArguments):
        return [(call.name, call.arguments) for call in calls]
    parts = [(call.name, _WRITERS[type(body)](body, call, number)) for number, call in enumerate(calls)]
    if parts and shape.written.shared:
        return [(parts[0][0], _around(fmt, body, [text for _, text in parts]))]
    return [(name, _around(fmt, body, [text])) for name, text in parts]


def samples(fmt: Format) -> list[tuple[str, str, str]]:
    """What the format looks like: for each case its name, the prompt's tail and the raw output."""
    weather = ToolCall("", "get_weather", '{"city": "Paris", "days": 3}')
    time = ToolCall("", "get_time", "{}")
    cases = [("answer", Message(content="Hello."))]
    if fmt.calls is not None:
        cases.append(("one call", Message(tool_calls=(weather,))))
        cases.append(("two calls", Message(content=_before_calls(fmt), tool_calls=(weather, time))))
    if fmt.reasoning or isinstance(fmt.calls, ChannelCalls):
        thought = Message(reasoning="I need the weather.", tool_calls=(weather,) if fmt.calls else ())
        cases.append(("reasoning", thought))
    fmt = bound(fmt)
    return [(name, fmt.start, write(fmt, message)) for name, message in cases]


def _before_calls(fmt: Format) -> str | None:
    """Text before calls, where the format has room for it."""
    return None if stands_bare(fmt.calls) else "Let me check."


def stands_bare(calls: Calls | None) -> bool:
    """Whether calls are written without markers, so that nothing can come before them."""
    if isinstance(calls, NamedCalls):
        return not calls.open
    return isinstance(calls, JsonCalls | PythonCalls) and calls.bare
