from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.documented import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "chat_template.jinja"


Shown = Callable[[Path], tuple[int, str]]


@pytest.fixture
def shown(run: Run) -> Shown:
    """The exit status and what people see, without the styling."""

    def invoke(path: Path) -> tuple[int, str]:
        result = run("lint", path, FORCE_COLOR="1", COLUMNS="200")
        return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)

    return invoke


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """The template of the documentation with its fault mended."""
    text = EXAMPLE.read_text("utf-8")
    faulty = "{%- else %}\n{{- message.content }}\n{%- endif %}\n{{- '<|im_end|>\\n' }}"
    assert faulty in text
    text = text.replace(faulty, "{%- endif %}\n{{- '<|im_end|>\\n' }}")
    text = text.replace("{%- if message.tool_calls %}", "{{- message.content }}\n{%- if message.tool_calls %}")
    path = tmp_path / "chat_template.jinja"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_template_whose_round_trips_hold_is_a_success(run: Run, template: Path) -> None:
    for path in (template, template.parent):
        result = run("lint", path)
        assert (result.exit_code, result.stderr) == (0, "")
        told = json.loads(result.stdout)
        assert (told["holds"], told["format"], told["notes"]) == (True, "hermes", [])
        assert {each["outcome"] for each in told["results"]} == {"holds"}


def test_a_difference_is_a_failure_and_told_with_its_place(run: Run) -> None:
    result = run("lint", EXAMPLE)
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert not told["holds"]
    (bad,) = (each for each in told["results"] if each["outcome"] == "differs")
    assert bad["case"] == "text and a call"
    assert bad["differences"] == [
        {
            "what": "content",
            "expected": '"Let me look that up."',
            "got": "nothing",
            "start": None,
            "end": None,
            "became": None,
        }
    ]


def test_for_people_each_case_is_a_line(shown: Shown, template: Path) -> None:
    template.write_text(template.read_text("utf-8").replace('{"name": "', '{"tool": "'), encoding="utf-8")
    code, text = shown(template)
    lines = text.splitlines()
    assert code == 1
    assert lines[0] == "read as hermes"
    assert "holds    answer" in lines
    assert "differs  one call" in lines
    assert any("get_weather" in line and "no call: the object has no name" in line for line in lines)
    assert lines[-1] == "4 round trips hold, 6 don't"


def test_notes_are_shown(shown: Shown, template: Path) -> None:
    text = template.read_text("utf-8").replace("if message.reasoning_content", "if false")
    template.write_text(text, encoding="utf-8")
    _, seen = shown(template)
    assert "\n- reasoning of earlier turns is left out of the prompt" in seen
    assert "\n         - the template leaves reasoning out of the history" in seen


def test_another_format_can_be_named(run: Run, template: Path) -> None:
    told = json.loads(run("lint", template, "-f", "qwen3_coder").stdout)
    assert told["format"] == "qwen3_coder"
    assert not told["holds"]


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("{{ 'plain' }}", [], "no known format fits the chat template"),
        ("{{ '<tool_call>[TOOL_CALLS]' }}", [], "Give it as --format."),
        ("{{ '<tool_call>' }}\n{% if %}", [], "not valid Jinja: line 2: "),
        ("{{ '<tool_call>' }}", ["-f", "qwen33"], "unknown format 'qwen33'"),
    ],
)
def test_what_cannot_be_checked_is_bad_input(
    run: Run, template: Path, text: str, args: list[str], message: str
) -> None:
    template.write_text(text, encoding="utf-8")
    result = run("lint", template, *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_checkpoint_without_a_template_is_bad_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    result = run("lint", tmp_path, "-f", "hermes")
    assert result.exit_code == 2
    assert "there is no chat template to try" in result.stderr
    config = tmp_path / "tokenizer_config.json"
    assert run("lint", config).stderr == f"Error: {config}: there is no chat template to try\n"
    config.unlink()
    nothing = "no tokenizer_config.json and no chat_template.jinja in this directory"
    assert run("lint", tmp_path).stderr == f"Error: {tmp_path}: {nothing}\n"


def test_a_template_that_refuses_everything_holds_nothing(run: Run, template: Path) -> None:
    template.write_text("{{ raise_exception('no') }}", encoding="utf-8")
    result = run("lint", template, "-f", "hermes")
    assert result.exit_code == 1
    assert not json.loads(result.stdout)["holds"]


def test_a_missing_package_is_named(run: Run, template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith("unspool.lint") or name == "unspool.server.template"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run("lint", template)
    assert result.exit_code == 1
    assert result.stderr == 'Error: Templates need jinja2; run: pip install "unspool[server]"\n'
