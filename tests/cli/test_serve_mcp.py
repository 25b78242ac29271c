"""``unspool serve --mcp-config``: a real MCP server behind a real process, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Run
from tests.mcp.files import written
from tests.server.process import running
from tests.server.serving import HELLO, client
from tests.server.toolrunner import call
from unspool.mcp.outside import Origin
from unspool.server.service import Settings

SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("clock")


@server.tool()
def now(zone: str) -> str:
    """The time in a zone."""
    return f"noon in {zone}"


server.run("stdio")
'''


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    path = tmp_path / "some.jsonl"
    turns = [
        {"id": "look", "raw_output": call("clock__now", '{"zone": "UTC"}')},
        {"id": "noon", "raw_output": "It is noon.", "match": "<tool_response>\nnoon in UTC\n</tool_response>"},
    ]
    path.write_text("".join(f"{json.dumps(turn)}\n" for turn in turns), encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file with a clock, whose tool may run, and a server that isn't there."""
    program = tmp_path / "clock.py"
    program.write_text(SERVER, encoding="utf-8")
    servers: dict[str, Any] = {
        "clock": {
            "command": sys.executable,
            "args": [str(program)],
            "trustPath": True,
            "tools": {"now": "allow"},
        },
        "gone": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
    }
    return written(tmp_path, json.dumps({"mcpServers": servers}))


def test_a_tool_of_a_real_server_runs(recordings: Path, config: Path) -> None:
    """BUG-207: the server that can't be reached is reported by its name, and the other works."""
    with running("--recordings", recordings, "--mcp-config", config) as (url, _, _):
        states = {each["name"]: each for each in httpx.get(f"{url}/v1/mcp/servers").json()["data"]}
        message = client(url).chat.completions.create(model="default", messages=HELLO).choices[0].message
        ran = httpx.post(f"{url}/v1/mcp/execute", json={"name": "clock__now", "arguments": {"zone": "CET"}}).json()
    assert (states["clock"]["state"], states["clock"]["tools"]) == ("ready", 1)
    assert states["gone"]["state"] != "ready"
    assert states["gone"]["error"]
    assert message.content == "It is noon."
    assert message.mcp_calls[0]["output"] == "noon in UTC"  # type: ignore[attr-defined]
    assert ran["output"] == "noon in CET"


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--mcp-config", "nowhere.json"], "'nowhere.json' does not exist"),
        (["--mcp-config", "{broken}"], "{broken}: is not JSON"),
        (["--mcp-config", "{empty}"], 'has no "mcpServers"'),
        (["--mcp-max-turns", "3"], "--mcp-max-turns needs --mcp-config FILE"),
        (["--mcp-timeout", "3"], "--mcp-timeout needs --mcp-config FILE"),
        (["--mcp-offer", "asked"], "--mcp-offer needs --mcp-config FILE"),
        (["--mcp-config", "{empty}", "--mcp-timeout", "0"], "--mcp-timeout"),
        (["--mcp-allow-request-servers", "http://x.org"], "--mcp-allow-request-servers http://x.org: only https"),
    ],
)
def test_whatever_is_wrong_is_one_clear_line(
    run: Run, recordings: Path, tmp_path: Path, args: list[str], complaint: str
) -> None:
    broken, empty = written(tmp_path, "{", "broken.json"), written(tmp_path, "{}", "empty.json")
    result = run(
        "serve",
        "--port",
        "0",
        "--recordings",
        recordings,
        *(arg.format(broken=broken, empty=empty) for arg in args),
    )
    assert result.exit_code != 0
    assert complaint.format(broken=broken) in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_a_missing_package_is_named(
    run: Run, recordings: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    monkeypatch.delitem(sys.modules, "unspool.mcp.manager", raising=False)
    monkeypatch.delitem(sys.modules, "unspool.mcp.definitions", raising=False)
    result = run("serve", "--port", "0", "--recordings", recordings, "--mcp-config", config)
    assert result.exit_code == 1
    assert 'MCP needs mcp_types; run: pip install "unspool[mcp]"' in result.stderr


def test_the_flags_are_the_servers_settings(
    run: Run, recordings: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[Settings, Any]] = []
    monkeypatch.setattr(
        "unspool.cli.serve._run", lambda engine, settings, store, runner, *rest: served.append((settings, runner))
    )
    monkeypatch.setattr("unspool.cli.serve._log_from", lambda level, form: None)
    flags = ["--mcp-config", str(config), "--mcp-max-turns", "3", "--mcp-timeout", "2", "--mcp-offer", "asked"]
    assert run("serve", "--port", "0", "--recordings", recordings, *flags).exit_code == 0
    ((settings, runner),) = served
    assert (settings.mcp_max_turns, settings.mcp_timeout, settings.mcp_offer) == (3, 2.0, "asked")
    assert settings.mcp_request_origins == ()
    assert [state.name for state in runner.catalogue().servers] == ["clock", "gone"]


def test_requests_may_bring_servers_from_where_the_operator_says(
    run: Run, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Settings] = []
    monkeypatch.setattr("unspool.cli.serve._run", lambda engine, settings, *rest: served.append(settings))
    monkeypatch.setattr("unspool.cli.serve._log_from", lambda level, form: None)
    flags = ["--mcp-allow-request-servers", "https://mcp.example.com", "--mcp-timeout", "3"]
    assert run("serve", "--port", "0", "--recordings", recordings, *flags).exit_code == 0
    assert served[0].mcp_request_origins == (Origin("mcp.example.com"),)
