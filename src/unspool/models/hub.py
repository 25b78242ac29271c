"""Models on a Hugging Face hub: ``ORG/REPO``, ``ORG/REPO:QUANTISATION`` or ``ORG/REPO:FILE``.

The list of files comes from the hub's API, so that the file is chosen and its checksum known before anything
is downloaded. The download itself is left to huggingface_hub where that is installed (its cache, resumption
and storage protocols are what people expect), and is plain HTTPS otherwise. Without a connection, what was
downloaded before still works.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import importlib.util
import io
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from unspool.models.store import (
    COPY_SIZE,
    ModelError,
    Progress,
    cache_dir,
    check_gguf,
    first_parts,
    keep,
    listing,
    temporary,
    verify,
    whole_name,
)

PUBLIC_HUB = "https://huggingface.co"

PREFERENCE = (
    *("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q5_K_S", "MXFP4", "Q4_0", "Q4_1", "IQ4_XS", "IQ4_NL", "Q6_K", "Q5_0"),
    *("Q5_1", "Q8_0", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K", "BF16", "F16", "F32"),
)
"""The order in which a quantisation is chosen when the name does not say which."""

_NAME = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(:(?P<choice>.+))?")
_TIMEOUT = 30  # seconds without a byte


class _UnreachableError(Exception):
    """No answer from the hub."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a repository; ``size`` in bytes."""

    name: str
    size: int | None
    sha256: str | None


def parse(spec: str) -> tuple[str, str | None] | None:
    """Repository and choice of a hub name; ``None`` for what looks like a path."""
    parsed = _NAME.fullmatch(spec)
    if not parsed or (parsed["choice"] is None and spec.lower().endswith(".gguf")):
        return None
    return parsed["repo"], parsed["choice"]


def fetch(repo: str, choice: str | None, report: Progress) -> Path:
    """The chosen file of a repository (of a split model: its first part, beside the others).

    Raises :class:`ModelError`.
    """
    library = _library()
    try:
        files = _files(repo, library)
    except _UnreachableError as error:
        return _downloaded_before(repo, choice, library, str(error))
    chosen = choose(repo, [file.name for file in files], choice)
    parts = [file for file in files if whole_name(file.name) == whole_name(chosen)]
    sizes = [file.size for file in parts]
    total = sum(size for size in sizes if size is not None) if None not in sizes else None
    paths: dict[str, Path] = {}
    for number, file in enumerate(parts):
        progress = _shifted(report, sum(size or 0 for size in sizes[:number]), total)
        if library is not None:
            paths[file.name] = _download_with_library(library, repo, file, progress)
        else:
            paths[file.name] = _download(repo, file, progress)
    return paths[chosen]


def choose(repo: str, names: Sequence[str], choice: str | None) -> str:
    """The file that ``choice`` (a file, a quantisation or nothing) means; of a split model its first part.

    Raises :class:`ModelError` naming what there is.
    """
    # mmproj files are vision encoders and imatrix files are statistics: neither generates text.
    models = [
        name
        for name in first_parts(names)
        if not re.search(r"mmproj|imatrix", PurePosixPath(name).name, re.IGNORECASE)
    ]
    if not models:
        raise ModelError(f"{repo} has no GGUF file; choose a repository that has (often named ...-GGUF).")
    if choice is None:
        preferred = ([name for name in models if _quantised(name, kind)] for kind in PREFERENCE)
        found = models if len(models) == 1 else next(filter(None, preferred), models)
    elif choice.lower().endswith(".gguf"):
        found = [name for name in models if choice in (name, PurePosixPath(name).name)]
    else:
        found = [name for name in models if _quantised(name, choice)]
    if len(found) == 1:
        return found[0]
    problem = f"has {len(found)} files that could be meant" if found else f"has no {choice}"
    raise ModelError(f"{repo} {problem}; choose one as {repo}:FILE from: {listing(found or models)}")


def _quantised(name: str, kind: str) -> bool:
    return bool(re.search(rf"(?<![A-Za-z0-9]){re.escape(kind)}(?![A-Za-z0-9_])", name, re.IGNORECASE))


def _shifted(report: Progress, before: int, total: int | None) -> Progress:
    """The progress of one part as progress of the whole."""
    return lambda done, _: report(before + done, total)


def _library() -> Any | None:
    """huggingface_hub, if it is installed."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    return importlib.import_module("huggingface_hub")


def _hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or PUBLIC_HUB).rstrip("/")


def _get(path: str, token: str | None) -> Any:
    """The response to a GET request to the hub."""
    request = urllib.request.Request(f"{_hub()}/{urllib.parse.quote(path, safe='/?=')}")
    request.add_header("User-Agent", "unspool")
    if token:
        # Files are served by other hosts: the token must not follow the redirect to them.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    return urllib.request.urlopen(request, timeout=_TIMEOUT)


def _files(repo: str, library: Any | None) -> list[_File]:
    """The GGUF files of a repository."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise _UnreachableError("HF_HUB_OFFLINE is set")
    token = library.get_token() if library is not None else os.environ.get("HF_TOKEN")
    try:
        with _get(f"api/models/{repo}?blobs=true", token) as response:
            answer = json.load(response)
        files = [
            _File(entry["rfilename"], entry.get("size"), (entry.get("lfs") or {}).get("sha256"))
            for entry in answer["siblings"]
        ]
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            raise ModelError(
                f"{_hub()} shows no model {repo} (status {error.code}); check the spelling, and if it is "
                "private or gated, accept its terms there and set HF_TOKEN."
            ) from error
        raise _UnreachableError(f"status {error.code}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{_hub()} does not answer like a Hugging Face hub; check HF_ENDPOINT.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _UnreachableError(getattr(error, "reason", error)) from error
    return [file for file in files if file.name.lower().endswith(".gguf")]


def _home(repo: str) -> Path:
    return cache_dir() / "models" / "hub" / repo.replace("/", "--")


def _downloaded_before(repo: str, choice: str | None, library: Any | None, reason: str) -> Path:
    homes = [_home(repo)]
    if library is not None:
        with contextlib.suppress(OSError):  # nothing of this repository is in that cache
            homes.append(Path(library.snapshot_download(repo, local_files_only=True)))
    for home in homes:
        names = sorted(file.relative_to(home).as_posix() for file in home.rglob("*.gguf"))
        if names:
            return home / choose(repo, names, choice)
    raise ModelError(
        f"The hub {_hub()} can't be reached ({reason}) and {repo} was not downloaded before; check the "
        "connection, set HF_ENDPOINT to a mirror, or give the path of a .gguf file."
    )


def _download(repo: str, file: _File, report: Progress) -> Path:
    """One file, from our own cache or by plain HTTPS."""
    parts = PurePosixPath(file.name).parts
    if ".." in parts or file.name.startswith("/"):
        raise ModelError(f"{repo} names a file {file.name!r}, which leads out of the cache; use another one.")
    path = _home(repo).joinpath(*parts)
    if path.is_file() and file.size in (None, path.stat().st_size):
        return path
    with temporary() as room:
        part = room / path.name
        try:
            with _get(f"{repo}/resolve/main/{file.name}", os.environ.get("HF_TOKEN")) as response:
                _copy(response, part, report, file.size)
        except urllib.error.HTTPError as error:
            raise ModelError(
                f"{_hub()} does not give out {file.name} of {repo} (status {error.code}); if it is gated, "
                "accept its terms there and set HF_TOKEN."
            ) from error
        except (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            raise ModelError(f"The download of {file.name} broke off ({error}); try again.") from error
        _check(part, file)
        return keep(part, path)


def _copy(response: Any, path: Path, report: Progress, total: int | None) -> None:
    with path.open("wb") as target:
        done = 0
        while block := response.read(COPY_SIZE):
            target.write(block)
            done += len(block)
            report(done, total)


def _download_with_library(library: Any, repo: str, file: _File, report: Progress) -> Path:
    """One file, from huggingface_hub's cache or by its download."""
    cached = library.try_to_load_from_cache(repo, file.name)
    try:
        path = Path(library.hf_hub_download(repo, file.name, endpoint=_hub(), tqdm_class=_progress_bar(report)))
    # Its errors have no common base and change between its releases.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"huggingface_hub can't download {file.name} of {repo} ({reason}); check the connection, and if "
            "it is gated, accept its terms and set HF_TOKEN."
        ) from error
    if str(path) != cached:
        # Its cache is links to blobs: deleting what is wrong means the blob.
        _check(path.resolve(), file)
    return path


def _check(path: Path, file: _File) -> None:
    """Raises :class:`ModelError` unless a downloaded file is whole and right, and deletes it."""
    try:
        if file.size is not None and path.stat().st_size != file.size:
            raise ModelError(
                f"The download of {file.name} broke off after {path.stat().st_size} of {file.size} bytes; "
                "try again."
            )
        check_gguf(path)
        if file.sha256:
            verify(path, file.sha256)
    except ModelError:
        path.unlink(missing_ok=True)
        raise


def _progress_bar(report: Progress) -> type:
    """A bar class for huggingface_hub that draws nothing and reports.

    It makes two of them for some downloads, for bytes received and bytes written: the further one counts.
    """
    base = importlib.import_module("tqdm").tqdm
    furthest = 0

    def start(bar: Any, *args: Any, **options: Any) -> None:
        base.__init__(bar, *args, **options | {"file": io.StringIO()})

    def update(bar: Any, count: float = 1) -> None:
        nonlocal furthest
        base.update(bar, count)
        furthest = max(furthest, int(bar.n))
        report(furthest, bar.total)

    return type("ProgressBar", (base,), {"__init__": start, "update": update})
