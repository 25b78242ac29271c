"""What the server logs: a line a request, with the ids that answers carry."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.server.serving import HELLO, ScriptedEngine, served
from unspool.engines.base import Chunk, EngineError
from unspool.server.logs import JsonFormatter, TextFormatter

CHAT = "/v1/chat/completions"


class Lines(logging.Handler):
    """Formats what is logged at once, as a stream's handler does."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line."""
        self.lines.append(self.format(record))


@pytest.fixture(params=[JsonFormatter, TextFormatter])
def lines(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    handler = Lines(request.param())
    logger = logging.getLogger("unspool.server")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler.lines
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("lines", [JsonFormatter], indirect=True)
def test_json_has_a_requests_fields(lines: list[str]) -> None:
    chunk = Chunk("secret", finish_reason="stop", prompt_tokens=7, completion_tokens=3)
    with served(ScriptedEngine(chunk)) as url:
        answer = httpx.post(url + CHAT, json={"messages": HELLO, "n": 2})
    (found,) = (line for line in map(json.loads, lines) if line.get("path") == CHAT)
    assert found["request_id"] == answer.headers["x-request-id"]
    expected = {
        "level": "info",
        "logger": "unspool.server.logs",
        "method": "POST",
        "status": 200,
        "client": "127.0.0.1",
        "finish_reasons": ["stop", "stop"],
        "prompt_tokens": 14,
        "completion_tokens": 6,
    }
    assert {key: found[key] for key in expected} == expected
    assert 0 <= found["first_token_seconds"] <= found["seconds"]
    assert not [line for line in lines if "secret" in line or "Hello" in line]


@pytest.mark.parametrize("lines", [TextFormatter], indirect=True)
def test_text_has_them_in_a_line(lines: list[str]) -> None:
    chunk = Chunk("Hi", finish_reason="stop", prompt_tokens=7, completion_tokens=3)
    with served(ScriptedEngine(chunk)) as url:
        answer = httpx.post(url + CHAT, json={"messages": HELLO})
        httpx.get(f"{url}/no%0AERROR:%20where")
    said, odd = lines[-2:]
    assert said.startswith(f"INFO: POST {CHAT} 200, ")
    assert said.endswith(f", 7+3 tokens, stop [{answer.headers['x-request-id']}]")
    assert odd.startswith("INFO: GET /no%0AERROR%3A%20where 404, ")


def test_what_is_said_meanwhile_has_the_requests_id(lines: list[str]) -> None:
    with served(ScriptedEngine(EngineError("no memory"))) as url:
        answer = httpx.post(url + CHAT, json={"messages": HELLO})
    (said,) = (line for line in lines if "no memory" in line)
    assert answer.headers["x-request-id"] in said


@pytest.mark.parametrize("lines", [JsonFormatter], indirect=True)
def test_a_bug_is_one_line_with_its_traceback(lines: list[str]) -> None:
    with served(ScriptedEngine(ZeroDivisionError("a\nbug"))) as url:
        answer = httpx.post(url + CHAT, json={"messages": HELLO})
    assert answer.status_code == 500
    assert all("\n" not in line for line in lines)
    said = [json.loads(line) for line in lines]
    assert any("ZeroDivisionError" in line.get("exception", "") for line in said)
    (request,) = (line for line in said if line.get("path") == CHAT)
    assert (request["status"], request["finish_reasons"]) == (500, ["error"])


def test_a_line_outside_of_requests_has_no_id_and_is_one_line() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "x %d", (1,), None)
    assert TextFormatter().format(record) == "WARNING: x 1"
    assert "request_id" not in json.loads(JsonFormatter().format(record))
    forged = logging.LogRecord("a.b", logging.WARNING, "", 0, "field %s", ("a\r\nERROR: b",), None)
    assert TextFormatter().format(forged) == r"WARNING: field a\r\nERROR: b"
    odd = logging.LogRecord(
        "a.b", logging.WARNING, "", 0, "%s", ("\x1b[31m\x00\x85\x9b\u2028\u202e\ud800é",), None
    )
    assert TextFormatter().format(odd) == r"WARNING: \x1b[31m\x00\x85\x9b\u2028\u202e\ud800é"
    assert json.loads(JsonFormatter().format(odd))["message"] == odd.getMessage()
    assert JsonFormatter().format(odd).isascii()
    try:
        raise ValueError("told\r\nERROR: forged\nwrong")
    except ValueError:
        record.exc_info = sys.exc_info()
    first, *behind = TextFormatter().format(record).split("\n")
    assert first == "WARNING: x 1"
    assert behind[-3:] == [r"    ValueError: told\r", "    ERROR: forged", "    wrong"]
    assert all(line.startswith("    ") for line in behind)
