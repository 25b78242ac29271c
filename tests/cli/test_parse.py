from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RAW, Run, Show


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_piped_it_prints_the_message_as_one_json_object(run: Run, raw: Path, tools: Path) -> None:
    result = run("parse", "-f", "qwen3", "--tools", tools, raw)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    message = json.loads(result.stdout)
    (call,) = message.pop("tool_calls")
    assert message == {
        "reasoning": "The user wants the weather.",
        "content": "Let me check.",
        "finish_reason": "tool_calls",
    }
    assert call.pop("id")
    assert call == {"name": "get_weather", "arguments": '{"city": "Paris", "days": 3}'}


@pytest.mark.parametrize("file", [["-"], []])
def test_standard_input_is_read_like_a_file(run: Run, raw: Path, file: list[str]) -> None:
    assert run("parse", "-f", "qwen3", *file, input=RAW).stdout == run("parse", "-f", "qwen3", raw).stdout


def test_the_text_is_taken_exactly_as_it_is(run: Run) -> None:
    assert json.loads(run("parse", "-f", "qwen3", input="a\r\n b \n").stdout)["content"] == "a\r\n b \n"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_the_message_is_the_same_for_every_chunk_size(run: Run, raw: Path, tools: Path, size: int) -> None:
    def message(*args: str) -> Any:
        value = json.loads(run("parse", "-f", "qwen3", "--tools", tools, *args, raw).stdout)
        for call in value["tool_calls"]:
            del call["id"]
        return value

    assert message("--chunks", str(size)) == message()


def test_events_are_json_lines_that_spell_out_the_message(run: Run, raw: Path, tools: Path) -> None:
    found = events(run("parse", "-f", "qwen3", "--tools", tools, "--events", "--chunks", "3", raw).stdout)

    def text(event: str, member: str) -> str:
        return "".join(each[member] for each in found if each["event"] == event)

    assert text("ReasoningDelta", "text") == "The user wants the weather."
    assert text("ContentDelta", "text") == "Let me check."
    assert text("ToolCallDelta", "arguments") == '{"city": "Paris", "days": 3}'
    assert [each["name"] for each in found if each["event"] == "ToolCallStart"] == ["get_weather"]
    assert found[-1] == {"event": "Finish", "reason": "tool_calls", "usage": None}


def test_atomic_arguments_come_in_one_piece(run: Run, raw: Path, tools: Path) -> None:
    def deltas(mode: str) -> int:
        args = ["--tools", tools, "--events", "--chunks", "1", "--arguments", mode, raw]
        output = run("parse", "-f", "qwen3", *args).stdout
        return sum(event["event"] == "ToolCallDelta" for event in events(output))

    assert deltas("atomic") == 1
    assert deltas("incremental") > 1


def test_a_call_cut_by_the_token_limit_is_not_returned(run: Run, tools: Path) -> None:
    cut = RAW[: RAW.index("Paris")]
    result = run("parse", "-f", "qwen3", "--tools", tools, "--finish-reason", "length", input=cut)
    message = json.loads(result.stdout)
    assert message["tool_calls"] == []
    assert message["content"] == "Let me check."
    assert message["finish_reason"] == "length"
    assert "the end of the text cut off the one that had begun" in result.stderr


def test_a_character_in_two_blocks_of_standard_input_stays_whole(run: Run) -> None:
    text = "x" + "é" * 70_000  # the read size is even, so a block ends inside of a character
    assert json.loads(run("parse", "-f", "qwen3", input=text).stdout)["content"] == text


@pytest.mark.parametrize(
    ("data", "byte"),
    [(b"abc\xff", 3), (b"\xc3\xa9" * 40_000 + b"\xff", 80_000), (b"ab\xe2\x82", 2)],
)
def test_text_that_is_not_utf8_is_named_by_the_byte(run: Run, tmp_path: Path, data: bytes, byte: int) -> None:
    path = tmp_path / "raw.txt"
    path.write_bytes(data)
    for file, name in [(str(path), str(path)), ("-", "standard input")]:
        result = run("parse", "-f", "qwen3", file, input=data)
        assert (result.exit_code, result.stderr) == (2, f"Error: {name}: byte {byte} is not UTF-8 text\n")


def test_events_appear_while_standard_input_is_still_open() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "unspool", "parse", "-f", "qwen3", "--events", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # If it waited for the end of its input, so would this test.
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        for piece in ["First. ", "Second. "]:
            process.stdin.write(piece)
            process.stdin.flush()
            shown = ""
            while shown != piece:
                shown += json.loads(process.stdout.readline())["text"]
        process.stdin.close()
        rest = events(process.stdout.read())
        watchdog.cancel()
    assert rest[-1] == {"event": "Finish", "reason": "stop", "usage": None}


def test_for_people_each_part_is_a_panel_and_arguments_are_indented(show: Show, raw: Path, tools: Path) -> None:
    shown = show("parse", "-f", "qwen3", "--tools", tools, raw)
    for part in ["reasoning", "The user wants the weather.", "content", "Let me check.", "call get_weather"]:
        assert part in shown
    assert '  "city": "Paris",' in shown
    assert "finish tool_calls" in shown


def test_colour_can_be_forced_and_json_wins_over_it(run: Run, raw: Path) -> None:
    assert "\x1b[" in run("parse", "-f", "qwen3", raw, FORCE_COLOR="1", TERM="xterm").stdout
    assert json.loads(run("parse", "-f", "qwen3", "--json", raw, FORCE_COLOR="1").stdout)


def test_for_people_each_event_is_one_line(run: Run, show: Show, raw: Path, tools: Path) -> None:
    args = ["parse", "-f", "qwen3", "--tools", tools, "--events", raw]
    lines = show(*args).splitlines()
    assert len(lines) == len(events(run(*args).stdout))
    assert lines[0] == 'reasoning   "The user wants the weather."'
    assert lines[-1] == "finish      tool_calls"


def test_an_empty_text_is_said_to_be_empty(show: Show) -> None:
    assert "nothing: no reasoning, no content, no call" in show("parse", "-f", "qwen3", input="")


@pytest.mark.parametrize("flags", [[], ["--events"]])
def test_control_characters_never_reach_a_terminal(show: Show, flags: list[str]) -> None:
    shown = show("parse", "-f", "qwen3", *flags, input="a\x1b]0;x\x07\x9b31mb")
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_call_that_was_not_offered_is_explained(run: Run, show: Show, raw: Path) -> None:
    note = "No call was found because no tools were offered: with --tools there would be a call of get_weather."
    result = run("parse", "-f", "qwen3", raw)
    assert "<tool_call>" in json.loads(result.stdout)["content"]
    assert result.stderr == f"Note: {note}\n"
    assert note in show("parse", "-f", "qwen3", raw)
