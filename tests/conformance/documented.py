"""What ``docs/conformance.md`` says, for the tests that hold it to the truth."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")


def table_below(heading: str) -> str:
    """The first table below the heading of this name: all of its rows."""
    _, section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)
    found = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert found, f"there is no table below {heading!r}"
    return found[0].rstrip("\n")


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
