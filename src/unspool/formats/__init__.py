"""Every wire format that unspool knows, by name.

One module per family holds declarations only; :mod:`registry` finds them.
"""

from unspool.formats.registry import UnknownFormatError, formats, get_format, register

__all__ = ["UnknownFormatError", "formats", "get_format", "register"]
