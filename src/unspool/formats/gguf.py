"""The tokenizer's part of a GGUF file's metadata, read without loading the model.

The layout is llama.cpp's: a magic number, counts, then key, type and value of each entry; tensors come after them
and are not looked at. Version 3 differs from 2 only in that big-endian machines may write it their way.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"GGUF"
_WANTED = "tokenizer."
_STRING, _ARRAY = 8, 9
# Type numbers of the file format, as struct has them.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class BadGgufError(ValueError):
    """The file is no GGUF file, or its metadata ends early."""


def read_tokenizer(path: Path) -> dict[str, Any]:
    """Every ``tokenizer.*`` entry by its key. Raises :class:`BadGgufError` and ``OSError``."""
    with path.open("rb") as file:
        return _Reader(file, path.stat().st_size).entries()


class _Reader:
    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def entries(self) -> dict[str, Any]:
        if self._bytes(4) != MAGIC:
            raise BadGgufError("not a GGUF file")
        (version,) = self._numbers("I", 1)
        if version not in (2, 3):
            raise BadGgufError(f"GGUF version {version} is not known")
        _, count = self._numbers("Q", 2)
        found = {}
        for _ in range(count):
            key = self._string()
            value = self._value()
            if key.startswith(_WANTED):
                found[key] = value
        return found

    def _value(self) -> Any:
        (kind,) = self._numbers("I", 1)
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._numbers(self._code(kind), 1)[0]
        (kind,) = self._numbers("I", 1)
        (count,) = self._numbers("Q", 1)
        if kind == _STRING:
            return [self._string() for _ in range(count)]
        return list(self._numbers(self._code(kind), count))

    def _code(self, kind: int) -> str:
        code = _NUMBERS.get(kind)
        if code is None:
            raise BadGgufError(f"its metadata has a value of the unknown type {kind}")
        return code

    def _string(self) -> str:
        (length,) = self._numbers("Q", 1)
        return self._bytes(length).decode("utf-8", "replace")

    def _numbers(self, code: str, count: int) -> tuple[Any, ...]:
        return struct.unpack(f"<{count}{code}", self._bytes(count * struct.calcsize(f"<{code}")))

    def _bytes(self, count: int) -> bytes:
        # The length is the file's word; nothing is reserved for what can't be there.
        self._left -= count
        if self._left < 0:
            raise BadGgufError("the file ends inside its metadata")
        return self._file.read(count)
