"""Every format as a tool parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from unspool.compat.following import (
    Following,
    class_name,
    format_shown_by,
    parser_of,
    readable,
    vocabulary,
)
from unspool.compat.interface import Ids, ToolParser
from unspool.compat.records import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from unspool.events import ContentDelta, Event, ReasoningDelta, ToolCallDelta, ToolCallStart
from unspool.message import Message
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format
from unspool.parsing.parser import Parser, open_block


class FormatToolParser(ToolParser):
    """Reads one format's calls with the parser of :mod:`unspool`.

    It expects what a reasoning parser leaves over, so where a format's prompt opens reasoning, that is taken to be
    over. ``prompt`` (the rendered prompt or its end) says otherwise. Reasoning that it meets all the same is
    ``reasoning`` of what it returns, never content.
    """

    format: Format | None = None
    SUPPORTS_NATIVE_TOOL_FORMAT = True
    # For vllm-mlx: it shows a parser every delta then, and asks it at the end of each stream.
    REQUIRES_EAGER_STREAMING = True

    def __init__(
        self, tokenizer: Any = None, tools: Iterable[Any] | None = None, *, prompt: str | None = None, **_: Any
    ) -> None:
        super().__init__(tokenizer, tools)
        if self.format is None:
            self.format = format_shown_by(tokenizer)
        self.format = bound(self.format, vocabulary=vocabulary(tokenizer), prompt=prompt)
        block = open_block(self.format, self.format.start)
        # The format's start and a closer are a prompt after which the answer begins.
        after = self.format.start + block.close + block.after if block else None
        self._prompt = after if prompt is None else prompt
        self._reads_ids = readable(tokenizer)
        self._begin()

    def _begin(self) -> None:
        self._following = Following(self._reads_ids)
        self._parser: Parser | None = None
        self._finished = False
        self._calls: list[tuple[str, list[str]]] = []

    def reset(self) -> None:
        """Forgets the stream, so that the next one can be read."""
        self._begin()
        self.current_tool_id = -1
        self.current_tool_name_sent = False

    @property
    def prev_tool_call_arr(self) -> list[dict[str, Any]]:
        """Name and arguments (JSON text, as far as they have come) of each call so far."""
        return [{"name": name, "arguments": "".join(pieces)} for name, pieces in self._calls]

    @prev_tool_call_arr.setter
    def prev_tool_call_arr(self, value: Any) -> None:
        """Ignored: the calls are what was read."""

    @property
    def streamed_args_for_tool(self) -> list[str]:
        """The argument text of each call that was sent: all that was read."""
        return ["".join(pieces) for _, pieces in self._calls]

    @streamed_args_for_tool.setter
    def streamed_args_for_tool(self, value: Any) -> None:
        """Ignored: what was read was sent."""

    def adjust_request(self, request: Any) -> Any:
        """Keeps special tokens in the text, since markers may be some."""
        if getattr(request, "tools", None) and getattr(request, "tool_choice", None) != "none":
            request.skip_special_tokens = False
        return request

    def extract_tool_calls(self, model_output: str, request: Any = None) -> ExtractedToolCallInformation:
        """The calls of a whole output, and its content."""
        assert self.format is not None
        parser = parser_of(self.format, self.tools, request, prompt=self._prompt)
        message = Message.from_events(parser.feed(model_output or "") + parser.finish("stop"))
        calls = [
            ToolCall(id=call.id, function=FunctionCall(name=call.name, arguments=call.arguments))
            for call in message.tool_calls
        ]
        found = ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=message.content)
        if message.reasoning is not None:
            found.reasoning = message.reasoning
        return found

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids | None = (),
        current_token_ids: Ids | None = (),
        delta_token_ids: Ids | None = (),
        request: Any = None,
    ) -> DeltaMessage | None:
        """What the new text adds. Where the tokenizer can be read, token ids count instead of the text."""
        ids = current_token_ids or ()
        if self._following.begins_anew(previous_text, current_text, ids):
            self.reset()
        text, new = self._following.new(current_text, ids)
        if self._finished or not (text or new):
            return None
        if self._parser is None:
            assert self.format is not None
            tokenizer = self.model_tokenizer if self._following.by_ids else None
            self._parser = parser_of(self.format, self.tools, request, prompt=self._prompt, tokenizer=tokenizer)
        return self._delta(self._parser.feed_tokens(new) if new else self._parser.feed(text))

    def finish(self, reason: str | None = "stop") -> DeltaMessage | None:
        """What was still held when the stream ended, for ``reason`` (any engine's word)."""
        if self._finished or (self._parser is None and not self._prompt):
            return None
        self._finished = True
        if self._parser is None:
            # A call may stand whole in the prompt.
            assert self.format is not None
            self._parser = parser_of(self.format, self.tools, None, prompt=self._prompt)
        return self._delta(self._parser.finish(reason))

    flush = finish

    def finish_streaming(self) -> DeltaMessage | None:
        """:meth:`finish`, as vLLM calls it."""
        return self.finish()

    def finalize_streaming(self, current_text: str = "") -> DeltaMessage | None:
        """:meth:`finish`, as vllm-mlx calls it; text that was not shown before is read first."""
        rest = None
        if len(current_text) > self._following.text and not self._following.by_ids:
            rest = self.extract_tool_calls_streaming(current_text, current_text, "")
        return _joined(rest, self.finish())

    def _delta(self, events: Sequence[Event]) -> DeltaMessage | None:
        delta = DeltaMessage()
        for event in events:
            match event:
                case ContentDelta(text):
                    delta.content = (delta.content or "") + text
                case ReasoningDelta(text):
                    delta.reasoning = (delta.reasoning or "") + text
                case ToolCallStart(index, call_id, name):
                    self.current_tool_id = index
                    self.current_tool_name_sent = True
                    self._calls.append((name, []))
                    start = DeltaFunctionCall(name=name, arguments="")
                    delta.tool_calls.append(
                        DeltaToolCall(index=index, id=call_id, type="function", function=start)
                    )
                case ToolCallDelta(index, arguments):
                    self._calls[index][1].append(arguments)
                    _append(delta.tool_calls, index, arguments)
        return delta if len(delta) else None


def _append(calls: list[DeltaToolCall], index: int, arguments: str) -> None:
    if calls and calls[-1].index == index and calls[-1].function is not None:
        calls[-1].function.arguments = (calls[-1].function.arguments or "") + arguments
    else:
        calls.append(DeltaToolCall(index=index, function=DeltaFunctionCall(arguments=arguments)))


def _joined(first: DeltaMessage | None, second: DeltaMessage | None) -> DeltaMessage | None:
    if first is None or second is None:
        return first if second is None else second
    for name in ("content", "reasoning"):
        if name in second:
            first[name] = (first.get(name) or "") + second[name]
    for call in second.get("tool_calls") or ():
        if call.id is None and call.function is not None:
            _append(first.tool_calls, call.index, call.function.arguments or "")
        else:
            first.tool_calls.append(call)
    return first


@lru_cache(maxsize=256)
def tool_parser_of(fmt: Format | None) -> type[FormatToolParser]:
    """The tool parser class of a format; ``None``: of the format that the tokenizer's chat template shows."""
    body = {"format": fmt, "extra_stop_tokens": list(fmt.stops) if fmt else [], "__module__": __name__}
    return type(class_name(fmt, "ToolParser"), (FormatToolParser,), body)
