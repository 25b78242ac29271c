"""Files of servers, for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unspool.mcp.config import load_config
from unspool.mcp.settings import McpConfig


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a file another user's, or this user another one than the file's."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)


def written(folder: Path, text: str, name: str = "mcp.json") -> Path:
    """A file that nobody else may write, in a folder that nobody else may write."""
    folder.chmod(0o700)
    path = folder / name
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    return path


def loaded(folder: Path, servers: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> McpConfig:
    """What a file with these servers says."""
    return load_config(written(folder, json.dumps({"mcpServers": servers})), environment or {})
