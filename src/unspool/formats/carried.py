"""What of a call a format can carry, found out by reading back what is written.

Names and keys stand where each format has room for them. What fits there no declaration says; the parser knows.
Values are not tried: what they may hold depends on what stands around them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, TypeAlias

from unspool.formats.written_calls import WriteError
from unspool.message import Message, ToolCall, same_call
from unspool.parsing.codecs.json import load_spelled
from unspool.parsing.declaration import Format
from unspool.parsing.parser import Parser

Compose: TypeAlias = Callable[[Format, Message], str]
"""Writes a message without asking whether it is read back."""

_VALUE = "x"

_text = partial(json.dumps, ensure_ascii=False)


def check_call(fmt: Format, call: ToolCall, where: str, compose: Compose) -> None:
    """Raises :class:`WriteError` if the format can't carry the call, naming the field below ``where``."""
    if not isinstance(call.name, str) or not call.name:
        raise WriteError(f"{where}.name must be the name of a tool, not {call.name!r}")
    arguments = _arguments(call, where)
    try:
        outline = _outline(arguments)
        if _misread(fmt, call.name, _text(outline), compose) is None:
            return
    except RecursionError:
        raise WriteError(f"{where}.arguments are nested too deeply to be written") from None
    except WriteError as error:
        raise WriteError(f"{where}: {error}") from None
    what, read = next(
        (what, read)
        for what, part in _parts(call.name, outline)
        if (read := _misread(fmt, call.name, _text(part), compose)) is not None
    )
    raise WriteError(f"{where}{what} can't be written in the format {fmt.name!r}, which reads {read:.200} there")


def _arguments(call: ToolCall, where: str) -> dict[str, Any]:
    """The call's arguments. Raises :class:`WriteError`."""
    wrong = f"{where}.arguments must be the text of a JSON object, not {call.arguments!r:.80}"
    if not isinstance(call.arguments, str):
        raise WriteError(wrong)
    try:
        value = load_spelled(call.arguments)
    except ValueError as error:
        raise WriteError(f"{wrong}: {error}") from None
    if not isinstance(value, dict):
        raise WriteError(wrong)
    return value


def _outline(value: Any) -> Any:
    """The value with its keys and nesting, but one text for all that is neither object nor list."""
    if isinstance(value, dict):
        return {key: _outline(item) for key, item in value.items()}
    if isinstance(value, list):
        # Items that are alike are one.
        return list({_text(item): item for item in map(_outline, value)}.values())
    return _VALUE


def _parts(name: str, outline: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What may be to blame, the simplest first, each with the arguments that show it; the last are all of them."""
    parts: list[tuple[str, dict[str, Any]]] = [(f".name: {name!r}", {})]
    parts += [(f".arguments: the key {key!r}", {key: _VALUE}) for key in outline]
    shown: dict[str, Any] = {}
    for key, value in outline.items():
        shown = {**shown, key: value}
        parts.append((f".arguments: the value of {key!r}", shown))
    return parts


@lru_cache(maxsize=1024)
def _misread(fmt: Format, name: str, arguments: str, compose: Compose) -> str | None:
    """What is read where this call is written; ``None`` if it is the call. Raises :class:`WriteError`."""
    call = ToolCall("", name, arguments)
    message = Message(tool_calls=(call,))
    parser = Parser(fmt, tools=tools_of([message]))
    calls = Message.from_events(parser.feed(compose(fmt, message)) + parser.finish("stop")).tool_calls
    if len(calls) == 1 and same_call(calls[0], call):
        return None
    return ", ".join(f"{read.name} {read.arguments}" for read in calls) or "no call"


def tools_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Function tools for the calls of these messages, typed by the values that stand in them."""
    schemas: dict[str, dict[str, Any]] = {}
    for message in messages:
        for call in message.tool_calls:
            properties = schemas.setdefault(call.name, {})
            for key, value in json.loads(call.arguments).items():
                properties[key] = {"type": _TYPES[type(value)]}
    return [
        {
            "type": "function",
            "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
        }
        for name, properties in schemas.items()
    ]


_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
