"""The writer: a message as the exact text the model would have written.

It reads the same declarations as the parser, so ``parse(write(message)) == message``. What a format can't carry
(reasoning where it has none, a keyword that is no identifier) is an error that says so, never left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unspool.formats.registry import get_format
from unspool.message import Message, ToolCall
from unspool.parsing.declaration import (
    Calls,
    ChannelCalls,
    Format,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    Reasoning,
    RegionCalls,
    RelaxedArguments,
    TaggedCalls,
)
from unspool.parsing.parser import turn_tail


class WriteError(ValueError):
    """The format can't carry something of the message; the text says what."""


def write(format: str | Format, message: Message, *, prompt: str | None = None) -> str:
    """What the model would have written after ``prompt`` (default: the format's own start) for this message.

    The terminator of the turn is not included. Raises :class:`WriteError`.
    """
    fmt = get_format(format)
    tail = turn_tail(fmt, prompt)
    if isinstance(fmt.calls, RegionCalls):
        raise WriteError(
            f"the format {fmt.name!r} was read from a response template, which says how to read an output and not "
            "how one is written; write with the family's own format"
        )
    if isinstance(fmt.calls, ChannelCalls):
        return _channels(fmt.calls, message)
    opened = _open_block(fmt, tail)
    calls = _calls(fmt, message.tool_calls) if message.tool_calls else ""
    block = opened or (fmt.reasoning[0] if fmt.reasoning and message.reasoning is not None else None)
    if block is None or not block.holds_calls:
        text = _reasoning(fmt, message.reasoning, opened)
    else:
        text, calls = _reasoning_with_calls(fmt, block, message, calls, opened=opened is not None), ""
    if opened is None and message.reasoning is None:
        text = _layout(fmt, tail) + text
    return text + _answer(fmt, message.content or "", calls, tail) + fmt.turn_end


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
        text = calls + before + content + after
    elif calls:
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
        case PythonCalls():
            return f"[{joined}]"
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
    return text if shape.bare or shape.written_list else _json_frame(shape, text)


def _json_frame(shape: JsonCalls, text: str) -> str:
    if not shape.open or shape.bare:
        return text
    return shape.open[0] + shape.body_pad + text + shape.body_end + (shape.close[0] if shape.close else "")


def _named_call(shape: NamedCalls, call: ToolCall, number: int) -> str:
    header = shape.written_header.format(name=call.name, index=number)
    if isinstance(shape.arguments, RelaxedArguments):
        value = _relaxed(json.loads(call.arguments), shape.arguments.quote)
    else:
        value = shape.arguments.written_before + call.arguments + shape.arguments.written_after
    return shape.open + header + value + shape.close


def _relaxed(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_relaxed(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_relaxed(item, quote) for item in value) + "]"
    return json.dumps(value)


_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def _tagged_call(shape: TaggedCalls, call: ToolCall, number: int) -> str:
    layout = shape.written
    name = layout.name.format(name=_attribute(shape, call.name), number=number + 1)
    end = shape.header_end[0] if shape.header_end else ""
    text = shape.call_open[0] + name + end + layout.after_header
    arguments = json.loads(call.arguments)
    for key, value in arguments.items():
        text += shape.param_open[0] + layout.key.format(key=_attribute(shape, key))
        if layout.types == "string":
            text += f' {shape.type_attribute}="{"true" if isinstance(value, str) else "false"}"'
        elif layout.types == "kind":
            text += f' {shape.type_attribute}="{_KINDS[type(value)]}"'
        text += shape.key_end[0] + layout.between_key_value + shape.value_open + shape.value_pad
        text += value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text += shape.value_pad + shape.value_close[0] + layout.after_param
    text += "" if arguments else layout.empty
    text += shape.call_close[0]
    if shape.section_per_call:
        text = shape.section_open[0] + layout.section_pad + text + layout.section_pad + shape.section_close[0]
    return text


def _attribute(shape: TaggedCalls, text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;") if shape.attribute_entities else text


def _python_call(_: PythonCalls, call: ToolCall, __: int) -> str:
    arguments = json.loads(call.arguments)
    for key in arguments:
        if not key.isidentifier():
            raise WriteError(f"{key!r} is no Python keyword, so a call of {call.name!r} can't be written")
    return f"{call.name}({', '.join(f'{key}={_python(value)}' for key, value in arguments.items())})"


def _python(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python(key)}: {_python(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    return repr(value)


_WRITERS: dict[type, Any] = {
    JsonCalls: _json_call,
    NamedCalls: _named_call,
    TaggedCalls: _tagged_call,
    PythonCalls: _python_call,
}


def _channels(shape: ChannelCalls, message: Message) -> str:
    messages = []
    if message.reasoning is not None:
        channel = shape.reasoning_channels[0]
        messages.append(f"{shape.channel}{channel}{shape.message}{message.reasoning}{shape.ends[0]}")
    if message.content is not None:
        channel = "commentary" if message.tool_calls else "final"
        messages.append(f"{shape.channel}{channel}{shape.message}{message.content}{shape.ends[0]}")
    for call in message.tool_calls:
        header = f" to={shape.functions}{call.name}{shape.channel}commentary {shape.constrain}json"
        messages.append(f"{header}{shape.message}{call.arguments}{shape.ends[1]}")
    text = (shape.start + shape.role).join(messages)
    for end in shape.ends:
        text = text.removesuffix(end)
    return text


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
    return [(name, fmt.start, write(fmt, message)) for name, message in cases]


def _before_calls(fmt: Format) -> str | None:
    """Text before calls, where the format has room for it."""
    bare = isinstance(fmt.calls, PythonCalls) or (isinstance(fmt.calls, JsonCalls) and fmt.calls.bare)
    return None if bare else "Let me check."
