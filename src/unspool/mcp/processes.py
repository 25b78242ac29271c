"""Ending a local server's processes: politely, then not, with all that it started.

Whatever stayed in the program's process group is found by that, and on Linux what left it by a variable that it
inherited. Only a process that left the group and cleared its environment is not found.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from unspool.mcp.launching import MARK

log = logging.getLogger(__name__)

GRACE_S = 2.0
"""How long a server has to end after its input was closed, and again after SIGTERM."""
_POLL_S = 0.02
_PROC = Path("/proc")


async def end_processes(leader: int, mark: str, has_exited: Callable[[], bool]) -> None:
    """Ends the group that ``leader`` leads, and whatever bears the mark, within a bounded time."""
    await _within(GRACE_S, has_exited)
    if not has_exited() or _alive(leader):
        _signal_group(leader, signal.SIGTERM)
        await _within(GRACE_S, lambda: has_exited() and not _alive(leader))
    if _alive(leader):
        _signal_group(leader, signal.SIGKILL)
    killed = []
    for pid in strays(mark):
        killed.append(pid)
        log.warning("process %d was left behind by an MCP server and is killed", pid)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    # Who is ending has no environment any more before it has ended.
    await _within(
        GRACE_S, lambda: has_exited() and all(map(_is_gone, killed)) and not any(True for _ in strays(mark))
    )


def strays(mark: str) -> Iterator[int]:
    """The processes that inherited the mark and still run, as far as /proc tells."""
    marked = f"{MARK}={mark}".encode()
    if not _PROC.is_dir():
        return
    for folder in _PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        # It may be gone by now, or another user's.
        with suppress(OSError):
            if marked in (folder / "environ").read_bytes().split(b"\0") and not _is_zombie(folder):
                yield int(folder.name)


def _alive(group: int) -> bool:
    """Whether a process of the group still runs; one that nobody waited for doesn't."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not (_PROC / "self" / "stat").exists():
        return True
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, _, its_group = _fields(folder)[:3]
                if int(its_group) == group and state not in "ZX":
                    return True
    return False


def _is_gone(pid: int) -> bool:
    try:
        return _is_zombie(_PROC / str(pid))
    except OSError:
        return True


def _is_zombie(folder: Path) -> bool:
    return _fields(folder)[0] in "ZX"


def _fields(folder: Path) -> list[str]:
    """State, parent, group and more of a process: what stands behind its name, which may hold anything."""
    return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def _signal_group(group: int, number: signal.Signals) -> None:
    # macOS says PermissionError for a group of which only zombies are left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _within(seconds: float, done: Callable[[], bool]) -> None:
    with anyio.move_on_after(seconds):
        while not done():
            await anyio.sleep(_POLL_S)
