from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Show
from tests.mcp.files import written
from tests.mcp.serving import program
from unspool.mcp.client import ServerClient
from unspool.mcp.tools import McpTool

SERVERS: dict[str, Any] = {
    "t": program(
        "tools", "stdio", "--key=${KEY:-none}", env={"KEY": "${KEY:-none}"}, tools={"add": "allow", "slow": "deny"}
    ),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path, json.dumps({"mcpServers": SERVERS}))


def test_check_says_what_would_run_without_secrets(run: Run, config: Path) -> None:
    result = run("mcp", "check", "--mcp-config", config, KEY="s3cret")
    assert result.exit_code == 0
    (server,) = json.loads(result.stdout)["servers"]
    assert (server["name"], server["verdict"]) == ("t", "runs")
    assert server["program"] == str(Path(sys.executable).resolve())
    assert server["environment"] == ["HOME", "KEY", "LANG", "PATH", "TERM"]
    assert "s3cret" not in result.output


def test_check_for_people(show: Show, config: Path) -> None:
    lines = show("mcp", "check", "--mcp-config", config).splitlines()
    assert lines[0] == "t  stdio  runs"
    assert lines[-1] == "  tools   *=ask add=allow slow=deny"
    assert any("'--key=${KEY:-none}'" in line for line in lines)


def test_check_says_where_tokens_come_from(show: Show, tmp_path: Path) -> None:
    written(tmp_path, "s3cret", "secret")
    auth = {
        "type": "client_credentials",
        "client_id": "me",
        "issuer": "https://login.test",
        "client_secret_file": "secret",
    }
    path = written(tmp_path, json.dumps({"mcpServers": {"far": {"url": "https://h.test/", "auth": auth}}}))
    lines = show("mcp", "check", "--mcp-config", path).splitlines()
    assert "  gets    tokens of https://login.test for me (client_secret_basic)" in lines
    assert "s3cret" not in "".join(lines)


def test_check_shows_the_program_behind_a_link_apart(show: Show, tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(Path(sys.executable).resolve())
    entry = {**program("tools", "stdio"), "command": str(link)}
    lines = show("mcp", "check", "--mcp-config", written(tmp_path, json.dumps({"mcpServers": {"t": entry}})))
    assert f"  runs    {link} " in lines
    assert f"  which   is {link.resolve()}\n" in lines


def test_check_fails_if_a_server_would_be_refused(run: Run, tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"mcpServers": {"gone": {"command": "/no/such"}, "odd": {"url": "http://h/", "x": 1}}}'
    )
    result = run("mcp", "check", "--mcp-config", path)
    assert result.exit_code == 1
    assert [each["verdict"] for each in json.loads(result.stdout)["servers"]] == ["refused", "runs"]
    assert "odd'.x is not known and does nothing" in result.stderr


def test_list_shows_tools_and_policies(run: Run, show: Show, config: Path) -> None:
    result = run("mcp", "list", "--mcp-config", config)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert [(each["name"], each["state"]) for each in said["servers"]] == [("t", "ready")]
    tools = {each["exposed"]: each for each in said["tools"]}
    assert (tools["t__add"]["policy"], tools["t__echo"]["policy"], tools["t__slow"]["policy"]) == (
        "allow",
        "ask",
        "deny",
    )
    assert len(tools["t__add"]["digest"]) == 64
    assert "  allow t__add  Adds two numbers." in show("mcp", "list", "--mcp-config", config).splitlines()


def test_list_says_which_server_failed(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, '{"mcpServers": {"gone": {"command": "/no/such"}}}')
    result = run("mcp", "list", "--mcp-config", path)
    assert result.exit_code == 1
    assert "/no/such can't be read" in json.loads(result.stdout)["servers"][0]["error"]


def test_what_a_server_that_does_not_run_wrote_is_shown(run: Run, tmp_path: Path) -> None:
    servers = {"well": SERVERS["t"], "ill": program("faults", "exit")}
    path = written(tmp_path, json.dumps({"mcpServers": servers}))
    for command in (["list"], ["call", "ill__x"]):
        result = run("mcp", command[0], "--mcp-config", path, *command[1:])
        assert result.exit_code == 1
        assert "Note: MCP server ill says: no licence\n" in result.stderr
        assert "MCP server well" not in result.stderr


def test_the_names_there_are_follow_one_there_is_not(run: Run, config: Path) -> None:
    result = run("mcp", "call", "--mcp-config", config, "add")
    assert result.exit_code == 1
    assert "Note: TOOL is one of t__add, t__" in result.stderr
    assert "t__slow" not in result.stderr


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["t__add", '{"a": 1, "b": 2}'], 0, "3"),
        (["t__add", '{"a": 1}'], 1, "'b' is a required property"),
        (["t__none"], 1, "There is no tool named 't__none'"),
        (["t__slow", "--yes"], 1, "is not allowed here"),
        (["--yes", "t__echo", '{"text": "on"}'], 0, "on"),
    ],
)
def test_call_runs_what_the_policy_lets(run: Run, config: Path, args: list[str], code: int, text: str) -> None:
    result = run("mcp", "call", "--mcp-config", config, *args)
    assert result.exit_code == code
    assert text in json.loads(result.stdout)["text"]


def test_call_of_a_tool_to_be_asked_for_needs_agreement(run: Run, config: Path) -> None:
    result = run("mcp", "call", "--mcp-config", config, "t__echo", '{"text": "on"}')
    assert (result.exit_code, result.stdout) == (2, "")
    assert "give --yes" in result.stderr


@pytest.mark.parametrize("command", [["list"], ["call", "ill__x"], ["call", "odd__w__31mork_x"]])
def test_nothing_that_a_server_says_reaches_the_terminal_as_a_control(
    run: Run, tmp_path: Path, command: list[str]
) -> None:
    servers = {"ill": program("faults", "refusing"), "odd": program("faults", "escaping")}
    path = written(tmp_path, json.dumps({"mcpServers": servers}))
    result = run("mcp", command[0], "--mcp-config", path, *command[1:])
    assert result.exit_code != 0
    assert "\x1b" not in result.output
    assert "Note: MCP server ill: no [31mlicence INFO: all is well; it is started again in" in result.stderr
    assert "\nx of odd" not in result.stderr
    forced = run("mcp", command[0], "--mcp-config", path, *command[1:], FORCE_COLOR="1")
    assert "\x1b[31mork" not in forced.output
    assert "\x1b[31mlicence" not in forced.output


def test_what_was_agreed_to_is_what_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has another tool of the same name by the time the user agrees."""
    changed, mark = threading.Event(), tmp_path / "mark"
    become = ServerClient._become

    def noting(self: ServerClient, *args: Any) -> None:
        become(self, *args)
        if any(tool.description == "Works otherwise." for tool in self.tools):
            changed.set()

    def agree(tool: McpTool, arguments: str) -> None:
        assert tool.description == "Works."
        mark.touch()
        assert changed.wait(20)

    monkeypatch.setattr(ServerClient, "_become", noting)
    monkeypatch.setattr("unspool.cli.mcp._ask", agree)
    path = written(tmp_path, json.dumps({"mcpServers": {"s": program("faults", "restless", str(mark))}}))
    result = run("mcp", "call", "--mcp-config", path, "s__work")
    assert result.exit_code == 1
    assert "has changed, and needs to be agreed to again. Nothing was run." in json.loads(result.stdout)["text"]


def test_call_for_people(show: Show, config: Path) -> None:
    assert show("mcp", "call", "--mcp-config", config, "t__add", '{"a": 1, "b": 2}') == "3\n"


def test_a_file_that_can_not_be_used_is_bad_input(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, "{")
    for command in (["check"], ["list"], ["call", "x"]):
        result = run("mcp", command[0], "--mcp-config", path, *command[1:])
        assert result.exit_code == 2
        assert "is not JSON" in result.stderr
