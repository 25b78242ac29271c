"""How engines call parsers, in small: whole, and streamed with the three views of the text.

A tool parser reads what a reasoning parser leaves over, as in vLLM: until reasoning is over the first is asked,
then only the second, from an empty text on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from unspool import Message, ToolCall
from unspool.compat import ChatCompletionRequest, DeltaMessage, ReasoningParser, ToolParser


@dataclass(slots=True)
class Gathered:
    """What the deltas of a stream add up to."""

    reasoning: str = ""
    content: str = ""
    calls: dict[int, dict[str, str]] = field(default_factory=dict)

    def add(self, delta: DeltaMessage | None) -> None:
        """Adds one delta, as a client of the API does."""
        if delta is None:
            return
        self.reasoning += delta.reasoning or ""
        self.content += delta.content or ""
        for call in delta.tool_calls:
            found = self.calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
            found["id"] += call.id or ""
            assert call.function is not None
            found["name"] += call.function.name or ""
            found["arguments"] += call.function.arguments or ""

    @property
    def message(self) -> Message:
        """The message, without call ids."""
        calls = tuple(ToolCall("", call["name"], call["arguments"]) for _, call in sorted(self.calls.items()))
        return Message(self.reasoning or None, self.content or None, calls, "tool_calls" if self.calls else "stop")


def request(tools: Any = None, **options: Any) -> ChatCompletionRequest:
    """A request for these tools."""
    return ChatCompletionRequest(tools=tools, **options)


def whole(reasoner: ReasoningParser, caller: ToolParser, text: str, asked: ChatCompletionRequest) -> Message:
    """The message of a whole output."""
    reasoning, content = reasoner.extract_reasoning(text, asked)
    found = caller.extract_tool_calls(content or "", asked)
    calls = tuple(ToolCall("", call.function.name, call.function.arguments) for call in found.tool_calls)
    assert found.tools_called == bool(calls)
    return Message(reasoning, found.content, calls, "tool_calls" if calls else "stop")


def views(pieces: Iterable[Any], empty: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Before, now and difference, for each piece."""
    previous = empty
    for piece in pieces:
        current = previous + piece
        yield previous, current, piece
        previous = current


def streamed(
    reasoner: ReasoningParser, caller: ToolParser, pieces: Sequence[str], asked: ChatCompletionRequest
) -> Gathered:
    """What a stream of text adds up to."""
    gathered = Gathered()
    reasoner.adjust_request(asked)
    caller.adjust_request(asked)
    rest: list[str] = []
    over = False
    for previous, current, piece in views(pieces, ""):
        if over:
            rest.append(piece)
            continue
        delta = reasoner.extract_reasoning_streaming(previous, current, piece)
        over = reasoner.is_reasoning_end_streaming([], [])
        if delta is not None:
            gathered.add(DeltaMessage(reasoning=delta.reasoning))
            rest += [delta.content] if delta.content else []
    if not over:
        last = reasoner.finalize_stream()
        if last is not None:
            gathered.add(DeltaMessage(reasoning=last.reasoning))
            rest += [last.content] if last.content else []
    for previous, current, piece in views(rest, ""):
        gathered.add(caller.extract_tool_calls_streaming(previous, current, piece, request=asked))
    gathered.add(caller.finalize_streaming("".join(rest)))
    assert [call["arguments"] for call in gathered.calls.values()] == caller.streamed_args_for_tool
    assert caller.get_remaining_unstreamed_args() == ""
    return gathered
