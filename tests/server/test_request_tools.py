"""MCP servers that requests bring, where the operator lets them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from tests.server.serving import HELLO, served
from tests.server.toolrunner import FakeRunner, call, running, scripted, tool
from unspool.mcp.outside import OutsideError, read_origin
from unspool.mcp.settings import ServerConfig
from unspool.mcp.tools import ToolRunner
from unspool.server import request_tools
from unspool.server.service import Settings

ALLOWING = Settings(mcp_request_origins=(read_origin("https://mcp.example.com"),))
URL = "https://mcp.example.com/mcp?key=s3cret"
BROUGHT = {"type": "mcp", "server_label": "clock", "server_url": URL, "require_approval": "never"}
SECRETS = {"headers": {"x-key": "s3cret"}, "authorization": "s3cret"}


class Brought:
    """The runners of requests, without a network: what was asked for, and what answers."""

    def __init__(self) -> None:
        self.configs: list[ServerConfig] = []
        self.runners: list[FakeRunner] = []

    def manager(self, configs: Sequence[ServerConfig]) -> ToolRunner:
        self.configs += configs
        self.runners.append(FakeRunner(*(tool("now", server=config.name) for config in configs)))
        return self.runners[-1]


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Iterator[Brought]:
    found = Brought()

    async def addresses(host: str, port: int) -> tuple[str, ...]:
        if host != "mcp.example.com":
            raise OutsideError(f"the name {host} leads to an address that is not public")
        return ("8.8.8.8",)

    monkeypatch.setattr(request_tools, "_manager", found.manager)
    monkeypatch.setattr(request_tools, "public_addresses", addresses)
    yield found
    assert all(runner.started == runner.closed for runner in found.runners), "it lives as long as its request"


def ask(url: str, path: str, **body: Any) -> httpx.Response:
    common = (
        {"model": "default", "input": "Hello"} if path == "responses" else {"messages": HELLO, "max_tokens": 99}
    )
    return httpx.post(f"{url}/v1/{path}", json={**common, **body})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("responses", {"tools": [{**BROUGHT, **SECRETS}]}),
        ("chat/completions", {"tools": [{**BROUGHT, **SECRETS}]}),
        (
            "messages",
            {"mcp_servers": [{"type": "url", "name": "clock", "url": URL, "authorization_token": "s3cret"}]},
        ),
    ],
)
def test_a_brought_server_serves_its_request_alone(
    brought: Brought, path: str, body: dict[str, Any], stream: bool
) -> None:
    own = FakeRunner(tool("now"))
    engine = scripted(call("clock__now") + call("time__now"), "It is noon.")
    with running(own, engine=engine, settings=ALLOWING) as url:
        answer = ask(url, path, **body, stream=stream)
        listed = httpx.get(f"{url}/v1/mcp/tools").json()["data"]
    assert answer.status_code == 200
    assert "It is noon." in answer.text
    assert "s3cret" not in answer.text
    (runner,) = brought.runners
    assert [runner.ran, own.ran] == [[("now", "{}")], [("now", "{}")]]
    assert runner.closed
    assert [each["name"] for each in listed] == ["time__now"]
    (config,) = brought.configs
    assert (config.url, config.addresses, config.transport) == (URL, ("8.8.8.8",), "http")
    assert config.headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(config)


def test_in_the_responses_api_nothing_runs_without_a_word(brought: Brought) -> None:
    silent = {name: value for name, value in BROUGHT.items() if name != "require_approval"}
    with running(FakeRunner(tool("now")), engine=scripted(call("clock__now")), settings=ALLOWING) as url:
        response = ask(url, "responses", tools=[silent]).json()
        asked = response["output"][-1]
        agreed = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
        again = {"previous_response_id": response["id"], "input": [agreed], "max_tool_calls": 1}
        second = ask(url, "responses", tools=[silent], **again).json()
    assert asked["type"] == "mcp_approval_request"
    assert [runner.ran for runner in brought.runners] == [[], [("now", "{}")]]
    assert second["output"][0]["approval_request_id"] == asked["id"]
    assert "s3cret" not in json.dumps([response, second])


@pytest.mark.parametrize(
    ("entry", "param"),
    [
        ({"server_url": "https://evil.org/s3cret"}, "tools[0].server_url"),
        ({"server_url": "http://mcp.example.com/s3cret"}, "tools[0].server_url"),
        ({"server_url": "https://mcp.example.com:444/s3cret"}, "tools[0].server_url"),
        ({"server_url": ["s3cret"]}, "tools[0].server_url"),
        ({"server_label": None}, "tools[0].server_label"),
        ({"server_label": "time"}, "tools[0].server_url"),
        ({"server_label": "x" * 65}, "tools[0].server_label"),
        ({"server_label": "x\n"}, "tools[0].server_label"),
        ({"headers": {"x": 1, "y": "s3cret"}}, "tools[0].headers"),
        ({"headers": {"x": "s3cret\r\ny: z"}}, "tools[0].headers"),
        ({"headers": {"Host": "s3cret"}}, "tools[0].headers"),
        ({"headers": "s3cret"}, "tools[0].headers"),
        ({"authorization": ["s3cret"]}, "tools[0].authorization"),
        ({"authorization": "s3cret\n"}, "tools[0].authorization"),
        ({"authorization": "s3cret "}, "tools[0].authorization"),
        ({"connector_id": "connector_s3cret"}, "tools[0].connector_id"),
    ],
)
def test_what_may_not_be_brought_is_refused_without_repeating_it(
    brought: Brought, entry: dict[str, Any], param: str
) -> None:
    with running(FakeRunner(tool("now")), engine=scripted("Hello."), settings=ALLOWING) as url:
        for path in ("responses", "chat/completions"):
            answer = ask(url, path, tools=[{**BROUGHT, **entry}])
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
            assert "s3cret" not in answer.text


def test_a_name_that_leads_inside_is_not_followed(brought: Brought) -> None:
    settings = Settings(mcp_request_origins=(read_origin("https://*.example.com"),))
    with running(FakeRunner(tool("now")), engine=scripted("Hello."), settings=settings) as url:
        answer = ask(url, "responses", tools=[{**BROUGHT, "server_url": "https://inside.example.com/"}])
    assert "leads to an address that is not public" in answer.json()["error"]["message"]
    assert brought.configs == []


def test_a_client_that_goes_away_ends_the_search_for_a_name(
    brought: Brought, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching, ended = threading.Event(), threading.Event()

    async def addresses(host: str, port: int) -> tuple[str, ...]:
        searching.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setattr(request_tools, "public_addresses", addresses)
    with running(FakeRunner(tool("now")), engine=scripted("Hello."), settings=ALLOWING) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/responses", json={"input": "Hello", "tools": [BROUGHT]}, timeout=1)
        assert searching.wait(20)
        assert ended.wait(20)


@pytest.fixture
def slow(brought: Brought, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Brought servers never answer; set once one is connected to, and once that is ended."""
    connecting, ended = threading.Event(), threading.Event()

    async def start(self: FakeRunner) -> None:
        self.started = True
        connecting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(FakeRunner, "start", start)
    return connecting, ended


def allowing(**settings: Any) -> Settings:
    return Settings(mcp_request_origins=ALLOWING.mcp_request_origins, **settings)


def test_who_connects_to_a_server_takes_no_place_in_the_queue(
    slow: tuple[threading.Event, threading.Event],
) -> None:
    connecting, ended = slow
    with served(scripted("Hello."), allowing(max_waiting=1)) as url:
        data = json.dumps({"input": "Hello", "tools": [BROUGHT]})
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            head = f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
            connection.sendall((head + data).encode())
            assert connecting.wait(20)
            assert ask(url, "responses").status_code == 200
        assert ended.wait(20)


def test_the_time_of_a_request_ends_its_connecting(slow: tuple[threading.Event, threading.Event]) -> None:
    with served(scripted("Hello."), allowing(time_limit=0.2)) as url:
        answer = ask(url, "responses", tools=[BROUGHT])
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert "x-should-retry" not in answer.headers


def test_labels_that_clients_choose_are_no_labels_of_metrics(brought: Brought) -> None:
    """There would be no end of them."""
    engine = scripted(call("clock__now") + call("time__now"), "It is noon.")
    with running(FakeRunner(tool("now")), engine=engine, settings=ALLOWING) as url:
        ask(url, "responses", tools=[BROUGHT])
        metrics = httpx.get(f"{url}/metrics").text
    assert 'unspool_mcp_calls_total{server="(request)",outcome="ok"} 1' in metrics
    assert 'unspool_mcp_calls_total{server="time",outcome="ok"} 1' in metrics
    assert "clock" not in metrics


def test_there_is_a_limit(brought: Brought) -> None:
    tools = [{**BROUGHT, "server_label": f"clock{i}"} for i in range(request_tools.MOST_SERVERS + 1)]
    with running(FakeRunner(tool("now")), engine=scripted("Hello."), settings=ALLOWING) as url:
        assert ask(url, "responses", tools=tools).status_code == 400
        assert ask(url, "responses", tools=tools[1:]).status_code == 200


def test_a_request_that_fails_leaves_no_server(brought: Brought) -> None:
    with running(FakeRunner(tool("now")), engine=scripted("Hello."), settings=ALLOWING) as url:
        assert ask(url, "responses", tools=[BROUGHT], temperature="hot").status_code == 400
    assert [runner.closed for runner in brought.runners] == [True]


def test_without_the_flag_nothing_is_brought(brought: Brought) -> None:
    with running(FakeRunner(tool("now")), engine=scripted("Hello.")) as url:
        assert ask(url, "responses", tools=[BROUGHT]).status_code == 400
    assert brought.configs == []
