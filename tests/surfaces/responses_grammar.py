"""Judges a stream of the Responses API by the rules that clients rely on, and folds it into a response.

Written against the contract, not against the writer: it reads bytes and knows nothing of events.
"""

from __future__ import annotations

import json
from typing import Any

TERMINAL = {"completed", "incomplete", "failed"}
USAGE_KEYS = {"input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details", "total_tokens"}
RESPONSE_KEYS = {"id", "object", "created_at", "status", "model", "output", "usage", "error", "incomplete_details"}
CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
ARGUMENTS = {**CALLS, "mcp_call": ("mcp_call_arguments", "arguments")}
AT_ONCE = {"mcp_list_tools", "mcp_approval_request"}
"""Items that are never in progress for long, and have no status."""


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events of a complete stream, whose frames and numbers are as they must be."""
    assert data.endswith(b"\n\n"), "an event without its blank line is dropped by clients"
    *frames, last = data[:-2].split(b"\n\n")
    assert last == b"data: [DONE]"
    events = []
    for number, frame in enumerate(frames):
        named, body = frame.split(b"\n")
        event = json.loads(body.removeprefix(b"data: "))
        assert named == b"event: " + event["type"].encode()
        assert event["sequence_number"] == number
        events.append(event)
    return events


def read_stream(data: bytes) -> dict[str, Any]:
    """The response that a client ends with; any breach of the contract is an ``AssertionError``."""
    events = events_of(data)
    opening = [event.pop("type") for event in events[:2]]
    assert opening == ["response.created", "response.in_progress"]
    for event in events[:2]:
        assert event["response"].keys() >= RESPONSE_KEYS
        assert (event["response"]["status"], event["response"]["output"]) == ("in_progress", [])
        assert event["response"]["usage"] is None
    head, last = events[0]["response"], events[-1]
    status = last["type"].removeprefix("response.")
    assert status in TERMINAL
    middle = events[2:-1]
    error = middle.pop() if middle and middle[-1]["type"] == "error" else None
    assert (error is not None) == (status == "failed"), "an error is followed by a failed response"
    fold = Fold()
    for event in middle:
        if event["type"] == "response.in_progress":
            assert event["response"]["output"] == fold.output, "a heartbeat says what is there"
        else:
            fold.read(event)
    response: dict[str, Any] = last["response"]
    if status == "incomplete" and response["status"] == "cancelled":
        status = "cancelled"
    assert fold.open is None, "every item is closed"
    assert not fold.running, "every call has an end"
    assert response["output"] == fold.output
    assert {key for key in head if head[key] != response[key]} <= {
        "status",
        "output",
        "usage",
        "error",
        "incomplete_details",
        "completed_at",
    }
    _check_end(response, status, error)
    if response["incomplete_details"] == {"reason": "max_tool_calls"}:
        assert response["mcp_limit"], "it says which limit it was"
    return response


def _check_end(response: dict[str, Any], status: str, error: dict[str, Any] | None) -> None:
    assert response["status"] == status
    assert (response["incomplete_details"] is not None) == (status == "incomplete")
    assert (response["completed_at"] is not None) == (status == "completed")
    if error is not None:
        assert error["message"] == error["error"]["message"] == response["error"]["message"]
        assert isinstance(error["code"], str)
        assert response["error"]["code"] == "server_error"
    else:
        assert response["error"] is None
        assert response["usage"].keys() >= USAGE_KEYS
    ids = [item["id"] for item in response["output"]]
    calls = [item["call_id"] for item in response["output"] if item["type"] in CALLS]
    assert len(set(ids)) == len(ids)
    assert len(set(calls)) == len(calls), "clients give up on two calls of one id"


class Fold:
    """Builds the items from their events, one at a time; only calls that the server runs stay open behind it."""

    def __init__(self) -> None:
        self.places: dict[int, dict[str, Any]] = {}
        self.added = 0
        self.open: dict[str, Any] | None = None
        self.running: dict[int, dict[str, Any]] = {}
        self.said: list[str] = []
        self.parts: dict[str, dict[str, Any]] = {}
        self.done: set[str] = set()

    @property
    def output(self) -> list[dict[str, Any]]:
        """The items that are done."""
        return [self.places[index] for index in sorted(self.places)]

    def read(self, event: dict[str, Any]) -> None:
        kind = event.pop("type").removeprefix("response.")
        event.pop("sequence_number")
        if kind == "output_item.added":
            self.add(event)
            return
        index = event.pop("output_index")
        if index in self.running:
            self.run(kind, index, event)
            return
        assert self.open is not None, "nothing happens outside of items"
        assert index == self.added - 1
        if self.open["type"] in AT_ONCE:
            self.at_once(kind, event)
            return
        if kind == "output_item.done":
            self.close(event["item"])
            return
        assert event.pop("item_id") == self.open["id"]
        if self.open["type"] in ARGUMENTS:
            self.call(kind, event)
        else:
            self.text(kind, event)

    def add(self, event: dict[str, Any]) -> None:
        assert self.open is None, "one item is open at a time"
        assert event["output_index"] == self.added
        self.added += 1
        item = self.open = event["item"]
        assert item["id"]
        self.parts, self.done, self.said = {}, set(), []
        if item["type"] in AT_ONCE:
            assert "status" not in item
            assert item["server_label"]
            assert item.get("tools", []) == []
            return
        assert item["status"] == "in_progress"
        if item["type"] == "message":
            assert (item["role"], item["content"]) == ("assistant", [])
        elif item["type"] == "reasoning":
            assert (item["summary"], item["content"]) == ([], [])
        else:
            assert item[ARGUMENTS[item["type"]][1]] == ""
            assert item["name"]
            if item["type"] == "mcp_call":
                assert item["output"] is item["error"] is None
            else:
                assert item["call_id"]

    def at_once(self, kind: str, event: dict[str, Any]) -> None:
        """An item that is there as soon as it is added."""
        assert self.open is not None
        if kind != "output_item.done":
            assert event == {"item_id": self.open["id"]}
            self.said.append(kind)
            return
        item = event["item"]
        if item["type"] == "mcp_list_tools":
            outcome = "completed" if item["error"] is None else "failed"
            assert self.said == ["mcp_list_tools.in_progress", f"mcp_list_tools.{outcome}"]
            assert item == {**self.open, "tools": item["tools"], "error": item["error"]}
        else:
            assert self.said == []
            assert item == self.open, "what is asked is asked at once"
            assert isinstance(item["arguments"], str)
        self.places[self.added - 1] = item
        self.open = None

    def run(self, kind: str, index: int, event: dict[str, Any]) -> None:
        """A call that the server runs, behind its arguments."""
        opened = self.running[index]
        if kind in ("mcp_call.completed", "mcp_call.failed"):
            assert event == {"item_id": opened["id"]}
            assert opened["status"] == "in_progress", "a call ends once"
            opened["status"] = kind.removeprefix("mcp_call.")
            return
        assert kind == "output_item.done"
        item = event["item"]
        if opened["status"] == "in_progress":
            opened["status"] = "incomplete"
            assert item == opened, "nothing came of it"
        else:
            assert item == {**opened, "output": item["output"], "error": item["error"]}
            done = opened["status"] == "completed"
            assert ((item["output"] is not None), (item["error"] is not None)) == (done, not done)
        self.places[index] = item
        del self.running[index]

    def call(self, kind: str, event: dict[str, Any]) -> None:
        assert self.open is not None
        name, field = ARGUMENTS[self.open["type"]]
        assert not self.done, "nothing follows the whole arguments"
        if kind == "mcp_call.in_progress":
            assert self.said == []
            self.said.append(kind)
            return
        assert self.open["type"] != "mcp_call" or self.said, "a call is in progress first"
        if kind == f"{name}.delta":
            assert event["delta"]
            self.open[field] += event["delta"]
        else:
            assert kind == f"{name}.done"
            assert event[field] == self.open[field]
            self.done.add(field)
            if self.open["type"] == "mcp_call":
                self.running[self.added - 1], self.open = self.open, None

    def text(self, kind: str, event: dict[str, Any]) -> None:
        assert self.open is not None
        is_summary = kind.startswith("reasoning_summary")
        which = "summary" if is_summary else "content"
        assert event.pop("summary_index" if is_summary else "content_index") == 0
        if kind in ("content_part.added", "reasoning_summary_part.added"):
            assert which not in self.parts
            self.parts[which] = event["part"]
            assert event["part"]["text"] == ""
            return
        part = self.parts[which]
        stem = {
            "output_text": "output_text",
            "reasoning_text": "reasoning_text",
            "summary_text": "reasoning_summary_text",
        }[part["type"]]
        if kind == f"{stem}.delta":
            assert event["delta"]
            assert which not in self.done
            part["text"] += event["delta"]
        elif kind == f"{stem}.done":
            assert event["text"] == part["text"]
            self.done.add(which)
        else:
            assert kind == ("reasoning_summary_part.done" if is_summary else "content_part.done")
            assert which in self.done, "the text is done before its part"
            assert event["part"] == part
            self.open[which] = [part]

    def close(self, item: dict[str, Any]) -> None:
        assert self.open is not None
        if item["type"] in CALLS:
            assert self.done, "the input is done before its call"
        else:
            assert all(item[name] == [part] for name, part in self.parts.items())
            assert item["content"][0]["text"]
        assert item["status"] in ("completed", "incomplete")
        self.open["status"] = item["status"]
        if "encrypted_content" in item:
            self.open["encrypted_content"] = item["encrypted_content"]
        assert item == self.open
        self.places[self.added - 1] = item
        self.open = None
