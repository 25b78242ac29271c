"""Servers that do something wrong: nothing hangs, nothing is left, and the model is told what it can act on."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.files import written
from tests.mcp.running import call, running, until, with_manager
from tests.mcp.serving import program
from unspool.mcp import processes
from unspool.mcp.manager import Manager
from unspool.mcp.tools import ServerState, ToolResult

ALLOWED = {"tools": {"*": "allow"}}


def fault(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """The server with this fault."""
    return program("faults", name, *args, **{**ALLOWED, **more})


def state(manager: Manager) -> ServerState:
    return manager.catalogue().servers[0]


async def work(manager: Manager) -> ToolResult:
    return await manager.call_by_name("s__work", "", request_id="r")


def test_a_crash_in_a_call_is_an_error_and_the_next_call_finds_the_server_again(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        lost = await manager.call_by_name("s__crash", "", request_id="r")
        assert lost.is_error
        assert "The server s ended during the call: it ended with exit code 3" in lost.text
        assert lost.error is not None
        assert lost.error["type"] == "mcp_server_error"
        assert (await manager.call_by_name("s__echo", '{"text": "again"}', request_id="r")).text == "again"
        assert state(manager).state == "ready"

    with_manager(tmp_path, {"s": program("tools", "stdio", **ALLOWED)}, use)


def test_a_call_that_only_reads_is_made_again_after_a_crash(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    assert call(tmp_path, {"s": fault("crash-once", mark, readOnlyTools=["work"])}, "s__work").text == "fine"


def test_a_call_that_may_have_had_an_effect_is_not_made_again(tmp_path: Path) -> None:
    result = call(tmp_path, {"s": fault("crash-once", str(tmp_path / "mark"))}, "s__work")
    assert result.is_error
    assert "Whether the call had an effect is unknown" in result.text


def test_a_server_that_fails_again_and_again_is_given_up_and_its_tools_are_gone(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        (tool,) = (tool for tool in manager.catalogue().tools if tool.name == "crash")
        assert (await manager.call(tool, "", request_id="r")).is_error
        assert (await manager.call(tool, "", request_id="r")).is_error
        await until(lambda: state(manager).state == "failed")
        assert manager.catalogue().tools == ()
        result = await manager.call(tool, "", request_id="r")
        assert "The server s does not run: it ended with exit code 3. Nothing was run." in result.text

    with_manager(tmp_path, {"s": program("tools", "stdio", **ALLOWED, restarts=1)}, use)


def test_a_line_of_5_mb_does_not_pass_and_says_why(tmp_path: Path) -> None:
    result = call(tmp_path, {"s": fault("line")}, "s__work")
    assert result.is_error
    assert "it wrote a line of more than 4194304 bytes (max_line)" in result.text


def test_a_hanging_call_times_out(tmp_path: Path) -> None:
    assert "timed out" in call(tmp_path, {"s": fault("hang", timeout_s=0.5)}, "s__work").text


def test_an_answer_under_another_id_is_none(tmp_path: Path) -> None:
    assert "timed out" in call(tmp_path, {"s": fault("ids", timeout_s=0.5)}, "s__work").text


def test_a_result_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    result = call(tmp_path, {"s": fault("result")}, "s__work")
    assert result.is_error
    assert "what is no result" in result.text


def test_what_a_server_says_of_itself_is_one_line_without_controls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(manager: Manager) -> str | None:
        return state(manager).error

    error = with_manager(tmp_path, {"s": fault("refusing")}, use)
    assert error == "no [31mlicence INFO: all is well"
    assert any(f"MCP server s: {error}; it is started again" in message for message in caplog.messages)


def test_a_name_that_is_listed_again_and_again_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(manager: Manager) -> int:
        return len(manager.catalogue().tools)

    assert with_manager(tmp_path, {"s": fault("escaping")}, use) == 1
    assert sum("more than once" in message for message in caplog.messages) == 1


@pytest.mark.parametrize(("name", "text"), [("bytes", "caf\ufffd"), ("halves", "half \ufffd pair, 😀")])
def test_what_is_no_text_in_an_answer_is_not_the_end_of_it(tmp_path: Path, name: str, text: str) -> None:
    result = call(tmp_path, {"s": fault(name, call_timeout_s=30)}, "s__work")
    assert (result.text, result.is_error) == (text, False)


@pytest.mark.parametrize(("name", "text"), [("blocks", "[hologram omitted]\nfine"), ("contentless", '{"a": 1}')])
def test_what_can_be_read_of_a_result_is_read(tmp_path: Path, name: str, text: str) -> None:
    result = call(tmp_path, {"s": fault(name)}, "s__work")
    assert (result.text, result.is_error) == (text, False)


def test_nobody_waits_for_an_answer_that_came_and_is_none(tmp_path: Path) -> None:
    result = call(tmp_path, {"s": fault("nothing", call_timeout_s=600)}, "s__work")
    assert result.text == "Error: The server s refused the call: its answer is none of JSON-RPC"
    assert result.error is not None
    assert result.error["type"] == "mcp_protocol_error"


def test_a_tool_that_can_not_be_read_is_left_out_and_the_others_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(manager: Manager) -> None:
        assert state(manager).state == "ready"
        assert {tool.name: tool.input_schema for tool in manager.catalogue().tools} == {
            "bare": {"type": "object", "properties": {}},
            "work": {"type": "object", "properties": {}},
        }
        assert (await work(manager)).text == "fine"

    with_manager(tmp_path, {"s": fault("described")}, use)
    said = "MCP server s: 3 of its tools can't be read and are left out: tools[0], inputSchema: "
    assert any(said in message for message in caplog.messages)


def test_an_error_of_the_protocol_is_told(tmp_path: Path) -> None:
    result = call(tmp_path, {"s": fault("error")}, "s__work")
    assert "The server s refused the call: no more room" in result.text
    assert result.error == {"type": "mcp_protocol_error", "message": result.text[7:], "code": -32603}


def test_a_result_that_does_not_match_its_schema_is_its_text(tmp_path: Path) -> None:
    assert call(tmp_path, {"s": fault("none")}, "s__mismatch") == ToolResult("fine")


def test_tools_are_listed_page_by_page(tmp_path: Path) -> None:
    async def use(manager: Manager) -> list[str]:
        return [tool.name for tool in manager.catalogue().tools]

    assert with_manager(tmp_path, {"s": fault("pages")}, use) == ["t4", "t5", "t6", "t7", "t8", "t9"]


def test_a_listing_without_an_end_is_ended(tmp_path: Path) -> None:
    async def use(manager: Manager) -> list[str]:
        return [tool.name for tool in manager.catalogue().tools]

    assert with_manager(tmp_path, {"s": fault("endless")}, use) == ["work"]


def test_a_server_without_tools_has_none(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        assert (state(manager).state, manager.catalogue().tools) == ("ready", ())

    with_manager(tmp_path, {"s": fault("toolless")}, use)


def test_a_server_that_closes_its_output_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.3)

    async def use(manager: Manager) -> None:
        assert (state(manager).state, state(manager).error) == ("restarting", "it closed its output")

    with_manager(tmp_path, {"s": fault("mute")}, use)


def test_a_rule_for_a_tool_that_is_not_there_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(manager: Manager) -> None:
        return None

    with_manager(tmp_path, {"s": fault("none", tools={"wrok": "deny", "work": "allow"})}, use)
    assert "MCP server s has no tool 'wrok', which the file has a rule for" in caplog.text
    assert "'work'" not in caplog.text


def test_more_tools_than_a_server_may_have_are_left_out(tmp_path: Path) -> None:
    async def use(manager: Manager) -> list[str]:
        return [tool.name for tool in manager.catalogue().tools]

    assert with_manager(tmp_path, {"s": fault("pages", max_tools=2)}, use) == ["t7", "t8"]


def test_a_schema_that_would_have_to_be_fetched_leaves_its_tool_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(manager: Manager) -> list[str]:
        return [tool.name for tool in manager.catalogue().tools]

    assert with_manager(tmp_path, {"s": fault("remote")}, use) == ["work"]
    assert "tool 'far' of MCP server s is left out: its inputSchema refers to" in caplog.text


def test_descriptions_have_no_hidden_characters(tmp_path: Path) -> None:
    async def use(manager: Manager) -> str:
        return manager.catalogue().tools[0].description

    assert with_manager(tmp_path, {"s": fault("hidden")}, use) == "Works.[2J\nWell."


def test_tools_that_changed_are_listed_again_and_a_kept_catalogue_stays(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        kept = manager.catalogue()
        await work(manager)
        await until(lambda: manager.catalogue().find("s__more") is not None)
        assert kept.find("s__more") is None
        changed = manager.catalogue().find("s__work")
        assert changed is not None
        assert changed.description == "Works otherwise."
        assert changed.digest != kept.tools[-1].digest

    with_manager(tmp_path, {"s": fault("changing")}, use)


def test_what_was_agreed_to_is_the_tool_as_it_was(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        kept = manager.catalogue().find("s__work")
        assert kept is not None
        assert not (await manager.call(kept, "", request_id="r")).is_error
        await until(lambda: manager.catalogue().find("s__more") is not None)
        refused = await manager.call(kept, "", request_id="r")
        assert refused.is_error
        assert "has changed, and needs to be agreed to again. Nothing was run." in refused.text
        now = manager.catalogue().find("s__work")
        assert now is not None
        assert not (await manager.call(now, "", request_id="r")).is_error

    with_manager(tmp_path, {"s": fault("changing", tools={"*": "ask"})}, use)


@pytest.mark.parametrize("read_only", [[], ["work"]])
def test_a_tool_that_is_another_after_a_restart_is_not_run_by_a_call_that_waited_for_it(
    tmp_path: Path, read_only: list[str]
) -> None:
    mark, pins = tmp_path / "mark", {}

    async def look(manager: Manager) -> None:
        pins.update({tool.name: tool.digest for tool in manager.catalogue().tools})

    async def use(manager: Manager) -> None:
        tool = manager.catalogue().find("s__work")
        assert tool is not None
        # The server ends in the first call; who only reads is called again by itself.
        results = [await manager.call(tool, "", request_id="r") for _ in range(2)]
        assert all(result.is_error for result in results)
        assert results[-1].error is not None
        assert results[-1].error["type"] == "mcp_tool_refused"
        assert "has changed, and needs to be agreed to again. Nothing was run." in results[-1].text
        assert mark.read_text() == "crashed"

    with_manager(tmp_path, {"s": fault("replaced", str(mark))}, look)
    with_manager(tmp_path, {"s": fault("replaced", str(mark), pins=pins, readOnlyTools=read_only)}, use)


@pytest.mark.parametrize("unpinned", ["ask", "deny"])
def test_a_tool_that_is_not_the_pinned_one_is_not_run_as_before(tmp_path: Path, unpinned: str) -> None:
    pins: dict[str, str] = {}

    async def look(manager: Manager) -> None:
        pins.update({tool.name: tool.digest for tool in manager.catalogue().tools})

    async def use(manager: Manager) -> None:
        kept = manager.catalogue().find("s__work")
        assert kept is not None
        assert kept.policy == "allow"
        await work(manager)
        await until(lambda: manager.catalogue().find("s__more") is not None)
        assert {tool.name: tool.policy for tool in manager.catalogue().tools} == {
            "work": unpinned,
            "more": unpinned,
        }
        refused = await manager.call(kept, "", request_id="r")
        assert refused.is_error
        assert "Nothing was run" in refused.text

    with_manager(tmp_path, {"s": fault("changing")}, look)
    with_manager(tmp_path, {"s": fault("changing", pins=pins, unpinned=unpinned)}, use)


def test_what_a_server_writes_beside_its_messages_is_logged_in_a_bounded_amount(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "unspool.mcp"):
        assert call(tmp_path, {"s": fault("noise")}, "s__work").text == "fine"
    said = [record.getMessage() for record in caplog.records if "MCP server s says: line" in record.getMessage()]
    assert 0 < len(said) <= 50
    assert not any("\x1b" in line for line in said)
    assert "MCP server s wrote what is no message: Welcome!" in caplog.text


def gone(pid: int) -> bool:
    """Whether a process no longer runs; what nobody waited for doesn't."""
    status = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    "name",
    [
        "child",
        pytest.param(
            "escape", marks=pytest.mark.skipif(not Path("/proc/self").exists(), reason="found by /proc only")
        ),
    ],
)
def test_what_a_server_started_ends_with_it(tmp_path: Path, name: str) -> None:
    note = tmp_path / "note"

    async def use(manager: Manager) -> int:
        assert (await work(manager)).text == "fine"
        return int(note.read_text())

    assert gone(with_manager(tmp_path, {"s": fault(name, str(note))}, use))


def test_a_server_that_does_not_want_to_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.3)
    note = tmp_path / "note"
    assert call(tmp_path, {"s": fault("deaf", str(note))}, "s__work").text == "fine"
    assert gone(int(note.read_text()))


DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from unspool.mcp.config import load_config
from unspool.mcp.manager import Manager

async def run():
    await Manager(load_config(Path(sys.argv[1]), {})).start()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(run())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a child with its parent")
def test_a_server_ends_with_the_process_that_runs_it_however_that_ends(tmp_path: Path) -> None:
    note = tmp_path / "note"
    path = written(tmp_path, json.dumps({"mcpServers": {"s": fault("deaf", str(note))}}))
    # What it leaves in the folder of temporary files is left here.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", DYING, str(path)], capture_output=True, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(note.read_text())
    asyncio.run(until(lambda: gone(pid)))


def test_a_server_that_talks_all_the_time_is_heard(tmp_path: Path) -> None:
    assert call(tmp_path, {"s": fault("spam")}, "s__work").text == "fine"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted by /proc")
def test_no_open_file_is_left(tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def run() -> None:
        async with running(tmp_path, {"s": fault("none"), "t": fault("exit"), "u": fault("line")}) as manager:
            await work(manager)
            await manager.call_by_name("u__work", "", request_id="r")

    async def runs() -> list[int]:
        counts = []
        for _ in range(4):
            await run()
            counts.append(count())
        return counts

    first, *others = asyncio.run(runs())
    assert others == [first] * 3


def test_closing_leaves_no_task_and_may_be_done_twice(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, {"s": fault("none"), "t": fault("exit")}) as manager:
            assert (await work(manager)).text == "fine"
        await manager.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert {each.state for each in manager.catalogue().servers} == {"stopped"}

    asyncio.run(run())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_killed_is_started_again(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "note"

    async def use(manager: Manager) -> None:
        os.kill(int(note.read_text()), number)
        await until(lambda: state(manager).state != "ready")
        assert state(manager).error == f"it was ended by {number.name}"
        assert manager.catalogue().find("s__work") is not None
        assert (await work(manager)).text == "fine"

    with_manager(tmp_path, {"s": fault("none", str(note))}, use)
