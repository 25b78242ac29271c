"""What the tests of the command line share: running it, and one recorded text with its tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unspool.cli.main import main

Run = Callable[..., Result]
Show = Callable[..., str]

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}

RAW = (
    "<think>\nThe user wants the weather.\n</think>\n\nLet me check.\n<tool_call>\n"
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
)


@pytest.fixture
def run() -> Run:
    """Runs ``unspool`` with these arguments, this standard input and additions to the environment."""

    def invoke(*args: str | Path, input: str | bytes | None = None, **env: str) -> Result:
        environment: dict[str, str | None] = {"FORCE_COLOR": None, "NO_COLOR": None, "COLUMNS": "100", **env}
        return CliRunner().invoke(main, [str(arg) for arg in args], input=input, env=environment)

    return invoke


@pytest.fixture
def show(run: Run) -> Show:
    """What people see of a successful run on a very wide terminal, without the styling."""

    def invoke(*args: str | Path, input: str | bytes | None = None) -> str:
        result = run(*args, input=input, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="600")
        assert (result.exit_code, result.stderr) == (0, "")
        return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)

    return invoke


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A file with reasoning, content and one call in the ``qwen3`` format."""
    path = tmp_path / "raw.txt"
    path.write_text(RAW, encoding="utf-8")
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A file that offers ``get_weather``."""
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([WEATHER]), encoding="utf-8")
    return path
