"""Compressed bodies of requests."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator

import httpx
import pytest

from tests.server.serving import HELLO, served
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Settings

LIMIT = 1000
BODY = json.dumps({"messages": HELLO}).encode()
ZIPPED = gzip.compress(BODY, mtime=0)  # the same bytes in every worker


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine([Recording("a", "Hi")]), Settings(max_body=LIMIT)) as url:
        yield url


def post(url: str, body: bytes | Iterator[bytes], encoding: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", content=body, headers={"content-encoding": encoding})


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", ZIPPED),
        ("X-GZIP", ZIPPED),
        ("deflate", zlib.compress(BODY)),
        ("identity", BODY),
        ("", BODY),
    ],
)
def test_a_compressed_body_is_read(url: str, encoding: str, body: bytes) -> None:
    assert post(url, body, encoding).status_code == 200
    in_bytes = (body[i : i + 1] for i in range(len(body)))
    assert post(url, in_bytes, encoding).status_code == 200


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1, 500_000])
def test_a_body_may_not_grow_beyond_the_limit(url: str, size: int) -> None:
    body = gzip.compress(BODY + b" " * (size - len(BODY)))
    assert len(body) < LIMIT
    for sent in (body, iter([body[:20], body[20:]])):
        answer = post(url, sent, "gzip")
        assert answer.status_code == (200 if size == LIMIT else 413)
        if size > LIMIT:
            assert answer.json()["error"]["code"] == "request_too_large"


@pytest.mark.parametrize(
    "body",
    [b"x", b"", ZIPPED[:-1], ZIPPED + b"x", ZIPPED[:-8] + bytes(8), BODY],
)
def test_a_broken_body_is_a_400(url: str, body: bytes) -> None:
    answer = post(url, body, "gzip")
    assert answer.status_code == 400
    assert "compressed" in answer.json()["error"]["message"]


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "nonsense"])
def test_another_encoding_is_a_415(url: str, encoding: str) -> None:
    answer = post(url, b"x", encoding)
    assert answer.status_code == 415
    assert repr(encoding) in answer.json()["error"]["message"]
    assert "gzip" in answer.json()["error"]["message"]
