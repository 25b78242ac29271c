"""The Messages API: ``system`` and ``messages`` of a request become turns.

This API puts several things into one message that are turns of their own elsewhere: results of calls stand beside
the user's text. What was one message elsewhere may be several blocks here. Turns come out as they do from the
other surfaces, so the same conversation gets the same prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from unspool.message import ToolCall
from unspool.surfaces.conversation import Turn, as_error
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import exposed_name

_MEDIA = ("image", "document", "search_result", "container_upload")
_BILLING_HEADER = "x-anthropic-billing-header"


Named: TypeAlias = Callable[[str, str], str]
"""The name by which the model knows a tool of an MCP server, from the server's name and the tool's name there."""


def decode_turns(
    body: Fields, named: Named = lambda server, name: exposed_name(None, server, name)
) -> tuple[Turn, ...]:
    """The turns of a request; :class:`InvalidRequestError` names what is wrong where.

    All system texts become one turn at the start, because most templates take no other. Messages of one role in a
    row are one turn, as in the API.
    """
    messages = body.items("messages")
    if messages is None:
        raise body.missing("messages")
    system = _system(body, "system")
    turns: list[Turn] = []
    for i, message in enumerate(messages):
        fields = Fields(message, f"messages[{i}]")
        role = fields.required_string("role")
        if role == "system":
            system += _system(fields, "content")
        elif role == "user":
            turns += _user(fields)
        elif role == "assistant":
            turns += _assistant(fields, named)
        else:
            raise fields.wrong("role", "user, assistant or system")
    if not turns:
        raise body.wrong("messages", "a list with at least one message of the user or the assistant")
    leading = [Turn("system", tuple(system))] if system else []
    return (*leading, *_combined(turns))


def _combined(turns: list[Turn]) -> list[Turn]:
    combined: list[Turn] = []
    for turn in turns:
        last = combined[-1] if combined else None
        if last is None or last.role != turn.role or turn.role == "tool":
            combined.append(turn)
            continue
        combined[-1] = replace(
            last,
            parts=last.parts + turn.parts,
            reasoning="".join(text for text in (last.reasoning, turn.reasoning) if text) or None,
            tool_calls=last.tool_calls + turn.tool_calls,
        )
    return combined


def _system(fields: Fields, name: str) -> list[str]:
    """System texts, without the line in which one client counts its requests: it changes with every request, so
    no prompt would begin like the one before.
    """
    value = fields.get(name)
    texts = [] if value is None else [value] if isinstance(value, str) else _texts(fields, name)
    texts = [text.partition("\n")[2] if text.startswith(_BILLING_HEADER) else text for text in texts]
    return [text for text in texts if text]


def _texts(fields: Fields, name: str) -> list[str]:
    return [_text_only(block) for block in _blocks(fields, name)]


def _blocks(fields: Fields, name: str) -> list[Fields]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise fields.wrong(name, "a string or a list of content blocks")
    return [Fields(block, f"{fields.at(name)}[{i}]") for i, block in enumerate(value)]


def _text_only(block: Fields) -> str:
    kind = block.required_string("type")
    if kind == "text":
        return _text(block)
    raise _refusal(block, kind, "text")


def _text(block: Fields) -> str:
    text = block.string("text")
    if text is None:
        raise block.missing("text")
    return text


def _refusal(block: Fields, kind: str, known: str) -> InvalidRequestError:
    """The error for a block of another type: known to the API, or to nobody."""
    if kind in _MEDIA or kind.endswith(("_tool_use", "_tool_result", "tool_reference")):
        return unsupported(block.path, f"a content block of type {kind!r}")
    return block.wrong("type", known)


def _user(message: Fields) -> list[Turn]:
    content = message.get("content")
    if content is None or content == []:
        raise message.missing("content")
    if isinstance(content, str):
        return [Turn("user", (content,))]
    turns: list[Turn] = []
    for block in _blocks(message, "content"):
        kind = block.required_string("type")
        if kind == "text":
            turns.append(Turn("user", (_text(block),)))
        elif kind == "tool_result":
            turns.append(_tool_result(block))
        else:
            raise _refusal(block, kind, "text or tool_result")
    return turns


def _tool_result(block: Fields) -> Turn:
    content = block.get("content")
    if content is None or isinstance(content, str):
        parts = [content] if content else []
    else:
        parts = _texts(block, "content")
    if block.boolean("is_error"):
        parts[:1] = [as_error(parts[0] if parts else "")]
    return Turn("tool", tuple(parts), tool_call_id=block.required_string("tool_use_id"))


@dataclass
class _Said:
    """What the blocks of an assistant's message say."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    # Of calls that the server ran.
    results: list[Turn] = field(default_factory=list)

    def turns(self) -> Iterator[Turn]:
        """The turn, and the results of its calls that are there already."""
        # One text that a call or a thought divided, so nothing is put between its pieces.
        text = "".join(self.texts)
        yield Turn(
            "assistant",
            (text,) if text else (),
            reasoning="".join(self.thoughts) or None,
            tool_calls=tuple(self.calls),
        )
        yield from self.results


def _assistant(message: Fields, named: Named) -> list[Turn]:
    content = message.get("content")
    if content is None:
        raise message.missing("content")
    if isinstance(content, str):
        return [Turn("assistant", (content,) if content else ())]
    turns: list[Turn] = []
    blocks = _blocks(message, "content")
    results = [block for block in blocks if block.get("type") == "mcp_tool_result"]
    answered = {block.required_string("tool_use_id") for block in results}
    said = _Said()
    for block in blocks:
        kind = block.required_string("type")
        if kind == "mcp_tool_result":
            said.results.append(_tool_result(block))
            continue
        if said.results:
            # What stands behind results was written when the model had read them.
            turns += said.turns()
            said = _Said()
        if kind != "mcp_tool_use":
            _say(said, block, kind)
        elif block.required_string("id") in answered:
            # A call without a result never ran: the message was cut there.
            name = named(block.string("server_name") or "", block.required_string("name"))
            said.calls.append(ToolCall(block.body["id"], name, _arguments(block)))
    return [*turns, *said.turns()]


def _say(said: _Said, block: Fields, kind: str) -> None:
    if kind == "text":
        said.texts.append(_text(block))
    elif kind == "thinking":
        # Its signature is of no use here: any client may write a whole history of its own.
        thinking = block.string("thinking")
        if thinking is None:
            raise block.missing("thinking")
        said.thoughts.append(thinking)
    elif kind == "tool_use":
        call_id, name = block.required_string("id"), block.required_string("name")
        said.calls.append(ToolCall(call_id, name, _arguments(block)))
    elif kind != "redacted_thinking":
        # What is redacted can't be read by anyone but who wrote it.
        raise _refusal(block, kind, "text, thinking, redacted_thinking or tool_use")


def _arguments(block: Fields) -> str:
    """A call's input as JSON text."""
    try:
        return json.dumps(block.mapping("input") or {}, ensure_ascii=False)
    except RecursionError:
        raise block.wrong("input", "a JSON object that is not nested this deeply") from None
