"""Bodies of requests: bounded, and decompressed no further than that."""

from __future__ import annotations

import zlib
from typing import Protocol

from starlette.requests import ClientDisconnect, Request

from unspool.server.streams import ClientGoneError
from unspool.surfaces.errors import InvalidRequestError

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The encodings that are read, as zlib's ``wbits``: 15 is zlib's header, 16 more gzip's."""


async def read_body(request: Request, limit: int) -> bytes:
    """The body, decompressed.

    Raises :class:`InvalidRequestError`: 413 if it is longer than ``limit`` bytes, compressed or not, 415 if its
    encoding is not known, 400 if it can't be decompressed; and :class:`ClientGoneError` if not all of it came.
    """
    decoder = _decoder(request.headers.get("content-encoding", "identity").strip().lower())
    too_large = InvalidRequestError(
        f"The request body is larger than this server takes ({limit} bytes).",
        code="request_too_large",
        status=413,
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    body = bytearray()
    try:
        async for part in request.stream():
            # One byte more than may be shows that there is more, so a small body can't become a huge one.
            body += decoder.decompress(part, limit + 1 - len(body))
            if len(body) > limit:
                raise too_large
    except ClientDisconnect:
        raise ClientGoneError from None
    except zlib.error as error:
        raise InvalidRequestError(f"The request body can't be decompressed: {error}.") from None
    if not decoder.eof or decoder.unused_data:
        raise InvalidRequestError("The compressed request body is cut off, or something follows it.")
    return bytes(body)


class _Decoder(Protocol):
    """What is used of zlib's decompression objects."""

    @property
    def eof(self) -> bool:
        """Whether the data may end here."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What came behind the end."""
        ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """The next data, at most so many bytes."""
        ...


class _Plain:
    """Data that is not compressed."""

    eof = True
    unused_data = b""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """The data itself."""
        return data[:max_length]


def _decoder(encoding: str) -> _Decoder:
    if encoding in ("identity", ""):
        return _Plain()
    if encoding not in _WINDOWS:
        raise InvalidRequestError(
            f"Request bodies can't be compressed by {encoding!r}; use gzip or deflate, or send them plain.",
            status=415,
        )
    return zlib.decompressobj(_WINDOWS[encoding])
