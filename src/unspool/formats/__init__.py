"""Every wire format that unspool knows, by name, and the writer of all of them.

One module per family holds declarations only; :mod:`registry` finds them.
"""

from unspool.formats.registry import UnknownFormatError, formats, get_format, register
from unspool.formats.writer import WriteError, samples, write

__all__ = ["UnknownFormatError", "WriteError", "formats", "get_format", "register", "samples", "write"]
