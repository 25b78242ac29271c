"""Responses: the items of a request or of a stored response become turns.

An item is kept as the JSON object that clients know, checked and completed by :func:`decode_items`; that is also
how it is stored, so a conversation that comes out of the store is read like one that was sent. Items of an answer
(reasoning, text, calls) that follow each other are one turn, as they were when the model wrote them.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from unspool.message import ToolCall
from unspool.surfaces import custom_input
from unspool.surfaces.conversation import Role, Turn
from unspool.surfaces.errors import unsupported
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import exposed_name
from unspool.surfaces.responses_mcp import decode_mcp_item, denials, past_call

log = logging.getLogger(__name__)

Item: TypeAlias = Mapping[str, Any]
"""A checked item: ``type`` is set, a message's content is a list of parts."""

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
# The API's own names for text, and the one of chat completions.
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_MEDIA_PARTS = ("input_image", "input_file", "input_audio", "input_video", "image_url", "computer_screenshot")
_SEAL = "unspool:"
"""Marks reasoning that this server packed into ``encrypted_content``."""


_OUR_ID = re.compile(r"[a-z]+_([0-9a-zA-Z]+)(?:_t(\d+))?_\d+")


def item_id(prefix: str, token: str, turn: int, index: int) -> str:
    """The id of an item of a response, which also says in which of the model's turns it was written."""
    return f"{prefix}_{token}{f'_t{turn}' if turn else ''}_{index}"


def _written_in(item: Item) -> tuple[str, str] | None:
    """The turn in which an item was written; ``None`` if it is not one of ours."""
    ours = _OUR_ID.fullmatch(item.get("id") or "")
    return (ours[1], ours[2] or "0") if ours else None


def seal(reasoning: str) -> str:
    """Reasoning as ``encrypted_content``, for clients that send only this back.

    Packed, not encrypted: the same text is in the item's ``content``.
    """
    return _SEAL + base64.b64encode(reasoning.encode("utf-8", "surrogatepass")).decode()


def _unseal(text: str) -> str | None:
    if not text.startswith(_SEAL):
        return None
    try:
        return base64.b64decode(text[len(_SEAL) :], validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None


def decode_items(items: Sequence[object], path: str) -> tuple[Item, ...]:
    """Checked items of the list at ``path``; :class:`InvalidRequestError` names what is wrong where."""
    decoded = (_decode(Fields(item, f"{path}[{i}]")) for i, item in enumerate(items))
    return tuple(item for item in decoded if item is not None)


def text_item(text: str, role: str = "user") -> Item:
    """A message that is only text."""
    return {"type": "message", "role": role, "content": [_text_part(text, said=role == "assistant")]}


def _decode(item: Fields) -> Item | None:
    kind = item.string("type") or "message"
    item.string("id")
    item.string("status")
    if kind == "message":
        return {**_present(item), "type": kind, "role": _role(item), "content": _parts(item, "content")}
    if kind == "function_call":
        arguments = item.string("arguments") or "{}"
        return {**_call(item), "arguments": arguments}
    if kind == "custom_tool_call":
        return {**_call(item), "input": item.string("input") or ""}
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {**_present(item), "call_id": item.required_string("call_id"), "output": _output(item)}
    if kind == "reasoning":
        return _reasoning(item)
    if kind == "item_reference":
        return {"type": kind, "id": item.required_string("id")}
    if kind.startswith("mcp_") and (known := decode_mcp_item(kind, item)) is not None:
        return known
    # Conversations that began elsewhere have items of tools that only exist there.
    log.warning("Left out %s: an item of type %r", item.path, kind)
    return None


def _present(item: Fields) -> dict[str, Any]:
    return {name: value for name, value in item.body.items() if value is not None}


def _role(item: Fields) -> str:
    role = item.required_string("role")
    if role not in _ROLES:
        raise item.wrong("role", f"one of {', '.join(_ROLES)}")
    return role


def _call(item: Fields) -> dict[str, Any]:
    return {
        **_present(item),
        "call_id": item.required_string("call_id"),
        "name": item.required_string("name"),
    }


def _parts(item: Fields, name: str) -> list[Mapping[str, Any]]:
    """The parts of a message's content, a plain string being one part."""
    content = item.get(name)
    if content is None:
        raise item.missing(name)
    said = item.body.get("role") == "assistant"
    if isinstance(content, str):
        return [_text_part(content, said)]
    if not isinstance(content, list):
        raise item.wrong(name, "a string or a list of parts")
    return [_part(Fields(part, f"{item.at(name)}[{i}]"), said) for i, part in enumerate(content)]


def _text_part(text: str, said: bool) -> Mapping[str, Any]:
    if said:
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _part(part: Fields, said: bool) -> Mapping[str, Any]:
    kind = part.required_string("type")
    if kind in _MEDIA_PARTS:
        raise unsupported(part.path, f"input of type {kind!r}")
    if kind not in _TEXT_PARTS:
        raise part.wrong("type", "one of input_text, output_text, refusal")
    text = part.string(_TEXT_PARTS[kind])
    if text is None:
        raise part.missing(_TEXT_PARTS[kind])
    return part.body if kind == "refusal" else {**part.body, **_text_part(text, said)}


def _output(item: Fields) -> str | list[Mapping[str, Any]]:
    output = item.get("output")
    return output if isinstance(output, str) else _parts(item, "output")


def _reasoning(item: Fields) -> Item:
    for name in ("summary", "content"):
        for i, part in enumerate(item.items(name) or []):
            fields = Fields(part, f"{item.at(name)}[{i}]")
            if fields.string("text") is None:
                raise fields.missing("text")
    item.string("encrypted_content")
    return {"summary": [], **_present(item)}


@dataclass
class _Answer:
    """An assistant's turn while its items are read."""

    parts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Turn] = field(default_factory=list)
    last: str = ""
    # Where the last call was written that the server ran.
    ran_in: tuple[str, str] | None = None

    def turns(self) -> Iterator[Turn]:
        """The turn, and the results of those of its calls that the server ran."""
        yield Turn(
            "assistant",
            tuple(self.parts),
            reasoning="".join(self.reasoning) or None,
            tool_calls=tuple(self.calls),
        )
        yield from self.results

    def add(self, item: Item) -> None:
        kind = self.last = item["type"]
        if kind == "message":
            texts = list(_texts(item["content"]))
            if self.parts and texts:
                # The model wrote this text in one go, with calls or reasoning in between.
                texts[0] = self.parts.pop() + texts[0]
            self.parts += texts
        elif kind == "reasoning":
            self.reasoning.append(_thoughts(item))
        elif kind == "function_call":
            self.calls.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
        else:
            self.calls.append(ToolCall(item["call_id"], item["name"], custom_input.wrap(item["input"])))

    def run(self, item: Item, name: str, result: str) -> None:
        """A call that the server ran, and what came of it."""
        call = ToolCall(item["id"], name, item["arguments"])
        self.last, self.ran_in = "mcp_call", _written_in(item)
        self.calls.append(call)
        self.results.append(Turn("tool", (result,), tool_call_id=call.id))

    def is_over(self, kind: str, item: Item) -> bool:
        """Whether an item of this type belongs to another turn: one that is written behind results, or a second
        message, as a model's own are never adjacent.
        """
        if self.results:
            here = _written_in(item)
            if here is not None and self.ran_in is not None:
                return here != self.ran_in
            return not kind.endswith("_call")
        return self.last == kind == "message"


Named: TypeAlias = Callable[[str, str], str]
"""The name by which the model knows a tool of an MCP server, from the server's label and the tool's name there."""


def turns_of(
    items: Iterable[Item], named: Named = lambda server, name: exposed_name(None, server, name)
) -> tuple[Turn, ...]:
    """The turns that checked items spell out.

    A call that was cut off is left out, as it is from a whole message, unless it has a result all the same. What
    the client was asked is a turn only where it refused: a call that it allowed is an item of its own.
    """
    items = list(items)
    answered = {item["call_id"] for item in items if item["type"].endswith("_output")}
    kept = [item for item in items if not _is_cut(item) or item.get("call_id") in answered]
    return tuple(_turns(kept, named))


def without_old_reasoning(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without the reasoning before the last user message; that of a tool loop still running stays."""
    last = max((i for i, turn in enumerate(turns) if turn.role == "user"), default=0)
    kept = [*(replace(turn, reasoning=None) for turn in turns[:last]), *turns[last:]]
    return tuple(
        turn for turn in kept if turn.parts or turn.tool_calls or turn.reasoning or turn.role != "assistant"
    )


def _is_cut(item: Item) -> bool:
    return item["type"].endswith("_call") and item.get("status") == "incomplete"


def _turns(items: Sequence[Item], named: Named) -> Iterator[Turn]:
    answer: _Answer | None = None
    denied = denials(items)
    for item in items:
        kind = item["type"]
        ran = past_call(item, denied)
        if ran is None and kind.startswith("mcp_"):
            continue
        if ran is not None or _is_answer(item):
            if answer is not None and answer.is_over("mcp_call" if ran is not None else kind, item):
                yield from answer.turns()
                answer = None
            answer = answer or _Answer()
            if ran is None:
                answer.add(item)
            else:
                answer.run(item, named(item["server_label"], item["name"]), ran)
            continue
        if answer is not None:
            yield from answer.turns()
            answer = None
        if item["type"] == "message":
            yield Turn(_ROLES[item["role"]], tuple(_texts(item["content"])))
        else:
            output = item["output"]
            parts = (output,) if isinstance(output, str) else tuple(_texts(output))
            yield Turn("tool", parts, tool_call_id=item["call_id"])
    if answer is not None:
        yield from answer.turns()


def _is_answer(item: Item) -> bool:
    kind = item["type"]
    if kind == "message":
        return bool(item["role"] == "assistant")
    return kind in ("reasoning", "function_call", "custom_tool_call")


def _texts(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (part[_TEXT_PARTS[part["type"]]] for part in parts)


def _thoughts(item: Item) -> str:
    """The reasoning itself where the item has it, else what its summary says."""
    if item.get("content"):
        return "".join(part["text"] for part in item["content"])
    sealed = _unseal(item.get("encrypted_content") or "")
    return "\n\n".join(part["text"] for part in item["summary"]) if sealed is None else sealed
