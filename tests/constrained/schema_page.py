"""The tables of ``docs/schema.md``, measured on JSON-Schema-Test-Suite. To bring them up to date::

    python -m tests.constrained.schema_page

Only columns of backends that are installed are measured; the others stay as they are. Without the suite, whose
place :mod:`tests.constrained.suite` says, the page stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.constrained.claims import CLAIMS
from tests.constrained.suite import ABSENT, DATA, ROOT, Tally, measure

PAGE = ROOT / "docs" / "schema.md"
COLUMNS = {
    "llguidance": ("llguidance", True),
    "llguidance, offered": ("llguidance", False),
    "xgrammar": ("xgrammar", True),
    "lm-format-enforcer": ("lm-format-enforcer", True),
}
"""Which backend a column is of, and whether the schemas were demanded."""
_MODULES = {"lm-format-enforcer": "lmformatenforcer"}
_TABLE = re.compile(r"^\| (keyword|format) \|.*\n(?:\|.*\n?)+", re.MULTILINE)


def is_installed(backend: str) -> bool:
    """Whether a backend can be measured here."""
    return find_spec(_MODULES.get(backend, backend)) is not None


def cell(tally: Tally) -> str:
    """Valid instances accepted, invalid ones kept out (and found afterwards), schemas refused."""
    if tally.refused == tally.schemas:
        return "all refused"
    found = f"+{tally.found}" if tally.found else ""
    refused = f", {tally.refused}/{tally.schemas} refused" if tally.refused else ""
    return f"{tally.accepted}/{tally.valid}, {tally.rejected}{found}/{tally.invalid}{refused}"


def rendered(page: str, tallies: dict[str, dict[str, Tally]]) -> str:
    """The page with the columns of ``tallies`` as measured."""

    def table(found: re.Match[str]) -> str:
        head = found[1]
        old = {row[0]: row for row in map(_cells, found[0].splitlines()[2:])}
        lines = [[head, "claim", *COLUMNS], ["---"] * (len(COLUMNS) + 2)]
        for name, claim in CLAIMS.items():
            kind, _, plain = name.rpartition(": ")
            if (head == "format") == bool(kind):
                kept = dict(zip(COLUMNS, old.get(plain, [""] * len(lines[0]))[2:], strict=True))
                now = {column: cell(tally[name]) for column, tally in tallies.items()}
                lines.append([plain, claim.claim, *(kept | now).values()])
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    return _TABLE.sub(table, page)


def measured(data: Path = DATA, note: Callable[[str], object] = lambda _: None) -> dict[str, dict[str, Tally]]:
    """The tallies of every column that can be measured here."""
    tallies = {}
    for column, (backend, strict) in COLUMNS.items():
        if is_installed(backend):
            tallies[column] = measure(backend, strict, data)
        else:
            note(f"{backend} is not installed; its column stays as it is.")
    return tallies


def _cells(line: str) -> list[str]:
    return [part.strip() for part in line.strip("|").split("|")]


if __name__ == "__main__":
    if DATA.is_dir():
        PAGE.write_text(rendered(PAGE.read_text("utf-8"), measured(note=print)), "utf-8")
    else:
        print(f"docs/schema.md stays as it is. {ABSENT}")
