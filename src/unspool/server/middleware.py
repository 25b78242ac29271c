"""What every answer passes: a request id, and the API key if there is one."""

from __future__ import annotations

import hmac
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unspool.server.errors import json_response, shaped
from unspool.surfaces.errors import openai_error

OPEN_PATHS = frozenset({"/", "/health", "/docs", "/openapi.json"})
"""Served without a key: load balancers have none, nor have browsers for a page."""


class RequestId:
    """Gives each answer an id under the two names that SDKs read; routes find it in the request's state."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = headers["request-id"] = request_id
            await send(message)

        await self.app(scope, receive, send_with_id)


class ApiKey:
    """Lets through what carries the key, as a bearer token or in ``x-api-key``."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app = app
        self.key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._admits(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        message = (
            "The API key is missing or wrong; send it as `Authorization: Bearer <key>` or `x-api-key: <key>`."
        )
        body = openai_error(message, "authentication_error", code="invalid_api_key")
        await json_response(shaped(scope, 401, body), 401, {"www-authenticate": "Bearer"})(scope, receive, send)

    def _admits(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        # Both, in constant time, so that an answer's delay says nothing about the key.
        matches = [
            hmac.compare_digest(given.encode("latin-1", "replace"), self.key)
            for given in (bearer, headers.get("x-api-key", ""))
        ]
        return any(matches)
