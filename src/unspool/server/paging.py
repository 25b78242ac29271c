"""Lists of items as OpenAI's APIs give them, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import show

MAX_LIMIT = 100
_DEFAULT_LIMIT = 20


def page(items: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """The page that ``limit``, ``order`` and ``after`` of a query ask for; the latest items come first by default.

    Raises :class:`InvalidRequestError` naming the parameter that is wrong.
    """
    limit = query.get("limit", str(_DEFAULT_LIMIT))
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 4 and 1 <= int(limit) <= MAX_LIMIT):
        raise InvalidRequestError(
            f"`limit` must be a whole number from 1 to {MAX_LIMIT}; it is {show(limit)}.", "limit"
        )
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidRequestError(f"`order` must be asc or desc; it is {show(order)}.", "order")
    ordered = list(items) if order == "asc" else list(reversed(items))
    after = query.get("after")
    if after is not None:
        ids = [item["id"] for item in ordered]
        if after not in ids:
            raise InvalidRequestError(
                f"`after` must be the id of an item in this list; it is {show(after)}.", "after"
            )
        ordered = ordered[ids.index(after) + 1 :]
    data = ordered[: int(limit)]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(data) < len(ordered),
    }
