from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Show

CODER = "<tool_call>\n<function={{ name }}>\n<parameter={{ key }}>\n{{ '<|im_start|>assistant\\n' }}"


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chat_template.jinja"
    path.write_text(CODER, encoding="utf-8")
    return path


def test_piped_it_prints_what_was_found_as_json(run: Run, template: Path) -> None:
    for path in (template, template.parent):
        result = run("detect", path)
        assert (result.exit_code, result.stderr) == (0, "")
        assert json.loads(result.stdout) == {
            "format": "qwen3_coder",
            "where": "chat template",
            "evidence": ["<tool_call>", "<function=", "<parameter="],
            "shows_calls": True,
            "reason": 'the chat template has "<tool_call>", "<function=" and "<parameter="',
        }


def test_for_people_it_says_the_name_and_why(show: Show, template: Path) -> None:
    name, reason = show("detect", template).splitlines()
    assert name.startswith("qwen3_coder  ")
    assert reason == 'the chat template has "<tool_call>", "<function=" and "<parameter="'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 'plain' }}", "no known format fits the chat template"),
        ("{{ '<tool_call>[TOOL_CALLS]' }}", "the chat template fits several formats equally well: hermes, by"),
    ],
)
def test_what_cannot_be_told_is_an_error(run: Run, template: Path, text: str, message: str) -> None:
    template.write_text(text, encoding="utf-8")
    result = run("detect", template)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {message}")


def test_what_cannot_be_read_is_bad_input(run: Run, tmp_path: Path) -> None:
    result = run("detect", tmp_path)
    assert result.exit_code == 2
    assert "no tokenizer_config.json" in result.stderr
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"a": ' + "9" * 5000 + "}", encoding="utf-8")
    result = run("detect", config)
    assert (result.exit_code, result.stderr) == (2, f"Error: {config}: a number has more than 4300 digits\n")
