"""Which hosts and origins may reach the server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.server.serving import HELLO, served
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Settings

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(allow_hosts=("gpu.example",), allow_origins=("https://App.example/",), api_key="key")
    with served(ReplayEngine([Recording("a", "Hi")]), settings) as url:
        yield url


def ask(url: str, **headers: str) -> httpx.Response:
    return httpx.post(url + CHAT, json={"messages": HELLO}, headers={"x-api-key": "key", **headers})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8000",
        "app.localhost:1",
        "127.0.0.1:8000",
        "[::1]:8000",
        "192.168.1.7",
        "host.docker.internal:8000",
        "GPU.example:443",
        "",
    ],
)
def test_names_of_the_server_are_taken(url: str, host: str) -> None:
    assert ask(url, host=host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evil-localhost",
        "127.0.0.1.evil.example",
        "[::1",
    ],
)
def test_a_foreign_name_is_refused(url: str, host: str) -> None:
    answer = ask(url, host=host)
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("permission_error", "host_not_allowed")
    assert "--allow-host" in error["message"]


def test_any_name_is_taken_where_none_is_listed() -> None:
    for hosts in ((), ("*", "a")):
        with served(ReplayEngine([Recording("a", "Hi")]), Settings(allow_hosts=hosts)) as url:
            assert ask(url, host="evil.example").status_code == 200


def test_pages_of_the_server_and_of_allowed_origins_may_call(url: str) -> None:
    own = httpx.URL(url)
    for origin in (url, "https://app.example", f"https://{own.host}:{own.port}"):
        assert ask(url, origin=origin).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "https://app.example.evil"]
)
def test_a_foreign_page_is_refused_even_without_a_preflight(url: str, origin: str) -> None:
    answer = ask(url, origin=origin, **{"content-type": "text/plain"})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"
    assert "x-request-id" in answer.headers


def test_a_refusal_has_the_shape_of_its_api(url: str) -> None:
    answer = httpx.post(f"{url}/v1/messages", json={}, headers={"origin": "https://evil.example"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


def test_every_page_may_call_where_any_origin_is_allowed() -> None:
    with served(ReplayEngine([Recording("a", "Hi")]), Settings(allow_origins=("*",))) as url:
        answer = ask(url, origin="https://evil.example")
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
