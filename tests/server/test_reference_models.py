"""The default model calls MCP's reference servers, because it must: what the makers' clients see of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.files import written
from tests.mcp.reference import needs_npm, npm, python
from tests.server.process import running
from tests.server.test_reference_tools import Clients


def repository(folder: Path) -> dict[str, Any]:
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    return python("git", "--repository", str(folder))


def graph(folder: Path) -> dict[str, Any]:
    return npm("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")})


Server = tuple[Callable[[Path], dict[str, Any]], str, str, str]
"""What an operator writes down for a folder, the one tool that is allowed, a question, and what the tool says.

The model writes any text for an argument, so a tool may say no more than what is wrong with that.
"""
PYTHON: dict[str, Server] = {
    "git": (repository, "git_status", "Show the status of the repository.", "Error executing tool git_status"),
    "fetch": (lambda _: python("fetch"), "fetch", "Use the tool.", "Error executing tool fetch"),
}
NODE: dict[str, Server] = {
    "everything": (lambda _: npm("everything", "stdio"), "echo", "Echo hi.", "Echo: {message}"),
    "filesystem": (
        lambda folder: npm("filesystem", str(folder)),
        "list_allowed_directories",
        "Which directories are allowed?",
        "{folder}",
    ),
    "memory": (graph, "read_graph", "What do you remember?", "entities"),
}
DEMANDS: dict[str, dict[str, Any]] = {
    "chat": {"tool_choice": "required", "max_tokens": 300, "parallel_tool_calls": False},
    "responses": {"tool_choice": "required", "max_output_tokens": 300, "parallel_tool_calls": False},
    "messages": {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 300},
}


@pytest.mark.parametrize("name", [*PYTHON, *(pytest.param(name, marks=needs_npm) for name in NODE)])
def test_a_real_models_call_of_a_reference_server_runs(tmp_path: Path, name: str) -> None:
    write, tool, question, says = (PYTHON | NODE)[name]
    folder = tmp_path / "given"
    folder.mkdir()
    entry = write(folder) | {"tools": {tool: "allow", "*": "deny"}}
    file = written(tmp_path, json.dumps({"mcpServers": {name: entry}}))
    with running("--threads", "1", "--ctx", "2048", "--mcp-config", file) as (url, _, _):
        clients = Clients(url, name)
        for api, demand in DEMANDS.items():
            ran, _ = getattr(clients, api)(question.format(folder=folder), **demand)
            assert ran["name"] == tool
            said = ran.get("error") or ran["output"]
            expected = says.format(folder=folder, **json.loads(ran["arguments"]))
            assert expected in (said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))
