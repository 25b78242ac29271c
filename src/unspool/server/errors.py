"""Failures as HTTP answers in OpenAI's error shape.

A client must be able to tell from every answer whose fault it was and what to change, so nothing leaves the
server in another shape: neither validation, nor an unknown route, nor a bug of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from unspool.engines.base import ContextOverflowError, EngineError, SamplingError
from unspool.server.storage import StoreError
from unspool.server.streams import ClientGoneError
from unspool.surfaces.encoding import encode
from unspool.surfaces.errors import InvalidRequestError, openai_error

log = logging.getLogger(__name__)

CLIENT_GONE = 499
"""The status that logs show for an answer nobody waited for."""

_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(encode(body), status, headers, "application/json")


def describe(error: Exception) -> tuple[int, dict[str, dict[str, str | None]]]:
    """The status and the error object for whatever went wrong, for an answer or a stream's last event."""
    if isinstance(error, InvalidRequestError):
        body = openai_error(error.message, param=error.param, code=error.code)
        return error.status, body
    if isinstance(error, ContextOverflowError):
        return 400, openai_error(str(error), param="messages", code="context_length_exceeded")
    if isinstance(error, SamplingError):
        return 400, openai_error(str(error), param=error.field)
    if isinstance(error, StoreError):
        log.error("%s", error)
        return 500, openai_error(str(error), "server_error", code="store_error")
    if isinstance(error, EngineError):
        log.error("The engine failed: %s", error)
        return 500, openai_error(str(error), "server_error", code="engine_error")
    log.error("A request failed", exc_info=error)
    return 500, openai_error("Something went wrong in the server; its log has the details.", "server_error")


async def on_error(request: Request, error: Exception) -> Response:
    """Any exception of a route."""
    if isinstance(error, ClientGoneError):
        return Response(status_code=CLIENT_GONE)
    if isinstance(error, HTTPException):
        return _on_http_error(request, error)
    status, body = describe(error)
    return json_response(body, status)


def _on_http_error(request: Request, error: HTTPException) -> Response:
    where = f"{request.method} {request.url.path}"
    message = {
        404: f"There is nothing at {where}.",
        405: f"The method of {where} is not allowed there.",
    }.get(error.status_code, error.detail)
    kind = _KINDS.get(error.status_code, "invalid_request_error")
    return json_response(openai_error(message, kind), error.status_code, error.headers)
