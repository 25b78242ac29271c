"""The loop of tools, as a client of Anthropic's API sees it over a real connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import pytest

from tests.server.serving import HELLO
from tests.server.toolrunner import FakeRunner, call, running, scripted, tool
from tests.surfaces.messages_grammar import read_stream
from unspool.engines.replay import Recording
from unspool.mcp.tools import ServerState, ToolResult
from unspool.server.service import Settings

TIME: Any = {"type": "mcp_toolset", "mcp_server_name": "time"}
WEATHER: Any = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {}}}}
LOOK = Recording("look", "Let me look.\n" + call("time__now", '{"zone": "UTC"}'))
NOON = Recording("noon", "It is noon.", match="<tool_response>\nnoon\n</tool_response>")


@contextmanager
def connected(runner: FakeRunner, *recordings: Recording, **options: Any) -> Iterator[anthropic.Anthropic]:
    """The official client of a server that plays recordings and runs these tools."""
    with (
        running(runner, *recordings, **options) as url,
        anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=20) as api,
    ):
        yield api


def asked(**options: Any) -> Any:
    return {"model": "default", "max_tokens": 100, "messages": HELLO, **options}


def whole(api: anthropic.Anthropic, **options: Any) -> Any:
    return api.beta.messages.create(**asked(**options))


def streamed(api: anthropic.Anthropic, **options: Any) -> Any:
    """The message that the official client puts together from the stream."""
    with api.beta.messages.stream(**asked(**options)) as stream:
        return stream.get_final_message()


both = pytest.mark.parametrize("answer", [whole, streamed])


@both
@pytest.mark.parametrize("tools", [[], [TIME]])
def test_the_server_runs_its_tools_and_shows_call_and_result(answer: Any, tools: Any) -> None:
    runner = FakeRunner(tool("now"))
    with connected(runner, LOOK, NOON) as api:
        message = answer(api, tools=tools)
    text, use, result, said = message.content
    assert text.text.strip() == "Let me look."
    assert (use.type, use.name, use.server_name, use.input) == ("mcp_tool_use", "now", "time", {"zone": "UTC"})
    assert (result.type, result.tool_use_id, result.is_error) == ("mcp_tool_result", use.id, False)
    assert [block.text for block in result.content] == ["noon"]
    assert said.text == "It is noon."
    assert message.stop_reason == "end_turn"
    assert runner.ran == [("now", '{"zone": "UTC"}')]


def test_the_stream_is_legal_and_counts_all_turns() -> None:
    engine = scripted(call("time__now"), "It is noon.")
    with running(FakeRunner(tool("now")), engine=engine) as url:
        data = httpx.post(f"{url}/v1/messages", json=asked(stream=True)).content
    message = read_stream(data).folded()
    assert [block["type"] for block in message["content"]] == ["mcp_tool_use", "mcp_tool_result", "text"]
    usage = message["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (12, 8, 10)


@both
def test_the_message_pauses_at_the_limit_and_goes_on_when_it_comes_back(answer: Any) -> None:
    """BUG-119."""
    runner = FakeRunner(tool("now"))
    engine = scripted(call("time__now"), call("time__now"), "It is noon.")
    with connected(runner, engine=engine, settings=Settings(mcp_max_turns=2)) as api:
        first = answer(api)
        back = {"role": "assistant", "content": [block.to_dict() for block in first.content]}
        second = answer(api, messages=[*HELLO, back])
    assert first.stop_reason == "pause_turn"
    assert len(runner.ran) == 2
    assert [block.type for block in first.content] == ["mcp_tool_use", "mcp_tool_result"] * 2
    assert [block.text for block in second.content] == ["It is noon."]
    prompt = str(engine.prompts[2])
    assert prompt.count('{"name": "time__now", "arguments": {}}') == 2
    assert prompt.count("<tool_response>\nnoon\n</tool_response>") == 2
    assert prompt.endswith("<|im_start|>assistant\n")


@both
def test_a_call_that_needs_approval_is_the_clients(answer: Any) -> None:
    runner = FakeRunner(tool("now", "ask"))
    with connected(runner, LOOK) as api:
        message = answer(api, tools=[TIME])
    assert (message.content[-1].type, message.content[-1].name) == ("tool_use", "time__now")
    assert message.stop_reason == "tool_use"
    assert runner.ran == []


@both
def test_calls_of_the_client_come_back_in_a_mixed_turn(answer: Any) -> None:
    engine = scripted(call("time__now") + call("get_weather", '{"city": "Oslo"}'), "Noon, 18 degrees.")
    with connected(FakeRunner(tool("now")), engine=engine) as api:
        message = answer(api, tools=[WEATHER])
        back = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
        use = next(block for block in message.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "18 degrees"}
        answer(api, tools=[WEATHER], messages=[*HELLO, back, {"role": "user", "content": [result]}])
    assert [block.type for block in message.content] == ["mcp_tool_use", "tool_use", "mcp_tool_result"]
    assert message.stop_reason == "tool_use"
    prompt = str(engine.prompts[1])
    places = [prompt.index(text) for text in ('time__now", "arg', 'get_weather", "arg', "noon", "18 degrees")]
    assert places == sorted(places)


def test_a_failed_call_is_marked() -> None:
    """BUG-121."""
    engine = scripted(call("time__now"), "I see.")
    runner = FakeRunner(tool("now"), now=ToolResult("db is down", is_error=True))
    with connected(runner, engine=engine) as api:
        message = whole(api)
        back = {"role": "assistant", "content": [block.to_dict() for block in message.content]}
        whole(api, messages=[*HELLO, back, *HELLO])
    assert message.content[1].is_error
    assert all("Error: db is down" in str(prompt) for prompt in engine.prompts[1:])


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({"tools": [TIME]}, ["now", "set"]),
        ({"tools": [{**TIME, "default_config": {"enabled": False}}]}, []),
        (
            {"tools": [{**TIME, "default_config": {"enabled": False}, "configs": {"set": {"enabled": True}}}]},
            ["set"],
        ),
        ({"tools": [{**TIME, "configs": {"set": {"enabled": False}}}]}, ["now"]),
        ({"mcp_servers": [{"name": "time", "tool_configuration": {"allowed_tools": ["set"]}}]}, ["set"]),
        ({"mcp_servers": [{"name": "time", "tool_configuration": {"enabled": False}}]}, []),
        (
            {"mcp_servers": [{"name": "time"}], "tools": [{**TIME, "configs": {"now": {"enabled": False}}}]},
            ["set"],
        ),
        ({"tool_choice": {"type": "none"}}, []),
        ({"tool_choice": {"type": "tool", "name": "time__now"}}, ["now"]),
        ({"tool_choice": {"type": "any"}}, ["now", "set"]),
    ],
)
def test_a_request_says_which_tools_it_wants(options: Any, offered: list[str]) -> None:
    engine = scripted("Hello.")
    with running(FakeRunner(tool("now"), tool("set")), engine=engine) as url:
        assert httpx.post(f"{url}/v1/messages", json=asked(**options)).status_code == 200
    assert [name for name in ("now", "set") if f"time__{name}" in str(engine.prompts[0])] == offered


def test_a_server_that_is_not_ready_is_refused() -> None:
    states = [ServerState("time", "stdio", "failed", "it ended at once", True)]
    with running(FakeRunner(states=states), engine=scripted("Hello.")) as url:
        answer = httpx.post(f"{url}/v1/messages", json=asked(tools=[TIME]))
        assert httpx.post(f"{url}/v1/messages", json=asked()).status_code == 200
    assert answer.status_code == 424
    assert "it ended at once" in answer.json()["error"]["message"]


def test_servers_that_a_request_brings_are_off() -> None:
    server = {"type": "url", "url": "http://127.0.0.1:9/mcp", "name": "x", "authorization_token": "s3cret"}
    with running(FakeRunner(tool("now")), engine=scripted("Hello.")) as url:
        answer = httpx.post(f"{url}/v1/messages", json=asked(mcp_servers=[server]))
    assert answer.status_code == 400
    assert "`mcp_servers[0].url`" in answer.json()["error"]["message"]
    assert "s3cret" not in answer.text


def test_tokens_of_the_servers_tools_are_counted() -> None:
    with running(FakeRunner(tool("now")), LOOK) as url:
        body = {"model": "default", "messages": HELLO}
        counts = [
            httpx.post(f"{url}/v1/messages/count_tokens", json={**body, **more}).json()["input_tokens"]
            for more in ({}, {"tool_choice": {"type": "none"}})
        ]
    assert counts[0] > counts[1]
