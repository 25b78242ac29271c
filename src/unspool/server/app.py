"""The ASGI application: routes, middleware and error shapes around one service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from unspool.engines.base import Engine, EngineError
from unspool.mcp.tools import ToolRunner
from unspool.server import openapi, routes
from unspool.server.conversations import ConversationsApi
from unspool.server.errors import UnavailableError, on_error
from unspool.server.gate import Gate
from unspool.server.limits import Limits
from unspool.server.logs import AccessLog
from unspool.server.mcp_routes import McpApi
from unspool.server.middleware import ApiKey, RequestId
from unspool.server.responses import ResponsesApi
from unspool.server.service import Service, Settings
from unspool.server.storage import SqliteStore, Store, StoreError
from unspool.server.streams import DIRECT, ClientGoneError
from unspool.surfaces.errors import InvalidRequestError

_START_S = 10.0
"""Seconds in which MCP servers should be ready before anybody is served; who takes longer is there later."""

_ERRORS = (
    InvalidRequestError,
    UnavailableError,
    EngineError,
    StoreError,
    ClientGoneError,
    HTTPException,
    Exception,
)


def create_app(
    engine: Engine, settings: Settings | None = None, store: Store | None = None, runner: ToolRunner | None = None
) -> Starlette:
    """Serves a started engine; engine and store are closed when the server shuts down.

    Without a ``store``, responses and conversations are kept in memory. ``runner`` runs tools of MCP servers; it
    is started and closed with the server. Raises ``unspool.UnknownFormatError`` or ``BadTemplateError`` if the
    model can't be served like this.
    """
    settings = settings or Settings()
    service = Service(engine, settings, runner)
    kept = store or SqliteStore()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as tools:
            if runner is not None:
                await tools.enter_async_context(_running(runner))
            yield
        await engine.close()
        await kept.close()

    app = _Application(
        routes=[
            Route("/v1/chat/completions", routes.chat_completions, methods=["POST"]),
            Route("/v1/messages", routes.messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", routes.count_tokens, methods=["POST"]),
            *ResponsesApi(service, kept).routes,
            *ConversationsApi(kept, settings.max_body).routes,
            *McpApi(service).routes,
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/health", routes.health),
            Route("/metrics", routes.metrics),
            Route("/openapi.json", openapi.openapi),
            Route("/docs", openapi.page),
            Route("/version", routes.about),
            Route("/", routes.about),
        ],
        middleware=_middleware(service),
        exception_handlers=dict.fromkeys(_ERRORS, on_error),
        lifespan=lifespan,
    )
    app.state.service = service
    return app


class _Application(Starlette):
    """Shows streams the way to the client that passes by everything around them, Starlette's own included.

    What that does to an answer, it does to its start.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http":
            scope.setdefault("state", {})[DIRECT] = send
        await super().__call__(scope, receive, send)


@asynccontextmanager
async def _running(runner: ToolRunner) -> AsyncIterator[None]:
    """Tools that can be called, and are ended afterwards."""
    starting = asyncio.create_task(runner.start())
    await asyncio.wait({starting}, timeout=_START_S)
    if starting.done():
        starting.result()
    try:
        yield
    finally:
        starting.cancel()
        await asyncio.wait({starting})
        await runner.close()
        if not starting.cancelled():
            starting.result()


def _middleware(service: Service) -> list[Middleware]:
    settings = service.settings
    middleware = [
        Middleware(RequestId),
        Middleware(AccessLog, metrics=service.traffic.metrics),
        Middleware(Gate, hosts=settings.allow_hosts, origins=settings.allow_origins),
    ]
    if settings.allow_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(settings.allow_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "request-id"],
        )
        middleware.append(cors)
    if settings.api_key:
        middleware.append(Middleware(ApiKey, key=settings.api_key))
    middleware.append(Middleware(Limits, traffic=service.traffic, idle_timeout=settings.idle_timeout))
    return middleware
