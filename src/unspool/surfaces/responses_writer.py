"""Responses: events become the stream, or the whole response; both come from one state machine.

An answer is a list of items (reasoning, message, call), one open at a time: whatever event belongs to another item
closes the open one first. Only calls that the server runs stay open behind it, from the end of their arguments
until their result. Each way of opening, adding to and closing an item writes its own frames, so that only legal
sequences can be written, whatever events come in. An event that fits nowhere (a delta of a call that is not open,
anything after the end) is left out; a finish that never came is written at the end. The whole response is what the
same machine holds when it has ended.

A delta is a constant prefix, the sequence number and the text as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unspool.events import (
    ContentDelta,
    Finish,
    ReasoningDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from unspool.surfaces.custom_input import CustomInput
from unspool.surfaces.encoding import PIECES, encode
from unspool.surfaces.errors import openai_error
from unspool.surfaces.responses_items import item_id, seal
from unspool.surfaces.responses_mcp import call_item, end_of_call, listing_item
from unspool.surfaces.server_events import (
    AnyEvent,
    ApprovalRequested,
    LoopLimit,
    ServerCallDelta,
    ServerCallEnd,
    ServerCallResult,
    ServerCallStart,
    ToolsListed,
)

_DONE = b"data: [DONE]\n\n"
_DELTA = b'%b%d,"delta":%b}\n\n'
"""The frame of a piece of text: what it starts with, its number, and the piece."""


@dataclass(frozen=True, slots=True)
class Style:
    """How the client wants reasoning, and which tools are custom ones.

    ``summary`` sends the reasoning as its own summary too, since many clients show nothing else; ``sealed`` packs
    it into ``encrypted_content``.
    """

    show_reasoning: bool = True
    summary: bool = False
    sealed: bool = False
    custom_tools: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Open:
    """The open item: ``item`` as it will be when it is closed, and its text so far.

    ``deltas`` are the starts of the frames that each piece of text makes; ``plain`` is the event whose text makes
    only one, and is all there is to say. ``call`` is the number of a client's call, ``server_call`` of one that
    the server runs.
    """

    item: dict[str, Any]
    kind: str
    index: int
    deltas: list[bytes]
    plain: type[ContentDelta | ReasoningDelta] | None = None
    call: int | None = None
    server_call: int | None = None
    custom: CustomInput | None = None
    text: list[str] = field(default_factory=list)


class ResponseStream:
    """Writes one response as server-sent events.

    ``head`` has the fields of the response that do not change, ``id`` among them. ``clock`` gives the time in
    seconds when the response is complete.
    """

    def __init__(self, head: Mapping[str, Any], *, clock: Callable[[], float], style: Style | None = None) -> None:
        self._head = head
        self._clock = clock
        self._style = style or Style()
        self._token = str(head["id"]).removeprefix("resp_")
        self._frames: list[bytes] = []
        self._sequence = 0
        self._items = 0
        # Those that are done, by their place.
        self._output: dict[int, dict[str, Any]] = {}
        self._open: _Open | None = None
        # Calls whose tools run.
        self._running: dict[int, _Open] = {}
        self._server_calls: set[int] = set()
        # Whatever is written behind results of the server's calls is of the model's next turn.
        self._turn = 0
        self._is_answered = False
        self._limit: LoopLimit | None = None
        self._started: set[int] = set()
        self._call_ids: set[str] = set()
        self._usage: Usage | None = None
        self._completed_at: int | None = None
        self._error: dict[str, Any] | None = None
        self._reason: str | None = None
        self.status = "in_progress"

    def write(self, events: Sequence[AnyEvent], index: int = 0) -> bytes:
        """The frames for the next events, the opening ones before the first; empty if there is nothing to say.

        There is one choice. Those of its end are kept for :meth:`close` and :meth:`error`: what happens behind the
        finish can still be told.
        """
        if self._sequence == 0:
            self._begin()
        elif len(events) == 1 and (opened := self._open) is not None:
            # Nearly every token ends here. Behind the end no item is open.
            event = events[0]
            if type(event) is opened.plain and (text := event.text):
                opened.text.append(text)
                number = self._sequence
                self._sequence = number + 1
                return _DELTA % (opened.deltas[0], number, PIECES[text])
        # Deltas come first and are compared by exact type.
        for event in events:
            if self.status != "in_progress":
                break
            if type(event) is ContentDelta:
                self._content(event.text)
            elif type(event) is ToolCallDelta:
                self._arguments(event)
            elif type(event) is ReasoningDelta:
                self._reasoning(event.text)
            elif type(event) is ToolCallStart:
                self._start_call(event)
            elif type(event) is ToolCallEnd:
                if self._open is not None and self._open.call == event.index:
                    self._close("completed")
            elif type(event) is Finish:
                self._finish(event)
            else:
                self._of_server(event)
        return self._taken() if self.status == "in_progress" else b""

    def close(self) -> bytes:
        """The end of the stream; writes the finish that is still missing."""
        self.write([Finish("stop")])
        return self._taken()

    def heartbeat(self) -> bytes:
        """A frame that says that the model is still at work; clients' clocks only run on events that they know."""
        if self.status != "in_progress" or not self._sequence:
            return b""
        self._frame("response.in_progress", response=self.response())
        return self._taken()

    def cancel(self) -> None:
        """Ends the stream before its time, if it has not ended: the next frames are its last."""
        if self._sequence == 0:
            self._begin()
        if self.status == "in_progress":
            self._close("incomplete")
            # Clients know no event of this name.
            self._end("cancelled", event="incomplete")

    def error(self, body: Mapping[str, Any]) -> bytes:
        """Ends the stream with an error object instead of a finish."""
        if self._sequence == 0:
            self._begin()
        self._fail(body["error"])
        return self._taken()

    def response(self) -> dict[str, Any]:
        """The response object as it stands: whole once the stream has ended."""
        usage = self._usage or (Usage() if self.status in ("completed", "incomplete", "cancelled") else None)
        return {
            **self._head,
            "status": self.status,
            "completed_at": self._completed_at,
            "error": self._error,
            "incomplete_details": {"reason": self._reason} if self._reason else None,
            "output": [self._output[index] for index in sorted(self._output)],
            "usage": usage_object(usage) if usage else None,
            **({"mcp_limit": self._limit.reason} if self._limit else {}),
        }

    def _taken(self) -> bytes:
        frames, self._frames = self._frames, []
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _frame(self, kind: str, **fields: object) -> None:
        body = encode({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        self._frames.append(b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n")

    def _begin(self) -> None:
        body = self.response()
        self._frame("response.created", response=body)
        self._frame("response.in_progress", response=body)

    def _add(self, prefix: str, kind: str, deltas: Mapping[str, Mapping[str, object]], **fields: Any) -> _Open:
        """Opens an item; ``deltas`` are the types of its deltas, with what each repeats."""
        self._close()
        index = self._place()
        if self._is_answered:
            self._turn, self._is_answered = self._turn + 1, False
        name = item_id(prefix, self._token, self._turn, index)
        item = {"id": name, "type": kind, "status": "in_progress", **fields}
        starts = []
        for name, repeated in deltas.items():
            start = encode({"type": name, "item_id": item["id"], "output_index": index, **repeated})
            starts.append(b"event: " + name.encode() + b"\ndata: " + start[:-1] + b',"sequence_number":')
        self._open = _Open(item, kind, index, starts)
        self._frame("response.output_item.added", output_index=index, item=item)
        return self._open

    def _place(self) -> int:
        """The place of the next item."""
        self._items += 1
        return self._items - 1

    def _within(self, opened: _Open, kind: str, **fields: object) -> None:
        """A frame about the open item."""
        self._frame(kind, item_id=opened.item["id"], output_index=opened.index, **fields)

    def _say(self, opened: _Open, text: str) -> None:
        opened.text.append(text)
        value = PIECES[text]
        for start in opened.deltas:
            self._frames.append(_DELTA % (start, self._sequence, value))
            self._sequence += 1

    def _content(self, text: str) -> None:
        opened = self._open
        if not text:
            return
        if opened is None or opened.kind != "message":
            deltas = {"response.output_text.delta": {"content_index": 0, "logprobs": []}}
            opened = self._add("msg", "message", deltas, role="assistant", content=[])
            opened.plain = ContentDelta
            self._within(opened, "response.content_part.added", content_index=0, part=_text_part(""))
        self._say(opened, text)

    def _reasoning(self, text: str) -> None:
        opened = self._open
        if not text or not self._style.show_reasoning:
            return
        if opened is None or opened.kind != "reasoning":
            deltas: dict[str, Mapping[str, object]] = {"response.reasoning_text.delta": {"content_index": 0}}
            if self._style.summary:
                deltas["response.reasoning_summary_text.delta"] = {"summary_index": 0}
            opened = self._add("rs", "reasoning", deltas, summary=[], content=[])
            opened.plain = None if self._style.summary else ReasoningDelta
            part = _thought_part("reasoning_text", "")
            self._within(opened, "response.content_part.added", content_index=0, part=part)
            if self._style.summary:
                part = _thought_part("summary_text", "")
                self._within(opened, "response.reasoning_summary_part.added", summary_index=0, part=part)
        self._say(opened, text)

    def _start_call(self, event: ToolCallStart) -> None:
        # Clients match a result to its call by this id, and give up on two calls with the same one.
        if event.index in self._started or event.id in self._call_ids or not event.name or not event.id:
            return
        self._started.add(event.index)
        self._call_ids.add(event.id)
        named = {"call_id": event.id, "name": event.name}
        if event.name in self._style.custom_tools:
            deltas: dict[str, Mapping[str, object]] = {"response.custom_tool_call_input.delta": {}}
            opened = self._add("ctc", "custom_tool_call", deltas, **named, input="")
            opened.custom = CustomInput()
        else:
            deltas = {"response.function_call_arguments.delta": {}}
            opened = self._add("fc", "function_call", deltas, **named, arguments="")
        opened.call = event.index

    def _arguments(self, event: ToolCallDelta) -> None:
        opened = self._open
        if opened is not None and opened.call == event.index:
            text = event.arguments if opened.custom is None else opened.custom.feed(event.arguments)
            if text:
                self._say(opened, text)

    def _close(self, status: str | None = None) -> None:
        """Closes the open item, if there is one; without a ``status``, a call that has not ended was cut."""
        opened, self._open = self._open, None
        if opened is None:
            return
        is_call = opened.call is not None or opened.server_call is not None
        status = status or ("incomplete" if is_call else "completed")
        opened.item["status"] = status
        close = {
            "message": self._close_message,
            "reasoning": self._close_reasoning,
            "function_call": self._close_function_call,
            "custom_tool_call": self._close_custom_call,
            "mcp_call": self._close_arguments,
        }[opened.kind]
        close(opened, status == "completed")
        self._done(opened.index, opened.item)

    def _done(self, index: int, item: dict[str, Any]) -> None:
        self._frame("response.output_item.done", output_index=index, item=item)
        self._output[index] = item

    def _close_message(self, opened: _Open, complete: bool) -> None:
        part = _text_part("".join(opened.text))
        opened.item["content"] = [part]
        self._within(opened, "response.output_text.done", content_index=0, text=part["text"], logprobs=[])
        self._within(opened, "response.content_part.done", content_index=0, part=part)

    def _close_reasoning(self, opened: _Open, complete: bool) -> None:
        text = "".join(opened.text)
        part = _thought_part("reasoning_text", text)
        opened.item["content"] = [part]
        self._within(opened, "response.reasoning_text.done", content_index=0, text=text)
        self._within(opened, "response.content_part.done", content_index=0, part=part)
        if self._style.summary:
            part = _thought_part("summary_text", text)
            opened.item["summary"] = [part]
            self._within(opened, "response.reasoning_summary_text.done", summary_index=0, text=text)
            self._within(opened, "response.reasoning_summary_part.done", summary_index=0, part=part)
        if self._style.sealed:
            opened.item["encrypted_content"] = seal(text)

    def _close_function_call(self, opened: _Open, complete: bool) -> None:
        if complete and not opened.text:
            # "" is not JSON, and many clients parse whatever the deltas add up to.
            self._say(opened, "{}")
        arguments = opened.item["arguments"] = "".join(opened.text)
        name = opened.item["name"]
        self._within(opened, "response.function_call_arguments.done", name=name, arguments=arguments)

    def _close_custom_call(self, opened: _Open, complete: bool) -> None:
        if complete and opened.custom is not None and (rest := opened.custom.finish()):
            self._say(opened, rest)
        text = opened.item["input"] = "".join(opened.text)
        self._within(opened, "response.custom_tool_call_input.done", input=text)

    def _of_server(self, event: AnyEvent) -> None:
        """What the server says of its own tools."""
        if type(event) is ServerCallDelta:
            opened = self._open
            if opened is not None and opened.server_call == event.index and event.arguments:
                self._say(opened, event.arguments)
        elif type(event) is ServerCallStart:
            self._start_server_call(event)
        elif type(event) is ServerCallEnd:
            self._run_server_call(event.index)
        elif type(event) is ServerCallResult:
            self._end_server_call(event)
        elif type(event) is ToolsListed:
            self._list_tools(event)
        elif type(event) is ApprovalRequested:
            self._ask(event)
        elif type(event) is LoopLimit:
            self._limit = event

    def _start_server_call(self, event: ServerCallStart) -> None:
        if event.index in self._server_calls:
            return
        self._server_calls.add(event.index)
        opened = self._add("mcp", "mcp_call", {"response.mcp_call_arguments.delta": {}}, **call_item(event))
        opened.server_call = event.index
        self._within(opened, "response.mcp_call.in_progress")

    def _close_arguments(self, opened: _Open, complete: bool) -> None:
        if complete and not opened.text:
            self._say(opened, "{}")
        arguments = opened.item["arguments"] = "".join(opened.text)
        self._within(opened, "response.mcp_call_arguments.done", arguments=arguments)

    def _run_server_call(self, index: int) -> None:
        opened = self._open
        if opened is not None and opened.server_call == index:
            self._open = None
            self._close_arguments(opened, True)
            self._running[index] = opened

    def _end_server_call(self, event: ServerCallResult) -> None:
        self._run_server_call(event.index)
        opened = self._running.pop(event.index, None)
        if opened is not None:
            # Tools run behind the model's turn: what it writes now is nothing's continuation.
            self._close()
            self._is_answered = True
            outcome, fields = end_of_call(event)
            opened.item.update(fields)
            self._within(opened, f"response.mcp_call.{outcome}")
            self._done(opened.index, opened.item)

    def _list_tools(self, event: ToolsListed) -> None:
        self._close()
        index = self._place()
        item = listing_item(event, item_id("mcpl", self._token, 0, index))
        self._frame("response.output_item.added", output_index=index, item={**item, "tools": [], "error": None})
        outcome = "completed" if event.error is None else "failed"
        for kind in ("in_progress", outcome):
            self._frame(f"response.mcp_list_tools.{kind}", item_id=item["id"], output_index=index)
        self._done(index, item)

    def _ask(self, event: ApprovalRequested) -> None:
        if any(item["id"] == event.id for item in self._output.values()):
            return
        self._close()
        index = self._place()
        item = {
            "id": event.id,
            "type": "mcp_approval_request",
            "name": event.name,
            "server_label": event.server,
            "arguments": event.arguments or "{}",
        }
        self._frame("response.output_item.added", output_index=index, item=item)
        self._done(index, item)

    def _close_running(self) -> None:
        """Closes the calls of which nothing came."""
        for index in sorted(self._running):
            opened = self._running[index]
            opened.item["status"] = "incomplete"
            self._done(opened.index, opened.item)
        self._running.clear()

    def _finish(self, event: Finish) -> None:
        self._usage = event.usage
        if event.reason in ("error", "cancelled"):
            self._fail(openai_error(f"The generation ended early: {event.reason}.", "server_error")["error"])
        elif event.reason in ("length", "content_filter"):
            self._reason = "max_output_tokens" if event.reason == "length" else event.reason
            self._close("incomplete")
            self._end("incomplete")
        elif self._limit is not None and not self._limit.answered:
            # The calls of the last turn will not be answered, whatever limit it was.
            self._reason = "max_tool_calls"
            self._close("incomplete")
            self._end("incomplete")
        else:
            self._close()
            self._completed_at = int(self._clock())
            self._end("completed")

    def _fail(self, error: Mapping[str, Any]) -> None:
        if self.status != "in_progress":
            return
        self._close("incomplete")
        self._close_running()
        self._error = {"code": "server_error", "message": error["message"]}
        # The documented event is flat; the official client raises only where it finds `error` set.
        code = error["code"] or error["type"]
        self._frame("error", code=code, message=error["message"], param=error["param"], error=error)
        self._end("failed")

    def _end(self, status: str, event: str | None = None) -> None:
        self._close_running()
        self.status = status
        self._frame(f"response.{event or status}", response=self.response())
        self._frames.append(_DONE)


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts under this API's names."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _thought_part(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, "text": text}
