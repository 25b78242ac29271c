"""MCP's reference servers: what they list, what calls of them answer, what they refuse."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.mcp.reference import everything, needs_npm, npm, python
from tests.mcp.running import with_manager
from unspool.mcp.manager import Manager
from unspool.mcp.tools import ToolResult


def said(
    folder: Path, server: dict[str, Any], *calls: tuple[str, dict[str, Any]], **variables: str
) -> tuple[set[str], list[ToolResult]]:
    """The names of a server's tools, and the results of some calls, one after the other."""

    async def use(manager: Manager) -> tuple[set[str], list[ToolResult]]:
        catalogue = manager.catalogue()
        assert [(each.state, each.error) for each in catalogue.servers] == [("ready", None)]
        results = [
            await manager.call_by_name(f"s__{name}", json.dumps(arguments), request_id="r")
            for name, arguments in calls
        ]
        return {tool.name for tool in catalogue.tools}, results

    return with_manager(folder, {"s": server}, use, **variables)


def test_time(tmp_path: Path) -> None:
    asked = {"source_timezone": "Europe/Paris", "time": "16:30", "target_timezone": "Asia/Tokyo"}
    names, (told, mistaken, wrong, other) = said(
        tmp_path,
        python("time", "--local-timezone", "Europe/Paris"),
        ("convert_time", asked),
        ("convert_time", {**asked, "source_timezone": "Mars/Base"}),
        ("convert_time", {**asked, "time": 16}),
        ("get_current_time", {"timezone": "Asia/Tokyo"}),
    )
    assert names == {"convert_time", "get_current_time"}
    assert json.loads(told.text)["target"]["timezone"] == "Asia/Tokyo"
    assert (mistaken.is_error, "Mars/Base" in mistaken.text) == (True, True)
    assert mistaken.error is not None
    assert mistaken.error["type"] == "mcp_tool_execution_error"
    assert "/time: 16 is not of type 'string'" in wrong.text
    assert json.loads(other.text)["timezone"] == "Asia/Tokyo"


def test_git(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(repository)], check=True)
    (repository / "new.txt").write_text("new")
    names, (status, outside) = said(
        tmp_path,
        python("git", "--repository", str(repository)),
        ("git_status", {"repo_path": str(repository)}),
        ("git_status", {"repo_path": str(tmp_path)}),
    )
    assert {"git_status", "git_log", "git_commit"} <= names
    assert "On branch trunk" in status.text
    assert "new.txt" in status.text
    assert (outside.is_error, "outside the allowed repository" in outside.text) == (True, True)


@contextmanager
def page(text: str) -> Iterator[str]:
    """The URL of a page; whatever else is asked for isn't there."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/page"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("allowed", [False, True])
def test_fetch(tmp_path: Path, allowed: bool) -> None:
    flags = ["--allow-private-ips"] if allowed else []
    with page("Lunch is at noon.") as url:
        names, (result, wrong) = said(
            tmp_path,
            python("fetch", *flags),
            ("fetch", {"url": url}),
            ("fetch", {"url": url, "max_length": 0}),
        )
    assert names == {"fetch"}
    assert result.is_error is not allowed
    assert ("Lunch is at noon." if allowed else "not a public address") in result.text
    assert "/max_length: 0 is less than the minimum of 1" in wrong.text


EVERYTHING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("echo", {"message": "hi"}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "New York"}),
    ("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
    ("echo", {"message": 3}),
)


def check_everything(names: set[str], results: list[ToolResult]) -> None:
    """What the server that has everything answers to these calls."""
    assert {name for name, _ in EVERYTHING} <= names
    assert [result.is_error for result in results] == [False] * 5 + [True]
    texts = [result.text for result in results]
    assert texts[:2] == ["Echo: hi", "The sum of 1 and 2 is 3."]
    assert "[image image/png 4 kB omitted]" in texts[2]
    assert set(json.loads(texts[3])) == {"temperature", "conditions", "humidity"}
    assert "Steps: 3" in texts[4]
    assert "/message: 3 is not of type 'string'" in texts[5]


@needs_npm
def test_everything(tmp_path: Path) -> None:
    secret = {"env": {"SHOWN": "${SHOWN}"}}
    names, (environment, *results) = said(
        tmp_path, npm("everything", "stdio", **secret), ("get-env", {}), *EVERYTHING, SHOWN="yes"
    )
    check_everything(names, results)
    shown = json.loads(environment.text)
    assert shown["SHOWN"] == "yes"
    assert set(shown) <= {"SHOWN", "HOME", "LANG", "PATH", "TERM", "UNSPOOL_MCP_SERVER"}


@needs_npm
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_everything_over_the_network(tmp_path: Path, transport: str) -> None:
    with everything(transport) as url:
        entry = {"type": transport, "url": url, "tools": {"*": "allow"}}
        check_everything(*said(tmp_path, entry, *EVERYTHING))


@needs_npm
def test_filesystem(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "secret.txt").write_text("s3cret")
    names, (written, read, outside, climbing) = said(
        tmp_path,
        npm("filesystem", str(shared)),
        ("write_file", {"path": str(shared / "a.txt"), "content": "one\ntwo"}),
        ("read_text_file", {"path": str(shared / "a.txt"), "head": 1}),
        ("read_text_file", {"path": str(tmp_path / "secret.txt")}),
        ("read_text_file", {"path": str(shared / ".." / "secret.txt")}),
    )
    assert {"read_text_file", "write_file", "list_directory"} <= names
    assert (written.is_error, (shared / "a.txt").read_text(), read.text) == (False, "one\ntwo", "one")
    for refused in (outside, climbing):
        assert refused.is_error
        assert "Access denied" in refused.text
        assert "s3cret" not in refused.text


@needs_npm
def test_memory(tmp_path: Path) -> None:
    kept = tmp_path / "memory.jsonl"
    entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    server = npm("memory", env={"MEMORY_FILE_PATH": str(kept)})
    names, (_, found) = said(
        tmp_path, server, ("create_entities", {"entities": [entity]}), ("search_nodes", {"query": "count"})
    )
    assert {"create_entities", "search_nodes", "read_graph"} <= names
    assert json.loads(found.text)["entities"] == [entity]
    assert "Ada" in kept.read_text()
