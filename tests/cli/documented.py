"""Runs the commands that a document shows, on a terminal as its reader would, and notes what they print.

In a ``console`` block a line that begins with ``$ `` is a command; the lines after it are its output. A block that
begins with anything else is left alone. A test renders each document again and compares, so none can drift. To
bring documents up to date::

    python -m tests.cli.documented docs/cli.md
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?<=^```console\n)(?:(?!```$).*\n)*(?=^```$)", re.MULTILINE)
_CALL_ID = re.compile(r"call_[0-9a-f]{24}")
_STYLING = re.compile(r"\x1b\[[0-9;]*m")


def rendered(document: str) -> str:
    """The document with the output of every command in it as it is now."""
    return _BLOCK.sub(lambda block: _block(block[0]), document)


def commands(document: str) -> list[str]:
    """The commands that the document shows."""
    return [line[2:] for block in _BLOCK.findall(document) for line in block.splitlines() if line[:2] == "$ "]


def on_terminal(command: str) -> str:
    """What a shell command prints when standard output and error are a terminal 88 columns wide.

    Colours are left out; so are spaces at the ends of lines and empty lines at the end. Call ids, which
    are random, become the same one.
    """
    environment = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "88",
        "LINES": "40",
        "TERM": "xterm-256color",
    }
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        ):
            os.close(theirs)
            printed = _read_all(ours)
    finally:
        os.close(ours)
    text = _STYLING.sub("", printed.decode()).replace("\r\n", "\n")
    text = _CALL_ID.sub("call_0123456789abcdef01234567", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n") + "\n"


def _read_all(terminal: int) -> bytes:
    read = bytearray()
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the other side is closed, other systems give nothing.
            block = b""
        if not block:
            return bytes(read)
        read += block


def _block(block: str) -> str:
    return "\n".join(f"{line}\n{on_terminal(line[2:])}" for line in block.splitlines() if line.startswith("$ "))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument)
        path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
