"""How a server ends while it answers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.process import running
from tests.server.serving import HELLO


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps({"id": "a", "raw_output": "Hello there, dear reader"}), encoding="utf-8")
    return path


def interrupted(recordings: Path, body: dict[str, object], path: str, *flags: str) -> tuple[bytes, int]:
    """A stream of a server that is told to end after its first chunk, and the server's exit code."""
    with running("--recordings", recordings, *flags) as (url, _, process):
        with httpx.stream(
            "POST", url + path, json={"messages": HELLO, "stream": True, **body}, timeout=60
        ) as answer:
            chunks: Iterator[bytes] = answer.iter_bytes()
            raw = next(chunks)
            process.send_signal(signal.SIGTERM)
            raw += b"".join(chunks)
        return raw, process.wait(60)


def test_an_answer_may_finish(recordings: Path) -> None:
    flags = ("--delay", "0.2", "--shutdown-timeout", "60")
    raw, code = interrupted(recordings, {}, "/v1/chat/completions", *flags)
    assert b'"finish_reason":"stop"' in raw
    assert raw.endswith(b"data: [DONE]\n\n")
    assert code == 0


def test_a_response_that_takes_too_long_fails_legally(recordings: Path) -> None:
    flags = ("--delay", "2", "--shutdown-timeout", "0.1", "--store", ":memory:")
    raw, code = interrupted(recordings, {"input": "Hello"}, "/v1/responses", *flags)
    *_, failed, done, end = raw.split(b"\n\n")
    assert failed.startswith(b"event: response.failed\n")
    assert b"shutting down" in failed
    assert (done, end, code) == (b"data: [DONE]", b"", 0)


@pytest.mark.parametrize(
    ("path", "end"),
    [("/v1/chat/completions", b"\n\ndata: [DONE]\n\n"), ("/v1/messages", b"\n\n")],
)
def test_an_answer_that_takes_too_long_ends_legally(recordings: Path, path: str, end: bytes) -> None:
    flags = ("--delay", "2", "--shutdown-timeout", "0.1")
    raw, code = interrupted(recordings, {"max_tokens": 9}, path, *flags)
    assert raw.endswith(end)
    *_, last = raw.removesuffix(end).split(b"data: ")
    error = json.loads(last)["error"]
    assert "shutting down" in error["message"]
    assert code == 0
