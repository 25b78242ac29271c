"""Chat Completions: the ``messages`` of a request become turns.

What the server emits can be sent back: reasoning under any of its names, tool calls, ``null`` content. The
API's older spellings (``function`` messages, ``function_call``) are read too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unspool.message import ToolCall
from unspool.surfaces.conversation import Role, Turn
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.fields import Fields, show

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# The API's own name for text, and those of its younger sibling, which clients mix up.
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_MEDIA_PARTS = ("image_url", "input_image", "input_audio", "audio", "video_url", "file", "input_file")


def decode_messages(body: Fields) -> tuple[Turn, ...]:
    """The turns of ``messages``; :class:`InvalidRequestError` names what is wrong where."""
    messages = body.items("messages")
    if messages is None:
        raise body.missing("messages")
    if not messages:
        raise body.wrong("messages", "a list with at least one message")
    return tuple(_turn(Fields(message, f"messages[{i}]")) for i, message in enumerate(messages))


def _turn(message: Fields) -> Turn:
    name = message.required_string("role")
    role = _ROLES.get(name)
    if role is None:
        raise message.wrong("role", f"one of {', '.join(_ROLES)}")
    parts, thoughts = _content(message)
    if not parts and role in ("system", "developer", "user"):
        raise message.missing("content")
    if role != "assistant":
        return Turn(
            role,
            parts,
            tool_call_id=message.string("tool_call_id"),
            name=message.string("name"),
        )
    return Turn(
        role,
        parts or _refusal(message),
        reasoning=_reasoning(message) or thoughts,
        tool_calls=_tool_calls(message),
        name=message.string("name"),
    )


def _refusal(message: Fields) -> tuple[str, ...]:
    refusal = message.string("refusal")
    return (refusal,) if refusal else ()


def _content(message: Fields) -> tuple[tuple[str, ...], str | None]:
    """The text parts of a message, and the reasoning that some clients send among them."""
    content = message.get("content")
    if content is None:
        return (), None
    if isinstance(content, str):
        return (content,), None
    if not isinstance(content, list):
        raise message.wrong("content", "a string or a list of parts")
    parts: list[str] = []
    thoughts: list[str] = []
    for i, part in enumerate(content):
        path = f"{message.at('content')}[{i}]"
        if isinstance(part, str):
            parts.append(part)
            continue
        fields = Fields(part, path)
        kind = fields.required_string("type")
        if kind in TEXT_PARTS:
            text = fields.string(TEXT_PARTS[kind])
            if text is None:
                raise fields.missing(TEXT_PARTS[kind])
            parts.append(text)
        elif kind == "thinking":
            thoughts.append(_thinking(fields))
        elif kind in _MEDIA_PARTS:
            raise unsupported(path, f"input of type {kind!r}")
        else:
            raise fields.wrong("type", "'text'")
    return tuple(parts), "".join(thoughts) or None


def _thinking(part: Fields) -> str:
    thinking = part.get("thinking")
    if isinstance(thinking, str):
        return thinking
    if not isinstance(thinking, list):
        raise part.wrong("thinking", "a string or a list of text parts")
    return "".join(
        Fields(piece, f"{part.at('thinking')}[{i}]").string("text") or "" for i, piece in enumerate(thinking)
    )


def _reasoning(message: Fields) -> str | None:
    """Reasoning under the first of its three names that carries any."""
    texts = (message.string("reasoning_content"), message.string("reasoning"))
    text = next((text for text in texts if text), None)
    if text is not None:
        return text
    details = message.items("reasoning_details") or []
    pieces = [
        Fields(detail, f"{message.at('reasoning_details')}[{i}]").string("text")
        for i, detail in enumerate(details)
    ]
    return "".join(piece for piece in pieces if piece) or None


def _tool_calls(message: Fields) -> tuple[ToolCall, ...]:
    entries = message.items("tool_calls") or []
    calls = [_tool_call(Fields(entry, f"{message.at('tool_calls')}[{i}]"), i) for i, entry in enumerate(entries)]
    legacy = message.fields("function_call")
    if legacy is not None and not calls:
        calls.append(ToolCall("call_0", legacy.required_string("name"), _arguments(legacy)))
    return tuple(calls)


def _tool_call(call: Fields, position: int) -> ToolCall:
    kind = call.string("type") or "function"
    if kind != "function":
        raise unsupported(call.path, f"a tool call of type {kind!r}")
    function = call.fields("function")
    if function is None:
        raise call.missing("function")
    return ToolCall(
        call.string("id") or f"call_{position}", function.required_string("name"), _arguments(function)
    )


def _arguments(function: Fields) -> str:
    """Arguments as JSON text; clients that send the object itself are understood."""
    arguments: Any = function.get("arguments")
    if arguments is None:
        return "{}"
    if isinstance(arguments, str):
        return arguments or "{}"
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    path = function.at("arguments")
    raise InvalidRequestError(f"`{path}` must be a string of JSON; it is {show(arguments)}.", path)
