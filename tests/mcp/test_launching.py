"""What is run for a local server: what the operator's file says, and nothing that it doesn't."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.files import give_away, loaded
from unspool.mcp.launching import SEARCH_PATH, Launch, launch
from unspool.mcp.ownership import objection
from unspool.mcp.settings import McpConfigError


def launched(folder: Path, said: dict[str, Any]) -> Launch:
    (server,) = loaded(folder, {"s": said}).servers
    return launch(server, folder)


def refusal(folder: Path, said: dict[str, Any]) -> str:
    with pytest.raises(McpConfigError) as caught:
        launched(folder, said)
    return str(caught.value)


def script(folder: Path, name: str = "run", mode: int = 0o755) -> Path:
    """A program in a folder that only its owner may write."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    path = folder / name
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    return path


def test_a_name_is_looked_for_in_fixed_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "evil", "sh")
    script(tmp_path / "evil", "only-here")
    monkeypatch.setenv("PATH", str(tmp_path / "evil"))
    monkeypatch.chdir(tmp_path / "evil")
    assert launched(tmp_path, {"command": "sh", "trustPath": True}).argv[0] in ("/usr/bin/sh", "/bin/sh")
    refused = refusal(tmp_path, {"command": "only-here"})
    assert "command: 'only-here' is in none of" in refused
    assert "server 's'" in refused


def test_a_name_is_looked_for_where_the_file_says(tmp_path: Path) -> None:
    path = script(tmp_path / "bin", "own")
    found = launched(tmp_path, {"command": "own", "env": {"PATH": f".::{path.parent}:/bin"}})
    assert found.program == path.resolve()
    assert found.env["PATH"] == f".::{path.parent}:/bin"


@pytest.mark.parametrize("command", ["evil/python3", "./run", "../run", "~/run"])
def test_a_relative_path_is_refused(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "evil", "python3")
    monkeypatch.chdir(tmp_path)
    assert "is a relative path; write the absolute one" in refusal(tmp_path, {"command": command})


def test_a_link_is_followed_and_both_ends_must_be_safe(tmp_path: Path) -> None:
    path = script(tmp_path / "bin")
    link = tmp_path / "links" / "node"
    link.parent.mkdir(mode=0o755)
    link.symlink_to(path)
    found = launched(tmp_path, {"command": str(link), "args": ["-c", "id"]})
    assert (found.program, found.argv) == (path.resolve(), (str(link), "-c", "id"))
    link.parent.chmod(0o777)
    refused = refusal(tmp_path, {"command": str(link)})
    assert f"{link.parent} can be written by group and others" in refused
    link.parent.chmod(0o755)
    path.parent.chmod(0o775)
    assert f"{path.parent} can be written by group" in refusal(tmp_path, {"command": str(link)})


def test_every_link_on_the_way_must_be_safe(tmp_path: Path) -> None:
    program = script(tmp_path / "bin")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "current").symlink_to("../bin")
    first = tmp_path / "first"
    first.symlink_to(shared / "current" / "run")
    assert launched(tmp_path, {"command": str(first)}).program == program.resolve()
    shared.chmod(0o777)
    assert f"{shared} can be written by group and others" in refusal(tmp_path, {"command": str(first)})
    shared.chmod(0o1777)
    assert launched(tmp_path, {"command": str(first)}).program == program.resolve()


def test_a_link_of_somebody_else_is_not_followed_where_its_owner_may_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, shared = script(tmp_path / "bin"), tmp_path / "shared"
    shared.mkdir()
    link = shared / "run"
    link.symlink_to(program)
    status = Path.lstat

    def of_another(path: Path) -> os.stat_result:
        found = status(path)
        return found if path != link else os.stat_result((*found[:4], 12345, *found[5:]))

    monkeypatch.setattr(Path, "lstat", of_another)
    assert launched(tmp_path, {"command": str(link)}).program == program.resolve()
    shared.chmod(0o1777)
    assert f"the link {link} belongs to user 12345" in refusal(tmp_path, {"command": str(link)})


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        objection(tmp_path / "a")
    assert "can't be read" in refusal(tmp_path, {"command": str(tmp_path / "a")})


def test_a_program_that_others_can_change_is_refused_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    path = script(tmp_path / "bin", mode=0o777)
    refused = refusal(tmp_path, {"command": str(path)})
    assert "command: others could change it" in refused
    assert 'set "trustPath": true' in refused
    assert launched(tmp_path, {"command": str(path), "trustPath": True}).program == path.resolve()


def test_a_program_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path / "bin")
    (server,) = loaded(tmp_path, {"s": {"command": str(path)}}).servers
    give_away(path, monkeypatch)
    with pytest.raises(McpConfigError, match="belongs to user"):
        launch(server, tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.mkdir(), "is not a program"),
        (lambda path: (path.write_text("#!/bin/sh\n"), path.chmod(0o644)), "is not a program"),
        (lambda path: os.mkfifo(path, 0o755), "is not a program"),
        (lambda path: path.symlink_to("nowhere"), "can't be read"),
        (lambda path: None, "can't be read"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path: Path, make: Any, message: str) -> None:
    make(tmp_path / "x")
    assert message in refusal(tmp_path, {"command": str(tmp_path / "x")})


def test_a_program_must_be_the_pinned_one(tmp_path: Path) -> None:
    path = script(tmp_path / "bin")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert launched(tmp_path, {"command": str(path), "sha256": digest}).program == path.resolve()
    path.write_text("#!/bin/sh\nexit 1\n")
    assert "sha256: " in refusal(tmp_path, {"command": str(path), "sha256": digest})


HARMLESS = [
    "-cprint(1)",
    "-Ic",
    "-pe",
    "--import",
    "data:text/javascript,1",
    ";",
    "|",
    "$(id)",
    "~",
    "/etc/passwd",
]


def test_arguments_are_not_looked_at(tmp_path: Path) -> None:
    path = script(tmp_path / "bin", "python3")
    found = launched(tmp_path, {"command": str(path), "args": HARMLESS})
    assert found.argv == (str(path), *HARMLESS)
    assert found.warnings == ()


def test_the_environment_is_the_base_and_what_the_file_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    path = script(tmp_path / "bin")
    found = launched(tmp_path, {"command": str(path), "env": {"NODE_OPTIONS": "--require=/own.js"}})
    base = {"PATH": SEARCH_PATH, "HOME": str(tmp_path), "LANG": "C.UTF-8", "TERM": "dumb"}
    assert found.env == {**base, "NODE_OPTIONS": "--require=/own.js"}
    command, environment = found.command("mark")
    assert "s3cret" not in str((command, environment))
    assert "own.js" not in str(command)


def test_folders_of_a_server(tmp_path: Path) -> None:
    path = script(tmp_path / "bin")
    own = tmp_path / "own"
    own.mkdir()
    found = launched(tmp_path, {"command": str(path), "home": "own"})
    assert (found.cwd, found.env["HOME"]) == (own, str(own))
    assert launched(tmp_path, {"command": str(path), "cwd": str(own)}).cwd == own


@pytest.mark.parametrize(
    ("name", "args", "warned"),
    [
        ("npx", ["-y", "evil"], True),
        ("npx", ["-y", "@scope/server"], True),
        ("npx", ["-y", "@scope/server@latest"], True),
        ("npx", ["-y", "@scope/server@1.2.3"], False),
        ("uvx", ["mcp-server-time"], True),
        ("uvx", ["--from", "git+https://x.test/y", "z"], True),
        ("uvx", ["mcp-server-time==2026.1.1"], False),
        ("uvx", ["mcp-server-time@2026.1.1"], False),
        ("uvx", ["--from=mcp==1.0", "x"], True),
        ("docker", ["run", "-v", "/:/host", "--privileged", "image:1.0"], True),
        ("docker", ["run", "image@sha256:" + "ab" * 32], False),
        ("server", ["evil"], False),
    ],
)
def test_what_a_package_runner_fetches_should_have_a_version(
    tmp_path: Path, name: str, args: list[str], warned: bool
) -> None:
    path = script(tmp_path / "bin", name)
    assert bool(launched(tmp_path, {"command": str(path), "args": args}).warnings) is warned
