from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Run
from unspool.cli.main import SUBCOMMANDS, main


def test_help_names_every_command(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name, command in SUBCOMMANDS.items():
        assert name in result.stdout
        assert command.summary in result.stdout


def test_without_arguments_it_prints_its_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == run("--help").stdout


def test_help_imports_nothing_from_outside_but_click() -> None:
    code = """if True:
        import sys
        before = set(sys.modules)
        from unspool.cli.main import main
        try:
            main(["--help"])
        except SystemExit:
            pass
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*sorted(new - sys.stdlib_module_names), file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["click", "unspool"]


def test_a_summary_is_the_commands_own_first_sentence() -> None:
    context = click.Context(main)
    for name, listed in SUBCOMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200) == listed.summary


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version").stdout == f"unspool {version('unspool')}\n"


def test_module_runs_like_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unspool", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"unspool {version('unspool')}\n"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["prase"], "Error: No such command 'prase'; did you mean 'parse'?"),
        (
            ["quux"],
            "Error: No such command 'quux'; there are parse, explain, formats, detect, lint, convert, grammar, ",
        ),
        (["parse"], "Error: which format? Give -f NAME, or --reasoning-format and --tool-format;"),
        (["parse", "-f", "qwen3", "no-such-file"], "Error: Invalid value for '[FILE]': File 'no-such-file'"),
        (["parse", "-f", "qwen3", "--chunks", "0"], "Error: Invalid value for '--chunks': 0 is not in"),
        (
            ["explain", "-f", "qwen3", "--finish-reason", "x"],
            "Error: Invalid value for '--finish-reason': 'x'",
        ),
        (["formats", "show"], "Error: Missing argument 'NAME'."),
    ],
)
def test_a_wrong_command_line_gives_one_line_and_exit_2(run: Run, args: list[str], line: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["parse", "-f"], ["explain", "-f"], ["formats", "show"]])
def test_an_unknown_format_suggests_a_near_one(run: Run, command: list[str]) -> None:
    result = run(*command, "qwen33")
    assert result.exit_code == 2
    assert "qwen33" in result.stderr
    assert "qwen3" in result.stderr.replace("qwen33", "")
    assert result.stderr.count("\n") == 1


def test_an_interrupt_ends_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "unspool", "parse", "-f", "qwen3", "--events", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"Hello there.")
        process.stdin.flush()
        process.stdout.readline()  # now it waits for more
        process.send_signal(signal.SIGINT)
        process.wait()
        assert process.returncode == 130
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "command", ["parse -f qwen3 '{raw}'", "convert --from qwen3 --to openai '{rows}'", "--help"]
)
def test_a_full_disk_is_one_line(tmp_path: Path, raw: Path, command: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "Hi."}\n', encoding="utf-8")
    shell = f"'{sys.executable}' -m unspool {command.format(raw=raw, rows=rows)} > /dev/full"
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: Writing failed: No space left on device\n")


def test_a_reader_that_stops_early_is_no_error(raw: Path) -> None:
    command = f"'{sys.executable}' -m unspool parse -f qwen3 --events --chunks 1 '{raw}' | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_format_that_can_not_be_loaded_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unspool", "formats", "--find", "glm47"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "UNSPOOL_FORMATS": "gone.toml"},
    )
    assert done.stderr.startswith("Warning: no format from gone.toml (in UNSPOOL_FORMATS): ")
    assert len(done.stderr.splitlines()) == 1
