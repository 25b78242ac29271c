"""The routes of the Responses API.

A response is stored before its last event is sent: whoever has read that may go on from it at once.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from unspool.mcp.tools import McpTool
from unspool.server.approvals import Approvals
from unspool.server.errors import describe, json_response, request_id_of
from unspool.server.history import (
    History,
    Stored,
    history_of,
    identified,
    is_id,
    keep,
    not_found,
    resolved,
    stored,
)
from unspool.server.paging import page
from unspool.server.request_tools import RequestTools, tools_of
from unspool.server.routes import read_json
from unspool.server.service import Service
from unspool.server.storage import Store
from unspool.server.streams import EventStream, Frames, begun, while_connected
from unspool.server.toolloop import Answer, Manners, begin
from unspool.surfaces import responses
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.mcp_plan import McpPlan
from unspool.surfaces.responses import ResponsesRequest
from unspool.surfaces.responses_items import Item
from unspool.surfaces.responses_writer import ResponseStream
from unspool.surfaces.server_events import AnyEvent


class ResponsesApi:
    """One service's responses. Those that are being streamed can be looked at, too."""

    def __init__(self, service: Service, store: Store) -> None:
        self._service = service
        self._store = store
        self._approvals = Approvals(store)
        self._running: dict[str, tuple[EventStream, _Answer]] = {}
        one = "/v1/responses/{response_id}"
        self.routes = [
            Route("/v1/responses", self.create, methods=["POST"]),
            Route("/v1/responses/input_tokens", self.input_tokens, methods=["POST"]),
            Route("/v1/responses/compact", self.compact, methods=["POST"]),
            Route(one, self.retrieve, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route(f"{one}/input_items", self.input_items, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        """``POST /v1/responses``."""
        asked, history, tools = await self._asked(request)
        model = self._service.resolve(asked.model)
        token = uuid.uuid4().hex
        plan, manners = await self._with_tools(asked, tools, history.items, f"resp_{token}", request)
        generation: Answer = await begin(
            self._service,
            asked.conversation(history.items),
            asked.sampling,
            runner=tools.runner,
            plan=plan,
            manners=manners,
            output=asked.output,
            reasoning_budget=asked.reasoning_budget,
            name=asked.replay or model,
            stream=asked.stream,
        )
        writer = ResponseStream(_head(asked, token, model), clock=time.time, style=asked.style)
        answer = _Answer(self._store, asked, history, identified(asked.items, token), writer)
        if asked.stream:
            # What is wrong with the request shows before the answer begins: afterwards a status can't be sent.
            first = await begun(request.receive, generation.start(), self._service.settings.heartbeat)
            frames = _ResponseFrames(generation, answer, request.scope)
            stream = self._service.stream(frames, first, writer.heartbeat)
            name = writer.response()["id"]
            self._running[name] = stream, answer
            request.state.endings.callback(self._running.pop, name, None)
            return stream
        (events,) = await while_connected(request.receive, generation.events())
        writer.write(events)
        writer.close()
        await answer.keep()
        return json_response(writer.response())

    async def _with_tools(
        self, asked: ResponsesRequest, tools: RequestTools, before: Sequence[Item], name: str, request: Request
    ) -> tuple[McpPlan | None, Manners]:
        """The tools that the server runs for a response of this name, and what the client is told of them."""
        offer = tools.offer
        granted = await self._approvals.granted(asked.items, before, offer.catalogue if offer else None)
        plan = asked.mcp
        if plan is None and offer is not None and granted:
            plan = McpPlan({}, (), offer.catalogue)

        async def ask(tool: McpTool, arguments: str) -> str:
            return await self._approvals.ask(name, tool, arguments, stored=asked.store)

        listed = {
            item["server_label"]
            for item in (*before, *asked.items)
            if item["type"] == "mcp_list_tools" and not item.get("error")
        }
        named = plan.named if plan else ()
        return plan, Manners(
            request_id_of(request.scope) or "",
            ask=ask,
            listed=[server for server in named if server.label not in listed],
            granted=granted,
            most_calls=asked.max_tool_calls,
        )

    async def input_tokens(self, request: Request) -> Response:
        """``POST /v1/responses/input_tokens``."""
        asked, history, _ = await self._asked(request)
        self._service.resolve(asked.model)
        counting = self._service.count_tokens(asked.conversation(history.items))
        count = await while_connected(request.receive, counting)
        return json_response({"object": "response.input_tokens", "input_tokens": count})

    async def compact(self, request: Request) -> Response:
        """``POST /v1/responses/compact``: without a route of its own it would be a wrong method of another."""
        raise InvalidRequestError(
            "This server does not compact conversations; send a shorter one.", code="not_supported", status=404
        )

    async def retrieve(self, request: Request) -> Response:
        """``GET /v1/responses/{id}``."""
        if request.query_params.get("stream") == "true":
            raise unsupported("stream", "streaming a response again")
        name = request.path_params["response_id"]
        if name in self._running and self._running[name][1].asked.store:
            return json_response(self._running[name][1].writer.response())
        return json_response((await stored(self._store, name)).response)

    async def delete(self, request: Request) -> Response:
        """``DELETE /v1/responses/{id}``."""
        name = request.path_params["response_id"]
        if not is_id(name, "resp") or not await self._store.delete(name):
            raise not_found("response", name)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Response:
        """``POST /v1/responses/{id}/cancel``: ends what is being streamed; a second time changes nothing."""
        name = request.path_params["response_id"]
        if name in self._running:
            stream, answer = self._running[name]
            answer.writer.cancel()
            stream.interrupt()
            await answer.keep()
            found: Mapping[str, Any] = answer.writer.response()
        else:
            found = (await stored(self._store, name)).response
        if found["status"] != "cancelled":
            raise InvalidRequestError(
                f"The response {name!r} can't be cancelled: it is {found['status']}.", "response_id"
            )
        return json_response(found)

    async def input_items(self, request: Request) -> Response:
        """``GET /v1/responses/{id}/input_items``."""
        found = await stored(self._store, request.path_params["response_id"])
        return json_response(page(found.input, request.query_params))

    async def _asked(self, request: Request) -> tuple[ResponsesRequest, History, RequestTools]:
        """What is asked, with the items that it refers to, what it goes on from, and its tools. If what it goes on
        from is not there, nothing else counts.
        """
        body = await read_json(request, self._service.settings.max_body)
        history = await history_of(self._store, responses.decode_before(body))
        tools = await tools_of(request, self._service, body)
        asked = responses.decode(body, tools.offer)
        items = await resolved(self._store, asked.items, "input", history)
        instructions = await resolved(self._store, asked.instructions, "instructions", history)
        return replace(asked, items=items, instructions=instructions), history, tools


class _Answer:
    """A response that is being made, and what it is stored with."""

    def __init__(
        self,
        store: Store,
        asked: ResponsesRequest,
        history: History,
        items: list[Any],
        writer: ResponseStream,
    ) -> None:
        self._store = store
        self.asked = asked
        self._history = history
        self._items = items
        self._keeping: asyncio.Task[None] | None = None
        self.writer = writer

    async def keep(self) -> None:
        """Stores the response as it stands, once; whoever else wants to waits for that."""
        if self._keeping is None:
            history = self._history
            found = Stored(self.writer.response(), self._items, history.responses, history.conversation)
            self._keeping = asyncio.create_task(keep(self._store, self.asked, found))
        await asyncio.shield(self._keeping)


def _head(asked: ResponsesRequest, token: str, model: str) -> dict[str, Any]:
    return {
        "id": f"resp_{token}",
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "previous_response_id": asked.previous,
        "conversation": {"id": asked.conversation_id} if asked.conversation_id else None,
        **asked.echo,
    }


class _ResponseFrames(Frames[Sequence[AnyEvent]]):
    """The response is stored before its end is sent, which waits for that."""

    def __init__(self, generation: Answer, answer: _Answer, scope: Scope) -> None:
        super().__init__(generation.steps, answer.writer.write, generation.tap)
        self._answer = answer
        self._writer = answer.writer
        self._scope = scope

    def waiting(self) -> bytes:
        """The response is there, though its first token is not: heartbeats can only tell of what has begun."""
        return self._writer.write([])

    async def close(self) -> bytes:
        return await self._kept(self._writer.close())

    async def fail(self, error: Exception) -> bytes:
        return await self._kept(self._writer.error(describe(self._scope, error)[1]))

    async def _kept(self, data: bytes) -> bytes:
        await self._answer.keep()
        return data
