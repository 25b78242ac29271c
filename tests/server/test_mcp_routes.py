"""The routes about MCP servers, over a real connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.serving import ScriptedEngine, served
from tests.server.toolrunner import FakeRunner, running, tool
from unspool.mcp.tools import ServerState, ToolResult
from unspool.server.app import create_app
from unspool.server.service import Settings

STATES = (
    ServerState("time", "stdio", "ready", None, True),
    ServerState("git", "http", "failed", "nobody answers", True),
)


@pytest.fixture
def runner() -> FakeRunner:
    tools = (tool("now"), tool("set", "ask"), tool("wipe", "deny"))
    return FakeRunner(*tools, states=STATES, set=ToolResult("no such clock", is_error=True))


@pytest.fixture
def url(runner: FakeRunner) -> Iterator[str]:
    with running(runner, engine=ScriptedEngine()) as url:
        yield url


def execute(url: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/mcp/execute", json=body, timeout=10)


def test_servers_are_listed_with_how_they_are(url: str) -> None:
    assert httpx.get(f"{url}/v1/mcp/servers").json() == {
        "object": "list",
        "data": [
            {"name": "time", "transport": "stdio", "state": "ready", "error": None, "offered": True, "tools": 3},
            {
                "name": "git",
                "transport": "http",
                "state": "failed",
                "error": "nobody answers",
                "offered": True,
                "tools": 0,
            },
        ],
    }


def test_tools_are_listed_with_their_policies(url: str) -> None:
    """BUG-207."""
    found = httpx.get(f"{url}/v1/mcp/tools").json()["data"]
    assert [(each["name"], each["server"], each["tool"], each["policy"]) for each in found] == [
        ("time__now", "time", "now", "allow"),
        ("time__set", "time", "set", "ask"),
        ("time__wipe", "time", "wipe", "deny"),
    ]
    assert httpx.get(f"{url}/v1/mcp/tools", params={"server": "git"}).json() == {"object": "list", "data": []}


@pytest.mark.parametrize(
    "body",
    [
        {"name": "time__now", "arguments": {"zone": "UTC"}},
        {"name": "now", "server": "time", "arguments": '{"zone": "UTC"}'},
        {"name": "time__now", "server": "time", "arguments": {"zone": "UTC"}},
    ],
)
def test_an_allowed_tool_runs(url: str, runner: FakeRunner, body: dict[str, Any]) -> None:
    assert execute(url, **body).json() == {
        "object": "mcp.result",
        "server": "time",
        "name": "now",
        "output": "noon",
        "is_error": False,
        "error": None,
    }
    assert runner.ran == [("now", '{"zone": "UTC"}')]


def test_a_tool_that_asks_runs_once_somebody_agreed(url: str, runner: FakeRunner) -> None:
    refused = execute(url, name="time__set")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "approval_required")
    assert runner.ran == []
    answer = execute(url, name="time__set", approved=True).json()
    assert (answer["is_error"], answer["output"]) == (True, "no such clock")
    assert answer["error"]["type"] == "mcp_tool_execution_error"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "time__wipe", "approved": True}, 403, "mcp_tool_denied"),
        ({"name": "time__nowhere"}, 404, "mcp_tool_not_found"),
        ({"name": "now"}, 404, "mcp_tool_not_found"),
        ({"name": "time__now", "server": "git"}, 404, "mcp_tool_not_found"),
        ({}, 400, "missing_required_parameter"),
        ({"name": "time__now", "arguments": [1]}, 400, None),
        ({"name": "time__now", "approved": "yes"}, 400, None),
    ],
)
def test_what_may_not_run_does_not(
    url: str, runner: FakeRunner, body: dict[str, Any], status: int, code: str | None
) -> None:
    answer = execute(url, **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert runner.ran == []


@pytest.mark.parametrize("arguments", [{"zone": 1}, "no JSON"])
def test_arguments_that_do_not_fit_are_an_error_result(url: str, runner: FakeRunner, arguments: Any) -> None:
    answer = execute(url, name="time__now", arguments=arguments).json()
    assert answer["is_error"]
    assert answer["output"].startswith("The arguments ")
    assert runner.ran == []


def test_what_did_not_run_is_in_the_audit(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "unspool.mcp.audit"):
        execute(url, name="time__wipe", arguments={"zone": "s3cret"}, approved=True)
        execute(url, name="time__set")
        execute(url, name="no\nwhere" + "x" * 10_000, server="git")
        execute(url, name="time__now", arguments={"zone": 1})
    lines = [record for record in caplog.records if record.name == "unspool.mcp.audit"]
    fields = [vars(line)["fields"] for line in lines]
    assert [(each["server"], each["tool"], each["outcome"]) for each in fields] == [
        ("time", "wipe", "refused"),
        ("time", "set", "refused"),
        ("git", "no\nwhere" + "x" * 192, "unknown"),
        ("time", "now", "invalid"),
    ]
    assert all(each["request"].startswith("req_") for each in fields)
    assert not any("s3cret" in line.getMessage() or "\n" in line.getMessage() for line in lines)


def test_what_did_not_run_is_counted(url: str) -> None:
    execute(url, name="time__set")
    execute(url, name="time__nowhere")
    metrics = httpx.get(f"{url}/metrics").text
    assert 'unspool_mcp_calls_total{server="time",outcome="refused"} 1' in metrics
    assert 'unspool_mcp_calls_total{server="",outcome="refused"} 1' in metrics


def test_a_name_of_the_list_goes_before_one_of_the_server() -> None:
    one, other = tool("now"), tool("time__now")
    runner = FakeRunner(other, one)
    with running(runner, engine=ScriptedEngine()) as url:
        assert execute(url, name="time__now", server="time").json()["name"] == "now"
        assert execute(url, name="time__time__now", server="time").json()["name"] == "time__now"


def test_a_tool_that_hangs_is_given_up(runner: FakeRunner) -> None:
    runner.answers["now"] = runner.hang
    with running(runner, engine=ScriptedEngine(), settings=Settings(mcp_timeout=0.1)) as url:
        answer = execute(url, name="time__now").json()
        metrics = httpx.get(f"{url}/metrics").text
    assert "timed out" in answer["output"]
    assert 'unspool_mcp_calls_total{server="time",outcome="timeout"} 1' in metrics


def test_the_time_of_a_request_ends_the_tool(runner: FakeRunner) -> None:
    runner.answers["now"] = runner.hang
    with running(runner, engine=ScriptedEngine(), settings=Settings(time_limit=0.2)) as url:
        answer = execute(url, name="time__now")
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
    assert answer.headers["x-should-retry"] == "false"
    assert runner.cancelled.wait(10)


def test_the_end_of_the_server_ends_the_tool(runner: FakeRunner) -> None:
    runner.answers["now"] = runner.hang
    app = create_app(ScriptedEngine(), runner=runner)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            asking = asyncio.ensure_future(client.post("/v1/mcp/execute", json={"name": "time__now"}))
            assert await asyncio.to_thread(runner.waiting.wait, 10)
            app.state.service.traffic.end()
            return await asking

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert runner.cancelled.is_set()


def test_a_client_that_goes_away_ends_the_tool(url: str, runner: FakeRunner) -> None:
    runner.answers["now"] = runner.hang

    async def ask() -> None:
        async with httpx.AsyncClient() as client:
            asking = asyncio.ensure_future(client.post(f"{url}/v1/mcp/execute", json={"name": "time__now"}))
            await asyncio.to_thread(runner.waiting.wait, 10)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(ask())
    assert runner.cancelled.wait(10)


def test_without_servers_there_is_nothing() -> None:
    with served(ScriptedEngine()) as url:
        assert httpx.get(f"{url}/v1/mcp/servers").json()["data"] == []
        assert httpx.get(f"{url}/v1/mcp/tools").json()["data"] == []
        answer = execute(url, name="time__now")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "mcp_not_configured")


@pytest.mark.parametrize(("method", "path"), [("GET", "servers"), ("GET", "tools"), ("POST", "execute")])
def test_the_key_is_needed(runner: FakeRunner, method: str, path: str) -> None:
    with running(runner, engine=ScriptedEngine(), settings=Settings(api_key="key")) as url:
        answer = httpx.request(
            method, f"{url}/v1/mcp/{path}", json={"name": "time__now"} if method == "POST" else None
        )
    assert answer.status_code == 401
    assert runner.ran == []


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_nothing_changes_servers(url: str, method: str) -> None:
    for path in ("servers", "servers/time", "tools"):
        assert httpx.request(method, f"{url}/v1/mcp/{path}").status_code in (404, 405)
