"""Becomes a server's program, after giving up what it should not have. Run as a script, by no other module.

It runs with nothing but the standard library and in place of the program: what it sets, the program can't undo.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    """Reads what to run from the environment, and runs it in this process."""
    said: dict[str, Any] = json.loads(os.environ.pop("UNSPOOL_LAUNCH"))
    os.umask(0o077)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        for option, value in ((_PR_SET_PDEATHSIG, signal.SIGKILL), (_PR_SET_NO_NEW_PRIVS, 1)):
            if libc.prctl(option, value, 0, 0, 0):
                sys.exit(f"prctl {option}: {os.strerror(ctypes.get_errno())}")
        if os.getppid() != said["parent"]:
            sys.exit("What started this server is gone.")
    for name, value in said["limits"].items():
        limit = getattr(resource, name, None)
        if value is None or limit is None:
            continue
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    os.execve(said["program"], said["argv"], said["env"])


if __name__ == "__main__":
    main()
