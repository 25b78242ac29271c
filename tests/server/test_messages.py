"""The Messages route, as the official client sees it over a real connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.server.serving import ScriptedEngine, served
from tests.surfaces.messages_grammar import read_stream
from unspool.engines.base import Chunk, ContextOverflowError, Sampling
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Settings

HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>'
CUT_CALL = '\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "To'
RECORDINGS = (
    Recording("text", "Hello! How can I help?"),
    Recording("reasoning", "Hm, 2 + 2.\n</think>\n\nIt is 4.", prompt_tail="<think>\n"),
    Recording("call", "Let me look.\n" + CALL.format("Paris")),
    Recording("parallel", CALL.format("Paris") + "\n" + CALL.format("東京")),
    Recording("cut", CALL.format("Paris") + CUT_CALL, finish_reason="length"),
    Recording("bare", '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'),
    Recording("stopped", "One, two", stop_sequence=", three"),
    Recording("broken", "Some text and then", fail_after=2),
    Recording("failing", "nothing of this", fail_after=0),
)
NAMES = [recording.id for recording in RECORDINGS[:7]]
EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3")) as url:
        yield url


def client(url: str, key: str = "none") -> anthropic.Anthropic:
    """The official client, without its retries: a failure must show."""
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20)


@pytest.fixture(scope="module")
def api(url: str) -> anthropic.Anthropic:
    return client(url)


def whole(api: anthropic.Anthropic, recording: str, **options: Any) -> Any:
    return api.messages.create(**{"model": recording, "messages": HELLO, "max_tokens": 99, **options})


def plain_stream(api: anthropic.Anthropic, recording: str, **options: Any) -> list[Any]:
    return list(whole(api, recording, stream=True, **options))


def streamed(api: anthropic.Anthropic, recording: str, **options: Any) -> Any:
    """The message that the official client puts together from the stream."""
    with api.messages.stream(model=recording, messages=HELLO, max_tokens=99, **options) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize("answer", [whole, streamed])
def test_text(api: anthropic.Anthropic, answer: Any) -> None:
    message = answer(api, "text")
    assert (message.type, message.role, message.model) == ("message", "assistant", "text")
    assert [(block.type, block.text) for block in message.content] == [("text", "Hello! How can I help?")]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.id.startswith("msg_")


@pytest.mark.parametrize("answer", [whole, streamed])
def test_reasoning(api: anthropic.Anthropic, answer: Any) -> None:
    thinking, text = answer(api, "reasoning", thinking={"type": "enabled", "budget_tokens": 1024}).content
    assert (thinking.type, thinking.thinking) == ("thinking", "Hm, 2 + 2.")
    assert thinking.signature
    assert (text.type, text.text) == ("text", "It is 4.")


@pytest.mark.parametrize("answer", [whole, streamed])
def test_thinking_can_be_omitted(api: anthropic.Anthropic, answer: Any) -> None:
    options: Any = {"thinking": {"type": "adaptive", "display": "omitted"}}
    thinking, text = answer(api, "reasoning", **options).content
    assert (thinking.thinking, text.text) == ("", "It is 4.")
    assert thinking.signature == whole(api, "reasoning").content[0].signature


@pytest.mark.parametrize("answer", [whole, streamed])
def test_one_call(api: anthropic.Anthropic, answer: Any) -> None:
    message = answer(api, "call", tools=[WEATHER])
    text, call = message.content
    assert text.text.strip() == "Let me look."
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
    assert call.id
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("answer", [whole, streamed])
def test_parallel_calls(api: anthropic.Anthropic, answer: Any) -> None:
    calls = answer(api, "parallel", tools=[WEATHER]).content
    assert [call.input for call in calls] == [{"city": "Paris"}, {"city": "東京"}]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("answer", [whole, streamed])
def test_one_call_at_most(api: anthropic.Anthropic, answer: Any) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    (call,) = answer(api, "parallel", tools=[WEATHER], tool_choice=choice).content
    assert call.input == {"city": "Paris"}


@pytest.mark.parametrize("answer", [whole, streamed])
def test_a_call_without_arguments(api: anthropic.Anthropic, answer: Any) -> None:
    (call,) = answer(api, "bare", tools=[WEATHER]).content
    assert call.input == {}


@pytest.mark.parametrize("answer", [whole, streamed])
@pytest.mark.parametrize("options", [{}, {"tools": [WEATHER], "tool_choice": {"type": "none"}}])
def test_call_syntax_is_text_when_no_call_may_come(
    api: anthropic.Anthropic, answer: Any, options: dict[str, Any]
) -> None:
    message = answer(api, "parallel", **options)
    assert [block.text for block in message.content] == [RECORDINGS[3].raw_output]
    assert message.stop_reason == "end_turn"


def test_a_cut_call(api: anthropic.Anthropic) -> None:
    message = whole(api, "cut", tools=[WEATHER])
    (call,) = message.content
    assert (call.input, message.stop_reason) == ({"city": "Paris"}, "max_tokens")
    events = plain_stream(api, "cut", tools=[WEATHER])
    pieces = [event.delta.partial_json for event in events if event.type == "content_block_delta" and event.index]
    assert "".join(pieces) == '{"city": "To'
    assert events[-2].delta.stop_reason == "max_tokens"
    assert streamed(api, "cut", tools=[WEATHER]).stop_reason == "max_tokens"


def test_cut_calls_can_be_held_back() -> None:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3"), Settings(arguments="atomic")) as url:
        (call,) = streamed(client(url), "cut", tools=[WEATHER]).content
    assert call.input == {"city": "Paris"}


@pytest.mark.parametrize("answer", [whole, streamed])
def test_a_stop_string_is_named(api: anthropic.Anthropic, answer: Any) -> None:
    message = answer(api, "stopped", stop_sequences=[", three"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", ", three")


@pytest.mark.parametrize("recording", NAMES)
def test_streams_follow_the_contract_and_add_up_to_the_whole_answer(url: str, recording: str) -> None:
    body = {"model": recording, "messages": HELLO, "max_tokens": 99, "tools": [WEATHER]}
    answer = httpx.post(f"{url}/v1/messages?beta=true", json={**body, "stream": True})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    stream = read_stream(answer.content)
    assert stream.pings
    message = httpx.post(f"{url}/v1/messages", json=body).json()
    folded = stream.folded(without_cut_calls=True)
    for both in (message, folded):
        del both["id"]
        for block in both["content"]:
            block.pop("id", None)
    assert message == folded


@pytest.mark.parametrize("recording", NAMES)
def test_the_official_types_accept_every_answer(url: str, recording: str) -> None:
    body = {"model": recording, "messages": HELLO, "max_tokens": 99, "tools": [WEATHER]}
    Message.model_validate(httpx.post(f"{url}/v1/messages", json=body).json(), strict=True)
    answer = httpx.post(f"{url}/v1/messages", json={**body, "stream": True}).content
    for frame in answer.split(b"\n\n")[:-1]:
        event = json.loads(frame.split(b"\ndata: ")[1])
        if event["type"] != "ping":
            EVENT.validate_python(event)


def test_usage(api: anthropic.Anthropic) -> None:
    usage = whole(api, "reasoning").usage
    assert usage.input_tokens > 0
    assert usage.cache_read_input_tokens == 0
    assert 0 < usage.output_tokens_details.thinking_tokens < usage.output_tokens
    events = plain_stream(api, "reasoning")
    assert events[0].message.usage.input_tokens == events[-2].usage.input_tokens == usage.input_tokens
    assert events[-2].usage.output_tokens == usage.output_tokens


def test_what_was_reused_of_the_prompt_is_counted_apart() -> None:
    engine = ScriptedEngine(
        Chunk("a", prompt_tokens=10, cached_tokens=4),
        Chunk("b", finish_reason="stop", prompt_tokens=10, completion_tokens=2, cached_tokens=4),
    )
    with served(engine) as url:
        for usage in (
            whole(client(url), "scripted").usage,
            streamed(client(url), "scripted").usage,
            plain_stream(client(url), "scripted")[0].message.usage,
        ):
            assert (usage.input_tokens, usage.cache_read_input_tokens) == (6, 4)


def test_tokens_are_counted(api: anthropic.Anthropic) -> None:
    options: Any = {"model": "text", "messages": HELLO}
    counted = api.messages.count_tokens(**options).input_tokens
    assert counted == whole(api, "text").usage.input_tokens
    assert api.messages.count_tokens(**options, tools=[WEATHER]).input_tokens > counted
    assert api.messages.count_tokens(**options, system="Be brief.").input_tokens > counted
    with pytest.raises(anthropic.NotFoundError):
        api.messages.count_tokens(model="other", messages=HELLO)
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        api.messages.count_tokens(model="text", messages=[])


def test_an_engine_that_cannot_count_says_so() -> None:
    with served(ScriptedEngine()) as url, pytest.raises(anthropic.APIStatusError, match="can't count") as caught:
        client(url).messages.count_tokens(model="scripted", messages=HELLO)
    assert caught.value.status_code == 501
    assert error(caught.value)["type"] == "api_error"


def error(caught: anthropic.APIStatusError) -> dict[str, Any]:
    """The error object of an answer in the API's shape."""
    body: Any = caught.response.json()
    assert set(body) == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["request_id"] == caught.request_id == caught.response.headers["x-request-id"]
    assert set(body["error"]) == {"type", "message"}
    found: dict[str, Any] = body["error"]
    return found


def test_an_engine_that_fails_at_once_is_an_http_error(api: anthropic.Anthropic) -> None:
    for stream in (True, False):
        with pytest.raises(anthropic.InternalServerError, match="fails here") as caught:
            whole(api, "failing", stream=stream)
        assert error(caught.value)["type"] == "api_error"


def test_an_engine_that_fails_later_is_an_error_event(api: anthropic.Anthropic, url: str) -> None:
    texts: list[str] = []

    def read() -> None:
        for event in whole(api, "broken", stream=True):
            if event.type == "content_block_delta":
                texts.append(event.delta.text)

    with pytest.raises(anthropic.APIError, match="fails here"):
        read()
    assert "".join(texts) == "Some t"
    with pytest.raises(anthropic.APIError, match="fails here"):
        streamed(api, "broken")
    body = {"model": "broken", "messages": HELLO, "max_tokens": 9, "stream": True}
    answer = httpx.post(f"{url}/v1/messages", json=body)
    assert read_stream(answer.content).error is not None
    assert answer.headers["request-id"].encode() in answer.content


def test_an_unexpected_failure_shows_no_details() -> None:
    with served(ScriptedEngine(ZeroDivisionError("secret"))) as url:
        with pytest.raises(anthropic.InternalServerError, match="its log has the details") as caught:
            whole(client(url), "scripted")
        assert "secret" not in str(error(caught.value))
    with served(ScriptedEngine(Chunk("a"), ZeroDivisionError("secret"))) as url:
        body = {"messages": HELLO, "max_tokens": 9, "stream": True}
        answer = httpx.post(f"{url}/v1/messages", json=body)
        assert b"secret" not in answer.content
        assert read_stream(answer.content).error is not None


def test_a_prompt_that_does_not_fit_is_recognisable() -> None:
    with served(ScriptedEngine(ContextOverflowError(36000, 32768))) as url:
        for stream in (True, False):
            with pytest.raises(anthropic.BadRequestError) as caught:
                whole(client(url), "scripted", stream=stream)
            assert error(caught.value) == {
                "type": "invalid_request_error",
                "message": "prompt is too long: 36000 tokens > 32768 maximum",
            }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_tokens": 0}, "`max_tokens`"),
        ({"extra_body": {"temperature": 9}}, "`temperature`"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "'web_search_20250305'"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, r"`messages\[0\].content\[0\]`"),
        ({"tool_choice": {"type": "any"}}, "`tool_choice`"),
        ({"output_config": {"format": {"type": "json_object"}}}, "`output_config.format.type`"),
    ],
)
def test_the_official_client_understands_what_is_wrong(
    api: anthropic.Anthropic, options: dict[str, Any], named: str
) -> None:
    for stream in (True, False):
        with pytest.raises(anthropic.BadRequestError, match=named) as caught:
            whole(api, "text", stream=stream, **options)
        assert error(caught.value)["type"] == "invalid_request_error"


def test_unknown_models_routes_and_methods(api: anthropic.Anthropic, url: str) -> None:
    with pytest.raises(anthropic.NotFoundError, match="there is replay, text") as caught:
        whole(api, "claude")
    assert error(caught.value)["type"] == "not_found_error"
    nowhere = httpx.post(f"{url}/v1/messages/batches", json={}).json()
    assert (nowhere["type"], nowhere["error"]["type"]) == ("error", "not_found_error")
    wrong = httpx.get(f"{url}/v1/messages")
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (405, "invalid_request_error")
    assert httpx.post(f"{url}/v1/messagesque").json()["error"]["code"] is None


def test_bodies_that_are_no_json_or_too_large() -> None:
    with served(ScriptedEngine(), Settings(max_body=100)) as url:
        broken = httpx.post(f"{url}/v1/messages", content=b"{")
        assert (broken.status_code, broken.json()["error"]["type"]) == (400, "invalid_request_error")
        large = httpx.post(f"{url}/v1/messages", content=b" " * 101)
        assert (large.status_code, large.json()["error"]["type"]) == (413, "request_too_large")


def test_the_key_is_taken_from_either_header() -> None:
    body = {"model": "text", "messages": HELLO, "max_tokens": 9}
    with served(ReplayEngine(RECORDINGS), Settings(api_key="key")) as url:
        for headers, status in (
            ({"x-api-key": "key"}, 200),
            ({"authorization": "Bearer key"}, 200),
            ({"authorization": "Bearer other", "x-api-key": "key"}, 200),
            ({"authorization": "Bearer key", "x-api-key": "other"}, 200),
            ({"authorization": "Bearer other", "x-api-key": "other"}, 401),
            ({}, 401),
        ):
            assert httpx.post(f"{url}/v1/messages", json=body, headers=headers).status_code == status
        assert whole(client(url, "key"), "text").stop_reason == "end_turn"
        with pytest.raises(anthropic.AuthenticationError) as caught:
            whole(client(url, "other"), "text")
        assert error(caught.value)["type"] == "authentication_error"


def test_the_models_are_listed(api: anthropic.Anthropic) -> None:
    first = next(iter(api.models.list()))
    assert (first.id, first.type, first.display_name) == ("replay", "model", "replay")
    assert first.created_at.tzinfo is not None
    assert api.models.retrieve("text").max_input_tokens


def test_prompt_and_sampling_reach_the_engine() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template="{{ messages[0].content }}!")
    with served(engine) as url:
        sampling = {"temperature": 0, "top_k": 3}  # no longer among the official client's own arguments
        whole(client(url), "scripted", max_tokens=5, stop_sequences=["X"], extra_body=sampling)
    assert engine.prompts == ["Hello!"]
    assert engine.samplings == [Sampling(max_tokens=5, temperature=0.0, stop=("X",), top_k=3)]


def test_a_prefilled_answer_is_continued() -> None:
    engine = ScriptedEngine(Chunk("C)", finish_reason="stop"))
    with served(engine) as url:
        message = whole(
            client(url), "scripted", messages=[*HELLO, {"role": "assistant", "content": "The answer is ("}]
        )
    assert str(engine.prompts[0]).endswith("<|im_start|>assistant\nThe answer is (")
    assert message.content[0].text == "C)"


@pytest.mark.parametrize("answer", [whole, streamed])
@pytest.mark.parametrize("recording", ["reasoning", "call", "parallel"])
def test_an_answer_can_be_sent_back_as_it_is(answer: Any, recording: str) -> None:
    source = "{{ messages | tojson }}"
    engine = ScriptedEngine(Chunk("18 degrees.", finish_reason="stop"), template=source + "{{ tools }}")
    with served(ReplayEngine(RECORDINGS, chunking="chars:3")) as url:
        said = answer(client(url), recording, tools=[WEATHER])
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "18"}
        for block in said.content
        if block.type == "tool_use"
    ]
    then = {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]}
    with served(engine) as url:
        messages = [*HELLO, said.to_param(), then]
        whole(client(url), "scripted", messages=messages, tools=[WEATHER])
    prompt = str(engine.prompts[0])
    assert ("Hm, 2 + 2." in prompt) == (recording == "reasoning")
    assert prompt.count('"tool_call_id"') == len(results)


def test_what_a_coding_agent_sends_is_taken_whole(url: str) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}}
    body = {
        "model": "parallel",
        "max_tokens": 32000,
        "stream": True,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=1f3;"},
            {"type": "text", "text": "You are an agent.", **cached},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "<reminder>"}, {"type": "text", "text": "Go."}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": "s"}, call]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "18", **cached}],
            },
            {"role": "system", "content": "Be brief."},
        ],
        "tools": [{**WEATHER, "description": "The weather.", **cached}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "user_1_account__session_2"},
    }
    headers = {
        "authorization": "Bearer anything",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
    }
    answer = httpx.post(f"{url}/v1/messages?beta=true", json=body, headers=headers)
    assert len(read_stream(answer.content).calls()) == 2
    counted = {name: body[name] for name in ("model", "system", "messages", "tools", "thinking", "output_config")}
    tokens = httpx.post(f"{url}/v1/messages/count_tokens?beta=true", json=counted, headers=headers)
    assert tokens.json()["input_tokens"] > 0


def disconnect(url: str, engine: ScriptedEngine, body: dict[str, Any]) -> None:
    """Sends a request, waits until the engine is at work on it, and hangs up."""
    data = json.dumps({"messages": HELLO, "max_tokens": 9, **body}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode() + data)
        assert engine.waiting.wait(10)


@pytest.mark.parametrize("script", [(None,), (Chunk("a"), None)], ids=["prefill", "decoding"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_aborts_the_generation(script: tuple[Chunk | None, ...], stream: bool) -> None:
    engine = ScriptedEngine(*script)
    with served(engine) as url:
        disconnect(url, engine, {"stream": stream})
        assert engine.aborted.wait(10)
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}


def test_a_stream_that_the_client_stops_reading_is_aborted() -> None:
    engine = ScriptedEngine(Chunk("a"), Chunk("b"), None)
    with served(engine) as url:
        stream = whole(client(url), "scripted", stream=True)
        next(iter(stream))
        stream.close()
        assert engine.aborted.wait(10)


def test_the_async_client(url: str) -> None:
    async def ask() -> tuple[str, list[str], Any]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as api:
            options: Any = {"messages": HELLO, "max_tokens": 99}
            whole = await api.messages.create(model="text", **options)
            async with api.messages.stream(model="reasoning", **options) as stream:
                texts = [text async for text in stream.text_stream]
            async with api.messages.stream(model="call", tools=[WEATHER], **options) as calls:
                final = await calls.get_final_message()
        block: Any = whole.content[0]
        return block.text, texts, final.stop_reason

    text, texts, reason = asyncio.run(ask())
    assert (text, "".join(texts), reason) == ("Hello! How can I help?", "It is 4.", "tool_use")
    assert len(texts) > 1


def test_the_beta_client(api: anthropic.Anthropic) -> None:
    options: Any = {"model": "call", "messages": HELLO, "max_tokens": 99, "betas": ["x-2026-01-01"]}
    message = api.beta.messages.create(**options, tools=[WEATHER])
    assert message.stop_reason == "tool_use"


def test_a_recording_can_be_asked_for_in_metadata(api: anthropic.Anthropic) -> None:
    message = whole(api, "replay", metadata={"replay": "text"})
    assert (message.model, message.content[0].text) == ("replay", "Hello! How can I help?")
