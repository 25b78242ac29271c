"""The routes: each reads a request, asks the service, and hands the events to its surface's writer."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from unspool.engines.base import ModelInfo
from unspool.message import Message
from unspool.server.bodies import read_body
from unspool.server.errors import describe, json_response, request_id_of
from unspool.server.metrics import CONTENT_TYPE
from unspool.server.request_tools import tools_of
from unspool.server.service import Service
from unspool.server.streams import Frames, begun, while_connected
from unspool.server.toolloop import Answer, Manners, begin
from unspool.surfaces import chat
from unspool.surfaces import messages as messages_surface
from unspool.surfaces.chat_writer import HEARTBEAT, ChatStream, completion, server_side
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.messages_writer import PING, MessageStream, message
from unspool.surfaces.server_events import AnyEvent, said_by_model


async def chat_completions(request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    service = _service(request)
    body = await read_json(request, service.settings.max_body)
    tools = await tools_of(request, service, body)
    asked = chat.decode(body, tools.offer)
    model = service.resolve(asked.model)
    generation = await begin(
        service,
        asked.conversation,
        asked.sampling,
        runner=tools.runner,
        plan=asked.mcp,
        # The texts of all turns are one text to the client.
        manners=Manners(request_id_of(request.scope) or "", between="\n\n"),
        output=asked.output,
        reasoning_budget=asked.reasoning_budget,
        name=asked.replay or model,
        choices=asked.n,
        stream=asked.stream,
    )
    identity: dict[str, Any] = {
        "completion_id": f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(time.time()),
        "model": model,
        "include_reasoning": asked.include_reasoning,
        "reasoning_fields": service.settings.reasoning_fields,
    }
    if asked.stream:
        # What is wrong with the request shows before the answer begins, since a status can't be sent afterwards.
        # What takes long after that is the queue or the prompt; meanwhile the client must hear something.
        first = await begun(request.receive, generation.start(), service.settings.heartbeat)
        writer = ChatStream(**identity, choices=asked.n, include_usage=asked.include_usage)
        return service.stream(_ChatFrames(generation, writer, request.scope), first, lambda: HEARTBEAT)
    choices = await while_connected(request.receive, generation.events())
    done = server_side(choices[0])
    whole = [Message.from_events(said_by_model(events)) for events in choices]
    return json_response(completion(whole, **identity, done=done))


class _ChatFrames(Frames[Sequence[AnyEvent]]):
    def __init__(self, generation: Answer, writer: ChatStream, scope: Scope) -> None:
        super().__init__(generation.steps, writer.write, generation.tap)
        self._writer = writer
        self._scope = scope

    async def close(self) -> bytes:
        return self._writer.close()

    async def fail(self, error: Exception) -> bytes:
        return self._writer.error(describe(self._scope, error)[1])


async def messages(request: Request) -> Response:
    """``POST /v1/messages``."""
    service = _service(request)
    body = await read_json(request, service.settings.max_body)
    tools = await tools_of(request, service, body)
    asked = messages_surface.decode(body, tools.offer)
    model = service.resolve(asked.model)
    generation = await begin(
        service,
        asked.conversation,
        asked.sampling,
        runner=tools.runner,
        plan=asked.mcp,
        manners=Manners(request_id_of(request.scope) or "", pauses=True),
        output=asked.output,
        reasoning_budget=asked.reasoning_budget,
        name=asked.replay or model,
        stream=asked.stream,
    )
    identity: dict[str, Any] = {
        "message_id": f"msg_{uuid.uuid4().hex}",
        "model": model,
        "show_thinking": asked.show_thinking,
    }
    if asked.stream:
        first = await begun(request.receive, generation.start(), service.settings.heartbeat)
        return service.stream(_MessageFrames(generation, identity, request.scope), first, lambda: PING)
    (events,) = await while_connected(request.receive, generation.events())
    (stop_sequence,) = generation.stop_sequences
    return Response(message(events, **identity, stop_sequence=stop_sequence), media_type="application/json")


class _MessageFrames(Frames[Sequence[AnyEvent]]):
    def __init__(self, generation: Answer, identity: dict[str, Any], scope: Scope) -> None:
        super().__init__(generation.steps, self._first, generation.tap)
        self._generation = generation
        self._identity = identity
        self._scope = scope
        self._writer: MessageStream | None = None

    def _first(self, events: Sequence[AnyEvent], index: int) -> bytes:
        # Only now the prompt is counted, which the first event tells.
        self._writer = MessageStream(**self._identity, prompt=self._generation.prompt)
        self.write = self._writer.write
        return self.write(events, index)

    async def close(self) -> bytes:
        return (self._writer or MessageStream(**self._identity)).close(self._generation.stop_sequences[0])

    async def fail(self, error: Exception) -> bytes:
        return (self._writer or MessageStream(**self._identity)).error(describe(self._scope, error)[1])


async def count_tokens(request: Request) -> Response:
    """``POST /v1/messages/count_tokens``."""
    service = _service(request)
    body = await read_json(request, service.settings.max_body)
    asked = messages_surface.decode_count(body, (await tools_of(request, service, body)).offer)
    service.resolve(asked.model)
    count = service.count_tokens(asked.conversation)
    return json_response({"input_tokens": await while_connected(request.receive, count)})


async def models(request: Request) -> Response:
    """``GET /v1/models``, in a shape that serves both OpenAI's and Anthropic's SDK."""
    service = _service(request)
    entries = [_model(name, service.engine.model) for name in service.names]
    return json_response(
        {
            "object": "list",
            "data": entries,
            "has_more": False,
            "first_id": entries[0]["id"],
            "last_id": entries[-1]["id"],
        }
    )


async def model(request: Request) -> Response:
    """``GET /v1/models/{id}``; ids may contain slashes."""
    service = _service(request)
    return json_response(_model(service.resolve(request.path_params["name"]), service.engine.model))


def _model(name: str, info: ModelInfo) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": info.created,
        "created_at": datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "owned_by": "unspool",
        "display_name": name,
        "lifecycle": "active",
        "max_input_tokens": info.context_length,
        "max_model_len": info.context_length,
        "context_length": info.context_length,
    }


async def health(request: Request) -> Response:
    """``GET /health``: the model is loaded and the event loop runs."""
    return json_response({"status": "ok"})


async def metrics(request: Request) -> Response:
    """``GET /metrics``, for Prometheus."""
    return Response(_service(request).traffic.metrics.text(), headers={"content-type": CONTENT_TYPE})


async def about(request: Request) -> Response:
    """``GET /`` and ``GET /version``."""
    return json_response({"name": "unspool", "version": version("unspool")})


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def read_json(request: Request, limit: int) -> object:
    """The request's body; a 413 if it is longer than ``limit`` bytes, a 400 if it is not JSON."""
    body = await read_body(request, limit)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            # The stricter reader refuses halves of surrogate pairs, which our own answers may contain.
            return json.loads(body)
        except (ValueError, RecursionError):
            raise InvalidRequestError(f"The request body is not valid JSON: {error}.") from None
