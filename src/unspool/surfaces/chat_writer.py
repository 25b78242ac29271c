"""Chat Completions: events become the stream's chunks, or one message.

The stream writer is a state machine that can only write legal sequences, whatever events it is given: role
once per choice, a call's id and name once, arguments only for an open call, one finish chunk, usage only when
asked, one ``[DONE]``. An event that fits nowhere (a delta of a call that never started, anything after the
end) is left out; a finish that never came is written at the end. Reasoning, content and calls never share a
chunk, because some clients read only one of them.

A chunk is a constant prefix, the text as JSON and a constant suffix: building objects would cost more than
parsing does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unspool.events import (
    ContentDelta,
    Finish,
    FinishReason,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from unspool.message import Message
from unspool.surfaces.encoding import PIECES, encode
from unspool.surfaces.errors import openai_error
from unspool.surfaces.server_events import AnyEvent, LoopLimit, ServerCallResult

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Reasoning is not in OpenAI's API; clients look for it under one of these names, so both are sent."""

HEARTBEAT = b": still here\n\n"
"""A comment, which clients pass over; may be written between any two chunks."""

_DONE = b"data: [DONE]\n\n"
_END_DELTA = b'},"finish_reason":null}]}\n\n'
_END_ARGUMENTS = b"}}]" + _END_DELTA


def finish_reason(reason: FinishReason, complete_calls: int) -> str:
    """The API's word for why a choice ended.

    A token limit wins over calls, because clients take a cut call for a whole one unless they are told; and
    ``tool_calls`` is said only if there is one, because clients wait for it otherwise.
    """
    if reason in ("length", "content_filter"):
        return reason
    return "tool_calls" if complete_calls else "stop"


def usage_object(usages: Sequence[Usage]) -> dict[str, Any]:
    """Token counts of all choices together; they share one prompt."""
    prompt = max((usage.prompt_tokens for usage in usages), default=0)
    completion = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": max((u.cached_tokens for u in usages), default=0)},
        "completion_tokens_details": {"reasoning_tokens": sum(u.reasoning_tokens for u in usages)},
    }


def server_side(events: Iterable[AnyEvent]) -> dict[str, Any]:
    """What the server did for a message, in fields of our own: the API has none, and takes a call for the
    client's.

    ``mcp_calls`` are the calls that the server ran, ``mcp_limit`` the limit that ended this.
    """
    calls: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for event in events:
        if type(event) is ServerCallResult:
            calls.append(
                {
                    "id": event.call.id,
                    "server_label": event.call.server,
                    "name": event.call.name,
                    "arguments": event.arguments or "{}",
                    "output": event.text if event.error is None else None,
                    "error": event.error,
                }
            )
        elif type(event) is LoopLimit:
            fields["mcp_limit"] = event.reason
    return {"mcp_calls": calls, **fields} if calls else fields


def completion(
    messages: Sequence[Message],
    *,
    completion_id: str,
    created: int,
    model: str,
    include_reasoning: bool = True,
    reasoning_fields: Sequence[str] = REASONING_FIELDS,
    done: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole response of a request that did not stream; one message per choice.

    ``done`` is what the server did for it (:func:`server_side`).
    """
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": index,
                "message": {**_message(message, reasoning_fields if include_reasoning else ()), **(done or {})},
                "logprobs": None,
                "finish_reason": finish_reason(message.finish_reason, len(message.tool_calls)),
            }
            for index, message in enumerate(messages)
        ],
        "usage": usage_object([message.usage for message in messages if message.usage]),
    }


def _message(message: Message, reasoning_fields: Sequence[str]) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.content, "refusal": None, "annotations": []}
    if message.reasoning is not None:
        body.update(dict.fromkeys(reasoning_fields, message.reasoning))
    if message.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
            }
            for call in message.tool_calls
        ]
    return body


class _Choice:
    """How far one choice has come.

    ``content`` and ``reasoning`` are what stands around the text in its chunks, nothing if it is not shown.
    ``calls`` maps an open call to the start of its next chunk; ``bare`` are open calls without arguments.
    ``server`` is what the server said of its own tools.
    """

    __slots__ = (
        "bare",
        "calls",
        "complete",
        "content",
        "delta",
        "finished",
        "opened",
        "reasoning",
        "server",
        "started",
        "usage",
    )

    def __init__(self, delta: bytes, reasoning: Sequence[bytes]) -> None:
        self.delta = delta
        self.content = (delta + b'"content":', _END_DELTA)
        more = [b"," + name for name in reasoning[1:]]
        self.reasoning = (delta + reasoning[0], *more, _END_DELTA) if reasoning else ()
        self.opened = False
        self.started: dict[int, int] = {}
        self.calls: dict[int, bytes] = {}
        self.bare: set[int] = set()
        self.server: list[AnyEvent] = []
        self.complete = 0
        self.finished = False
        self.usage: Usage | None = None


class ChatStream:
    """Writes one streamed response as server-sent events."""

    __slots__ = ("_choices", "_ended", "_head", "_include_usage")

    def __init__(
        self,
        *,
        completion_id: str,
        created: int,
        model: str,
        choices: int = 1,
        include_usage: bool = False,
        include_reasoning: bool = True,
        reasoning_fields: Sequence[str] = REASONING_FIELDS,
    ) -> None:
        head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + encode(head)[:-1]
        names = [encode(name) + b":" for name in reasoning_fields] if include_reasoning else []
        self._choices = [
            _Choice(self._head + b',"choices":[{"index":%d,"delta":{' % index, names) for index in range(choices)
        ]
        self._include_usage = include_usage
        self._ended = False

    def write(self, events: Sequence[AnyEvent], index: int = 0) -> bytes:
        """The frames for the next events of choice ``index``; empty if there is nothing to say."""
        choice = self._choices[index]
        if len(events) == 1 and choice.opened and not choice.finished:
            # Nearly every token ends here.
            event = events[0]
            if type(event) is ContentDelta:
                return PIECES[event.text].join(choice.content) if event.text else b""
            if type(event) is ReasoningDelta:
                return PIECES[event.text].join(choice.reasoning) if event.text and choice.reasoning else b""
        frames: list[bytes] = []
        # Deltas come first and are compared by exact type.
        for event in events:
            if choice.finished:
                break
            if type(event) is ContentDelta:
                if event.text:
                    if not choice.opened:
                        frames.append(self._open(index, b'""'))
                    frames.append(PIECES[event.text].join(choice.content))
            elif type(event) is ToolCallDelta:
                prefix = choice.calls.get(event.index)
                if prefix is not None and event.arguments:
                    if choice.bare:
                        choice.bare.discard(event.index)
                    frames.append(prefix + PIECES[event.arguments] + _END_ARGUMENTS)
            elif type(event) is ReasoningDelta:
                if event.text and choice.reasoning:
                    if not choice.opened:
                        frames.append(self._open(index, b"null"))
                    frames.append(PIECES[event.text].join(choice.reasoning))
            elif type(event) is ToolCallStart:
                frames.append(self._start_call(index, choice, event))
            elif type(event) is ToolCallEnd:
                frames.append(self._end_call(choice, event.index))
            elif type(event) is Finish:
                frames.append(self._finish(index, choice, event))
            elif type(event) is ServerCallResult or type(event) is LoopLimit:
                choice.server.append(event)
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def close(self) -> bytes:
        """The end of the stream: finishes that are still missing, usage if it was asked for, end mark."""
        if self._ended:
            return b""
        frames = [
            self._finish(index, choice, Finish("stop"))
            for index, choice in enumerate(self._choices)
            if not choice.finished
        ]
        if self._include_usage:
            usage = usage_object([choice.usage for choice in self._choices if choice.usage])
            frames.append(self._head + b',"choices":[],"usage":' + encode(usage) + b"}\n\n")
        frames.append(_DONE)
        self._end()
        return b"".join(frames)

    def error(self, body: Mapping[str, Any]) -> bytes:
        """Ends the stream with an error object instead of a finish."""
        if self._ended:
            return b""
        self._end()
        return b"data: " + encode(body) + b"\n\n" + _DONE

    def _end(self) -> None:
        self._ended = True
        for choice in self._choices:
            choice.finished = True

    def _open(self, index: int, content: bytes) -> bytes:
        """The role, for this choice and for those before it: a client's list of choices grows in order."""
        frames = []
        for choice in self._choices[: index + 1]:
            if not choice.opened:
                choice.opened = True
                value = content if choice is self._choices[index] else b"null"
                frames.append(choice.delta + b'"role":"assistant","content":' + value + _END_DELTA)
        return b"".join(frames)

    def _start_call(self, index: int, choice: _Choice, event: ToolCallStart) -> bytes:
        if event.index in choice.started or not event.id or not event.name:
            return b""
        opening = b"" if choice.opened else self._open(index, b"null")
        position = choice.started[event.index] = len(choice.started)
        choice.bare.add(event.index)
        start = choice.delta + b'"tool_calls":[{"index":%d,' % position
        choice.calls[event.index] = start + b'"function":{"arguments":'
        return (
            opening
            + start
            + b'"id":'
            + encode(event.id)
            + b',"type":"function","function":{"name":'
            + encode(event.name)
            + b',"arguments":""'
            + _END_ARGUMENTS
        )

    def _end_call(self, choice: _Choice, call: int) -> bytes:
        prefix = choice.calls.pop(call, None)
        if prefix is None:
            return b""
        choice.complete += 1
        # "" is not JSON, and many clients parse whatever the deltas add up to.
        if call not in choice.bare:
            return b""
        choice.bare.discard(call)
        return prefix + b'"{}"' + _END_ARGUMENTS

    def _finish(self, index: int, choice: _Choice, event: Finish) -> bytes:
        if event.reason in ("error", "cancelled"):
            return self.error(openai_error(f"The generation ended early: {event.reason}.", "server_error"))
        opening = b"" if choice.opened else self._open(index, b"null")
        choice.finished = True
        choice.usage = event.usage
        reason = encode(finish_reason(event.reason, choice.complete))
        done = encode(server_side(choice.server))[1:]
        return opening + choice.delta + done + b',"finish_reason":' + reason + b"}]}\n\n"
