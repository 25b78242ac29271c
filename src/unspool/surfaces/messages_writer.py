"""The Messages API: events become the stream's events, or one message.

One state machine makes blocks of events, and the stream and the whole message are both written from it, so they
can't differ. Whatever events it is given, one block is open at a time, each is closed before the next, and a
block's pieces are of its kind. An event that fits nowhere (a piece of a call whose block is closed, anything after
the end) is left out; an end that never came is written when the writer is closed.

A delta is a constant prefix, the text as JSON and a constant suffix: building objects would cost more than parsing
does.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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
from unspool.surfaces.encoding import PIECES, embed, encode
from unspool.surfaces.errors import messages_error
from unspool.surfaces.server_events import (
    AnyEvent,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
)

Kind: TypeAlias = Literal["thinking", "text", "tool_use", "mcp_tool_use"]
Call: TypeAlias = ToolCallStart | ServerCallStart

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
"""May be written at any time between the first event and the last."""

# The API's description demands these fields, too; its own servers' machinery is behind them.
_NOT_HERE = {"stop_details": None, "container": None}
_NOT_COUNTED = {"cache_creation": None, "inference_geo": None, "service_tier": "standard"}
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_END_DELTA = b"}}\n\n"
_STARTS: Mapping[Kind, bytes] = {
    "text": b'{"type":"text","text":""}',
    "thinking": b'{"type":"thinking","thinking":"","signature":""}',
}
_DELTAS: Mapping[Kind, bytes] = {
    "text": b'{"type":"text_delta","text":',
    "thinking": b'{"type":"thinking_delta","thinking":',
    "tool_use": b'{"type":"input_json_delta","partial_json":',
    "mcp_tool_use": b'{"type":"input_json_delta","partial_json":',
}


def stop_reason(
    reason: FinishReason, complete_calls: int, stop_sequence: str | None = None, *, paused: bool = False
) -> str:
    """The API's word for why a message ended.

    A token limit wins over calls, because clients take a cut call for a whole one unless they are told; calls win
    over a stop string, because clients run them only when they are told. ``paused``: the server has called tools
    as often as it may, and goes on when it gets the message back.
    """
    if reason == "length":
        return "max_tokens"
    if reason == "content_filter":
        return "refusal"
    if complete_calls:
        return "tool_use"
    if paused:
        return "pause_turn"
    return "end_turn" if stop_sequence is None else "stop_sequence"


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts; this API counts what was reused of the prompt apart from the rest of it."""
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "server_tool_use": None,
    }


class _Blocks(ABC):
    """Which block is open and which calls are whole; what a block becomes is up to the subclass."""

    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.complete = 0
        self.paused = False
        self._kind: Kind | None = None
        self._call = self._server_call = -1
        self._bare = False
        # Started calls, while all of their arguments were taken and their end has not come.
        self._calls: dict[int, ToolCallStart | None] = {}
        # The server's own calls: those that have begun, and those that are whole and have no result yet.
        self._server_calls: dict[int, ServerCallStart] = {}
        self._waiting: dict[int, ServerCallStart] = {}

    def take(self, events: Iterable[AnyEvent]) -> None:
        """The next events."""
        # Deltas come first and are compared by exact type.
        for event in events:
            if self.finish is not None:
                return
            if type(event) is ContentDelta:
                if event.text:
                    self._more("text", event.text)
            elif type(event) is ToolCallDelta:
                self._arguments(event)
            elif type(event) is ReasoningDelta:
                if event.text:
                    self._more("thinking", event.text)
            elif type(event) is ToolCallStart:
                self._start_call(event)
            elif type(event) is ToolCallEnd:
                self._end_call(event.index)
            elif type(event) is Finish:
                self.close_block()
                self.finish = event
            else:
                self._of_server(event)

    def _of_server(self, event: AnyEvent) -> None:
        """What the server says of its own tools."""
        if type(event) is ServerCallDelta:
            if event.index == self._server_call and event.arguments:
                self._bare = False
                self._piece(event.arguments)
        elif type(event) is ServerCallStart:
            self._start_server_call(event)
        elif type(event) is ServerCallEnd:
            self._end_server_call(event.index)
        elif type(event) is ServerCallResult:
            call = self._waiting.pop(event.index, None)
            if call is not None:
                self.close_block()
                self._answered(call, event)
        elif type(event) is LoopLimit:
            self.paused = not event.answered

    def close_block(self) -> None:
        """Closes the open block, if there is one."""
        if self._kind is not None:
            self._closed(self._kind)
            self._kind, self._call, self._server_call = None, -1, -1

    def _more(self, kind: Kind, text: str) -> None:
        if self._kind != kind:
            self.close_block()
            self._kind = kind
            self._opened(kind, None)
        self._piece(text)

    def _start_call(self, event: ToolCallStart) -> None:
        if event.index in self._calls or not event.id or not event.name:
            return
        self.close_block()
        self._kind, self._call, self._bare = "tool_use", event.index, True
        self._calls[event.index] = event
        self._opened("tool_use", event)

    def _arguments(self, event: ToolCallDelta) -> None:
        if not event.arguments:
            return
        if event.index == self._call:
            self._bare = False
            self._piece(event.arguments)
        elif event.index in self._calls:
            # Its block can't be opened again, and without this piece the call is another one.
            self._calls[event.index] = None

    def _end_call(self, index: int) -> None:
        start = self._calls.get(index)
        if start is None:
            return
        self._calls[index] = None
        self.complete += 1
        if index == self._call:
            if self._bare:
                # "" is not JSON, and many clients parse whatever the deltas add up to.
                self._piece("{}")
            self.close_block()
        self._completed(start)

    def _start_server_call(self, event: ServerCallStart) -> None:
        if event.index in self._server_calls or not event.id or not event.name:
            return
        self.close_block()
        self._server_calls[event.index] = event
        self._kind, self._server_call, self._bare = "mcp_tool_use", event.index, True
        self._opened("mcp_tool_use", event)

    def _end_server_call(self, index: int) -> None:
        if index != self._server_call:
            return
        if self._bare:
            self._piece("{}")
        self.close_block()
        call = self._waiting[index] = self._server_calls[index]
        self._completed(call)

    @abstractmethod
    def _opened(self, kind: Kind, call: Call | None) -> None: ...

    @abstractmethod
    def _piece(self, text: str) -> None: ...

    @abstractmethod
    def _closed(self, kind: Kind) -> None: ...

    @abstractmethod
    def _completed(self, call: Call) -> None:
        """A call turned out to be whole; its block is closed."""

    @abstractmethod
    def _answered(self, call: ServerCallStart, result: ServerCallResult) -> None:
        """What came of one of the server's own calls, between two blocks."""


class _Signature:
    """Says which thinking a signature belongs to.

    Clients want a string that is not empty and send it back with the block. Nothing depends on it then: a client
    may change what the model thought as it may change everything else.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.add = self._texts.append
        """Takes a piece of it."""

    def __str__(self) -> str:
        digest = hashlib.sha256("".join(self._texts).encode("utf-8", "surrogatepass")).digest()
        return base64.b64encode(digest).decode()


class MessageStream(_Blocks):
    """Writes one streamed message as server-sent events.

    ``prompt`` are the counts of the prompt as far as they are known at the start. ``show_thinking`` false writes
    thinking blocks without their text, as the API does for thinking that is omitted.
    """

    def __init__(
        self, *, message_id: str, model: str, prompt: Usage | None = None, show_thinking: bool = True
    ) -> None:
        super().__init__()
        self._head = {"id": message_id, "type": "message", "role": "assistant", "model": model}
        self._prompt = prompt or Usage()
        self._show_thinking = show_thinking
        self._frames: list[bytes] = []
        self._index = -1
        self._delta = b""
        self._signature = _Signature()
        self._started = False
        self._ended = False

    def write(self, events: Sequence[AnyEvent], index: int = 0) -> bytes:
        """The frames for the next events; the first call opens the message, which is all choices there are."""
        if self._ended:
            return b""
        if len(events) == 1 and self.finish is None:
            # Nearly every token ends here.
            event = events[0]
            if type(event) is ContentDelta and self._kind == "text" and event.text:
                return self._delta + PIECES[event.text] + _END_DELTA
            if type(event) is ReasoningDelta and self._kind == "thinking" and self._show_thinking and event.text:
                self._signature.add(event.text)
                return self._delta + PIECES[event.text] + _END_DELTA
        if not self._started:
            self._start()
        self.take(events)
        if self.finish is not None and self.finish.reason in ("error", "cancelled"):
            message = f"The generation ended early: {self.finish.reason}."
            return self._taken() + self.error(messages_error(message, "api_error"))
        return self._taken()

    def close(self, stop_sequence: str | None = None) -> bytes:
        """The end of the message; ``stop_sequence`` is the stop string that ended it."""
        if self._ended:
            return b""
        # Nothing may have been written yet, and the finish may never have come.
        data = self.write([Finish("stop")])
        self._ended = True
        end = _ending(self, stop_sequence)
        usage = end.pop("usage")
        self._event("message_delta", b'"delta":' + encode(end) + b',"usage":' + encode(usage))
        return data + self._taken() + _STOP

    def error(self, body: Mapping[str, Any]) -> bytes:
        """Ends the stream with an error object."""
        if self._ended:
            return b""
        self._ended = True
        return b"event: error\ndata: " + encode(body) + b"\n\n"

    def _start(self) -> None:
        self._started = True
        message: dict[str, Any] = {
            **self._head,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            **_NOT_HERE,
            "usage": {**usage_object(self._prompt), **_NOT_COUNTED},
        }
        self._event("message_start", b'"message":' + encode(message))
        self._frames.append(PING)

    def _taken(self) -> bytes:
        frames, self._frames = self._frames, []
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _event(self, name: str, fields: bytes) -> None:
        kind = name.encode()
        self._frames.append(b"event: " + kind + b'\ndata: {"type":"' + kind + b'",' + fields + b"}\n\n")

    def _opened(self, kind: Kind, call: Call | None) -> None:
        self._index += 1
        number = b'"index":%d,' % self._index
        self._delta = b'event: content_block_delta\ndata: {"type":"content_block_delta",' + number + b'"delta":'
        block = _STARTS[kind] if call is None else _call_head(call) + b',"input":{}}'
        self._event("content_block_start", number + b'"content_block":' + block)
        if kind == "thinking":
            self._signature = _Signature()
        if call is not None:
            self._frames.append(self._delta + _DELTAS[kind] + b'""' + _END_DELTA)
        self._delta += _DELTAS[kind]

    def _piece(self, text: str) -> None:
        if self._kind == "thinking":
            self._signature.add(text)
            if not self._show_thinking:
                return
        self._frames.append(self._delta + PIECES[text] + _END_DELTA)

    def _completed(self, call: Call) -> None:
        """Nothing is left to write."""

    def _answered(self, call: ServerCallStart, result: ServerCallResult) -> None:
        self._index += 1
        number = b'"index":%d' % self._index
        self._event("content_block_start", number + b',"content_block":' + encode(_result_block(call, result)))
        self._event("content_block_stop", number)

    def _closed(self, kind: Kind) -> None:
        number = b'"index":%d' % self._index
        if kind == "thinking":
            signature = b'{"type":"signature_delta","signature":' + encode(str(self._signature)) + b"}"
            self._event("content_block_delta", number + b',"delta":' + signature)
        self._event("content_block_stop", number)


@dataclass(slots=True)
class _Block:
    """A block of a whole message; ``complete`` is about calls, ``result`` is a call's, as a block of its own."""

    kind: Kind | None
    call: Call | None = None
    pieces: list[str] = field(default_factory=list)
    complete: bool = False
    result: dict[str, Any] | None = None

    def encoded(self, *, show_thinking: bool) -> bytes:
        if self.result is not None:
            return encode(self.result)
        text = "".join(self.pieces)
        if self.call is not None:
            return _call_head(self.call) + b',"input":' + embed(text) + b"}"
        if self.kind == "text":
            return encode({"type": "text", "text": text})
        signature = _Signature()
        signature.add(text)
        shown = text if show_thinking else ""
        return encode({"type": "thinking", "thinking": shown, "signature": str(signature)})


class _Gathered(_Blocks):
    """The blocks of a whole message."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[_Block] = []

    def _opened(self, kind: Kind, call: Call | None) -> None:
        self.blocks.append(_Block(kind, call))

    def _piece(self, text: str) -> None:
        self.blocks[-1].pieces.append(text)

    def _closed(self, kind: Kind) -> None:
        """Nothing to write."""

    def _completed(self, call: Call) -> None:
        for block in self.blocks:
            if block.call is call:
                block.complete = True

    def _answered(self, call: ServerCallStart, result: ServerCallResult) -> None:
        self.blocks.append(_Block(None, result=_result_block(call, result)))


def message(
    events: Iterable[AnyEvent],
    *,
    message_id: str,
    model: str,
    show_thinking: bool = True,
    stop_sequence: str | None = None,
) -> bytes:
    """The whole response of a request that did not stream, as JSON.

    It has the blocks of the stream, except that a call that was cut or turned out malformed is left out: its
    input is no object.
    """
    gathered = _Gathered()
    gathered.take(events)
    blocks = [
        block.encoded(show_thinking=show_thinking)
        for block in gathered.blocks
        if block.call is None or block.complete
    ]
    head = encode({"id": message_id, "type": "message", "role": "assistant", "model": model})
    ending = _ending(gathered, stop_sequence)
    end = encode({**ending, "usage": {**ending["usage"], **_NOT_COUNTED}})
    return head[:-1] + b',"content":[' + b",".join(blocks) + b"]," + end[1:]


def _call_head(call: Call) -> bytes:
    """The start of a call's block, up to its input."""
    if isinstance(call, ServerCallStart):
        named = {"type": "mcp_tool_use", "id": call.id, "name": call.name, "server_name": call.server}
        return encode(named)[:-1]
    return encode({"type": "tool_use", "id": call.id, "name": call.name, "caller": {"type": "direct"}})[:-1]


def _result_block(call: ServerCallStart, result: ServerCallResult) -> dict[str, Any]:
    return {
        "type": "mcp_tool_result",
        "tool_use_id": call.id,
        "is_error": result.error is not None,
        "content": [{"type": "text", "text": result.text}],
    }


def _ending(blocks: _Blocks, stop_sequence: str | None) -> dict[str, Any]:
    """Why a message ended, and its token counts."""
    finish = blocks.finish or Finish("stop")
    reason = stop_reason(finish.reason, blocks.complete, stop_sequence, paused=blocks.paused)
    return {
        "stop_reason": reason,
        "stop_sequence": stop_sequence if reason == "stop_sequence" else None,
        **_NOT_HERE,
        "usage": usage_object(finish.usage or Usage()),
    }
