"""Judges a stream of Chat Completions chunks by the rules that clients rely on.

Written against the contract, not against the writer: it reads bytes and knows nothing of events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

CHUNK_KEYS = {"id", "object", "created", "model", "choices"}
TEXT_KEYS = {"content", "reasoning", "reasoning_content"}
FINISHES = {"stop", "length", "tool_calls", "content_filter"}


@dataclass
class Heard:
    """What a client has of one choice at the end."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, str]] = field(default_factory=list)
    finish_reason: str | None = None
    server: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stream:
    """A whole stream, as a client understands it."""

    choices: list[Heard] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def read_stream(data: bytes, *, usage: bool = False) -> Stream:
    """Reads a complete stream; any breach of the contract is an ``AssertionError``."""
    assert data.endswith(b"\n\n"), "an event without its blank line is dropped by clients"
    frames = data[:-2].split(b"\n\n")
    for frame in frames:
        assert frame.startswith(b"data: "), "only data lines, one per event"
        assert b"\n" not in frame
    assert frames[-1] == b"data: [DONE]"
    assert frames.count(b"data: [DONE]") == 1
    bodies = [json.loads(frame[len(b"data: ") :]) for frame in frames[:-1]]
    stream = Stream()
    if bodies and "error" in bodies[-1]:
        stream.error = bodies.pop()["error"]
        assert set(stream.error or {}) == {"message", "type", "param", "code"}
        assert isinstance((stream.error or {})["message"], str)
    if usage and stream.error is None:
        last = bodies.pop()
        assert last["choices"] == []
        stream.usage = last["usage"]
        assert set(stream.usage or {}) >= {"prompt_tokens", "completion_tokens", "total_tokens"}
        assert set(last) == CHUNK_KEYS | {"usage"}
        bodies.append({**last, "choices": None})
    assert len({(body["id"], body["object"], body["created"], body["model"]) for body in bodies}) <= 1
    for body in bodies:
        if body["choices"] is not None:
            assert set(body) == CHUNK_KEYS
            assert body["object"] == "chat.completion.chunk"
            assert len(body["choices"]) == 1, "an unasked chunk without choices breaks clients"
            _read_choice(stream, body["choices"][0])
    if stream.error is None:
        for heard in stream.choices:
            assert heard.finish_reason in FINISHES, "a stream without a finish is an error to clients"
    return stream


def _read_choice(stream: Stream, choice: dict[str, Any]) -> None:
    assert set(choice) == {"index", "delta", "finish_reason"}
    index, delta = choice["index"], choice["delta"]
    if index == len(stream.choices):
        assert delta.pop("role") == "assistant", "the role comes first"
        assert delta.pop("content") in ("", None)
        assert delta == {}
        assert choice["finish_reason"] is None
        stream.choices.append(Heard())
        return
    assert index < len(stream.choices), "choice 0 comes before choice 1"
    heard = stream.choices[index]
    assert heard.finish_reason is None, "nothing follows the finish"
    if choice["finish_reason"] is not None:
        assert set(delta) <= {"mcp_calls", "mcp_limit"}, "clients overlook text beside the finish"
        heard.server = delta
        heard.finish_reason = choice["finish_reason"]
        return
    assert set(delta) in ({"content"}, {"reasoning", "reasoning_content"}, {"tool_calls"}), delta
    if "content" in delta:
        assert delta["content"]
        heard.content += delta["content"]
    elif "reasoning" in delta:
        assert delta["reasoning"]
        assert delta["reasoning"] == delta["reasoning_content"]
        heard.reasoning += delta["reasoning"]
    else:
        (call,) = delta["tool_calls"]
        _read_call(heard, call)


def _read_call(heard: Heard, call: dict[str, Any]) -> None:
    if call["index"] == len(heard.calls):
        assert set(call) == {"index", "id", "type", "function"}
        assert call["type"] == "function"
        assert set(call["function"]) == {"name", "arguments"}
        assert call["function"]["arguments"] == ""
        assert call["id"]
        assert call["function"]["name"]
        heard.calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
        return
    assert set(call) == {"index", "function"}, "a repeated id or name is doubled by clients"
    assert 0 <= call["index"] < len(heard.calls), "indexes have no gaps"
    assert set(call["function"]) == {"arguments"}
    assert isinstance(call["function"]["arguments"], str)
    assert call["function"]["arguments"]
    heard.calls[call["index"]]["arguments"] += call["function"]["arguments"]
