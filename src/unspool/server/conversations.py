"""The routes of the Conversations API: lists of items that responses go on from and add to."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unspool.server.errors import json_response
from unspool.server.history import identified, is_id, not_found, resolved
from unspool.server.paging import page
from unspool.server.routes import read_json
from unspool.server.storage import Store
from unspool.surfaces.encoding import encode
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.responses import decode_metadata
from unspool.surfaces.responses_items import Item, decode_items

MAX_NEW_ITEMS = 20


class ConversationsApi:
    """The conversations of one store. ``max_body`` is in bytes."""

    def __init__(self, store: Store, max_body: int) -> None:
        self._store = store
        self._max_body = max_body
        one = "/v1/conversations/{conversation_id}"
        self.routes = [
            Route("/v1/conversations", self.create, methods=["POST"]),
            Route(one, self.retrieve, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/items", self.items, methods=["GET"]),
            Route(f"{one}/items", self.add_items, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        """``POST /v1/conversations``."""
        fields = Fields(await read_json(request, self._max_body))
        items = await self._new_items(fields)
        name = f"conv_{uuid.uuid4().hex}"
        conversation = {
            "id": name,
            "object": "conversation",
            "created_at": int(time.time()),
            "metadata": decode_metadata(fields),
        }
        await self._store.put(name, encode(conversation))
        if items:
            await self._store.append(name, encode(items))
        return json_response(conversation)

    async def retrieve(self, request: Request) -> Response:
        """``GET /v1/conversations/{id}``."""
        return json_response(json.loads((await self._entries(request))[0]))

    async def delete(self, request: Request) -> Response:
        """``DELETE /v1/conversations/{id}``; its responses stay."""
        name = _name(request)
        if not await self._store.delete(name):
            raise not_found("conversation", name)
        return json_response({"id": name, "object": "conversation.deleted", "deleted": True})

    async def items(self, request: Request) -> Response:
        """``GET /v1/conversations/{id}/items``."""
        entries = await self._entries(request)
        items = [item for entry in entries[1:] for item in json.loads(entry)]
        return json_response(page(items, request.query_params))

    async def add_items(self, request: Request) -> Response:
        """``POST /v1/conversations/{id}/items``."""
        fields = Fields(await read_json(request, self._max_body))
        items = await self._new_items(fields)
        if not items:
            raise fields.wrong("items", "a list with at least one item")
        name = _name(request)
        if not await self._store.append(name, encode(items)):
            raise not_found("conversation", name)
        return json_response(page(items, {"order": "asc", "limit": "100"}))

    async def _entries(self, request: Request) -> list[bytes]:
        name = _name(request)
        (entries,) = await self._store.get([name])
        if not entries:
            raise not_found("conversation", name)
        return entries

    async def _new_items(self, fields: Fields) -> list[Item]:
        items: list[Any] = fields.items("items") or []
        if len(items) > MAX_NEW_ITEMS:
            raise InvalidRequestError(
                f"`items` may have up to {MAX_NEW_ITEMS} items; it has {len(items)}.", "items"
            )
        found = await resolved(self._store, decode_items(items, "items"), "items")
        return identified(found, uuid.uuid4().hex)


def _name(request: Request) -> str:
    name: str = request.path_params["conversation_id"]
    if not is_id(name, "conv"):
        raise not_found("conversation", name)
    return name
