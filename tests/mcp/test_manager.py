"""Servers of a file, over each transport: what they offer, what calls of it give, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.mcp.files import loaded
from tests.mcp.running import call, running, served, until, with_manager
from tests.mcp.serving import program
from unspool.mcp.manager import Manager
from unspool.mcp.tools import Catalogue

ALLOWED = {"tools": {"*": "allow"}}
OTHERS = (
    *(
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "LD_AUDIT",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "BASH_ENV",
        "npm_config_registry",
    ),
    *("UV_INDEX_URL", "PIP_INDEX_URL", "GIT_SSH_COMMAND", "DYLD_FRAMEWORK_PATH", "HTTPS_PROXY", "DOCKER_HOST"),
)
"""What a server must not inherit: secrets, and what makes programs run other code."""
TOOLS = program("tools", "stdio", **ALLOWED)


@pytest.fixture(params=["stdio", "http", "sse"])
def entry(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The ordinary server, over each transport."""
    if request.param == "stdio":
        yield TOOLS
        return
    with served(request.param) as url:
        yield {"type": request.param, "url": url, **ALLOWED}


def test_a_servers_tools_are_listed_and_called(tmp_path: Path, entry: dict[str, Any]) -> None:
    async def use(manager: Manager) -> None:
        catalogue = manager.catalogue()
        assert [state.state for state in catalogue.servers] == ["ready"]
        tool = catalogue.find("t__add")
        assert tool is not None
        assert (tool.server, tool.name, tool.policy, tool.description) == (
            "t",
            "add",
            "allow",
            "Adds two numbers.",
        )
        assert tool.input_schema["required"] == ["a", "b"]
        names = [each.exposed for each in catalogue.tools]
        assert names == sorted(names)
        result = await manager.call(tool, '{"a": 2, "b": 3}', request_id="r")
        assert (result.text, result.is_error, result.error) == ("5", False, None)
        many = [manager.call(tool, json.dumps({"a": n, "b": 1}), request_id="r") for n in range(20)]
        assert [each.text for each in await asyncio.gather(*many)] == [str(n + 1) for n in range(20)]

    with_manager(tmp_path, {"t": entry}, use)


def test_cancelling_a_call_cancels_it_on_the_server(tmp_path: Path, entry: dict[str, Any]) -> None:
    note = tmp_path / "note"

    async def use(manager: Manager) -> None:
        arguments = json.dumps({"note": str(note)})
        running = asyncio.create_task(manager.call_by_name("t__slow", arguments, request_id="r"))
        await until(note.exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: note.read_text() == "cancelled")
        assert (await manager.call_by_name("t__echo", '{"text": "on"}', request_id="r")).text == "on"

    with_manager(tmp_path, {"t": entry}, use)


def test_bug_118_a_tool_that_never_answers_times_out_and_holds_up_nothing(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    note = tmp_path / "note"

    async def use(manager: Manager) -> None:
        arguments = json.dumps({"note": str(note)})
        slow = asyncio.create_task(manager.call_by_name("t__slow", arguments, request_id="r"))
        assert (await manager.call_by_name("t__echo", '{"text": "meanwhile"}', request_id="r")).text == "meanwhile"
        assert not slow.done()
        result = await slow
        assert result.is_error
        assert "timed out" in result.text
        assert result.error is not None
        assert result.error["type"] == "timeout"
        await until(lambda: note.read_text() == "cancelled")

    with_manager(tmp_path, {"t": {**entry, "timeout_s": 3}}, use)


def test_progress_makes_a_call_last_longer_but_not_for_ever(tmp_path: Path, entry: dict[str, Any]) -> None:
    async def use(manager: Manager) -> None:
        arguments = json.dumps({"steps": 5, "seconds": 0.4})
        assert (await manager.call_by_name("t__steady", arguments, request_id="r")).text == "done"
        arguments = json.dumps({"steps": 600, "seconds": 0.4})
        assert "timed out" in (await manager.call_by_name("t__steady", arguments, request_id="r")).text

    with_manager(tmp_path, {"t": {**entry, "timeout_s": 1.5, "max_call_s": 3}}, use)


def test_tools_that_a_server_learns_are_in_the_catalogue(tmp_path: Path, entry: dict[str, Any]) -> None:
    async def use(manager: Manager) -> None:
        assert (await manager.call_by_name("t__learn", '{"name": "new"}', request_id="r")).text == "learned"
        await until(lambda: manager.catalogue().find("t__new") is not None)
        assert (await manager.call_by_name("t__new", '{"text": "x"}', request_id="r")).text == "x"

    with_manager(tmp_path, {"t": entry}, use)


def test_a_server_that_asks_a_person_is_told_that_there_is_none(tmp_path: Path, entry: dict[str, Any]) -> None:
    async def use(manager: Manager) -> None:
        result = await manager.call_by_name("t__wonder", "", request_id="r")
        assert result.is_error
        assert "timed out" not in result.text
        assert (await manager.call_by_name("t__echo", '{"text": "on"}', request_id="r")).text == "on"

    with_manager(tmp_path, {"t": entry}, use)


def test_bug_121_the_text_of_a_failure_goes_before_the_data_beside_it(tmp_path: Path) -> None:
    result = call(tmp_path, {"t": TOOLS}, "t__fail")
    assert result.is_error
    assert result.text == "Error: db is down"
    content = [{"type": "text", "text": "db is down"}]
    assert result.error == {"type": "mcp_tool_execution_error", "content": content}


def test_bug_122_tools_of_the_same_name_are_told_apart_and_go_to_their_own_servers(tmp_path: Path) -> None:
    servers = {"a": TOOLS, "b": TOOLS, "a.b": TOOLS, "a_b": TOOLS}

    async def use(manager: Manager) -> None:
        catalogue = manager.catalogue()
        names = [tool.exposed for tool in catalogue.tools]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)
        pids = {}
        for tool in catalogue.tools:
            if tool.name == "place":
                result = await manager.call(tool, "", request_id="r")
                pids[tool.server] = json.loads(result.text)["pid"]
        assert set(pids) == set(servers)
        assert len(set(pids.values())) == 4

    with_manager(tmp_path, servers, use)


def test_bug_123_a_name_that_is_not_there_runs_nothing(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        for name in ("t__ad", "add", "T__add", "t__add ", "t__environmen", "list_application"):
            result = await manager.call_by_name(name, '{"a": 1, "b": 2}', request_id="r")
            assert result.is_error
            assert repr(name) in result.text
            assert "Nothing was run" in result.text

    with_manager(tmp_path, {"t": TOOLS}, use)


def test_bug_131_a_tool_that_nothing_is_said_of_is_asked_for_and_a_denied_one_never_runs(tmp_path: Path) -> None:
    note = tmp_path / "note"
    said = {"tools": {"echo": "allow", "slow": "deny"}}

    async def use(manager: Manager) -> None:
        policies = {tool.name: tool.policy for tool in manager.catalogue().tools}
        assert (policies["echo"], policies["slow"], policies["environment"]) == ("allow", "deny", "ask")
        denied = await manager.call_by_name("t__slow", json.dumps({"note": str(note)}), request_id="r")
        assert denied.is_error
        assert "is not allowed" in denied.text
        assert not note.exists()

    with_manager(tmp_path, {"t": program("tools", "stdio", **said)}, use)


def test_bug_207_a_server_that_fails_is_said_by_name_and_the_others_work(tmp_path: Path) -> None:
    servers = {
        "gone": {"command": "/no/such/program"},
        "exits": program("faults", "exit"),
        "silent": program("faults", "silent", connect_timeout_s=1),
        "nobody": {"url": "http://127.0.0.1:9/mcp"},
        "off": {**TOOLS, "disabled": True},
        "time": TOOLS,
    }

    async def use(manager: Manager) -> None:
        states = {state.name: state for state in manager.catalogue().servers}
        assert {name: state.state for name, state in states.items()} == {
            "gone": "failed",
            "exits": "restarting",
            "silent": "restarting",
            "nobody": "restarting",
            "off": "disabled",
            "time": "ready",
        }
        assert "/no/such/program can't be read" in str(states["gone"].error)
        assert states["exits"].error == "it ended with exit code 3"
        assert states["silent"].error == "it did not answer within 1 s (connect_timeout_s)"
        assert "can't be reached" in str(states["nobody"].error)
        assert {tool.server for tool in manager.catalogue().tools} == {"time"}
        assert (await manager.call_by_name("time__add", '{"a": 1, "b": 1}', request_id="r")).text == "2"

    with_manager(tmp_path, servers, use)


@pytest.mark.parametrize("name", ["a.b", "bash", "get_system_info", "evaluate_metrics"])
def test_a_name_or_an_argument_is_no_reason_to_refuse(tmp_path: Path, name: str) -> None:
    text = "rm -rf /; cat /etc/passwd | `id` $(id) ~ ../../x"

    async def use(manager: Manager) -> None:
        (tool,) = (tool for tool in manager.catalogue().tools if tool.name == "echo")
        assert (await manager.call(tool, json.dumps({"text": text}), request_id="r")).text == text

    with_manager(tmp_path, {name: TOOLS}, use)


def test_arguments_of_a_program_are_passed_as_they_are_and_by_no_shell(tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    odd = [f"; touch {pwned}", f"$(touch {pwned})", f"`touch {pwned}`", "| id", "-c", "a b", "", "*", "~", "ü€😀"]
    result = call(tmp_path, {"t": program("tools", "stdio", *odd, **ALLOWED)}, "t__place")
    assert json.loads(result.text)["arguments"] == ["stdio", *odd]
    assert not pwned.exists()


def test_bad_arguments_run_nothing_and_the_server_stays(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        for arguments in ("{", "[1, 2]", '{"a": 1}', '{"a": 1, "b": 2, "c": "\\ud800"}'):
            result = await manager.call_by_name("t__add", arguments, request_id="r")
            assert result.is_error
            assert "Nothing was run" in result.text
            assert result.error is not None
            assert result.error["type"] == "invalid_arguments"
        assert (await manager.call_by_name("t__add", '{"a": 1, "b": 1}', request_id="r")).text == "2"

    with_manager(tmp_path, {"t": TOOLS}, use)


def test_no_arguments_are_an_empty_object(tmp_path: Path) -> None:
    assert not call(tmp_path, {"t": TOOLS}, "t__place", "").is_error


def test_what_a_model_reads_of_a_result_has_a_greatest_size(tmp_path: Path) -> None:
    result = call(tmp_path, {"t": {**TOOLS, "max_output": 1000}}, "t__flood", '{"size": 100000}')
    assert not result.is_error
    assert len(result.text) == 1000
    assert result.text.endswith("[cut: the whole has 100000 bytes]")


def test_a_picture_is_a_note(tmp_path: Path) -> None:
    assert call(tmp_path, {"t": TOOLS}, "t__picture").text == "look:\n[image image/png 3 kB omitted]"


def test_a_server_has_a_clean_environment_and_a_place_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OTHERS:
        monkeypatch.setenv(name, "s3cret")

    async def use(manager: Manager) -> tuple[dict[str, str], dict[str, Any]]:
        said = [await manager.call_by_name(f"t__{name}", "", request_id="r") for name in ("environment", "place")]
        environment, place = (json.loads(each.text) for each in said)
        assert Path(environment["HOME"]).stat().st_mode & 0o777 == 0o700
        return environment, place

    environment, place = with_manager(tmp_path, {"t": {**TOOLS, "env": {"OWN": "${X:-1}"}, "open_files": 99}}, use)
    added = {"LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
    assert set(environment) - added == {"PATH", "HOME", "LANG", "TERM", "OWN", "UNSPOOL_MCP_SERVER"}
    assert environment["OWN"] == "1"
    assert "/tmp" not in environment["PATH"].split(":")
    assert place["cwd"] == os.path.realpath(environment["HOME"])
    assert place["umask"] == "0o77"
    assert (place["core"], place["files"]) == (0, 99)
    assert place["privileges"] in ("NoNewPrivs:\t1", "")
    assert not Path(environment["HOME"]).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(place["pid"], 0)


def test_a_catalogue_stays_what_it_was(tmp_path: Path) -> None:
    kept: list[Catalogue] = []

    async def use(manager: Manager) -> None:
        kept.append(manager.catalogue())

    with_manager(tmp_path, {"t": TOOLS}, use)
    assert kept[0].find("t__add") is not None
    assert kept[0].servers[0].state == "ready"


def test_each_call_leaves_a_line_for_the_audit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(manager: Manager) -> None:
        for name, arguments in (
            ("t__echo", '{"text": "s3cret"}'),
            ("t__fail", ""),
            ("t__none", ""),
            ("t__add", "["),
        ):
            await manager.call_by_name(name, arguments, request_id="req-7")

    with caplog.at_level(logging.INFO, "unspool.mcp.audit"):
        with_manager(tmp_path, {"t": TOOLS}, use)
    records = [record for record in caplog.records if record.name == "unspool.mcp.audit"]
    fields = [vars(record)["fields"] for record in records]
    assert [each["outcome"] for each in fields] == ["ok", "error", "unknown", "invalid"]
    assert {each["request"] for each in fields} == {"req-7"}
    assert (fields[0]["server"], fields[0]["tool"], fields[0]["arguments_bytes"]) == ("t", "echo", 18)
    assert re.fullmatch("[0-9a-f]{64}", fields[0]["arguments_sha256"])
    assert not any("s3cret" in record.getMessage() for record in records)


def test_neither_secrets_nor_urls_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(manager: Manager) -> None:
        await manager.call_by_name("local__echo", '{"text": "x"}', request_id="r")
        await manager.call_by_name("remote__echo", '{"text": "x"}', request_id="r")

    with caplog.at_level(logging.INFO), served("http") as url:
        local = program("tools", "stdio", "--key=${KEY}", env={"KEY": "${KEY}"}, **ALLOWED)
        servers = {"local": local, "remote": {"url": f"{url}?key=${{KEY}}", **ALLOWED}}
        with_manager(tmp_path, servers, use, KEY="s3cret")
    assert "s3cret" not in caplog.text
    assert "'--key=${KEY}'" in caplog.text


def test_it_runs_on_uvloop_as_well(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, {"t": TOOLS}) as manager:
            assert (await manager.call_by_name("t__add", '{"a": 1, "b": 1}', request_id="r")).text == "2"
            crashed = await manager.call_by_name("t__crash", "", request_id="r")
            assert "it ended with exit code 3" in crashed.text
            assert (await manager.call_by_name("t__add", '{"a": 1, "b": 1}', request_id="r")).text == "2"

    uvloop.run(run())


def test_calls_wait_for_their_turn(tmp_path: Path) -> None:
    async def use(manager: Manager) -> None:
        slow = asyncio.create_task(manager.call_by_name("t__slow", "", request_id="r"))
        await asyncio.sleep(0.2)
        waiting = asyncio.create_task(manager.call_by_name("t__echo", '{"text": "on"}', request_id="r"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        slow.cancel()
        assert (await waiting).text == "on"

    with_manager(tmp_path, {"t": {**TOOLS, "concurrency": 1}}, use)


def test_nothing_is_left_when_a_start_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def run() -> set[asyncio.Task[Any]]:
        async def use() -> None:
            async with running(tmp_path, {"t": program("faults", "silent")}):
                raise AssertionError("a silent server is not ready")

        task = asyncio.create_task(use())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(run()) == set()
    assert list(tmp_path.glob("unspool-mcp-*")) == []


def test_a_manager_can_be_made_where_no_event_loop_runs(tmp_path: Path) -> None:
    manager = Manager(loaded(tmp_path, {"tools": TOOLS}))
    assert [state.state for state in manager.catalogue().servers] == ["stopped"]

    async def run() -> str:
        await manager.start()
        state = manager.catalogue().servers[0].state
        await manager.close()
        return state

    assert asyncio.run(run()) == "ready"
