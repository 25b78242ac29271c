"""``unspool serve`` as a process: what it says, what it refuses, how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.conftest import RAW, WEATHER, Run
from tests.server.process import running
from tests.server.serving import HELLO, client
from unspool.server.service import Settings

RECORDING = {"id": "weather", "format": "qwen3", "prompt_tail": "", "raw_output": RAW}


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    path = tmp_path / "some.jsonl"
    path.write_text(json.dumps(RECORDING) + "\n", encoding="utf-8")
    return path


def test_it_says_what_is_served_and_how_to_call_it(recordings: Path) -> None:
    with running("--recordings", recordings, "--delay", "0.001") as (url, banner, _):
        assert f"serves replay (hermes format) at {url}/v1" in banner
        assert "demo model" not in banner
        message = client(url).chat.completions.create(
            model="weather",
            messages=HELLO,
            tools=[WEATHER],  # type: ignore[list-item]
        )
        assert message.choices[0].finish_reason == "tool_calls"
        example = re.search(r"curl -N (.*)\n +-d '(.*)'", banner)
        assert example is not None
        answer = httpx.post(example[1].split()[0], content=example[2])
        assert answer.status_code == 200
        assert answer.content.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(recordings: Path, number: signal.Signals) -> None:
    with running("--recordings", recordings) as (url, _, process):
        httpx.get(f"{url}/health")
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stdout is not None
        assert "Traceback" not in process.stdout.read()


def test_a_key_can_come_from_the_environment(recordings: Path) -> None:
    with running("--recordings", recordings, UNSPOOL_API_KEY="secret") as (url, banner, _):
        assert httpx.get(f"{url}/v1/models").status_code == 401
        assert httpx.get(f"{url}/v1/models", headers={"x-api-key": "secret"}).status_code == 200
        assert "$UNSPOOL_API_KEY" in banner
        assert "secret" not in banner


def test_responses_are_kept_among_the_users_data_unless_told_otherwise(recordings: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running("--recordings", recordings, UNSPOOL_DATA=str(data)) as (url, banner, _):
        assert f"kept in {data / 'responses.sqlite3'}" in banner
        first = client(url).responses.create(model="weather", input="Hello")
    with running("--recordings", recordings, "--store", data / "responses.sqlite3") as (url, _, _):
        assert client(url).responses.retrieve(first.id).output_text == first.output_text
    with running("--recordings", recordings, "--store", ":memory:") as (url, banner, _):
        assert "kept in" not in banner
        assert httpx.get(f"{url}/v1/responses/{first.id}").status_code == 404


def test_without_a_place_for_data_responses_are_kept_in_memory(recordings: Path, tmp_path: Path) -> None:
    with running("--recordings", recordings, UNSPOOL_DATA=str(recordings)) as (url, banner, _):
        assert "kept in memory" in banner
        assert client(url).responses.create(model="weather", input="Hello").status == "completed"


def test_an_open_server_without_a_key_is_pointed_out(recordings: Path) -> None:
    with running("--recordings", recordings, "--host", "0.0.0.0") as (url, banner, _):
        assert "--api-key" in banner
        assert url.startswith("http://127.0.0.1:")


def test_a_busy_port_is_one_clear_line(run: Run, recordings: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run("serve", "--recordings", recordings, "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: Can't listen on 127.0.0.1, port {port}: Address already in use.")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["missing/model.gguf"], "missing/model.gguf"),
        (["--engine", "replay"], "needs --recordings"),
        (["--recordings", "nowhere.jsonl"], "'nowhere.jsonl' does not exist"),
        (["--recordings", "{recordings}", "model.gguf"], "can't serve 'model.gguf'"),
        (["--recordings", "{recordings}", "--engine", "llamacpp"], "--recordings is for --engine replay"),
        (["--recordings", "{recordings}", "--ctx", "20"], "--ctx is for --engine llamacpp; this is replay"),
        (["--recordings", "{recordings}", "--threads", "3"], "--threads is for --engine llamacpp"),
        (["--recordings", "{recordings}", "--slots", "4"], "--slots is for --engine llamacpp"),
        (["--chunking", "bogus", "model.gguf"], "--chunking is for --engine replay; this is llamacpp"),
        (["--delay", "0", "model.gguf"], "--delay is for --engine replay"),
        (["--recordings", "{binary}"], "can't be read: byte 1 is not UTF-8 text"),
        (["--recordings", "{empty}"], "are empty"),
        (["--recordings", "{recordings}", "--tool-call-parser", ""], "There is no tool parser ''"),
        (["--recordings", "{recordings}", "--reasoning-parser", ""], "There is no reasoning parser ''"),
        (["--recordings", "{recordings}", "--tool-parser-plugin", ""], "The plugin ''"),
        (["--recordings", "{recordings}", "--format", "qwen33"], "unknown format 'qwen33'"),
        (["--recordings", "{recordings}", "--chunking", "words"], "Chunking 'words' is not known"),
        (["--recordings", "{recordings}", "--chunking", "token"], "no `token_pieces`"),
        (["--recordings", "{recordings}", "--chat-template", "{bad}"], "not valid Jinja"),
        (["--recordings", "{bad}.jsonl"], "does not exist"),
        (["--recordings", "{recordings}", "--store", "{bad}"], "--store: The store"),
        (["--recordings", "{recordings}", "--store", "mysql://here"], "kind 'mysql' is not known"),
        (["--recordings", "{recordings}", "--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
        (["--port", "70000"], "--port"),
        (["--delay", "-1"], "--delay"),
        *(
            ([flag, value], f"'{flag}': {value} is not a number of seconds from 0 to 100,000,000")
            for flag in ("--delay", "--time-limit", "--idle-timeout", "--shutdown-timeout", "--heartbeat")
            for value in ("nan", "inf", "-1", "1e9")
        ),
        (["--delay", "soon"], "'soon' is not a valid float"),
        *(
            ([flag, value], f"Invalid value for '{flag}'")
            for flag in ("--api-key", "--alias", "--store", "--allow-host", "--allow-origin")
            for value in ("", " ")
        ),
        (["--api-key", " secret"], "it begins or ends with whitespace, which clients can't send"),
        (["--recordings", "{recordings}", "--store", "redis:localhost"], "redis://"),
        (["--engine", "vllm"], "--engine"),
        (["--constrain-tools", "all"], "--constrain-tools"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_whatever_is_wrong_is_one_clear_line(
    run: Run, recordings: Path, tmp_path: Path, args: list[str], complaint: str
) -> None:
    bad = tmp_path / "bad.jinja"
    bad.write_text("{% if %}")
    binary, empty = tmp_path / "binary.txt", tmp_path / "empty.txt"
    binary.write_bytes(b"\0\xff\xfe\1")
    empty.touch()
    places = {"recordings": recordings, "bad": bad, "binary": binary, "empty": empty}
    result = run("serve", "--port", "0", *(arg.format(**places) for arg in args))
    assert result.exit_code != 0
    assert complaint in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "scope"),
    [([], "strict"), *((["--constrain-tools", scope], scope) for scope in ("envelope", "schema"))],
)
def test_the_operator_says_what_calls_are_held_to(
    run: Run, recordings: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], scope: str
) -> None:
    served: list[Settings] = []
    monkeypatch.setattr("unspool.cli.serve._run", lambda engine, settings, *rest: served.append(settings))
    monkeypatch.setattr("unspool.cli.serve._log_from", lambda level, form: None)
    assert run("serve", "--port", "0", "--recordings", recordings, *args).exit_code == 0
    assert [settings.constrain_tools for settings in served] == [scope]


def test_a_recording_of_an_unknown_format_is_refused(run: Run, recordings: Path) -> None:
    recordings.write_text(json.dumps({**RECORDING, "format": "qwen33"}))
    result = run("serve", "--recordings", recordings, "--port", "0")
    assert result.exit_code == 1
    assert "unknown format 'qwen33'" in result.stderr


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_a_plugin_file_serves_as_it_does_in_vllm(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    raw = '<thought>Well.</thought>See: [[get_weather {"city": "Paris"}]]'
    path.write_text(json.dumps({"id": "a", "raw_output": raw}) + "\n", encoding="utf-8")
    flags: list[str | Path] = [
        "--enable-auto-tool-choice",
        *("--tool-parser-plugin", EXAMPLES / "my_parser.py", "--tool-call-parser", "my_parser"),
        *("--reasoning-parser-plugin", EXAMPLES / "my_reasoning.py", "--reasoning-parser", "my_reasoning"),
    ]
    with running("--recordings", path, *flags) as (url, banner, _):
        assert "(read by MyReasoningParser + MyToolParser)" in banner
        options: dict[str, Any] = {"model": "a", "messages": HELLO, "tools": [WEATHER]}
        message: Any = client(url).chat.completions.create(**options).choices[0].message
        with client(url).chat.completions.stream(**options) as stream:
            stream.until_done()
        streamed: Any = stream.current_completion_snapshot.choices[0].message
        for answer in (message, streamed):
            assert (answer.reasoning, answer.content.strip()) == ("Well.", "See:")
            assert [call.function.arguments for call in answer.tool_calls] == ['{"city": "Paris"}']


def test_parser_names_of_engines_are_a_format(recordings: Path) -> None:
    flags = ("--tool-call-parser", "qwen3_xml", "--reasoning-parser", "qwen3", "--enable-auto-tool-choice")
    with running("--recordings", recordings, *flags) as (_, banner, _):
        assert "(hermes+qwen3_coder format)" in banner


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--tool-call-parser", "hermse"], "There is no tool parser 'hermse'. Did you mean 'hermes'"),
        (["--reasoning-parser", "deepseek_r"], "Did you mean 'deepseek_r1'"),
        (["--tool-parser-plugin", "nowhere.py"], "The plugin nowhere.py can't be read"),
        (
            ["--tool-parser-plugin", EXAMPLES / "my_parser.py"],
            "--tool-parser-plugin needs --tool-call-parser NAME",
        ),
        (["--reasoning-parser-plugin", EXAMPLES / "my_reasoning.py"], "needs --reasoning-parser NAME"),
        (["--format", "qwen3", "--tool-call-parser", "mistral"], "leave out the parsers, or --format"),
        (
            ["--tool-parser-plugin", EXAMPLES / "my_parser.py", "--tool-call-parser", "my_parsre"],
            "There is no tool parser 'my_parsre'. Did you mean 'my_parser'",
        ),
    ],
)
def test_parsers_that_arent_there_are_found_first(
    run: Run, recordings: Path, flags: list[str | Path], complaint: str
) -> None:
    result = run("serve", "--recordings", recordings, *flags)
    assert result.exit_code in (1, 2)
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 403),
        (("--host", "localhost"), 403),
        (("--allow-host", "page.example"), 200),
        (("--host", "0.0.0.0"), 200),
        (("--host", "0.0.0.0", "--allow-host", "other.example"), 403),
    ],
)
def test_a_server_for_this_machine_has_no_foreign_name(
    recordings: Path, flags: tuple[str, ...], status: int
) -> None:
    with running("--recordings", recordings, *flags) as (url, _, _):
        assert httpx.get(f"{url}/v1/models", headers={"host": "page.example"}).status_code == status


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_request_is_a_line_in_the_log(recordings: Path, form: str) -> None:
    with running("--recordings", recordings, "--log-format", form) as (url, _, process):
        request_id = httpx.get(f"{url}/health").headers["x-request-id"]
        process.terminate()
        assert process.stdout is not None
        (line,) = (line for line in process.stdout.read().splitlines() if "/health" in line)
    if form == "json":
        found = json.loads(line)
        assert (found["request_id"], found["status"]) == (request_id, 200)
    else:
        assert line.startswith("INFO: GET /health 200, ")
        assert line.endswith(f"[{request_id}]")
