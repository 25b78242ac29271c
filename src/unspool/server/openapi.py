"""The API described: an OpenAPI document, made of the routes, and a page of it that needs no network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from unspool.server.errors import json_response
from unspool.server.middleware import OPEN_PATHS
from unspool.server.request_schemas import BODIES

_STREAMED = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
_TYPES = {"/metrics": "text/plain", "/docs": "text/html"}
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_SUMMARIES = {
    "/v1/chat/completions": "A chat completion, whole or streamed.",
    "/v1/responses": "A response, whole or streamed.",
    "/v1/messages": "A message of Anthropic's API, whole or streamed.",
    "/v1/messages/count_tokens": "How many tokens a request's prompt has.",
    "/v1/mcp/servers": "The MCP servers whose tools there are, and how they are.",
    "/v1/mcp/tools": "Their tools, with the operator's policy for each.",
    "/v1/mcp/execute": "Runs one of them, under that policy.",
    "/v1/models": "The models that requests may name.",
    "/v1/models/{name:path}": "One of them.",
    "/health": "200 once the model is loaded.",
    "/metrics": "What the server counts, for Prometheus.",
    "/openapi.json": "This API as an OpenAPI document.",
    "/docs": "The same as a page.",
    "/version": "The server's version.",
    "/": "The same.",
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {name: {"type": ["string", "null"]} for name in ("message", "type", "param", "code")},
        }
    },
}
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font-size:.95em}summary{cursor:pointer;padding:.4rem 0}table{border-collapse:collapse}
td,th{border-top:1px solid #8884;padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
:root{color-scheme:light dark}"""


def document(routes: Sequence[BaseRoute], *, keyed: bool) -> dict[str, Any]:
    """The OpenAPI document of these routes; ``keyed``: they need the API key."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            path = _PARAMETER.sub(r"{\1}", route.path)
            for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
                paths.setdefault(path, {})[method.lower()] = _operation(route, method, keyed=keyed)
    schemes = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "x_api_key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "unspool", "version": version("unspool")},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}, **({"securitySchemes": schemes} if keyed else {})},
    }


def _operation(route: Route, method: str, *, keyed: bool) -> dict[str, Any]:
    kinds = [_TYPES.get(route.path, "application/json")]
    if route.path in _STREAMED:
        kinds.append("text/event-stream")
    operation: dict[str, Any] = {
        "summary": _summary(route),
        "responses": {
            "200": {"description": "The answer.", "content": {kind: {} for kind in kinds}},
            "default": {
                "description": "What went wrong.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if names := _PARAMETER.findall(route.path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if method == "POST" and (schema := BODIES.get(route.path)):
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if keyed and route.path not in OPEN_PATHS:
        operation["security"] = [{"bearer": []}, {"x_api_key": []}]
    return operation


def _summary(route: Route) -> str:
    """What a route is for; one that nobody described has the name of its endpoint."""
    return _SUMMARIES.get(route.path) or route.name.replace("_", " ").capitalize()


async def openapi(request: Request) -> Response:
    """``GET /openapi.json``: this API as an OpenAPI document."""
    return json_response(_document_of(request))


async def page(request: Request) -> Response:
    """``GET /docs``: the same for people."""
    found = _document_of(request)
    body = "".join(_section(path, *each) for path, methods in found["paths"].items() for each in methods.items())
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>unspool</title><style>{_STYLE}</style>'
        f"<h1>unspool {escape(found['info']['version'])}</h1>"
        f'<p><a href="openapi.json">OpenAPI document</a></p>{body}',
        headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


def _document_of(request: Request) -> dict[str, Any]:
    return document(request.app.routes, keyed=bool(request.app.state.service.settings.api_key))


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    heading = f"<code><b>{method.upper()}</b> {escape(path)}</code> {_inline(operation['summary'])}"
    body = operation.get("requestBody")
    if body is None:
        return f"<p>{heading}</p>"
    rows = "".join(_rows(body["content"]["application/json"]["schema"]))
    table = f"<table><tr><th>field<th>type<th>{rows}</table>"
    return f"<details><summary>{heading}</summary>{table}</details>"


def _rows(schema: dict[str, Any]) -> Iterator[str]:
    for name, field in schema["properties"].items():
        kinds = [kind for kind in [field.get("type", "any")] if isinstance(kind, str)] or field["type"]
        shown = " or ".join(kind for kind in kinds if kind != "null")
        needed = ", required" if name in schema["required"] else ""
        yield f"<tr><td><code>{name}</code><td>{shown}{needed}<td>{_inline(field.get('description', ''))}"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
