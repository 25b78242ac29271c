"""Whether anybody but the operator can change a file: who owns it, and who may write to it and where it lies.

A file system that is mounted read-only can't be written by anybody, whatever its modes say.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40


def objection(path: Path, *, sticky: bool = True) -> str | None:
    """Why others may change what this absolute path leads to; ``None`` if they can't.

    Each folder on the way is looked at, of every link as well. A folder where everybody may write but only owners
    may remove (such as ``/tmp``) is passed, unless ``sticky`` is false and the file, or the link that ``path`` is,
    lies right in it. Raises ``OSError`` for what isn't there.
    """
    way = list(dict.fromkeys(_way(path)))
    ends = (path.parent.resolve(), way[-1].parent)
    for each in way:
        passes = sticky or each not in ends
        if said := _changeable(each, sticky=passes):
            return said
    return None


def _way(path: Path) -> Iterator[Path]:
    """The folders and links that lead to a file, none of them by way of a link, and last the file itself."""
    here, links = Path(path.anchor), 0
    yield here
    rest = list(reversed(path.parts[1:]))
    while rest:
        part = rest.pop()
        if part == os.pardir:
            here = here.parent
            continue
        each = here / part
        yield each
        if not each.is_symlink():
            here = each
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = Path(os.readlink(each))
        here = Path(target.anchor) if target.is_absolute() else here
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    yield here


def _changeable(path: Path, *, sticky: bool) -> str | None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return _replaceable(path, status)
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


def _replaceable(link: Path, status: os.stat_result) -> str | None:
    """Why others may put something else in place of a link: where only owners may remove, its owner may."""
    if status.st_uid in (0, os.geteuid()) or not link.parent.stat().st_mode & stat.S_ISVTX:
        return None
    return f"the link {link} belongs to user {status.st_uid}, neither root nor the user that runs this"
