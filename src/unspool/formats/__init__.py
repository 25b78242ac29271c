"""Every wire format that unspool knows, by name; how a checkpoint's is found; the writer of all of them.

One module per family holds declarations only; :mod:`registry` finds them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unspool.formats.registry import UnknownFormatError, formats, get_format, register

if TYPE_CHECKING:
    from unspool.formats.checkpoint import CheckpointError
    from unspool.formats.detection import AmbiguousFormatError, Detection, UndetectedFormatError, detect
    from unspool.formats.writer import WriteError, samples, write

__all__ = [
    "AmbiguousFormatError",
    "CheckpointError",
    "Detection",
    "UndetectedFormatError",
    "UnknownFormatError",
    "WriteError",
    "detect",
    "formats",
    "get_format",
    "register",
    "samples",
    "write",
]

_LATER = {
    "AmbiguousFormatError": "detection",
    "CheckpointError": "checkpoint",
    "Detection": "detection",
    "UndetectedFormatError": "detection",
    "WriteError": "writer",
    "detect": "detection",
    "samples": "writer",
    "write": "writer",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"unspool.formats.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
