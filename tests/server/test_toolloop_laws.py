"""Whatever a model writes in its turns: each API's stream stays legal, and only what may run runs."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.serving import WEATHER, ScriptedEngine
from tests.server.toolrunner import FakeRunner, call, scripted, tool
from tests.surfaces import chat_grammar, messages_grammar, responses_grammar
from unspool.engines.base import Sampling
from unspool.mcp.tools import ToolResult
from unspool.server.limits import EndedError
from unspool.server.service import Service, Settings
from unspool.server.toolloop import Answer, Manners, ToolLoop, begin
from unspool.surfaces.chat_writer import ChatStream
from unspool.surfaces.conversation import Conversation, Turn
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import Offer, exposed_name, make_plan, read_entry
from unspool.surfaces.messages_turns import decode_turns
from unspool.surfaces.messages_writer import MessageStream, message
from unspool.surfaces.responses_items import decode_items, turns_of
from unspool.surfaces.responses_writer import ResponseStream
from unspool.surfaces.server_events import AnyEvent, ServerCallResult

TOOLS = (tool("now"), tool("zones", read_only=True), tool("set", "ask"), tool("wipe", "deny"))
PIECES = [
    "Well. ",
    "<think>\nHm.\n</think>\n\n",
    *(call(f"time__{each.name}") for each in TOOLS),
    call("time__now", '{"zone": 1}'),
    call("time__nowhere"),
    call("get_weather", '{"city": "Oslo"}'),
    '<tool_call>\n{"name": "time__now", "arguments": {"a": }}\n</tool_call>',
    '<tool_call>\n{"name": "time__now", "arguments": {"zo',
]
turns = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), min_size=1, max_size=5)


def loop_of(
    runner: FakeRunner, engine: ScriptedEngine, manners: Manners, tokens: int = 100
) -> tuple[Service, Callable[[], Awaitable[Answer]]]:
    """A service, and what begins a loop of it, with the server's tools and one of the client's."""
    entry = read_entry(Fields({"type": "mcp", "server_label": "time"}, "tools[0]"), otherwise="allow")
    plan = make_plan([entry], Offer(runner.catalogue()), {"get_weather"})
    assert plan is not None
    conversation = Conversation((Turn("user", ("Hello",)),), (WEATHER, *plan.functions()))
    service = Service(engine, Settings(format="hermes", mcp_max_turns=3), runner)
    sampling = Sampling(max_tokens=tokens)
    return service, partial(begin, service, conversation, sampling, runner=runner, plan=plan, manners=manners)


def events_of(
    runner: FakeRunner, written: list[str], finish: str, manners: Manners, tokens: int
) -> list[AnyEvent]:
    """What a loop says in which the model writes these turns."""
    _, answering = loop_of(runner, scripted(*written, finish=finish), manners, tokens)

    async def run() -> list[AnyEvent]:
        (events,) = await (await answering()).events()
        return list(events)

    return asyncio.run(run())


async def _ask(*_: Any) -> str:
    return f"mcpr_{uuid.uuid4().hex}"


@settings(deadline=None)
@given(turns, st.sampled_from(["stop", "stop", "length"]), st.booleans(), st.booleans(), st.sampled_from([8, 100]))
def test_every_stream_is_legal_and_only_what_may_run_runs(
    written: list[str], finish: str, asks: bool, pauses: bool, tokens: int
) -> None:
    runner = FakeRunner(*TOOLS, zones=ToolResult("no zones", is_error=True))
    manners = Manners("req_1", ask=_ask if asks else None, pauses=pauses, most_calls=4)
    events = events_of(runner, written, finish, manners, tokens)
    allowed = {"now", "zones"}
    assert {name for name, _ in runner.ran} <= allowed
    assert len(runner.ran) <= 4
    assert all(arguments == "{}" for _, arguments in runner.ran)
    assert not (finish == "length" and runner.ran)

    results = [event for event in events if isinstance(event, ServerCallResult)]
    chat = ChatStream(completion_id="c", created=0, model="m")
    (heard,) = chat_grammar.read_stream(chat.write(events) + chat.close()).choices
    assert len(heard.server.get("mcp_calls", [])) == len(results)
    assert {each["name"] for each in heard.calls} <= {"get_weather", "time__set"}

    messages = MessageStream(message_id="m", model="m")
    folded = messages_grammar.read_stream(messages.write(events) + messages.close()).folded()
    blocks = [block["type"] for block in folded["content"]]
    assert blocks.count("mcp_tool_result") == len(results)

    head = {"id": "resp_1", "object": "response", "created_at": 0, "model": "m"}
    responses = ResponseStream(head, clock=lambda: 1.0)
    output = responses_grammar.read_stream(responses.write(events) + responses.close())["output"]
    done = [item for item in output if item["type"] == "mcp_call" and item["status"] in ("completed", "failed")]
    assert len(done) == len(results)


server_turns = st.lists(
    st.lists(st.sampled_from([*PIECES[:4], call("time__now", '{"zone": 1}'), "\n"]), max_size=4).map("".join),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(server_turns)
def test_what_comes_back_is_the_conversation_that_the_model_had(written: list[str]) -> None:
    """Calls of two turns are not two calls of one, which some templates refuse, and prompts begin as before."""
    runner = FakeRunner(*TOOLS, zones=ToolResult("no zones", is_error=True))
    _, answering = loop_of(runner, scripted(*written, "Done."), Manners("req_1"))
    had: list[Conversation] = []

    async def run() -> list[AnyEvent]:
        answer = await answering()
        assert isinstance(answer, ToolLoop)
        (events,) = await answer.events()
        had.append(answer.conversation)
        return events

    events = asyncio.run(run())
    wanted = [_shape(turn) for turn in had[0].turns[1:]]

    def named(server: str, name: str) -> str:
        return exposed_name(runner.catalogue(), server, name)

    head = {"id": "resp_1", "object": "response", "created_at": 0, "model": "m"}
    responses = ResponseStream(head, clock=lambda: 1.0)
    responses.write(events)
    responses.close()
    items = decode_items(responses.response()["output"], "input")
    assert [_shape(turn) for turn in turns_of(items, named)][: len(wanted)] == wanted

    content = json.loads(message(events, message_id="m", model="m"))["content"]
    sent = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": content}]
    back = decode_turns(Fields({"messages": sent}), named)[1:]
    assert [_shape(turn) for turn in back][: len(wanted)] == wanted


def _shape(turn: Turn) -> Any:
    calls = [(call.name, call.arguments) for call in turn.tool_calls]
    return turn.role, (turn.text or "").strip(), turn.reasoning, calls


def test_the_end_of_the_server_ends_its_tools() -> None:
    runner = FakeRunner(*TOOLS)
    runner.answers["now"] = runner.hang
    service, answering = loop_of(runner, scripted(call("time__now")), Manners("req_1"))

    async def run() -> None:
        answer = await answering()
        waiting = asyncio.ensure_future(answer.events())
        assert await asyncio.to_thread(runner.waiting.wait, 10)
        service.traffic.end()
        with pytest.raises(EndedError):
            await waiting

    asyncio.run(run())
    assert runner.cancelled.is_set()
