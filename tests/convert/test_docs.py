"""The page about datasets: its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text("utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(example, "datasets.md", "exec"), {})
    assert capsys.readouterr().out == (
        "{'text': [{'role': 'assistant', 'content': 'Hello.', 'reasoning_content': 'A greeting.'}]} ()\n"
    )
