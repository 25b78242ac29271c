"""What will be run for a local server: the program's file, its exact arguments, its environment, and its limits.

The operator's file is what is trusted, so there is no list of forbidden programs, arguments or names: what it says
is run as it says, by no shell, and nothing else is. The program is found in fixed folders and must be a file that
nobody else can change. Of the parent's environment nothing is passed on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unspool.mcp.ownership import objection
from unspool.mcp.settings import Limits, McpConfigError, ServerConfig

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" + (
    ":/opt/homebrew/bin" if sys.platform == "darwin" else ""
)
MARK = "UNSPOOL_MCP_SERVER"
"""A variable by which processes that a server left behind are found."""
_LAUNCHER = Path(__file__).with_name("launcher.py")
_PACKAGE = re.compile(r"(?:@[^@/]+/)?[^@=/]+(?:@|==|~=)\d.*")
_RUNNERS = ("npx", "npm", "pnpm", "pnpx", "bunx", "yarn", "uvx", "uv", "pipx", "deno", "docker", "podman")
_WITH_VALUE = ("-p", "--package", "--from", "--with", "--python", "-e", "--env", "-v", "--volume", "--name")


@dataclass(frozen=True, slots=True)
class Launch:
    """A program as it will be run. What may be a secret is not in its ``repr``."""

    program: Path
    """The file itself, with no link on the way."""
    argv: tuple[str, ...] = field(repr=False)
    """Its first member is the program's path before links were followed."""
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    limits: Limits
    shown: str
    """The command line with variables as the file has them."""
    warnings: tuple[str, ...] = ()

    def command(self, mark: str) -> tuple[list[str], dict[str, str]]:
        """The launcher's own command line and environment. ``mark`` is what the program's processes are found by.

        What the program gets is in the environment, because other users can read a command line.
        """
        said = {
            "program": str(self.program),
            "argv": self.argv,
            "env": {**self.env, MARK: mark},
            "parent": os.getpid(),
            "limits": {
                "RLIMIT_CORE": 0,
                "RLIMIT_NOFILE": self.limits.open_files,
                "RLIMIT_AS": self.limits.memory,
                "RLIMIT_FSIZE": self.limits.file_size,
                "RLIMIT_NPROC": self.limits.processes,
            },
        }
        return [sys.executable, "-I", "-S", str(_LAUNCHER)], {"UNSPOOL_LAUNCH": json.dumps(said)}


def launch(server: ServerConfig, home: Path) -> Launch:
    """What a local server is run as, with ``home`` as its ``HOME`` if its entry names none.

    Raises :class:`McpConfigError` if the program isn't there, is none, or others could change it.
    """
    place = f"server {server.name!r}"
    search = server.env.get("PATH", SEARCH_PATH)
    found = _found(server.command, search, place)
    try:
        program = Path(os.path.realpath(found, strict=True))
        status = program.stat()
        said = None if server.trust_path else objection(found)
    except OSError as error:
        raise McpConfigError(f"{place}: command: {found} can't be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or not os.access(program, os.X_OK):
        raise McpConfigError(f"{place}: command: {program} is not a program: it must be a file that may be run")
    if said:
        raise McpConfigError(f'{place}: command: others could change it: {said}, or set "trustPath": true')
    if server.sha256 is not None and (found_digest := _digest(program)) != server.sha256:
        raise McpConfigError(f"{place}: sha256: {program} is {found_digest}, not what the file names")
    home = server.home or home
    base = {"PATH": SEARCH_PATH, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}
    return Launch(
        program,
        (str(found), *server.args),
        {**base, **server.env},
        server.cwd or home,
        server.limits,
        shlex.join((str(found), *server.written[1:])),
        tuple(_unpinned(found.name, server.args, place)),
    )


def _found(command: str, search: str, place: str) -> Path:
    """The program's absolute path, links and all."""
    if os.path.isabs(command):
        return Path(os.path.normpath(command))
    if os.sep in command:
        raise McpConfigError(f"{place}: command: {command!r} is a relative path; write the absolute one")
    folders = [folder for folder in search.split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(command, path=os.pathsep.join(folders))
    if found is None:
        raise McpConfigError(
            f"{place}: command: {command!r} is in none of {', '.join(folders)}; write its absolute path"
        )
    return Path(found)


def _digest(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpinned(program: str, args: tuple[str, ...], place: str) -> Iterator[str]:
    """A warning for a program that fetches what it runs, unless a version is named."""
    if program not in _RUNNERS:
        return
    if program in ("docker", "podman"):
        if not any("@sha256:" in arg for arg in args):
            yield f"{place}: {program} runs an image; name it by its digest (image@sha256:...), or it may change"
        return
    after_value = False
    for arg in args:
        named = after_value or not arg.startswith("-")
        after_value = arg in _WITH_VALUE
        if named and _PACKAGE.fullmatch(arg):
            return
    yield f"{place}: {program} fetches what it runs; name a version (package@1.2.3), or it may change"
