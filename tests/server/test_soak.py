"""A short soak, and that its judge finds what is not legal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchmarks.answers import Answer, fault, parse
from benchmarks.hosts import Figures
from benchmarks.soak import TOLERANCE, left, main


def test_a_short_soak_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--minutes", "0.3", "--clients", "12"])
    assert status == 0, capsys.readouterr().out


def frames(*data: Any, names: bool = False) -> bytes:
    """Server-sent events."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in data]
    heads = [f"event: {item['type']}\n" if names else "" for item in data]
    return "".join(f"{head}data: {text}\n\n" for head, text in zip(heads, texts, strict=True)).encode()


DELTA = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
ERROR: dict[str, Any] = {"type": "error", "error": {"message": "failed"}}
START = {"type": "message_start", "message": {}}
OPEN = {"type": "content_block_start", "index": 0}
CLOSE = {"type": "content_block_stop", "index": 0}
ENDING = {"type": "message_delta"}
STOP = {"type": "message_stop"}


@pytest.mark.parametrize(
    ("surface", "data", "fails", "legal"),
    [
        ("chat", (DELTA, FINISH, "[DONE]"), False, True),
        ("chat", (DELTA, ERROR, "[DONE]"), True, True),
        ("chat", (DELTA, FINISH), False, False),
        ("chat", (DELTA, "[DONE]"), False, False),
        ("chat", (DELTA, FINISH, FINISH, "[DONE]"), False, False),
        ("chat", (DELTA, FINISH, "[DONE]", "[DONE]"), False, False),
        ("chat", (DELTA, ERROR, "[DONE]"), False, False),
        ("chat", (DELTA, FINISH, "[DONE]"), True, False),
        ("messages", (START, OPEN, CLOSE, ENDING, STOP), False, True),
        ("messages", (START, OPEN, ERROR), True, True),
        ("messages", (START, OPEN, ENDING, STOP), False, False),
        ("messages", (START, OPEN, CLOSE, STOP), False, False),
        ("messages", (START, OPEN, CLOSE, ENDING), False, False),
        ("messages", (OPEN, CLOSE, ENDING, STOP), False, False),
        ("messages", (START, ERROR, STOP), True, False),
        ("messages", (START, OPEN, CLOSE, ENDING, STOP), True, False),
        ("responses", ({"type": "response.completed"}, "[DONE]"), False, True),
        ("responses", ({"type": "response.failed"}, "[DONE]"), True, True),
        ("responses", ({"type": "response.completed"},), False, False),
        ("responses", ({"type": "response.created"}, "[DONE]"), False, False),
        ("responses", ({"type": "response.completed"}, {"type": "response.failed"}, "[DONE]"), False, False),
        ("responses", ({"type": "response.completed"}, "[DONE]"), True, False),
    ],
)
def test_a_stream_is_judged(surface: str, data: tuple[Any, ...], fails: bool, legal: bool) -> None:
    body = frames(*data, names=surface == "messages")
    assert (fault(surface, Answer(200, body, True), stream=True, fails=fails) == "") is legal
    assert fault(surface, Answer(200, body, False), stream=True, fails=fails)
    assert fault(surface, Answer(200, body[:-1], True), stream=True, fails=fails)


def test_a_whole_answer_is_judged() -> None:
    body = json.dumps(FINISH).encode()
    assert fault("chat", Answer(200, body, True), stream=False, fails=False) == ""
    assert fault("chat", Answer(200, body, True), stream=False, fails=True)
    assert fault("chat", Answer(200, b"{}", True), stream=False, fails=False)
    assert fault("chat", Answer(500, b'{"error":{}}', True), stream=False, fails=False)
    assert fault("chat", Answer(500, b'{"error":{}}', True), stream=False, fails=True) == ""
    assert fault("chat", Answer(500, b"oops", True), stream=False, fails=True)


def test_an_answer_is_read_as_it_was_sent() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    assert parse(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") == Answer(200, b"abcde", True)
    assert parse(head + b"3\r\nabc\r\n2\r\nd") == Answer(200, b"abcd", False)
    assert parse(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}") == Answer(400, b"{}", True)
    assert not parse(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{").ended
    assert not parse(b"").ended


def test_what_is_left_over_is_named() -> None:
    idle = Figures(0.0, 1 << 20, 20, 2)
    assert left(idle, idle, idle) == []
    assert left(idle, idle, idle._replace(tasks=3)) == ["3 tasks where there were 2"]
    assert left(idle, idle, idle._replace(files=21)) == ["21 open files where there were 20"]
    assert len(left(idle, idle, idle._replace(memory=idle.memory + TOLERANCE + 1))) == 1
