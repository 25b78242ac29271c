"""Recorded outputs of nine families, served, and put together again by the official clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import anthropic
import httpx
import pytest
from canitoolcall.fixtures import Fixture, load_fixtures

import unspool
from tests.conformance.adapter import FORMATS, vocabularies
from tests.server.serving import HELLO, client, served
from tests.surfaces import messages_grammar, responses_grammar
from tests.surfaces.chat_grammar import Heard, read_stream
from unspool.engines.replay import Recording, ReplayEngine


@cache
def fixtures() -> list[Fixture]:
    return [fixture for fixture in load_fixtures() if fixture.expected is not None]


def format_of(fixture: Fixture) -> str:
    """The format that lists the model, else the one of its family."""
    listed = (form.name for form in unspool.formats() if fixture.reference_model in form.models)
    of_family = (form for part, form in FORMATS[fixture.family] if part in fixture.reference_model)
    return next(chain(listed, of_family))


def recording(fixture: Fixture, *, by_tokens: bool) -> Recording:
    vocabulary = vocabularies()[fixture.reference_model]
    ids = fixture.output_token_ids or ()
    form = format_of(fixture)
    plain = Recording(
        id=fixture.id,
        raw_output=fixture.raw_output,
        format=form,
        prompt_tail=fixture.generation_prompt,
        finish_reason="length" if fixture.truncated else "stop",
    )
    if not by_tokens:
        return plain
    return Recording(
        id=f"{fixture.id}/tokens",
        raw_output=fixture.raw_output,
        format=form,
        prompt_tail=fixture.generation_prompt,
        token_ids=ids,
        pieces=tuple(map(vocabulary.piece, ids)),
        special=vocabulary.special,
        finish_reason=plain.finish_reason,
    )


@pytest.fixture(scope="module")
def by_tokens() -> Iterator[str]:
    with served(ReplayEngine([recording(f, by_tokens=True) for f in fixtures()])) as url:
        yield url


@pytest.fixture(scope="module")
def by_text() -> Iterator[str]:
    recordings = [recording(f, by_tokens=False) for f in fixtures()]
    with served(ReplayEngine(recordings, chunking="random:1:7")) as url:
        yield url


Summary = tuple[str, str, list[tuple[str, Any]]]


def expected(fixture: Fixture) -> Summary:
    right = fixture.expected
    assert right is not None
    calls = [(call.name, dict(call.arguments)) for call in right.tool_calls]
    return (right.content or "").strip(), (right.reasoning_content or "").strip(), calls


def of_message(message: Any) -> Summary:
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    return (message.content or "").strip(), (getattr(message, "reasoning", None) or "").strip(), calls


def raw_stream(http: httpx.Client, fixture: Fixture, model: str) -> Heard:
    body = {"model": model, "messages": HELLO, "tools": fixture.tools, "stream": True}
    answer = http.post("/v1/chat/completions", json=body)
    (heard,) = read_stream(answer.content).choices
    return heard


def messages_body(fixture: Fixture, model: str) -> dict[str, Any]:
    """The request for a recording as the Messages API has it."""
    functions: list[Any] = [tool["function"] for tool in fixture.tools or []]
    tools = [
        {"name": function["name"], "input_schema": function.get("parameters") or {}} for function in functions
    ]
    return {"model": model, "max_tokens": 1, "messages": HELLO, "tools": tools}


def of_family(family: str) -> list[Fixture]:
    mine = [fixture for fixture in fixtures() if fixture.family == family and not fixture.truncated]
    assert mine
    return mine


@pytest.mark.parametrize("family", list(FORMATS))
def test_the_official_clients_stream_yields_the_exact_calls(by_tokens: str, family: str) -> None:
    api = client(by_tokens)
    with_calls = [fixture for fixture in of_family(family) if expected(fixture)[2]]
    for fixture in with_calls[:: len(with_calls) // 8]:
        tools: Any = fixture.tools
        with api.chat.completions.stream(model=f"{fixture.id}/tokens", messages=HELLO, tools=tools) as stream:
            (choice,) = stream.get_final_completion().choices
        assert of_message(choice.message) == expected(fixture), fixture.id
        assert choice.finish_reason == "tool_calls", fixture.id


@pytest.mark.parametrize("family", list(FORMATS))
def test_every_recorded_output_streams_legally_and_exactly(by_tokens: str, family: str) -> None:
    with httpx.Client(base_url=by_tokens) as http:
        for fixture in of_family(family):
            heard = raw_stream(http, fixture, f"{fixture.id}/tokens")
            calls = [(call["name"], json.loads(call["arguments"])) for call in heard.calls]
            assert (heard.content.strip(), heard.reasoning.strip(), calls) == expected(fixture), fixture.id
            assert heard.finish_reason == ("tool_calls" if calls else "stop"), fixture.id


@pytest.mark.parametrize("family", list(FORMATS))
def test_whole_answers_say_the_same_as_streams_of_text(by_text: str, family: str) -> None:
    api = client(by_text)
    with httpx.Client(base_url=by_text) as http:
        for fixture in of_family(family)[::4]:
            heard = raw_stream(http, fixture, fixture.id)
            tools: Any = fixture.tools
            completion: Any = api.chat.completions.create(model=fixture.id, messages=HELLO, tools=tools)
            message = completion.choices[0].message
            assert (message.content or "") == heard.content
            assert (getattr(message, "reasoning", None) or "") == heard.reasoning
            assert [(call.function.name, call.function.arguments) for call in message.tool_calls or []] == [
                (call["name"], call["arguments"]) for call in heard.calls
            ]


def of_items(output: list[Any]) -> Summary:
    """What a response's items say, as one message."""
    texts = {"message": "", "reasoning": ""}
    calls = []
    for item in output:
        if item["type"] == "function_call":
            calls.append((item["name"], json.loads(item["arguments"])))
        else:
            texts[item["type"]] += item["content"][0]["text"]
    return texts["message"].strip(), texts["reasoning"].strip(), calls


@pytest.mark.parametrize("family", list(FORMATS))
def test_the_responses_api_says_the_same_streamed_and_whole(by_tokens: str, family: str) -> None:
    with httpx.Client(base_url=by_tokens) as http:
        for fixture in of_family(family)[::3]:
            tools = [{"type": "function", **tool["function"]} for tool in fixture.tools or []]
            body = {"model": f"{fixture.id}/tokens", "input": "Hello", "tools": tools, "store": False}
            stream = http.post("/v1/responses", json={**body, "stream": True})
            response = responses_grammar.read_stream(stream.content)
            assert of_items(response["output"]) == expected(fixture), fixture.id
            assert response["status"] == "completed"
            whole = http.post("/v1/responses", json=body).json()
            assert of_items(whole["output"]) == expected(fixture), fixture.id
            assert [item["type"] for item in whole["output"]] == [item["type"] for item in response["output"]]


@pytest.mark.parametrize("family", list(FORMATS))
def test_every_recorded_output_streams_legally_and_exactly_over_the_messages_api(
    by_tokens: str, family: str
) -> None:
    with httpx.Client(base_url=by_tokens) as http:
        for fixture in of_family(family):
            body = {**messages_body(fixture, f"{fixture.id}/tokens"), "stream": True}
            stream = messages_grammar.read_stream(http.post("/v1/messages", json=body).content)
            calls = [(name, json.loads(arguments)) for name, arguments in stream.calls()]
            heard = (stream.text("text").strip(), stream.text("thinking").strip(), calls)
            assert heard == expected(fixture), fixture.id
            assert stream.folded()["stop_reason"] == ("tool_use" if calls else "end_turn"), fixture.id


@pytest.mark.parametrize("family", list(FORMATS))
def test_whole_messages_are_streams_of_text_put_together(by_text: str, family: str) -> None:
    with httpx.Client(base_url=by_text) as http:
        for fixture in of_family(family)[::4]:
            body = messages_body(fixture, fixture.id)
            stream = messages_grammar.read_stream(http.post("/v1/messages", json={**body, "stream": True}).content)
            message, folded = http.post("/v1/messages", json=body).json(), stream.folded()
            for answer in (message, folded):
                del answer["id"]
                for block in answer["content"]:
                    block.pop("id", None)
            assert message == folded


@pytest.mark.parametrize("family", list(FORMATS))
def test_the_official_messages_client_yields_the_exact_calls(by_tokens: str, family: str) -> None:
    api = anthropic.Anthropic(base_url=by_tokens, api_key="none", max_retries=0)
    with_calls = [fixture for fixture in of_family(family) if expected(fixture)[2]]
    for fixture in with_calls[:: len(with_calls) // 8]:
        options: Any = messages_body(fixture, f"{fixture.id}/tokens")
        with api.messages.stream(**options) as stream:
            message = stream.get_final_message()
        calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
        assert calls == expected(fixture)[2], fixture.id
        assert message.stop_reason == "tool_use", fixture.id
