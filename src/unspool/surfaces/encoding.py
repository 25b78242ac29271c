"""JSON bytes for the wire.

A model may write half of a surrogate pair, which UTF-8 can't carry: such text is sent as ASCII escapes, which
every JSON reader takes.
"""

from __future__ import annotations

import json

import orjson


def encode(value: object) -> bytes:
    """``value`` (strings, numbers, lists, objects with string names) as JSON."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
