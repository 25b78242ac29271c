"""The cache of downloaded models, and the checks every model file passes.

What is downloaded goes to a temporary directory beside the cache, is checked (checksum where one is known,
GGUF magic always) and only then renamed, so that a file in the cache is whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes done and the bytes in total (``None``: not known)."""

COPY_SIZE = 1 << 20
"""How many bytes to read at once."""

_PART = re.compile(r"-(\d{5})-of-\d{5}(?=\.gguf$)", re.IGNORECASE)


class ModelError(Exception):
    """The model can't be used; the message says what to do."""


def cache_dir() -> Path:
    """Where downloads are kept: ``UNSPOOL_CACHE``, or ``unspool`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    if own := os.environ.get("UNSPOOL_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "unspool"


@contextmanager
def temporary() -> Iterator[Path]:
    """An empty directory on the cache's own file system, removed at the end."""
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache, ignore_cleanup_errors=True) as room:
        yield Path(room)


def keep(temporary_file: Path, path: Path) -> Path:
    """Moves a checked file to its place, replacing what was there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return temporary_file.replace(path)


def check_gguf(path: Path) -> None:
    """Raises :class:`ModelError` unless the file begins like a GGUF file."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        return
    if magic == b"vers":
        raise ModelError(f"{path} is a Git LFS pointer instead of the model; run: git lfs pull")
    raise ModelError(f"{path} is not a GGUF file; convert the model to GGUF, or choose one that is.")


def sha256(path: Path) -> str:
    """The checksum of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path, expected: str) -> None:
    """Deletes the file and raises :class:`ModelError` if its SHA-256 is another one."""
    actual = sha256(path)
    if actual != expected:
        path.unlink()
        raise ModelError(
            f"{path.name} has the checksum {actual[:12]}... where {expected[:12]}... was expected, and was "
            "deleted; try again, and if it stays so, ask who runs the index, hub or proxy it came from."
        )


def first_parts(names: Sequence[str]) -> list[str]:
    """The names without the later parts of split models: llama.cpp finds those from the first."""
    return [name for name in names if not (part := _PART.search(name)) or int(part[1]) == 1]


def whole_name(name: str) -> str:
    """The name of a file without its part number; equal for all parts of one split model."""
    return _PART.sub("", name)


def model_name(file_name: str) -> str:
    """What to call the model in a file."""
    return whole_name(file_name).removesuffix(".gguf")


def listing(names: Sequence[str]) -> str:
    """Some file names for an error message."""
    shown = ", ".join(PurePosixPath(name).name for name in names[:8])
    return shown + (", ..." if len(names) > 8 else "")
