"""``unspool serve`` as a process of its own, always ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(*args: str | Path, **env: str) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """A server on a free port: its base URL, its banner and its process."""
    command: Sequence[str] = [sys.executable, "-m", "unspool", "serve", "--port", "0", *map(str, args)]
    environment = {**os.environ, **env}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            banner = ""
            for line in process.stdout:
                banner += line
                if line.startswith("Stop it with"):
                    break
            found = re.search(r"http://[^/\s]+", banner)
            assert found, banner
            yield found[0], banner, process
        finally:
            process.terminate()
            process.wait(20)
