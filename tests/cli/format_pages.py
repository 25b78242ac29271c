"""Writes docs/formats: one page a format, and the page that lists them. To bring them up to date::

python -m tests.cli.format_pages
"""

from __future__ import annotations

from pathlib import Path

import unspool
from unspool.cli.format_page import index, page

PAGES = Path(__file__).parents[2] / "docs" / "formats"


def rendered() -> dict[str, str]:
    """The pages as they must be, by file name."""
    formats = unspool.formats()
    return {"README.md": index(formats), **{f"{fmt.name}.md": page(fmt) for fmt in formats}}


if __name__ == "__main__":
    for path in PAGES.glob("*.md"):
        path.unlink()
    for name, text in rendered().items():
        (PAGES / name).write_text(text, encoding="utf-8")
