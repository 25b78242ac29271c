"""Whether what a server answered is legal: what the APIs promise of every answer, however the engine behaved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What came back; ``ended``: the body was read to the end that the server declared."""

    status: int
    body: bytes
    ended: bool


def parse(data: bytes) -> Answer:
    """An HTTP/1.1 answer as it came over a connection that was then closed."""
    head, _, rest = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        return Answer(0, data, False)
    status = int(head[9:12])
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    if fields.get(b"transfer-encoding") != b"chunked":
        return Answer(status, rest, len(rest) == int(fields.get(b"content-length", -1)))
    body = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return Answer(status, bytes(body), rest == b"\r\n")
        body += rest[:length]
        rest = rest[length + 2 :]
    return Answer(status, bytes(body), False)


def fault(surface: str, answer: Answer, *, stream: bool, fails: bool) -> str:
    """What is wrong with an answer that was waited for; empty if nothing is.

    ``fails``: the engine failed in the middle, so that it must say so.
    """
    if not answer.ended:
        return f"status {answer.status}, cut off after {len(answer.body)} bytes"
    try:
        if answer.status == 200:
            return (
                _STREAMS[surface](_events(answer.body), fails) if stream else _whole(surface, answer.body, fails)
            )
        body = json.loads(answer.body)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return f"status {answer.status}, unreadable: {error!r}"
    return "" if fails and answer.status == 500 and "error" in body else f"status {answer.status}: {body!r:.200}"


def _whole(surface: str, body: bytes, fails: bool) -> str:
    finished = _FINISHES[surface](json.loads(body))
    if fails:
        return "a whole answer of an engine that failed"
    return "" if finished else "a whole answer without a finish"


def _events(body: bytes) -> list[tuple[str, Any]]:
    """Names and data of server-sent events; ``[DONE]`` stays text."""
    if not body.endswith(b"\n\n"):
        raise ValueError("a cut frame at the end")
    found = []
    for frame in body.decode()[:-2].split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n"))
        data = fields["data"]
        found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


def _chat(events: list[tuple[str, Any]], fails: bool) -> str:
    data = [value for _, value in events]
    if data.count("[DONE]") != 1 or data.pop() != "[DONE]":
        return "not one [DONE], at the end"
    failed = ["error" in value for value in data]
    finishes = [
        choice["finish_reason"] for value in data for choice in value.get("choices", ()) if choice["finish_reason"]
    ]
    if fails:
        return "" if failed[-1] and sum(failed) == 1 and not finishes else "no error where the engine failed"
    return "" if len(finishes) == 1 and not any(failed) else f"finishes {finishes}, {sum(failed)} errors"


def _messages(events: list[tuple[str, Any]], fails: bool) -> str:
    kinds = [value["type"] for _, value in events]
    if any(name != kind for (name, _), kind in zip(events, kinds, strict=True)):
        return "an event that is not of its name's type"
    if kinds[0] != "message_start" or kinds.count("message_start") != 1:
        return "not one message_start, at the start"
    ends = [kind for kind in kinds if kind in ("message_stop", "error")]
    if ends != [kinds[-1]]:
        return f"ends {ends}"
    if fails:
        return "" if ends == ["error"] else "no error where the engine failed"
    opened = [value["index"] for _, value in events if value["type"] == "content_block_start"]
    closed = [value["index"] for _, value in events if value["type"] == "content_block_stop"]
    if opened != closed or opened != list(range(len(opened))):
        return f"blocks {opened} opened and {closed} closed"
    return "" if ends == ["message_stop"] and kinds.count("message_delta") == 1 else f"ends {ends}"


def _responses(events: list[tuple[str, Any]], fails: bool) -> str:
    if events.pop() != ("", "[DONE]"):
        return "no [DONE] at the end"
    kinds = [value["type"] for _, value in events]
    ends = [kind for kind in kinds if kind in ("response.completed", "response.incomplete", "response.failed")]
    if ends != [kinds[-1]]:
        return f"ends {ends}, last {kinds[-1]}"
    return "" if (ends == ["response.failed"]) == fails else f"ends with {ends[0]}"


_STREAMS: Mapping[str, Callable[[list[tuple[str, Any]], bool], str]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}
_FINISHES: Mapping[str, Callable[[Any], object]] = {
    "chat": lambda body: body["choices"][0]["finish_reason"],
    "messages": lambda body: body["stop_reason"],
    "responses": lambda body: body["status"] in ("completed", "incomplete"),
}
