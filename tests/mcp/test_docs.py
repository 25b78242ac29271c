"""The page on the operator's file says what the code does."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests.mcp.files import written
from unspool.mcp.config import load_config
from unspool.mcp.credentials import SECRETS
from unspool.mcp.settings import ClientCredentials, Limits, McpConfig

PAGE = (Path(__file__).parents[2] / "docs" / "mcp-servers.md").read_text("utf-8")
ROWS = [re.split(r"\s*\|\s*", row.strip("| ")) for row in PAGE.splitlines() if row.startswith("| `")]
EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
NAMES = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}


def test_each_limit_is_there_with_its_default() -> None:
    shown = {name: row[1] for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    for field in dataclasses.fields(Limits):
        assert shown[field.name] == ("" if field.default is None else str(field.default).removesuffix(".0"))
    assert f"of all servers together: {McpConfig(Path(), ()).concurrency}" in PAGE


def test_its_example_is_read(tmp_path: Path) -> None:
    example, _ = EXAMPLES
    config = load_config(written(tmp_path, example), {"TICKETS_TOKEN": "x"})
    assert [server.name for server in config.servers] == ["files", "tickets"]
    assert config.warnings == ()


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_no_key_that_it_names_is_unknown(tmp_path: Path, transport: str) -> None:
    local = NAMES & {"command", "args", "env", "envFile", "cwd", "home", "sha256", "trustPath"}
    remote = NAMES & {"url", "serverUrl", "httpUrl", "headers", "auth"}
    assert (len(local), len(remote)) == (8, 5)
    others = remote if transport == "stdio" else local
    said: dict[str, object] = dict.fromkeys(NAMES - others - {"type", "transport"})
    said |= {"command": "x"} if transport == "stdio" else {"url": "http://h/"}
    config = load_config(written(tmp_path, json.dumps({"mcpServers": {"s": said}})), {})
    assert config.warnings == ()


def test_each_key_of_auth_is_there_and_its_example_is_read(tmp_path: Path) -> None:
    (auth,) = json.loads(f"{{{EXAMPLES[1]}}}").values()
    config = load_config(
        written(tmp_path, json.dumps({"mcpServers": {"s": {"url": "https://h/", "auth": auth}}})),
        {"TICKETS_SECRET": "x"},
    )
    assert config.servers[0].auth == ClientCredentials(
        "unspool", "https://login.example", "x", scope="tickets.read"
    )
    shown = {name for row in ROWS for name in re.findall(r"`auth\.(\w+)`", row[0])}
    assert shown == {"type", "issuer", "client_id", "method", "algorithm", "scope", *SECRETS}
