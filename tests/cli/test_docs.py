from __future__ import annotations

import re
import runpy
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import click
import pytest

import unspool
from tests.cli import format_pages
from tests.cli.conftest import Run
from tests.cli.documented import ROOT, commands, on_terminal, rendered
from unspool.cli.main import SUBCOMMANDS, main

PAGE = ROOT / "docs" / "cli.md"
ADDING = ROOT / "docs" / "adding-a-format.md"
DECLARED = {
    "toml": ROOT / "docs" / "examples" / "my_model.toml",
    "python": ROOT / "docs" / "examples" / "my_model.py",
}


@pytest.mark.parametrize("path", [PAGE, ADDING], ids=lambda path: path.name)
def test_a_page_shows_what_its_commands_print(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert rendered(page) == page, "run: make docs"


def test_the_page_of_each_format_is_what_its_declaration_makes() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in format_pages.PAGES.glob("*.md")}
    assert pages == format_pages.rendered(), "run: make docs"


@pytest.mark.parametrize("path", format_pages.COUNTING, ids=lambda path: path.name)
def test_a_document_says_how_many_formats_there_are(path: Path) -> None:
    document = path.read_text(encoding="utf-8")
    assert f"{len(unspool.formats())} formats" in document, "run: make docs"
    assert format_pages.counted(document) == document, "run: make docs"


def test_the_page_on_adding_a_format_shows_its_files() -> None:
    page = ADDING.read_text(encoding="utf-8")
    for kind in ("toml", "python"):
        declared = DECLARED[kind].read_text(encoding="utf-8")
        assert f"`{DECLARED[kind].relative_to(ROOT)}`:\n\n```{kind}\n{declared}```" in page
    assert f"It takes {len(DECLARED['toml'].read_text(encoding='utf-8').splitlines())} lines." in page


def test_its_example_runs(
    clean_registry: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example, _ = re.findall(r"```python\n(.*?)```", ADDING.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(ROOT)
    exec(example, {})
    assert capsys.readouterr().out == "Hm. Hello.\n"


def test_both_its_files_declare_the_same() -> None:
    loaded = unspool.load_format(DECLARED["toml"])
    (declared,) = runpy.run_path(str(DECLARED["python"]))["FORMATS"]
    assert declared.quirks
    assert replace(declared, source="", quirks=()) == loaded


def test_its_command_runs_the_laws_over_the_format() -> None:
    (command,) = re.findall(r"^UNSPOOL_FORMATS=.*$", ADDING.read_text(encoding="utf-8"), re.MULTILINE)
    here = command.replace(".venv/bin/pytest", f"'{sys.executable}' -m pytest -p no:cacheprovider")
    done = subprocess.run(here, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)


def test_the_page_has_the_help_of_every_command() -> None:
    shown = commands(PAGE.read_text(encoding="utf-8"))
    assert "unspool --help" in shown
    for name in SUBCOMMANDS:
        assert f"unspool {name} --help" in shown
        command = main.get_command(click.Context(main), name)
        for deeper in getattr(command, "commands", {}):
            assert f"unspool {name} {deeper} --help" in shown


def test_the_picture_shows_what_explain_draws(run: Run) -> None:
    docs = ROOT / "docs"
    args = ["-f", "qwen3", "--tools", docs / "examples" / "tools.json", docs / "examples" / "qwen3.txt"]
    drawn = ET.fromstring(run("explain", "--svg", *args).stdout)
    pictured = ET.fromstring((docs / "explain.svg").read_text(encoding="utf-8"))
    assert list(pictured.itertext()) == list(drawn.itertext())


def test_a_changed_output_is_noticed_and_other_text_is_left_alone() -> None:
    command = "$ printf '\\033[1mbold\\033[0m  \\n'"
    rest = "\n```console\n```\nafter\n\n```text\n```\n"
    before = f"before\n\n```console\n$ echo new\nold\n{command}\n```\n{rest}"
    after = f"before\n\n```console\n$ echo new\nnew\n\n{command}\nbold\n```\n{rest}"
    assert rendered(before) == after
    assert rendered(after) == after


def test_documented_commands_run_on_a_terminal() -> None:
    assert on_terminal("test -t 1 && test -t 2 && echo terminal") == "terminal\n"
