"""JSON bytes for the wire.

A model may write half of a surrogate pair, which UTF-8 can't carry: such text is sent as ASCII escapes, which
every JSON reader takes.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

import orjson

_HALF = re.compile("[\ud800-\udfff]")


def encode(value: object) -> bytes:
    """``value`` (strings, numbers, lists, objects with string names) as JSON."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


class Pieces(dict[str, bytes]):
    """Texts as JSON: ``PIECES[text]``.

    What a model writes comes in the pieces of its vocabulary, over and over, so short ones are remembered; when
    there are too many, all are forgotten.
    """

    LONGEST = 32
    """Characters of a text that is remembered."""
    MOST = 1 << 14
    """Texts that are."""

    def __missing__(self, text: str) -> bytes:
        data = encode(text)
        if len(text) <= self.LONGEST:
            if len(self) >= self.MOST:
                self.clear()
            self[text] = data
        return data


PIECES = Pieces()


def embed(text: str) -> bytes:
    """A JSON object that is there as text, as bytes to be put into other JSON; ``{}`` if it is no object.

    Everything stays as it is written: numbers, names that come twice, whitespace.
    """
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return b"{}"
    # Half a surrogate pair can only stand in a string, where it may as well be escaped.
    return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode() if isinstance(value, dict) else b"{}"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
