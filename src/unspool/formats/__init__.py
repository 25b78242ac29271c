"""Every wire format that unspool knows, by name, and the writer of all of them.

One module per family holds declarations only; :mod:`registry` finds them.
"""

from typing import TYPE_CHECKING, Any

from unspool.formats.detection import detect_from_template
from unspool.formats.registry import UnknownFormatError, formats, get_format, register

if TYPE_CHECKING:
    from unspool.formats.writer import WriteError, samples, write

__all__ = [
    "UnknownFormatError",
    "WriteError",
    "detect_from_template",
    "formats",
    "get_format",
    "register",
    "samples",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from unspool.formats import writer

        return getattr(writer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
