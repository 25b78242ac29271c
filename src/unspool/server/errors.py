"""Failures as HTTP answers, in the error shape of the API that was called.

A client must be able to tell from every answer whose fault it was and what to change, so nothing leaves the
server in another shape: neither validation, nor an unknown route, nor a bug of ours.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from unspool.engines.base import ConstraintFailedError, ContextOverflowError, EngineError, SamplingError
from unspool.server.storage import StoreError
from unspool.server.streams import ClientGoneError
from unspool.surfaces.encoding import encode
from unspool.surfaces.errors import InvalidRequestError, messages_error, openai_error

log = logging.getLogger(__name__)

CLIENT_GONE = 499
"""The status that logs show for an answer nobody waited for."""

_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_MESSAGES_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "/v1/responses": {"messages": "input", "max_tokens": "max_output_tokens"},
    "/v1/messages": {"stop": "stop_sequences"},
}
"""What the API at a path calls fields for which the rest of the server has the names of Chat Completions.

Only what is found out behind the decoders is meant: whatever a decoder says is in its API's words.
"""


class UnavailableError(Exception):
    """A request that is right, but that the server can't answer now.

    ``retry_after`` is in seconds, ``None`` if nobody can say when it could.
    """

    def __init__(self, message: str, status: int, code: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def json_response(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(encode(body), status, headers, "application/json")


def _describe(error: Exception) -> tuple[int, dict[str, dict[str, str | None]]]:
    """The status and OpenAI's error object for whatever went wrong, with the names of Chat Completions."""
    if isinstance(error, InvalidRequestError):
        body = openai_error(error.message, param=error.param, code=error.code)
        return error.status, body
    if isinstance(error, UnavailableError):
        return error.status, openai_error(str(error), "server_error", code=error.code)
    if isinstance(error, ContextOverflowError):
        return 400, openai_error(str(error), param="messages", code="context_length_exceeded")
    if isinstance(error, SamplingError):
        return 400, openai_error(f"`{error.field}`: {error}", param=error.field)
    if isinstance(error, StoreError):
        # What a database says may name hosts and users, which are nobody's business.
        log.error("%s", error)
        message = (
            "The store of responses and conversations failed; try again later, or send the conversation itself."
        )
        return 503, openai_error(message, "server_error", code="store_error")
    if isinstance(error, ConstraintFailedError):
        return 400, openai_error(str(error), code="invalid_grammar")
    if isinstance(error, EngineError):
        log.error("The engine failed: %s", error)
        return 500, openai_error(str(error), "server_error", code="engine_error")
    log.error("A request failed", exc_info=error)
    return 500, openai_error("Something went wrong in the server; its log has the details.", "server_error")


def describe(scope: Scope, error: Exception) -> tuple[int, Mapping[str, Any]]:
    """The status and the error object for whatever went wrong, for an answer or a stream's last event.

    Shape and words are those of the API that the request is for.
    """
    status, body = _describe(error)
    said = body["error"]
    if (own := _names(scope).get(said["param"] or "")) is not None:
        said["message"] = (said["message"] or "").replace(f"`{said['param']}`", f"`{own}`")
        said["param"] = own
    if _is_messages(scope) and isinstance(error, ContextOverflowError):
        # Clients of the Messages API know a prompt that is too long by these words.
        said["message"] = f"prompt is too long: {error.prompt_tokens} tokens > {error.context_length} maximum"
    return status, shaped(scope, status, body)


def shaped(scope: Scope, status: int, body: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, Any]:
    """OpenAI's error object, or what the Messages API has in its place if a request is for that."""
    if not _is_messages(scope):
        return body
    kind = _MESSAGES_KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return messages_error(body["error"]["message"] or "", kind, request_id=request_id_of(scope))


def request_id_of(scope: Scope) -> str | None:
    """The id that the middleware gave a request."""
    found: str | None = scope.get("state", {}).get("request_id")
    return found


def _is_messages(scope: Scope) -> bool:
    return _is_below(scope["path"], "/v1/messages")


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _names(scope: Scope) -> Mapping[str, str]:
    return next((names for root, names in _FIELDS.items() if _is_below(scope["path"], root)), {})


async def on_error(request: Request, error: Exception) -> Response:
    """Any exception of a route."""
    if isinstance(error, ClientGoneError):
        return Response(status_code=CLIENT_GONE)
    if isinstance(error, HTTPException):
        return _on_http_error(request, error)
    return refusal(request.scope, error)


def refusal(scope: Scope, error: Exception) -> Response:
    """The answer in place of what went wrong."""
    status, body = describe(scope, error)
    headers = {}
    # What nobody expected is answered outside of the middleware that gives answers their id.
    if request_id := request_id_of(scope):
        headers = {"x-request-id": request_id, "request-id": request_id}
    if isinstance(error, UnavailableError) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if getattr(scope.get("state", {}).get("ticket"), "acted", False):
        # The official clients send a request again, unless they are told not to.
        headers["x-should-retry"] = "false"
    return json_response(body, status, headers)


def _on_http_error(request: Request, error: HTTPException) -> Response:
    path = request.url.path
    headers = error.headers
    message = error.detail
    if error.status_code == 404:
        message = f"There is nothing at {request.method} {path}.{_hint(request)}"
    elif error.status_code == 405:
        methods = _allowed(request)
        headers = {"allow": methods}
        message = f"{request.method} is not allowed at {path}; {methods} {'are' if ',' in methods else 'is'}."
    kind = _KINDS.get(error.status_code, "invalid_request_error")
    body = shaped(request.scope, error.status_code, openai_error(message, kind))
    return json_response(body, error.status_code, headers)


def _hint(request: Request) -> str:
    """Names the path with ``/v1`` once, if that is a route: clients differ in whether they put it there."""
    path = "/v1" + re.sub(r"^(/v1(?=/))+", "", request.url.path)
    scope = {**request.scope, "path": path}
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    if path == request.url.path or all(route.matches(scope)[0] is not Match.FULL for route in routes):
        return ""
    return f" Did you mean {path}? The client's base URL decides whether /v1 is there."


def _allowed(request: Request) -> str:
    """The methods of a path: each of its routes has its own. The first that matches says which path that is."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    path = next(route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in routes if route.path == path for method in route.methods or ()}))
