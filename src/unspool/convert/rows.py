"""Where the model speaks in a row of a dataset, and what it says there.

A row is read as far as it is about the model's own words; everything else is passed on as it is. Three shapes are
known: lists of OpenAI messages, ShareGPT conversations, and fields with the text that a model wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from unspool.message import Message, ToolCall
from unspool.surfaces.chat_messages import decode_messages
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields, show

MESSAGE_FIELDS = ("messages", "prompt", "completion", "chosen", "rejected")
TEXT_FIELDS = ("completion", "response", "text")
CONVERSATIONS = "conversations"

SPEAKERS = {
    "human": "user",
    "user": "user",
    "system": "system",
    "developer": "developer",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "tool": "tool",
    "function": "tool",
    "function_response": "tool",
    "observation": "tool",
}
"""Who speaks, in ShareGPT's words and OpenAI's, by the role that it is."""
_REASONING = ("reasoning_content", "reasoning", "thinking")
_DETAILS = "reasoning_details"
REASONING_FIELDS = (*_REASONING, _DETAILS)
"""Where messages carry reasoning beside their text."""


class RowError(ValueError):
    """A row that can't be read; the text names the field and what it must be."""


def tools_of(row: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The tools that a row offers, in OpenAI's form, ``None`` if it says none; some keep them as JSON text."""
    tools = row.get("tools")
    if isinstance(tools, str):
        tools = _json("tools", tools) if tools.strip() else None
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise RowError(f"`tools` must be a list of tools; it is {show(tools)}")
    wrapped: list[Mapping[str, Any]] = []
    for i, tool in enumerate(tools):
        # Some datasets leave the wrapper out.
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise RowError(f"`tools[{i}]` must be a function tool with a name; it is {show(tool)}")
        wrapped.append({"type": "function", "function": function})
    return wrapped


def message_lists(row: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The fields of a row that hold a list of messages. Raises :class:`RowError` naming what is none in one."""
    found = {}
    for name in MESSAGE_FIELDS:
        value = row.get(name)
        if not isinstance(value, list) or not (name == MESSAGE_FIELDS[0] or any(map(_is_message, value))):
            continue
        for i, message in enumerate(value):
            if not _is_message(message):
                raise RowError(f"`{name}[{i}]` must be an object with a `role`; it is {show(message)}")
        found[name] = value
    return found


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def role_of(speaker: object) -> str | None:
    """The role of a speaker by any of its names, in capitals or not; ``None`` if nobody is known by that."""
    return SPEAKERS.get(speaker.lower()) if isinstance(speaker, str) else None


def said_in(message: Mapping[str, Any], where: str) -> Message:
    """What an assistant's message says: its text as it is, and what it has as fields beside it.

    A refusal is none of that. Raises :class:`RowError` naming the field.
    """
    said = {name: value for name, value in message.items() if name != "refusal"}
    try:
        (turn,) = decode_messages(Fields({"messages": [{**said, "role": "assistant"}]}))
        thinking = Fields(message, where).string("thinking")
    except InvalidRequestError as error:
        raise RowError(error.message.replace("messages[0]", where)) from None
    return Message(turn.reasoning or thinking or None, turn.text or None, turn.tool_calls)


def reasonings_in(message: Mapping[str, Any]) -> list[str]:
    """The reasoning that a message has in fields; more than one if they differ."""
    texts = [message.get(name) for name in _REASONING]
    texts.append("".join(text for text in _details(message) if text is not None))
    return list(dict.fromkeys(text for text in texts if isinstance(text, str) and text))


def has_hidden_reasoning(message: Mapping[str, Any]) -> bool:
    """Whether some of its reasoning is no text: encrypted, or a summary of another shape."""
    return None in _details(message)


def _details(message: Mapping[str, Any]) -> list[str | None]:
    """The text of each entry, ``None`` for one without."""
    details = message.get(_DETAILS)
    texts = [detail.get("text") if isinstance(detail, Mapping) else None for detail in _listed(details)]
    return [text if isinstance(text, str) else None for text in texts]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def function_calls(value: Any, where: str) -> tuple[ToolCall, ...]:
    """The calls of a ShareGPT turn by ``function_call``: an object with name and arguments, or a list of them."""
    parsed = _json(where, value) if isinstance(value, str) else value
    calls = []
    for i, call in enumerate(parsed if isinstance(parsed, list) else [parsed]):
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            raise RowError(f"`{where}` must be a call with a name, or a list of them; it is {show(call)}")
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(ToolCall(f"call_{i}", call["name"], text))
    return tuple(calls)


def as_openai(message: Message) -> dict[str, Any]:
    """A message as OpenAI's field has it; reasoning under the name that most servers and templates use."""
    said: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.reasoning is not None:
        said["reasoning_content"] = message.reasoning
    if message.tool_calls:
        said["tool_calls"] = [call.as_openai() for call in message.tool_calls]
    return said


def answered(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with each result that names no call given the id of the next call that has none yet.

    Results by ``function``, the older name, become those of tools, as calls became those of tools.
    """
    out, waiting = [], list[str]()
    for message in messages:
        role = role_of(message["role"])
        if role == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
        elif role == "tool":
            message = {**message, "role": "tool"}
            if not message.get("tool_call_id") and waiting:
                message = {**message, "tool_call_id": waiting[0]}
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
        out.append(message)
    return out


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"`{where}` must be JSON: {error}") from None
