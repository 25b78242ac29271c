"""Clients that leave, and MCP servers that crash and hang: what runs is cancelled, and nothing is left over."""

from __future__ import annotations

import json
import random
import socket
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from benchmarks.hosts import Figures, Host

from tests.mcp.files import loaded
from tests.mcp.running import served as mcp_served
from tests.mcp.serving import program
from tests.server.serving import served
from tests.server.toolrunner import call, scripted
from unspool.engines.replay import Recording, ReplayEngine
from unspool.mcp.config import load_config
from unspool.mcp.manager import Manager
from unspool.server.app import create_app
from unspool.server.service import Settings

PATHS = {
    "chat": ("/v1/chat/completions", "messages"),
    "responses": ("/v1/responses", "input"),
    "messages": ("/v1/messages", "messages"),
}
LIMITS = {"messages": {"max_tokens": 100}}
FAULTS = {"well": "none", "hang": "hang", "crash": "crash"}
"""The MCP servers, and what each does at a call."""
REQUESTS = 50


def sent(port: int, api: str, question: str, stream: bool) -> socket.socket:
    """A connection on which something was asked."""
    path, key = PATHS[api]
    said = [{"role": "user", "content": question}]
    data = json.dumps({"model": "default", key: said, "stream": stream} | LIMITS.get(api, {}))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(head.encode() + data.encode())
    return connection


def ask(port: int, api: str, question: str, stream: bool, patience: float | None) -> bytes | None:
    """What is answered; ``None`` if nothing came for longer than the client waits, who then hangs up."""
    answer = b""
    with sent(port, api, question, stream) as connection:
        connection.settimeout(patience)
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            return None
    return answer


def becomes(path: Path, text: str) -> None:
    """Waits for what a file will say."""
    until = time.monotonic() + 30
    while not (path.exists() and path.read_text() == text):
        assert time.monotonic() < until, f"{path} does not say {text}"
        time.sleep(0.02)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", list(PATHS))
def test_hanging_up_in_mid_call_cancels_on_the_server(
    tmp_path: Path, api: str, stream: bool, transport: str
) -> None:
    note = tmp_path / "note"
    engine = scripted(call("t__slow", json.dumps({"note": str(note)})))

    def hang_up(entry: dict[str, Any]) -> None:
        with served(engine, runner=Manager(loaded(tmp_path, {"t": {**entry, "tools": {"*": "allow"}}}))) as url:
            with sent(int(url.rpartition(":")[2]), api, "Wait.", stream):
                becomes(note, "started")
            becomes(note, "cancelled")

    if transport == "stdio":
        hang_up(program("tools", "stdio"))
    else:
        with mcp_served("http") as there:
            hang_up({"url": there})


def application(folder: str) -> Any:
    """A server whose model calls the tool of the MCP server that the question names."""
    asked = [Recording(name, call(f"{name}__work"), match=f"Try {name}") for name in FAULTS]
    told = Recording("told", "That was all.", match="</tool_response>")
    manager = Manager(load_config(Path(folder, "mcp.json"), {}))
    return create_app(ReplayEngine([*asked, told], chunking="chars:3"), Settings(), None, manager)


def children(pid: int) -> int:
    """How many processes a process has started that still run."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(") ")[2].split()[:2]
            found += int(parent) == pid and state != "Z"
    return found


def test_nothing_is_left_over_of_what_went_wrong(tmp_path: Path) -> None:
    limits = {"tools": {"*": "allow"}, "call_timeout_s": 1, "restart_window_s": 0.01}
    servers = {name: program("faults", fault, **limits) for name, fault in FAULTS.items()}
    loaded(tmp_path, servers)
    dice = random.Random(7)
    asked = [
        (
            dice.choice(list(PATHS)),
            dice.choice(list(FAULTS)),
            dice.random() < 0.7,
            dice.choice([None, 0.01, 0.1, 0.5]),
        )
        for _ in range(REQUESTS)
    ]
    with Host(application, str(tmp_path)) as host, ThreadPoolExecutor(8) as pool:

        def one(api: str, name: str, stream: bool, patience: float | None) -> str:
            answer = ask(host.port, api, f"Try {name}.", stream, patience)
            if answer is None:
                return "left"
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert stream or b"That was all." in answer
            return name

        for api in PATHS:
            assert one(api, "well", True, None) == "well"
        idle, processes = host.figures(), children(host.pid)
        assert processes == (len(FAULTS) if sys.platform == "linux" else 0)
        seen = Counter(pool.map(lambda each: one(*each), asked))
        assert set(seen) == {"left", *FAULTS}
        last, running = settled(host, idle, processes)
    assert last.tasks <= idle.tasks
    assert last.files <= idle.files
    assert running == processes


def settled(host: Host, idle: Figures, processes: int) -> tuple[Figures, int]:
    """What there is once it is no more than there was, or after a time."""
    until = time.monotonic() + 30
    while True:
        now, running = host.figures(), children(host.pid)
        is_quiet = now.tasks <= idle.tasks and now.files <= idle.files and running == processes
        if is_quiet or time.monotonic() > until:
            return now, running
        time.sleep(0.2)
