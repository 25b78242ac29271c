"""Every wire format that unspool knows, by name; how a checkpoint's is found; the writer of all of them.

One module per family holds declarations only; :mod:`registry` finds them.
"""

from typing import TYPE_CHECKING

from unspool.formats.registry import UnknownFormatError, formats, get_format, register
from unspool.lazy import attributes

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

__getattr__ = attributes(
    __name__,
    {
        "checkpoint": ("CheckpointError",),
        "detection": ("AmbiguousFormatError", "Detection", "UndetectedFormatError", "detect"),
        "writer": ("WriteError", "samples", "write"),
    },
)
