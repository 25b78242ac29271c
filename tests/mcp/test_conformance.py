"""The conformance suite for MCP clients, against servers of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.conformance import SCENARIOS, table
from tests.node import NODE, is_new_enough, package

SUITE = package("@modelcontextprotocol/conformance")
ROOT = Path(__file__).parents[2]
needs_suite = pytest.mark.skipif(
    SUITE is None or not is_new_enough(22), reason="the suite needs Node 22; make clients installs both"
)


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert SUITE is not None
    command = [NODE, str(SUITE / "dist" / "index.js"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def scenario(name: str) -> subprocess.CompletedProcess[str]:
    """A scenario with our client."""
    return suite("client", "--command", f"{sys.executable} -m tests.mcp.conformance", "--scenario", name)


def test_the_page_has_the_results() -> None:
    assert table() in (ROOT / "docs" / "mcp-servers.md").read_text("utf-8")


@needs_suite
def test_each_scenario_of_the_suite_is_accounted_for() -> None:
    _, _, of_clients = suite("list").stdout.partition("Client scenarios")
    assert set(re.findall(r"^  - (\S+)", of_clients, re.MULTILINE)) == set(SCENARIOS)


@needs_suite
@pytest.mark.parametrize("name", [name for name, reason in SCENARIOS.items() if reason is None])
def test_a_scenario_passes(name: str) -> None:
    done = scenario(name)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", done.stderr)


@needs_suite
def test_a_server_that_wants_a_person_is_said_to() -> None:
    done = scenario("auth/metadata-default")
    assert done.returncode != 0
    assert "nobody is here to sign in with a browser" in done.stderr
