"""The README's examples work when pasted."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import unspool

TEXT = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
OFFLINE = [block for block in BLOCKS if "OpenAI" not in block]


def test_it_says_how_many_formats_there_are() -> None:
    (said,) = re.findall(r"\[(\d+) formats\]", TEXT)
    assert int(said) == len(unspool.formats())


def test_there_are_examples() -> None:
    assert len(OFFLINE) == 2


@pytest.mark.parametrize("block", OFFLINE)
def test_an_example_runs(block: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    assert printed.getvalue().strip()
    for claim in re.findall(r"#\s\s?(.*)$", block, re.MULTILINE):
        assert claim in printed.getvalue()


def test_the_examples_of_constraints_run() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "constrained.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert blocks
    for block in blocks:
        test_an_example_runs(block)
