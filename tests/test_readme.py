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


def named() -> list[str]:
    """The families and versions of its list; ``GLM-4.5, 5`` is two."""
    names = []
    for listed in re.findall(r"^- (.* · .*)$", TEXT, re.MULTILINE):
        for family in listed.split(" · "):
            first, *versions = family.split(", ")
            stem = re.sub(r"(?<=[ -])\w[\w.]*$|[\d.]+$", "", first)
            names += [first, *(stem + version for version in versions)]
    return names


@pytest.mark.parametrize("name", named())
def test_each_name_it_lists_leads_to_a_format_however_it_is_parted(name: str) -> None:
    fmt = unspool.get_format(name)
    assert all(unspool.get_format(re.sub("[-. ]", parting, name)) == fmt for parting in "-. _")


def test_there_are_examples() -> None:
    assert len(OFFLINE) == 2


@pytest.mark.parametrize("block", OFFLINE)
def test_an_example_runs(block: str) -> None:
    run(block, {})


def run(block: str, names: dict[str, object]) -> None:
    """Runs an example, which has to print what its comments say; ``names`` are those of examples before it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, names)
    assert printed.getvalue().strip()
    for claim in re.findall(r"#\s\s?(.*)$", block, re.MULTILINE):
        assert claim in printed.getvalue()


def test_a_test_runs_the_examples_of_every_guide() -> None:
    root = Path(__file__).parents[1]
    guides = [path.name for path in (root / "docs").glob("*.md") if "```python\n" in path.read_text("utf-8")]
    runners = [text for path in root.glob("tests/**/test_*.py") if "exec(" in (text := path.read_text("utf-8"))]
    assert guides
    assert not [name for name in guides if not any(f'{name}"' in text for text in runners)]


def test_the_examples_of_constraints_run() -> None:
    guide = (Path(__file__).parents[1] / "docs" / "constrained.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        run(block, names)
