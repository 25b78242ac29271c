"""Reports about what a request may make the server do: follow references, answer without a key, forget a turn.

As in ``test_served``, each test names its case of the public reports.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from tests.cases.test_served import HI, in_order, tool
from tests.constrained.vocabularies import Letters
from tests.server.serving import ScriptedEngine, served
from unspool.engines.base import Chunk
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.app import create_app
from unspool.server.middleware import OPEN_PATHS
from unspool.server.service import Settings

ROLES = "{% for m in messages %}<{{ m.role }}>{{ m.reasoning or '' }}{{ m.content }}{% endfor %}"


@contextmanager
def visited() -> Iterator[tuple[str, list[object]]]:
    """The address of something that listens, and whoever came there."""
    visitors: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        done = threading.Event()

        def listen() -> None:
            while not done.is_set():
                try:
                    connection, address = listener.accept()
                except TimeoutError:
                    continue
                visitors.append(address)
                connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", visitors
        finally:
            done.set()
            thread.join()


class Held(ScriptedEngine):
    """Answers as scripted; constraints are made for its vocabulary, and not followed."""

    constrains = True

    def __init__(self, *script: Chunk) -> None:
        super().__init__(*script)
        self.tokenizer: Any = Letters([chr(code) for code in range(32, 127)], (), ())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_references_are_never_fetched_and_end(choice: str, *, strict: bool) -> None:
    """BUG-074: a reference to another document is followed by nobody, and one to itself is no loop."""
    with visited() as (address, visitors):
        remote, recursive = tool("f"), tool("g")
        remote["function"]["parameters"] = {
            "type": "object",
            "properties": {"a": {"$ref": f"{address}/x.json"}},
        }
        recursive["function"]["parameters"] = {
            "type": "object",
            "properties": {"b": {"$ref": "#/$defs/B"}},
            "$defs": {"B": {"type": "object", "properties": {"next": {"$ref": "#/$defs/B"}}}},
        }
        written = '<tool_call>\n{"name": "g", "arguments": {"b": {"next": {"next": {}}}}}\n</tool_call>'
        for tools in ([remote, recursive], [recursive]):
            for each in tools:
                each["function"]["strict"] = strict
            body = {"messages": HI, "tools": tools, "tool_choice": choice}
            for engine in (
                Held(Chunk(written, finish_reason="stop")),
                ScriptedEngine(Chunk(written, finish_reason="stop")),
            ):
                with served(engine, Settings(format="hermes")) as url:
                    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
                assert answer.status_code in (200, 400), answer.text
                if answer.status_code == 400:
                    assert "$ref" in answer.json()["error"]["message"]
                    assert remote in tools
                    continue
                (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
                assert json.loads(call["function"]["arguments"]) == {"b": {"next": {"next": {}}}}
        assert visitors == []


def test_tools_that_only_vendors_have_are_left_out() -> None:
    """BUG-098: the function is offered, and what does not run here is not; a custom tool is one text."""
    shell = {
        "type": "function",
        "name": "shell",
        "parameters": tool("shell", command="string")["function"]["parameters"],
    }
    others = [
        {"type": "web_search"},
        {"type": "custom", "name": "apply_patch", "description": "patch"},
        {"type": "local_shell"},
    ]
    template = "{% for tool in tools %}{{ tool.function.name }};{% endfor %}"
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=template)
    body = {"input": "hi", "tools": [shell, *others], "tool_choice": "auto"}
    with served(engine) as url:
        answer = httpx.post(f"{url}/v1/responses", json=body)
        forced = httpx.post(f"{url}/v1/responses", json={**body, "tool_choice": {"type": "web_search"}})
    assert answer.status_code == 200
    assert engine.prompts == ["shell;apply_patch;"]
    assert [shown["name"] for shown in answer.json()["tools"]] == ["shell", "apply_patch"]
    assert (forced.status_code, forced.json()["error"]["param"]) == (400, "tool_choice.type")


class Remembering(ReplayEngine):
    """Recordings in turn, and the prompts they answered."""

    def __init__(self, *outputs: str) -> None:
        super().__init__([Recording(f"r{i}", text) for i, text in enumerate(outputs)])
        self.prompts: list[str] = []

    def pick(self, prompt: str, name: str | None = None) -> Any:
        self.prompts.append(prompt)
        return super().pick(prompt, name)


@pytest.mark.parametrize("stream", [True, False])
def test_a_stored_call_and_its_result_are_in_the_next_prompt(*, stream: bool) -> None:
    """BUG-099: question, call and result, in this order."""
    engine = Remembering(
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>', "7 degrees"
    )
    weather = tool("get_weather", city="string")["function"]
    tools = [{"type": "function", **weather}]
    with served(engine) as url:
        first = httpx.post(
            f"{url}/v1/responses",
            json={"store": True, "input": "weather in Oslo?", "tools": tools, "stream": stream},
        )
        if stream:
            frames = [line[6:] for line in first.text.splitlines() if line.startswith("data: {")]
            response = json.loads(frames[-1])["response"]
        else:
            response = first.json()
        (call,) = response["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "7 C"}
        second = httpx.post(
            f"{url}/v1/responses",
            json={"previous_response_id": response["id"], "input": [output], "tools": tools},
        )
    assert second.status_code == 200
    assert in_order(engine.prompts[1], "weather in Oslo?", "get_weather", "Oslo", "7 C")


OLD = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "OLD-THOUGHT"}]}
NEW = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "NEW-THOUGHT"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize("context", ["current_turn", "all_turns", None])
def test_reasoning_of_finished_turns_is_dropped_if_only_this_turn_counts(context: str | None) -> None:
    """BUG-101: what belongs to the tool loop that is still running stays."""
    items: list[Any] = [
        {"role": "user", "content": "1+1?"},
        OLD,
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2?"},
        NEW,
        CALL,
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
    ]
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=ROLES)
    with served(engine) as url:
        answer = httpx.post(f"{url}/v1/responses", json={"reasoning": {"context": context}, "input": items})
    assert answer.status_code == 200
    (prompt,) = engine.prompts
    assert isinstance(prompt, str)
    assert ("OLD-THOUGHT" in prompt) == (context != "current_turn")
    assert in_order(prompt, "1+1?", "2+2?", "NEW-THOUGHT")


def test_a_context_that_is_none_is_refused() -> None:
    with served(ScriptedEngine(Chunk("ok", finish_reason="stop"))) as url:
        answer = httpx.post(f"{url}/v1/responses", json={"reasoning": {"context": "some"}, "input": "hi"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "reasoning.context")


def test_every_route_needs_the_key() -> None:
    """BUG-129: whatever is served, unknown paths included; either header will do."""
    settings = Settings(api_key="secret")
    routes = [route for route in create_app(ScriptedEngine()).routes if isinstance(route, Route)]
    asked = {(method, route.path) for route in routes for method in route.methods or ()}
    asked |= {("GET", "/v1/status"), ("DELETE", "/v1/cache")}
    with served(ScriptedEngine(Chunk("ok", finish_reason="stop")), settings) as url:
        for method, path in sorted(asked):
            bare = httpx.request(method, url + path, json={"messages": HI, "max_tokens": 5, "input": "hi"})
            assert (bare.status_code == 401) == (path not in OPEN_PATHS), (method, path)
            for headers in ({"authorization": "Bearer secret"}, {"x-api-key": "secret"}):
                assert httpx.request(method, url + path, headers=headers).status_code != 401, (method, path)
