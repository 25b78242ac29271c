from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RAW, Run

ROW = {"completion": RAW}


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rows_are_read_and_written_as_json_lines(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\ufeff" + lines(ROW) + "\n" + lines(ROW), encoding="utf-8")
    result = run("convert", "--from", "qwen3", "--to", "openai", data)
    assert result.exit_code == 0
    assert result.stderr == "2 rows: 2 without loss, 0 with losses, 0 left out\n"
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == second
    (message,) = first["completion"]
    assert (message["reasoning_content"], message["content"]) == ("The user wants the weather.", "Let me check.")
    piped = run("convert", "--from", "qwen3", "--to", "openai", input=data.read_text("utf-8"))
    assert piped.stdout == result.stdout


def test_the_output_can_be_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    result = run("convert", "--from", "qwen3", "--to", "mistral", "-o", path, "-", input=lines({"text": "é"}))
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.read_text(encoding="utf-8") == '{"text": "é"}\n'
    result = run("convert", "--from", "qwen3", "--to", "mistral", "-o", tmp_path / "no" / "where", input="")
    assert result.exit_code == 2
    assert "where: No such file or directory" in result.stderr


def test_the_output_may_be_what_is_read(run: Run, tmp_path: Path) -> None:
    path, link, second = tmp_path / "data.jsonl", tmp_path / "link.jsonl", tmp_path / "second.jsonl"
    for name in (path, link, second):
        path.write_text(lines(ROW), encoding="utf-8")
        path.chmod(0o640)
        if name == link:
            link.symlink_to(path)
        elif name == second:
            second.hardlink_to(path)
        result = run("convert", "--from", "qwen3", "--to", "openai", "-o", name, path)
        assert result.exit_code == 0
        assert isinstance(json.loads(name.read_text("utf-8"))["completion"], list)
        assert name.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    path.write_text(lines(ROW), encoding="utf-8")
    command = f"'{sys.executable}' -m unspool convert --from qwen3 --to openai -o '{path}' < '{path}'"
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert isinstance(json.loads(path.read_text("utf-8"))["completion"], list)


def test_what_goes_wrong_leaves_the_output_as_it_was(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("old", encoding="utf-8")
    result = run("convert", "--from", "qwen3", "--to", "openai", "-o", path, input=lines(ROW) + "{")
    assert result.exit_code == 2
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_output_may_be_no_ordinary_file(run: Run) -> None:
    assert run("convert", "--from", "qwen3", "--to", "openai", "-o", "/dev/null", input=lines(ROW)).exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_halves_of_surrogate_pairs_stay_what_they_are(run: Run) -> None:
    result = run("convert", "--from", "qwen3", "--to", "openai", input='{"text": "\\ud800"}\n')
    assert result.exit_code == 0
    assert result.stdout == '{"text": [{"role": "assistant", "content": "\\ud800"}]}\n'
    call = {"name": "f", "arguments": '{"a": "\ud800"}'}
    row = {"messages": [{"role": "assistant", "content": None, "function_call": call}]}
    result = run("convert", "--from", "openai", "--to", "hermes", input=lines(row))
    assert result.exit_code == 0
    assert "\\ud800" in result.stdout


def test_losses_are_told_with_line_and_reason_and_counted(run: Run, tools: Path) -> None:
    bad = {"text": '<tool_call>{"name": "f", "arguments": {"a b": 1}}</tool_call>'}
    args = ["convert", "--from", "qwen3", "--to", "pythonic", "--tools", tools]
    data = lines({"text": "Hi."}, {"text": "<think>\nHm.\n</think>\n\nHi."}, bad)
    result = run(*args, input=data)
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [{"text": "Hi."}, {"text": "Hi."}]
    assert result.stderr.splitlines() == [
        "line 2: `text`: pythonic has no reasoning, so it is left out",
        "line 3: `text`: tool_calls[0]: 'a b' is no Python keyword, so a call of 'f' can't be written",
        "3 rows: 1 without loss, 1 with losses, 1 left out",
    ]
    assert run(*args, "--strict", input=data).exit_code == 1
    assert run(*args, "--strict", input=lines({"text": "Hi."})).exit_code == 0


def test_a_start_that_the_prompt_opens_is_said(run: Run) -> None:
    result = run("convert", "--from", "qwen3", "--to", "qwen3_5", input=lines({"text": "Hi."}))
    assert json.loads(result.stdout) == {"text": "\n</think>\n\nHi."}
    assert result.stderr.startswith(
        "Note: the text goes on after '<think>\\n', with which prompts of qwen3_5 end.\n"
    )


def test_rows_are_written_as_they_are_read(run: Run) -> None:
    result = run("convert", "--from", "qwen3", "--to", "openai", input=lines({"text": "Hi."}) + "{")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {"text": [{"role": "assistant", "content": "Hi."}]}
    assert result.stderr == (
        "Error: line 2, column 2: not JSON: Expecting property name enclosed in double quotes\n"
    )


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(lines(*[{"text": "word " * 1000}] * 1000), encoding="utf-8")
    command = f"'{sys.executable}' -m unspool convert --from qwen3 --to mistral '{data}' | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("args", "data", "message"),
    [
        (["--from", "qwen33", "--to", "openai"], "", "unknown format 'qwen33'"),
        (["--from", "qwen3", "--to", "mistral+gpt_oss"], "", "can't be combined"),
        (["--from", "qwen3"], "", "Missing option '--to'"),
        (["--from", "qwen3", "--to", "openai"], '{"a": 1}', "line 1: a row must have 'messages'"),
        (["--from", "qwen3", "--to", "openai"], "[" * 100_000, "line 1: nested too deeply"),
        (["--from", "qwen3", "--to", "openai"], b'{"text": ""}\n{\xff', "line 2: byte 1 is not UTF-8 text"),
        (["--from", "qwen3", "--to", "openai"], '{"text": ' + "9" * 5000 + "}", "line 1: a number has more than "),
        (["--from", "qwen3", "--to", "openai", "--field", "b"], '{"a": 1}', "line 1: `b`: the row has no such"),
        (
            ["--from", "qwen3", "--to", "openai"],
            '{"conversations": [{"from": ["x"]}]}',
            "line 1: `conversations[0]`",
        ),
    ],
)
def test_bad_input_is_one_line(run: Run, args: list[str], data: str | bytes, message: str) -> None:
    result = run("convert", *args, input=data)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
