"""MCP servers for tests: real ones, and ones with faults, each a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SERVERS = Path(__file__).with_name("servers")


def program(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """The entry of a server that is a script beside the tests.

    The interpreter may lie where others can write, which is not what these tests are about.
    """
    path = SERVERS / f"{name}.py"
    assert path.is_file()
    return {"command": sys.executable, "args": [str(path), *args], "trustPath": True, **more}
