"""Files of servers, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unspool.mcp.config import load_config
from unspool.mcp.settings import McpConfig


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
