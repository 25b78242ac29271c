"""What is said of a file without starting anything."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from tests.mcp.files import loaded
from unspool.mcp.checking import Check, check


def test_what_would_be_run_is_said_without_secrets(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    said = {
        "command": sys.executable,
        "args": ["-c", f"open({str(mark)!r}, 'w')", "--key=${KEY}"],
        "env": {"KEY": "${KEY}"},
        "trustPath": True,
        "tools": {"a": "allow"},
        "pins": {"a": "ab" * 32},
    }
    remote = {"url": "https://user:${KEY}@h.test/mcp?key=${KEY}", "headers": {"Authorization": "Bearer ${KEY}"}}
    servers = {"local": said, "remote": remote, "off": {**said, "disabled": True}}
    checks = check(loaded(tmp_path, servers, {"KEY": "s3cret"}))
    assert [each.verdict for each in checks] == ["runs", "runs", "disabled"]
    local, far, _ = checks
    assert local.program == str(Path(sys.executable).resolve())
    assert local.command is not None
    assert local.command.startswith(f"{sys.executable} -c ")
    assert local.command.endswith("'--key=${KEY}'")
    assert local.environment == ("HOME", "KEY", "LANG", "PATH", "TERM")
    assert (local.tools, local.pinned) == ({"*": "ask", "a": "allow"}, 1)
    assert (far.url, far.headers) == ("https://h.test/mcp", ("Authorization",))
    assert "s3cret" not in json.dumps([dataclasses.asdict(each) for each in checks])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.test/${KEY}/mcp", "https://h.test/${KEY}/mcp"),
        ("https://${HOST:-h.test}/s/${env:KEY}?a=${KEY}", "https://${HOST}/s/${env:KEY}"),
        ("https://${KEY}:${KEY:-a/b?c@d}@h.test/mcp#${KEY}", "https://h.test/mcp"),
        ("${URL}", "${URL}"),
        ("${NONE:-https://a:s3cret@h.test/s3cret}", "${NONE}"),
    ],
)
def test_what_variables_put_into_a_url_is_not_said(tmp_path: Path, url: str, shown: str) -> None:
    said = {"KEY": "s3cret", "URL": "https://h.test/s3cret"}
    (found,) = check(loaded(tmp_path, {"remote": {"url": url}}, said))
    assert found.url == shown
    assert "s3cret" not in str(found)


def test_what_would_be_refused_is_said_with_the_reason(tmp_path: Path) -> None:
    servers = {"gone": {"command": "/no/such/program"}, "runner": {"command": "./run"}}
    checks = check(loaded(tmp_path, servers))
    assert [each.verdict for each in checks] == ["refused", "refused"]
    assert "/no/such/program can't be read" in str(checks[0].refused)
    assert "is a relative path" in str(checks[1].refused)


def test_warnings_are_said(tmp_path: Path) -> None:
    program = tmp_path / "npx"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (one,) = check(loaded(tmp_path, {"s": {"command": str(program), "args": ["server"]}}))
    assert isinstance(one, Check)
    assert "name a version" in one.warnings[0]
