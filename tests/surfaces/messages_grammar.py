"""Judges a stream of the Messages API by the rules that clients rely on.

Written against the contract, not against the writer: it reads bytes and knows nothing of events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

CALLS = {
    "tool_use": {"type", "id", "name", "input", "caller"},
    "mcp_tool_use": {"type", "id", "name", "server_name", "input"},
}
DELTAS = {"text": "text_delta", "thinking": "thinking_delta", **dict.fromkeys(CALLS, "input_json_delta")}
PAYLOADS = {"text": "text", "thinking": "thinking", **dict.fromkeys(CALLS, "partial_json")}
STARTS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
STOP_REASONS = {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn"}
USAGE = {
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens_details",
    "server_tool_use",
}
# Fields that the API's description demands, and that are the same in every message.
FIXED = {"stop_details": None, "container": None}
FIXED_USAGE = {"cache_creation": None, "inference_geo": None, "service_tier": "standard"}


@dataclass
class Stream:
    """A whole stream, as a client understands it. ``inputs`` are the texts of the blocks' inputs, by index."""

    message: dict[str, Any] | None = None
    inputs: dict[int, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    pings: int = 0
    open: int | None = None
    delta: dict[str, Any] | None = None
    stopped: bool = False

    def folded(self, *, without_cut_calls: bool = False) -> dict[str, Any]:
        """The message that the stream adds up to. A call whose input is no object has the input ``None``."""
        assert self.message is not None
        content = []
        for index, block in enumerate(self.message["content"]):
            if block["type"] in CALLS:
                block = {**block, "input": read_input(self.inputs[index])}
            if not (without_cut_calls and block.get("input", {}) is None):
                content.append(block)
        return {**self.message, "content": content}

    def calls(self) -> list[tuple[str, str]]:
        """Names and input texts of the calls."""
        blocks = self.message["content"] if self.message else []
        return [
            (block["name"], self.inputs[index])
            for index, block in enumerate(blocks)
            if block["type"] == "tool_use"
        ]

    def text(self, kind: str) -> str:
        """All text or thinking."""
        blocks = self.message["content"] if self.message else []
        return "".join(block[kind] for block in blocks if block["type"] == kind)


def read_input(text: str) -> dict[str, Any] | None:
    """A call's input as clients read what the deltas add up to: nothing is an empty object."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_stream(data: bytes) -> Stream:
    """Reads a complete stream; any breach of the contract is an ``AssertionError``."""
    assert data.endswith(b"\n\n"), "an event without its blank line is dropped by clients"
    stream = Stream()
    for frame in data[:-2].split(b"\n\n"):
        name, _, body = frame.partition(b"\n")
        assert name.startswith(b"event: "), "clients ignore what has no event line"
        assert body.startswith(b"data: ")
        assert b"\n" not in body
        event = json.loads(body[len(b"data: ") :])
        assert event.pop("type").encode() == name[len(b"event: ") :]
        assert stream.error is None, "an error ends the stream"
        assert not stream.stopped, "nothing follows the end"
        _read_event(stream, name[len(b"event: ") :].decode(), event)
    assert stream.stopped or stream.error is not None, "a stream has an end"
    return stream


def _read_event(stream: Stream, name: str, event: dict[str, Any]) -> None:
    if name == "ping":
        assert event == {}
        stream.pings += 1
    elif name == "error":
        assert set(event) == {"error", "request_id"}
        assert set(event["error"]) == {"type", "message"}
        assert isinstance(event["error"]["message"], str)
        stream.error = event["error"]
    elif name == "message_start":
        _start(stream, event)
    else:
        assert stream.message is not None, "the message starts first"
        assert stream.delta is None or name == "message_stop", "only the end follows the message's delta"
        {
            "content_block_start": _block_start,
            "content_block_delta": _block_delta,
            "content_block_stop": _block_stop,
            "message_delta": _message_delta,
            "message_stop": _message_stop,
        }[name](stream, event)


def _start(stream: Stream, event: dict[str, Any]) -> None:
    assert stream.message is None, "the message starts once"
    assert set(event) == {"message"}
    message = event["message"]
    assert set(message) == {
        "id",
        "type",
        "role",
        "model",
        "content",
        "stop_reason",
        "stop_sequence",
        "usage",
        *FIXED,
    }
    assert FIXED.items() <= message.items()
    assert (message["type"], message["role"], message["content"]) == ("message", "assistant", [])
    assert message["stop_reason"] is message["stop_sequence"] is None
    assert FIXED_USAGE.items() <= message["usage"].items()
    _check_usage({name: count for name, count in message["usage"].items() if name not in FIXED_USAGE})
    assert message["usage"]["output_tokens"] == 0
    stream.message = message


def _check_usage(usage: dict[str, Any]) -> None:
    assert set(usage) == USAGE
    assert usage["server_tool_use"] is None
    assert all(isinstance(count, int) and count >= 0 for name, count in usage.items() if name.endswith("_tokens"))


def _block_start(stream: Stream, event: dict[str, Any]) -> None:
    assert stream.message is not None
    assert set(event) == {"index", "content_block"}
    assert stream.open is None, "one block is open at a time"
    index, block = event["index"], event["content_block"]
    assert index == len(stream.message["content"]), "indexes have no gaps"
    if block["type"] in CALLS:
        assert set(block) == CALLS[block["type"]]
        assert block.get("caller", {"type": "direct"}) == {"type": "direct"}
        assert block["id"]
        assert block["name"]
        assert block["input"] == {}
        stream.inputs[index] = ""
    elif block["type"] == "mcp_tool_result":
        assert set(block) == {"type", "tool_use_id", "is_error", "content"}
        calls = [other for other in stream.message["content"] if other["type"] == "mcp_tool_use"]
        assert block["tool_use_id"] in [call["id"] for call in calls], "a result comes after its call"
        assert isinstance(block["is_error"], bool)
    else:
        assert block == STARTS[block["type"]]
    stream.open = index
    stream.message["content"].append(dict(block))


def _block_delta(stream: Stream, event: dict[str, Any]) -> None:
    assert stream.message is not None
    assert set(event) == {"index", "delta"}
    assert event["index"] == stream.open, "a delta belongs to the open block"
    block, delta = stream.message["content"][event["index"]], event["delta"]
    if delta["type"] == "signature_delta":
        assert block["type"] == "thinking"
        assert block["signature"] == "", "the signature comes once"
        assert set(delta) == {"type", "signature"}
        assert delta["signature"]
        block["signature"] = delta["signature"]
        return
    kind = block["type"]
    assert delta["type"] == DELTAS[kind]
    assert set(delta) == {"type", PAYLOADS[kind]}
    text = delta[PAYLOADS[kind]]
    assert isinstance(text, str)
    if kind in CALLS:
        stream.inputs[event["index"]] += text
        return
    assert text
    assert block.get("signature", "") == "", "the signature comes last"
    block[kind] += text


def _block_stop(stream: Stream, event: dict[str, Any]) -> None:
    assert stream.message is not None
    assert event == {"index": stream.open}
    assert stream.open is not None
    block = stream.message["content"][stream.open]
    assert block.get("signature") != "", "clients want a signature"
    stream.open = None


def _message_delta(stream: Stream, event: dict[str, Any]) -> None:
    assert stream.message is not None
    assert stream.open is None, "all blocks are closed"
    assert set(event) == {"delta", "usage"}
    assert set(event["delta"]) == {"stop_reason", "stop_sequence", *FIXED}
    assert FIXED.items() <= event["delta"].items()
    assert event["delta"]["stop_reason"] in STOP_REASONS
    assert (event["delta"]["stop_sequence"] is not None) == (event["delta"]["stop_reason"] == "stop_sequence")
    _check_usage(event["usage"])
    stream.delta = event["delta"]
    stream.message.update(event["delta"], usage={**stream.message["usage"], **event["usage"]})


def _message_stop(stream: Stream, event: dict[str, Any]) -> None:
    assert event == {}
    assert stream.delta is not None, "the reason comes before the end"
    stream.stopped = True
