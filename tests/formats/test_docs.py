"""The pages about detection and response templates: each example runs by itself, as it is pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text("utf-8") for name in ("detection.md", "response-template.md")}
EXAMPLES = {
    f"{name} {number}": example
    for name, page in PAGES.items()
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S))
}


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    exec(EXAMPLES[name], {})
    claims = re.findall(r"^print\(.*\)  # (.*)$", EXAMPLES[name], re.MULTILINE)
    assert claims
    assert capsys.readouterr().out.splitlines() == claims
