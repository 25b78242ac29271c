"""Chat datasets from one family's way of writing to another's."""

from unspool.convert.converter import OPENAI, Converted, Converter
from unspool.convert.rows import RowError

__all__ = ["OPENAI", "Converted", "Converter", "RowError"]
