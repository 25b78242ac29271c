"""The page about templates: its example runs, and its numbers are those of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.formats.test_official_templates import ROWS
from tests.lint.test_official_templates import findings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/templates.md").read_text("utf-8")


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(example, "templates.md", "exec"), {})
    assert capsys.readouterr().out == 'text and a call content "Let me look that up." nothing\n'


def test_the_numbers_are_those_of_the_table() -> None:
    checked = {name for _, name, expected in ROWS if expected != "-"}
    held = len(checked - set(findings()))
    assert f"Of {len(checked)} templates whose format shows, {held} hold in every case." in PAGE
