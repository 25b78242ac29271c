"""Rows of a dataset, one after another, each by itself.

What the model said is read with the source's parser and written with the target's writer; then it is read again
with the target's parser. So whatever the target can't carry shows, whether anybody thought of it or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import unspool
from unspool.convert import rows
from unspool.formats.evidence import openers
from unspool.formats.writer import WriteError, write
from unspool.message import Message, ToolCall, is_object, same_call
from unspool.parsing.declaration import ChannelCalls, Format, TaggedCalls
from unspool.parsing.opencall import is_new_call_id
from unspool.parsing.schema import AnyTool
from unspool.surfaces.fields import show

OPENAI: Literal["openai"] = "openai"
Dialect: TypeAlias = Format | Literal["openai"]
"""How the model's words stand in a row: as text in a format, or as OpenAI's fields."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted row, ``None`` if it can't be converted, and what was lost, a sentence each."""

    row: dict[str, Any] | None
    losses: tuple[str, ...] = ()


class _CannotCarryError(Exception):
    """The row can't be written in the target at all."""


class Converter:
    """Converts rows from one dialect to another.

    ``field`` is the field with the text that the model wrote; without it message lists, ShareGPT conversations and
    the usual names of such fields are looked for. ``tools`` are offered in rows that have none of their own.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        *,
        field: str | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self._field = field
        self._tools = None if tools is None else list(tools)

    def convert(self, row: Mapping[str, Any]) -> Converted:
        """One row; raises :class:`RowError` for one that can't be read."""
        if not isinstance(row, Mapping):
            raise rows.RowError(f"a row must be a JSON object, not {type(row).__name__}")
        given = rows.tools_of(row)
        return _Row(self, given if given is not None else self._tools).converted(row, self._field)


class _Row:
    """The conversion of one row: its tools, its losses so far, the ids of its calls, and fields that went."""

    def __init__(self, converter: Converter, tools: list[Mapping[str, Any]] | None) -> None:
        self._source, self._target = converter.source, converter.target
        self._tools = tools
        self._losses: list[str] = []
        self._calls = 0
        self._renamed: set[str] = set()

    def converted(self, row: Mapping[str, Any], field: str | None) -> Converted:
        try:
            changed = self._changed(row, field)
        except _CannotCarryError as error:
            return Converted(None, (*self._losses, str(error)))
        gone = {*changed, *self._renamed}
        kept = {name: value for name, value in row.items() if name not in gone}
        order = {name: i for i, name in enumerate(row)}
        both = sorted({**kept, **changed}.items(), key=lambda item: order.get(item[0], -1))
        return Converted(dict(both), tuple(dict.fromkeys(self._losses)))

    def _changed(self, row: Mapping[str, Any], field: str | None) -> dict[str, Any]:
        """The fields of the row that are not what they were."""
        if field is not None:
            if field not in row:
                raise rows.RowError(f"`{field}`: the row has no such field; it has {_fields(row)}")
            if not isinstance(row[field], str):
                raise rows.RowError(f"`{field}` must be the text that a model wrote; it is {show(row[field])}")
            return {field: self._text(row[field], row, field)}
        lists = rows.message_lists(row)
        changed: dict[str, Any] = {name: self._messages(messages, name) for name, messages in lists.items()}
        turns = row.get(rows.CONVERSATIONS)
        if isinstance(turns, list) and self._target == OPENAI and changed.get("messages"):
            self._losses.append(f"`{rows.CONVERSATIONS}` stays as it is: the row has `messages` already")
            changed[rows.CONVERSATIONS] = turns
        elif isinstance(turns, list):
            changed |= self._conversations(turns)
        for name in rows.TEXT_FIELDS:
            if isinstance(row.get(name), str):
                changed[name] = self._text(row[name], row, name)
        if changed:
            return changed
        if row.get("messages") is not None:
            raise rows.RowError(f"`messages` must be a list of messages; it is {show(row['messages'])}")
        raise rows.RowError(
            f"a row must have {rows.MESSAGE_FIELDS[0]!r}, {rows.CONVERSATIONS!r}, or text in one of "
            f"{', '.join(rows.TEXT_FIELDS)} (--field names another); this one has {_fields(row)}"
        )

    def _messages(self, messages: list[Mapping[str, Any]], name: str) -> list[Any]:
        said: list[Any] = []
        for i, message in enumerate(messages):
            where = f"{name}[{i}]"
            role = rows.role_of(message["role"])
            if role is None:
                self._losses.append(f"`{where}`: nobody knows the role {message['role']!r}; it stays as it is")
            said.append(self._said(message, where) if role == "assistant" else dict(message))
        return rows.answered(said) if self._target == OPENAI else said

    def _said(self, message: Mapping[str, Any], where: str) -> dict[str, Any]:
        """An assistant's message in the target's dialect."""
        found = rows.said_in(message, where)
        refusal = message.get("refusal")
        if self._target != OPENAI and found.content is None and isinstance(refusal, str) and refusal:
            self._losses.append(f"`{where}`: the refusal is written as content")
            found = replace(found, content=refusal)
            message = {name: value for name, value in message.items() if name != "refusal"}
        if len(rows.reasonings_in(message)) > 1:
            self._losses.append(f"`{where}`: it has several reasonings, of which the first is kept")
        if rows.has_hidden_reasoning(message):
            self._losses.append(f"`{where}`: reasoning that is no text is left out")
        written = self._written(self._read_message(found, where), where)
        if isinstance(written, str):
            written = {"role": message["role"], "content": written}
        kept = ("role", "content", "tool_calls", "function_call", *rows.REASONING_FIELDS)
        return {**written, **{key: value for key, value in message.items() if key not in kept}}

    def _conversations(self, turns: list[Any]) -> dict[str, Any]:
        """ShareGPT stays ShareGPT while what the model says is text; with OpenAI's fields it becomes messages."""
        said = [self._turn(turn, f"{rows.CONVERSATIONS}[{i}]") for i, turn in enumerate(turns)]
        if self._target != OPENAI:
            return {rows.CONVERSATIONS: said}
        self._renamed.add(rows.CONVERSATIONS)
        return {"messages": rows.answered(said)}

    def _turn(self, turn: Any, where: str) -> dict[str, Any]:
        """A turn of ShareGPT, or the message that it becomes."""
        speaker = turn.get("from") if isinstance(turn, Mapping) else None
        role = rows.role_of(speaker)
        if role is None or not isinstance(turn.get("value"), str):
            raise rows.RowError(
                f"`{where}` must have a text `value` and be `from` one of {', '.join(rows.SPEAKERS)}"
            )
        value = turn["value"]
        further = {name: said for name, said in turn.items() if name not in ("from", "value")}
        if role != "assistant":
            return {**further, "role": role, "content": value} if self._target == OPENAI else dict(turn)
        if speaker == "function_call":
            message = Message(tool_calls=rows.function_calls(value, where))
        else:
            message = self._read_message(Message(content=value or None), where)
        written = self._written(message, where)
        if not isinstance(written, str):
            return {**written, **{name: said for name, said in further.items() if name not in written}}
        return {**turn, "from": "gpt" if speaker == "function_call" else speaker, "value": written}

    def _text(self, text: str, row: Mapping[str, Any], name: str) -> Any:
        if self._is_rendered(text) and rows.message_lists(row):
            self._losses.append(f"`{name}` is rendered for {self._source} and stays as it is")
            return text
        prompt = row.get("prompt")
        prompt = prompt if isinstance(prompt, str) else None
        if prompt is not None and self._is_rendered(prompt):
            self._losses.append(f"`prompt` is rendered for {self._source} and stays as it is")
        else:
            prompt = None
        written = self._written(self._read_message(Message(content=text or None), name, prompt), name)
        return written if isinstance(written, str) else [written]

    def _is_rendered(self, text: str) -> bool:
        """Whether a text is a whole conversation as the source's template writes it."""
        return self._source != OPENAI and any(turn in text for turn in self._source.turns)

    def _read_message(self, message: Message, where: str, prompt: str | None = None) -> Message:
        """What a message says once its text is read as the source writes; calls that are fields already stay."""
        if self._source == OPENAI or message.content is None:
            return message
        text = message.content
        if (message.reasoning or message.tool_calls) and _never_ends(self._source, text, prompt):
            # What is beside fields begins where reasoning is over.
            prompt = ""
        tools = AnyTool() if self._tools is None else self._tools
        read = unspool.parse(self._source, text, tools=tools, prompt=prompt)
        if message.tool_calls:
            if read.tool_calls or read.reasoning:
                self._losses.append(
                    f"`{where}`: the text beside calls that are fields is not read; it stays content"
                )
            return message
        self._note_reading(read, where, text, prompt)
        if read.reasoning and message.reasoning not in (None, read.reasoning):
            self._losses.append(f"`{where}`: the text has reasoning, so another one beside it is left out")
        return replace(read, reasoning=read.reasoning or message.reasoning)

    def _note_reading(self, read: Message, where: str, text: str, prompt: str | None) -> None:
        assert self._source != OPENAI
        shape = self._source.calls
        if read.content and shape is not None:
            left = next((text for text in openers(self._source) if text in read.content), None)
            if left is not None:
                self._losses.append(
                    f"`{where}`: {json.dumps(left)} begins no call that can be read and stays content"
                )
        if read.reasoning and not read.content and not read.tool_calls and _never_ends(self._source, text, prompt):
            self._losses.append(f"`{where}`: prompts of {self._source} open reasoning, and the text never ends it")
        if read.tool_calls and self._tools is None and isinstance(shape, TaggedCalls) and not shape.type_attribute:
            self._losses.append(f"`{where}`: the row has no tools, so the types of arguments are guessed")

    def _written(self, message: Message, where: str) -> str | dict[str, Any]:
        """What the model said, in the target's dialect."""
        for call in message.tool_calls:
            if not is_object(call.arguments):
                raise _CannotCarryError(f"`{where}`: the arguments of {call.name} are not a JSON object")
        if self._target == OPENAI:
            return rows.as_openai(replace(message, tool_calls=tuple(map(self._with_id, message.tool_calls))))
        target = self._target
        if message.reasoning is not None and not (target.reasoning or isinstance(target.calls, ChannelCalls)):
            self._losses.append(f"`{where}`: {target} has no reasoning, so it is left out")
            message = replace(message, reasoning=None)
        elif message.reasoning is not None and _is_closed(target):
            self._losses.append(
                f"`{where}`: reasoning comes after {target.start!r}, with which prompts of {target} end"
            )
        try:
            text = write(target, message)
        except WriteError as error:
            raise _CannotCarryError(f"`{where}`: {error}") from None
        self._note_writing(target, message, text, where)
        return text

    def _note_writing(self, target: Format, message: Message, text: str, where: str) -> None:
        """Everything that isn't read back as it was."""
        tools = self._tools if self._tools is not None else [_tool(call.name) for call in message.tool_calls]
        read = unspool.parse(target, text, tools=tools or None)
        if read.reasoning != message.reasoning:
            self._losses.append(f"`{where}`: reasoning is not read back as it was")
        if read.content != message.content:
            self._losses.append(f"`{where}`: content is not read back as it was")
        if len(read.tool_calls) != len(message.tool_calls):
            self._losses.append(
                f"`{where}`: of {len(message.tool_calls)} calls {len(read.tool_calls)} are read back"
            )
            return
        for was, now in zip(message.tool_calls, read.tool_calls, strict=True):
            if not same_call(was, now):
                self._losses.append(
                    f"`{where}`: the call of {was.name} is read back as {now.name} {now.arguments:.200}"
                )

    def _with_id(self, call: ToolCall) -> ToolCall:
        """The call with an id that is the same each time, unless the row has one."""
        self._calls += 1
        return replace(call, id=f"call_{self._calls}") if is_new_call_id(call.id) else call


def _never_ends(fmt: Format, text: str, prompt: str | None) -> bool:
    """Whether a text is reasoning only because the format starts in it, and has no end of it."""
    return prompt is None and any(
        fmt.start.rstrip().endswith(block.open) and block.close not in text for block in fmt.reasoning
    )


def _is_closed(fmt: Format) -> bool:
    """Whether the format starts behind reasoning that its prompt has closed already."""
    return any(fmt.start.rstrip().endswith(block.close) for block in fmt.reasoning)


def _fields(row: Mapping[str, Any]) -> str:
    return ", ".join(row) or "nothing"


def _tool(name: str) -> Mapping[str, Any]:
    return {"type": "function", "function": {"name": name}}
