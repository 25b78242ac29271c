"""Whether anybody but the operator can change a file: who owns it, and who may write to it and where it lies.

A file system that is mounted read-only can't be written by anybody, whatever its modes say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def objection(path: Path, *, sticky: bool = True) -> str | None:
    """Why others may change what this absolute path leads to; ``None`` if they can't.

    Each folder on the way is looked at, by the path as written and as its links lead. A folder where everybody
    may write but only owners may remove (such as ``/tmp``) is passed, unless ``sticky`` is false and the file lies
    right in it. Raises ``OSError`` for what isn't there.
    """
    real = path.resolve(strict=True)
    for each in dict.fromkeys((*_folders(path), *_folders(real), real)):
        passes = sticky or each not in (path.parent, real.parent)
        if said := _changeable(each, sticky=passes):
            return said
    return None


def _folders(path: Path) -> Iterator[Path]:
    return reversed(path.parents)


def _changeable(path: Path, *, sticky: bool) -> str | None:
    status = path.stat()
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return None
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {status.st_uid}, neither root nor the user that runs this; chown it"
    if sticky and stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return None
    who = [name for name, bit in (("group", stat.S_IWGRP), ("others", stat.S_IWOTH)) if status.st_mode & bit]
    if who:
        return f"{path} can be written by {' and '.join(who)}; chmod go-w {path}"
    return None
