"""The page's examples run, and say what they claim."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from unspool.compat import standins

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compat.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    claims = re.findall(r"\)  # (.*)$", block, re.MULTILINE)
    assert claims
    for claim in claims:
        assert claim in printed.getvalue()


def test_the_modules_that_plugins_may_import_are_named() -> None:
    for name in ("tool_parsers", "reasoning", "logger", "envs", "utils", "tokenizers", "sampling_params"):
        assert f"`vllm.{name}`" in PAGE
        assert f"vllm.{name}" in standins.modules("vllm")
