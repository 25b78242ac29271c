"""Writes docs/formats: one page a format, and the page that lists them; and how many there are into the documents
that say so. To bring them up to date::

python -m tests.cli.format_pages
"""

from __future__ import annotations

import re
from pathlib import Path

import unspool
from unspool.cli.format_page import index, page

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "formats"
COUNTING = (ROOT / "README.md", ROOT / "CHANGELOG.md")


def rendered() -> dict[str, str]:
    """The pages as they must be, by file name."""
    formats = unspool.formats()
    return {"README.md": index(formats), **{f"{fmt.name}.md": page(fmt) for fmt in formats}}


def counted(document: str) -> str:
    """The document with the number of formats as it is now."""
    return re.sub(r"\b\d+(?= formats\b)", str(len(unspool.formats())), document, count=1)


if __name__ == "__main__":
    for path in PAGES.glob("*.md"):
        path.unlink()
    for name, text in rendered().items():
        (PAGES / name).write_text(text, encoding="utf-8")
    for path in COUNTING:
        path.write_text(counted(path.read_text(encoding="utf-8")), encoding="utf-8")
