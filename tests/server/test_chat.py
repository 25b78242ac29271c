"""The chat completions route, as the official client sees it over a real connection."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.server.serving import HELLO, WEATHER, ScriptedEngine, client, replaying, served
from tests.surfaces.chat_grammar import read_stream
from unspool.engines.base import Chunk, ContextOverflowError, EngineError, Sampling, SamplingError
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Settings

CALL = '<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{}"}}}}\n</tool_call>'
CUT_CALL = '\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "To'
RECORDINGS = (
    Recording("text", "Hello! How can I help?"),
    Recording("reasoning", "Hm, 2 + 2.\n</think>\n\nIt is 4.", prompt_tail="<think>\n"),
    Recording("call", "Let me look.\n" + CALL.format("Paris")),
    Recording("parallel", CALL.format("Paris") + "\n" + CALL.format("東京")),
    Recording("cut", CALL.format("Paris") + CUT_CALL, finish_reason="length"),
    Recording("broken", "Some text and then", fail_after=2),
    Recording("failing", "nothing of this", fail_after=0),
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3")) as url:
        yield url


@pytest.fixture(scope="module")
def api(url: str) -> openai.OpenAI:
    return client(url)


def whole(api: openai.OpenAI, recording: str, **options: Any) -> Any:
    return api.chat.completions.create(model=recording, messages=HELLO, **options)


def streamed(api: openai.OpenAI, recording: str, **options: Any) -> Any:
    """The message that the official client puts together from the stream."""
    with api.chat.completions.stream(model=recording, messages=HELLO, **options) as stream:
        for _ in stream:
            pass
        return stream.current_completion_snapshot


@pytest.mark.parametrize("answer", [whole, streamed])
def test_text(api: openai.OpenAI, answer: Any) -> None:
    (choice,) = answer(api, "text").choices
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello! How can I help?")
    assert choice.message.tool_calls is None
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("answer", [whole, streamed])
def test_reasoning(api: openai.OpenAI, answer: Any) -> None:
    message = answer(api, "reasoning").choices[0].message
    assert message.content == "It is 4."
    assert message.reasoning_content == message.reasoning == "Hm, 2 + 2."


@pytest.mark.parametrize("answer", [whole, streamed])
def test_one_call(api: openai.OpenAI, answer: Any) -> None:
    (choice,) = answer(api, "call", tools=[WEATHER]).choices
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name, call.function.arguments) == (
        "function",
        "get_weather",
        '{"city": "Paris"}',
    )
    assert call.id
    assert choice.message.content.strip() == "Let me look."
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("answer", [whole, streamed])
def test_parallel_calls(api: openai.OpenAI, answer: Any) -> None:
    message = answer(api, "parallel", tools=[WEATHER]).choices[0].message
    cities = [json.loads(call.function.arguments)["city"] for call in message.tool_calls]
    assert cities == ["Paris", "東京"]
    assert len({call.id for call in message.tool_calls}) == 2
    assert message.content is None


@pytest.mark.parametrize("answer", [whole, streamed])
def test_one_call_at_most(api: openai.OpenAI, answer: Any) -> None:
    message = answer(api, "parallel", tools=[WEATHER], parallel_tool_calls=False).choices[0].message
    assert len(message.tool_calls) == 1


@pytest.mark.parametrize("answer", [whole, streamed])
def test_call_syntax_is_content_when_no_tools_are_offered(api: openai.OpenAI, answer: Any) -> None:
    message = answer(api, "parallel").choices[0].message
    assert message.tool_calls is None
    assert message.content == RECORDINGS[3].raw_output


def test_a_cut_call_is_left_out_of_a_whole_answer(api: openai.OpenAI) -> None:
    (choice,) = whole(api, "cut", tools=[WEATHER]).choices
    assert choice.finish_reason == "length"
    (call,) = choice.message.tool_calls
    assert call.function.arguments == '{"city": "Paris"}'


def test_a_cut_calls_arguments_stream_as_far_as_they_got(api: openai.OpenAI) -> None:
    chunks = list(whole(api, "cut", tools=[WEATHER], stream=True))
    assert chunks[-1].choices[0].finish_reason == "length"
    pieces: dict[int, str] = {}
    for chunk in chunks:
        for call in chunk.choices[0].delta.tool_calls or []:
            pieces[call.index] = pieces.get(call.index, "") + call.function.arguments
    assert pieces == {0: '{"city": "Paris"}', 1: '{"city": "To'}
    strict: Any = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    manager = api.chat.completions.stream(model="cut", messages=HELLO, tools=[strict])
    with manager as stream, pytest.raises(openai.LengthFinishReasonError):
        stream.until_done()


def test_cut_calls_can_be_held_back(api: openai.OpenAI) -> None:
    settings = Settings(arguments="atomic")
    with replaying(*RECORDINGS, chunking="chars:3", settings=settings) as atomic:
        message = streamed(atomic, "cut", tools=[WEATHER]).choices[0].message
    (call,) = message.tool_calls
    assert call.function.arguments == '{"city": "Paris"}'


@pytest.mark.parametrize("answer", [whole, streamed])
def test_a_recording_is_played_as_it_is_whatever_is_demanded(api: openai.OpenAI, answer: Any) -> None:
    demands: dict[str, Any] = {
        "response_format": {"type": "json_object"},
        "tools": [WEATHER],
        "tool_choice": "required",
        "extra_body": {"thinking_token_budget": 1},
    }
    assert answer(api, "text", **demands).choices[0].message.content == "Hello! How can I help?"


@pytest.mark.parametrize("recording", ["text", "reasoning", "call", "parallel", "cut", "broken"])
@pytest.mark.parametrize("n", [1, 3])
def test_streams_follow_the_contract(url: str, recording: str, n: int) -> None:
    body = {
        "model": recording,
        "messages": HELLO,
        "tools": [WEATHER],
        "stream": True,
        "n": n,
        "stream_options": {"include_usage": True},
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    stream = read_stream(answer.content, usage=True)
    assert len(stream.choices) == n
    assert (stream.error is not None) == (recording == "broken")
    if recording != "broken":
        assert len({(choice.content, choice.reasoning) for choice in stream.choices}) == 1


@pytest.mark.parametrize("answer", [whole, streamed])
def test_several_choices(api: openai.OpenAI, answer: Any) -> None:
    completion = answer(api, "reasoning", n=3)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert {choice.message.content for choice in completion.choices} == {"It is 4."}


def test_usage(api: openai.OpenAI) -> None:
    usage = whole(api, "reasoning").usage
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens == 0
    chunks = list(whole(api, "reasoning", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage == usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert all(chunk.choices for chunk in whole(api, "reasoning", stream=True))


def test_an_engine_that_fails_at_once_is_an_http_error(api: openai.OpenAI) -> None:
    for stream in (True, False):
        with pytest.raises(openai.InternalServerError, match="fails here") as caught:
            whole(api, "failing", stream=stream)
        assert (caught.value.type, caught.value.code) == ("server_error", "engine_error")


def test_an_engine_that_fails_later_is_an_error_event(api: openai.OpenAI) -> None:
    texts: list[str] = []

    def read() -> None:
        for chunk in whole(api, "broken", stream=True):
            texts.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIError, match="fails here"):
        read()
    assert "".join(texts) == "Some t"
    with pytest.raises(openai.InternalServerError, match="fails here"):
        whole(api, "broken")


def test_an_unexpected_failure_shows_no_details() -> None:
    with served(ScriptedEngine(ZeroDivisionError("secret"))) as url:
        with pytest.raises(openai.InternalServerError, match="its log has the details") as caught:
            whole(client(url), "scripted")
        assert "secret" not in str(caught.value)
    with served(ScriptedEngine(Chunk("a"), ZeroDivisionError("secret"))) as url:
        body = {"messages": HELLO, "stream": True}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body)
        assert b"secret" not in answer.content
        assert read_stream(answer.content).error is not None


def test_a_prompt_that_does_not_fit_is_recognisable() -> None:
    with served(ScriptedEngine(ContextOverflowError(36000, 32768))) as url:
        for stream in (True, False):
            with pytest.raises(openai.BadRequestError, match="maximum context length is 32768 tokens") as caught:
                whole(client(url), "scripted", stream=stream)
            assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


def test_a_setting_that_the_model_cannot_follow_is_named() -> None:
    with served(ScriptedEngine(SamplingError("logit_bias.5000", "logit_bias has the token id 5000"))) as url:
        for stream in (True, False):
            with pytest.raises(openai.BadRequestError, match="logit_bias has the token id 5000") as caught:
                whole(client(url), "scripted", stream=stream)
            assert (caught.value.type, caught.value.param) == ("invalid_request_error", "logit_bias.5000")


def test_what_the_template_objects_to_is_a_400() -> None:
    engine = ScriptedEngine(template="{{ raise_exception('Only one system message, please') }}")
    with served(engine) as url:
        with pytest.raises(openai.BadRequestError, match="Only one system message, please"):
            whole(client(url), "scripted", stream=True)
        assert engine.prompts == []


def test_prompt_and_sampling_reach_the_engine() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template="{{ messages[0].content }}!")
    with served(engine) as url:
        whole(client(url), "scripted", temperature=0, max_tokens=5, stop=["X"], seed=1)
    assert engine.prompts == ["Hello!"]
    assert engine.samplings == [Sampling(max_tokens=5, temperature=0.0, stop=("X",), seed=1)]


def disconnect(url: str, engine: ScriptedEngine, body: dict[str, Any]) -> None:
    """Sends a request, waits until the engine is at work on it, and hangs up."""
    data = json.dumps({"messages": HELLO, **body}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode() + data)
        assert engine.waiting.wait(10)


@pytest.mark.parametrize("script", [(None,), (Chunk("a"), None)], ids=["prefill", "decoding"])
@pytest.mark.parametrize("body", [{"stream": True}, {"stream": False}, {"stream": True, "n": 2}])
def test_a_client_that_hangs_up_aborts_the_generation(
    script: tuple[Chunk | None, ...], body: dict[str, Any]
) -> None:
    engine = ScriptedEngine(*script)
    with served(engine) as url:
        disconnect(url, engine, body)
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
    async def ask() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as api:
            completion = await api.chat.completions.create(model="text", messages=HELLO)
            async with api.chat.completions.stream(model="call", messages=HELLO, tools=[WEATHER]) as stream:
                final = await stream.get_final_completion()
        return completion.choices[0].message.content or "", final.choices[0].finish_reason

    assert asyncio.run(ask()) == ("Hello! How can I help?", "tool_calls")


def test_many_clients_at_once(url: str) -> None:
    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as api:
            asked = [api.chat.completions.create(model="call", messages=HELLO, tools=[WEATHER]) for _ in range(20)]
            return await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    assert [answer.choices[0].finish_reason for answer in answers] == ["tool_calls"] * 20
    assert len({answer.id for answer in answers}) == 20


@pytest.mark.parametrize(
    ("options", "param", "code"),
    [
        ({"temperature": 9}, "temperature", None),
        ({"response_format": {"type": "yaml"}}, "response_format.type", None),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"tool_choice": "required"}, "tool_choice", None),
        ({"extra_body": {"guided_json": {}}, "stop": 5}, "stop", None),
    ],
)
def test_the_official_client_understands_what_is_wrong(
    api: openai.OpenAI, options: dict[str, Any], param: str, code: str | None
) -> None:
    for stream in (True, False):
        with pytest.raises(openai.BadRequestError) as caught:
            whole(api, "text", stream=stream, **options)
        assert (caught.value.param, caught.value.code) == (param, code)
        assert caught.value.type == "invalid_request_error"


def test_an_unknown_model_is_a_404(api: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is replay, text, reasoning") as caught:
        whole(api, "gpt-4")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_recording_can_be_asked_for_in_metadata(api: openai.OpenAI) -> None:
    completion = whole(api, "replay", extra_body={"metadata": {"replay": "reasoning"}})
    assert completion.choices[0].message.content == "It is 4."
    assert completion.model == "replay"


def test_reasoning_can_be_left_out(api: openai.OpenAI) -> None:
    for answer in (whole, streamed):
        completion = answer(api, "reasoning", extra_body={"include_reasoning": False})
        assert completion.choices[0].message.content == "It is 4."
        assert not hasattr(completion.choices[0].message, "reasoning")


def test_one_name_of_reasoning_can_be_chosen() -> None:
    with replaying(*RECORDINGS, settings=Settings(reasoning_fields=("reasoning",))) as api:
        message = whole(api, "reasoning").choices[0].message
    assert message.reasoning == "Hm, 2 + 2."
    assert not hasattr(message, "reasoning_content")


def test_half_a_surrogate_pair_goes_both_ways() -> None:
    with replaying(Recording("odd", "a\ud83d"), chunking="chars:1") as api:
        completion = whole(api, "odd")
        body = {"messages": [{"role": "user", "content": completion.choices[0].message.content}]}
        answer = httpx.post(
            f"{api.base_url}chat/completions",
            content=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        text = "".join(c.choices[0].delta.content or "" for c in whole(api, "odd", stream=True))
    assert completion.choices[0].message.content == text == "a\ud83d"
    assert answer.status_code == 200


def test_a_calls_result_can_be_sent_back(api: openai.OpenAI) -> None:
    asked = whole(api, "call", tools=[WEATHER]).choices[0].message
    messages = [
        *HELLO,
        asked.model_dump(),
        {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "18"},
    ]
    completion = api.chat.completions.create(model="text", messages=messages, tools=[WEATHER])
    assert completion.choices[0].finish_reason == "stop"


def test_engine_errors_before_a_stream_close_it() -> None:
    engine = ScriptedEngine(EngineError("out of memory"))
    with served(engine) as url, pytest.raises(openai.InternalServerError, match="out of memory"):
        whole(client(url), "scripted", stream=True)
    assert engine.closed == 1


@pytest.mark.parametrize("heartbeat", [0.001, None])
def test_a_heartbeat_in_a_stream_changes_nothing_for_clients(heartbeat: float | None) -> None:
    engine = ReplayEngine([Recording("a", "Hello there")], delay=0.1)
    with served(engine, Settings(heartbeat=heartbeat)) as url:
        body = {"messages": HELLO, "stream": True}
        raw = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).content
        with client(url).chat.completions.stream(model="a", messages=HELLO) as stream:
            final = stream.get_final_completion()
    assert (b": still here\n\n" in raw) == (heartbeat is not None)
    assert all(frame.startswith((b"data: ", b": ")) for frame in raw.split(b"\n\n")[:-1])
    assert final.choices[0].message.content == "Hello there"
