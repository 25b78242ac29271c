"""The Responses routes, as the official client sees them over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import openai
import pytest
from openai.types.responses import Response, ResponseCompletedEvent, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.server.serving import WEATHER as CHAT_WEATHER
from tests.server.serving import ScriptedEngine, client, served
from tests.server.test_chat import RECORDINGS
from tests.surfaces.responses_grammar import events_of, read_stream
from unspool.engines.base import Chunk, ContextOverflowError, EngineError
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.service import Settings
from unspool.server.storage import SqliteStore

WEATHER: Any = {"type": "function", "strict": False, **CHAT_WEATHER["function"]}
SHELL: Any = {"type": "custom", "name": "shell"}
SHELL_CALL = '<tool_call>\n{"name": "shell", "arguments": {"input": "ls \\"a\\"\\n"}}\n</tool_call>'
PLAIN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
ALL = (*RECORDINGS, Recording("custom", SHELL_CALL))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(ReplayEngine(ALL, chunking="chars:3")) as url:
        yield url


@pytest.fixture(scope="module")
def api(url: str) -> openai.OpenAI:
    return client(url)


def whole(api: openai.OpenAI, recording: str, **options: Any) -> Any:
    return api.responses.create(**{"model": recording, "input": "Hello", **options})


def streamed(api: openai.OpenAI, recording: str, **options: Any) -> Any:
    """The response that the official client puts together from the stream."""
    with api.responses.stream(**{"model": recording, "input": "Hello", **options}) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


def by_async_client(api: openai.OpenAI, recording: str, **options: Any) -> Any:
    """The same of the asynchronous client, from a stream."""

    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=api.base_url, api_key="x", max_retries=0) as asynchronous:
            asked = {"model": recording, "input": "Hello", **options}
            async with asynchronous.responses.stream(**asked) as stream:
                return await stream.get_final_response()

    return asyncio.run(ask())


both = pytest.mark.parametrize("answer", [whole, streamed, by_async_client])


@both
def test_text(api: openai.OpenAI, answer: Any) -> None:
    response = answer(api, "text")
    assert response.status == "completed"
    assert response.output_text == "Hello! How can I help?"
    assert response.id.startswith("resp_")
    assert response.model == "text"
    assert response.completed_at >= response.created_at


@both
def test_reasoning(api: openai.OpenAI, answer: Any) -> None:
    reasoning, message = answer(api, "reasoning", reasoning={"summary": "auto"}).output
    assert [part.text for part in reasoning.content] == ["Hm, 2 + 2."]
    assert [part.text for part in reasoning.summary] == ["Hm, 2 + 2."]
    assert message.content[0].text == "It is 4."


@both
def test_reasoning_can_be_packed_for_clients_that_keep_nothing_else(api: openai.OpenAI, answer: Any) -> None:
    reasoning, _ = answer(api, "reasoning", include=["reasoning.encrypted_content"], store=False).output
    assert reasoning.encrypted_content


@both
def test_one_call(api: openai.OpenAI, answer: Any) -> None:
    message, call = answer(api, "call", tools=[WEATHER]).output
    assert message.content[0].text.strip() == "Let me look."
    assert (call.type, call.name, call.arguments) == ("function_call", "get_weather", '{"city": "Paris"}')
    assert call.call_id != call.id
    assert call.status == "completed"


@both
def test_parallel_calls(api: openai.OpenAI, answer: Any) -> None:
    calls = answer(api, "parallel", tools=[WEATHER]).output
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Paris", "東京"]
    assert len({call.call_id for call in calls}) == 2


@both
def test_one_call_at_most(api: openai.OpenAI, answer: Any) -> None:
    response = answer(api, "parallel", tools=[WEATHER], parallel_tool_calls=False)
    assert len(response.output) == 1
    assert response.parallel_tool_calls is False


def test_a_cut_call_is_incomplete(api: openai.OpenAI) -> None:
    response = whole(api, "cut", tools=[WEATHER])
    events = list(whole(api, "cut", tools=[WEATHER], stream=True))
    assert events[-1].type == "response.incomplete"
    for found in (response, events[-1].response):
        assert (found.status, found.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert [(call.arguments, call.status) for call in found.output] == [
            ('{"city": "Paris"}', "completed"),
            ('{"city": "To', "incomplete"),
        ]


@both
def test_a_custom_tool_gets_its_text(api: openai.OpenAI, answer: Any) -> None:
    response = answer(api, "custom", tools=[SHELL])
    (call,) = response.output
    assert (call.type, call.name, call.input) == ("custom_tool_call", "shell", 'ls "a"\n')
    assert response.tools[0].type == "custom"


@both
def test_usage(api: openai.OpenAI, answer: Any) -> None:
    usage = answer(api, "reasoning").usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    assert usage.input_tokens_details.cached_tokens == 0


@pytest.mark.parametrize("recording", ["text", "reasoning", "call", "parallel", "cut", "broken", "custom"])
def test_streams_follow_the_contract_and_the_clients_own_types(url: str, recording: str) -> None:
    body = {
        "model": recording,
        "input": "Hello",
        "tools": [WEATHER, SHELL],
        "stream": True,
        "reasoning": {"summary": "auto", "effort": "low"},
        "metadata": {"a": "b"},
    }
    answer = httpx.post(f"{url}/v1/responses", json=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    response = read_stream(answer.content)
    assert (response["status"] == "failed") == (recording == "broken")
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in events_of(answer.content):
        known.validate_python(event)
    TypeAdapter(Response).validate_python(response)
    if recording != "broken":
        again = httpx.post(f"{url}/v1/responses", json={**body, "stream": False}).json()
        TypeAdapter(Response).validate_python(again)
        assert again.keys() == response.keys()
        assert [item["type"] for item in again["output"]] == [item["type"] for item in response["output"]]


def test_an_engine_that_fails_at_once_is_an_http_error(api: openai.OpenAI) -> None:
    for stream in (True, False):
        with pytest.raises(openai.InternalServerError, match="fails here") as caught:
            whole(api, "failing", stream=stream)
        assert (caught.value.type, caught.value.code) == ("server_error", "engine_error")


def test_an_engine_that_fails_later_ends_the_stream_with_an_error_and_is_remembered(api: openai.OpenAI) -> None:
    names: list[str] = []

    def read() -> None:
        for event in whole(api, "broken", stream=True):
            if event.type == "response.created":
                names.append(event.response.id)

    with pytest.raises(openai.APIError, match="fails here"):
        read()
    failed = api.responses.retrieve(names[0])
    assert failed.status == "failed"
    assert failed.error
    assert "fails here" in failed.error.message
    with pytest.raises(openai.InternalServerError, match="fails here"):
        whole(api, "broken")


def test_a_prompt_that_does_not_fit_is_recognisable() -> None:
    with served(ScriptedEngine(ContextOverflowError(36000, 32768))) as url:
        for stream in (True, False):
            with pytest.raises(openai.BadRequestError, match="maximum context length is 32768 tokens") as caught:
                whole(client(url), "scripted", stream=stream)
            assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


def test_what_the_template_objects_to_is_about_the_input() -> None:
    with served(ScriptedEngine(template="{{ raise_exception('No, thanks') }}")) as url:
        with pytest.raises(openai.BadRequestError, match="No, thanks") as caught:
            whole(client(url), "scripted")
        assert caught.value.param == "input"


def test_what_is_wrong_with_a_request_is_named(api: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="mcp") as caught:
        whole(api, "text", tools=[WEATHER, {"type": "mcp", "server_label": "x"}])
    assert (caught.value.param, caught.value.code) == ("tools[1]", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError) as missing:
        whole(api, "gpt-4")
    assert missing.value.code == "model_not_found"


def test_prompt_and_sampling_reach_the_engine() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=PLAIN)
    with served(engine) as url:
        whole(client(url), "scripted", instructions="Be brief.", max_output_tokens=5, temperature=0)
    assert engine.prompts == ["<system>Be brief.<user>Hello"]
    assert (engine.samplings[0].max_tokens, engine.samplings[0].temperature) == (5, 0.0)


@pytest.mark.parametrize("script", [(None,), (Chunk("a"), None)], ids=["prefill", "decoding"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_aborts_the_generation(script: tuple[Any, ...], stream: bool) -> None:
    engine = ScriptedEngine(*script)

    async def hang_up(url: str) -> None:
        async with httpx.AsyncClient() as http:
            body = {"input": "Hello", "stream": stream}
            asking = asyncio.ensure_future(http.post(f"{url}/v1/responses", json=body))
            await asyncio.to_thread(engine.waiting.wait, 10)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    with served(engine) as url:
        asyncio.run(hang_up(url))
        assert engine.aborted.wait(10)
        assert httpx.get(f"{url}/health").json() == {"status": "ok"}


def test_a_running_response_can_be_looked_at() -> None:
    engine = ScriptedEngine(Chunk("some text"), None)
    with served(engine) as url:
        api = client(url)
        stream = whole(api, "scripted", stream=True)
        name = next(iter(stream)).response.id
        assert engine.waiting.wait(10)
        assert api.responses.retrieve(name).status == "in_progress"
        stream.close()
        assert engine.aborted.wait(10)


CALL_CUT = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa'


@pytest.mark.parametrize(
    ("written", "kind"), [("some text", "message"), (CALL_CUT, "function_call"), ("<think>\nHm", "reasoning")]
)
def test_a_running_response_can_be_cancelled(written: str, kind: str) -> None:
    engine = ScriptedEngine(Chunk(written), None)
    with served(engine, Settings(format="qwen3")) as url, httpx.Client(base_url=url) as http:
        body = {"input": "Hello", "stream": True, "tools": [WEATHER]}
        with http.stream("POST", "/v1/responses", json=body) as answer:
            lines = answer.iter_bytes()
            received = next(lines)
            name = json.loads(received.split(b"\n")[1][6:])["response"]["id"]
            assert engine.waiting.wait(10)
            first, again = client(url).responses.cancel(name), httpx.post(f"{url}/v1/responses/{name}/cancel")
            assert engine.aborted.wait(10)
            received += b"".join(lines)
        read = read_stream(received)
        assert read == again.json() == http.get(f"/v1/responses/{name}").json()
        assert (first.id, first.status, read["status"]) == (name, "cancelled", "cancelled")
        assert events_of(received)[-1]["type"] == "response.incomplete"
        (item,) = read["output"]
        assert (item["type"], item["status"]) == (kind, "incomplete")
        # It can be gone on from, and ends none but itself.
        assert http.post("/v1/responses/resp_none/cancel").status_code == 404
        assert http.get("/health").status_code == 200


def test_the_async_client(url: str) -> None:
    async def ask() -> tuple[Any, ...]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as api:
            text = await api.responses.create(model="text", input="Hello")
            async with api.responses.stream(model="call", input="Hello", tools=[WEATHER]) as stream:
                final = await stream.get_final_response()
            again = await api.responses.retrieve(text.id)
            items = await api.responses.input_items.list(text.id)
            await api.responses.delete(text.id)
            cut = [event async for event in await api.responses.create(model="cut", input="Hello", stream=True)]
        return text.output_text, [item.type for item in final.output], again == text, len(items.data), cut[-1].type

    assert asyncio.run(ask()) == (
        "Hello! How can I help?",
        ["message", "function_call"],
        True,
        1,
        "response.incomplete",
    )


def test_the_async_client_hears_of_an_error_in_the_middle(url: str) -> None:
    async def read() -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as api:
            async for _ in await api.responses.create(model="broken", input="Hello", stream=True):
                pass

    with pytest.raises(openai.APIError, match="fails here"):
        asyncio.run(read())


@both
def test_a_stored_response_is_retrieved_and_deleted(api: openai.OpenAI, answer: Any) -> None:
    response = answer(api, "reasoning", tools=[WEATHER], metadata={"a": "b"})
    found = api.responses.retrieve(response.id)
    assert (found.output_text, found.usage, found.metadata) == (response.output_text, response.usage, {"a": "b"})
    assert [item.id for item in found.output] == [item.id for item in response.output]
    with pytest.raises(openai.BadRequestError, match="can't be cancelled"):
        api.responses.cancel(response.id)
    api.responses.delete(response.id)
    for gone in (
        api.responses.retrieve,
        api.responses.delete,
        api.responses.cancel,
        api.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError, match=response.id):
            gone(response.id)


def test_what_must_not_be_stored_is_not(api: openai.OpenAI) -> None:
    response = whole(api, "text", store=False)
    with pytest.raises(openai.NotFoundError):
        api.responses.retrieve(response.id)


def test_input_items_are_listed_by_pages(api: openai.OpenAI) -> None:
    said: Any = [{"role": "user", "content": str(number)} for number in range(5)]
    said.insert(1, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    said.insert(2, {"type": "function_call_output", "call_id": "c", "output": "18"})
    response = whole(api, "text", input=said)
    items: list[Any] = list(api.responses.input_items.list(response.id, limit=2, order="asc"))
    assert [item.type for item in items] == ["message", "function_call", "function_call_output", *["message"] * 4]
    assert len({item.id for item in items}) == 7
    latest = api.responses.input_items.list(response.id, limit=1)
    assert latest.data == items[-1:]
    assert latest.has_more
    url = f"{api.base_url}responses/{response.id}/input_items"
    for query, param in (("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=x", "after")):
        answer = httpx.get(f"{url}?{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_streaming_a_stored_response_again_is_refused(api: openai.OpenAI) -> None:
    response = whole(api, "text")
    with pytest.raises(openai.BadRequestError, match="`stream`"):
        api.responses.retrieve(response.id, stream=True)


def prompts_of(*asked: dict[str, Any]) -> tuple[list[object], list[Any]]:
    """The prompts of requests that follow each other; ``{0}`` in one stands for the first response's id."""
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=PLAIN)
    answers: list[Any] = []
    with served(engine) as url:
        for body in asked:
            ids = {key: value.format(*answers) if isinstance(value, str) else value for key, value in body.items()}
            answer = httpx.post(f"{url}/v1/responses", json=ids)
            answers.append(answer.json().get("id") or answer.json()["error"])
    return engine.prompts, answers


def test_a_response_goes_on_from_an_earlier_one() -> None:
    prompts, _ = prompts_of(
        {"input": "1", "instructions": "Be brief."},
        {"input": "2", "previous_response_id": "{0}"},
        {"input": "3", "previous_response_id": "{1}", "instructions": "Be long."},
        {"input": "4", "previous_response_id": "{0}"},
    )
    assert prompts == [
        "<system>Be brief.<user>1",
        "<user>1<assistant>ok<user>2",
        "<system>Be long.<user>1<assistant>ok<user>2<assistant>ok<user>3",
        "<user>1<assistant>ok<user>4",
    ]


def test_an_unknown_earlier_response_is_a_404_that_names_the_field() -> None:
    prompts, answers = prompts_of({"input": "1", "store": False}, {"input": "2", "previous_response_id": "{0}"})
    assert len(prompts) == 1
    assert (answers[1]["param"], answers[1]["code"]) == ("previous_response_id", "previous_response_not_found")


def test_a_chain_with_a_deleted_link_is_a_404(api: openai.OpenAI) -> None:
    first = whole(api, "text")
    second = whole(api, "text", previous_response_id=first.id)
    assert whole(api, "text", previous_response_id=second.id).previous_response_id == second.id
    api.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError, match=first.id):
        whole(api, "text", previous_response_id=second.id)


def test_a_tools_result_goes_on_from_the_call(api: openai.OpenAI) -> None:
    asked = whole(api, "call", tools=[WEATHER])
    call = asked.output[1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18"}
    answer = whole(api, "text", previous_response_id=asked.id, input=[result], tools=[WEATHER])
    assert answer.status == "completed"
    by_hand = whole(api, "text", input=[{"role": "user", "content": "Hello"}, *asked.output, result])
    assert (
        by_hand.usage.input_tokens
        == whole(api, "text", previous_response_id=asked.id, input=[result]).usage.input_tokens
    )


def test_items_can_be_referred_to_by_id() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=PLAIN)
    with served(engine) as url:
        api = client(url)
        first = whole(api, "scripted")
        asked = api.responses.input_items.list(first.id).data[0]
        refer: Any = [
            {"type": "item_reference", "id": asked.id},
            {"type": "item_reference", "id": first.output[0].id},
        ]
        again = whole(api, "scripted", input=[*refer, {"role": "user", "content": "More"}])
        assert [item.id for item in api.responses.input_items.list(again.id, order="asc")][:2] == [
            asked.id,
            first.output[0].id,
        ]
        for name in ("msg_1", f"msg_{'0' * 32}_0"):
            with pytest.raises(openai.BadRequestError, match="not stored") as caught:
                whole(api, "scripted", input=[{"type": "item_reference", "id": name}])
            assert caught.value.param == "input[0].id"
    assert engine.prompts == ["<user>Hello", "<user>Hello<assistant>ok<user>More"]


def test_instructions_can_refer_to_items_too() -> None:
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=PLAIN)
    with served(engine) as url:
        api = client(url)
        first = whole(api, "scripted")
        refer: Any = [{"type": "item_reference", "id": first.output[0].id}]
        whole(api, "scripted", instructions=refer)
        with pytest.raises(openai.BadRequestError, match="not stored") as caught:
            whole(api, "scripted", instructions=[{"type": "item_reference", "id": "msg_1"}])
        assert caught.value.param == "instructions[0].id"
    assert engine.prompts[1] == "<assistant>ok<user>Hello"


@pytest.mark.parametrize("name", ["resp_\0", "resp_\ud800", "conv_1", "", "resp_é"])
def test_no_id_is_too_odd_to_be_unknown(url: str, name: str) -> None:
    body = json.dumps({"model": "text", "input": "Hi", "previous_response_id": name or "resp_"})
    answer = httpx.post(f"{url}/v1/responses", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "previous_response_not_found")
    body = json.dumps({"model": "text", "input": "Hi", "conversation": name.replace("resp", "conv") or "conv_"})
    answer = httpx.post(f"{url}/v1/responses", content=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "conversation")
    odd = quote(name.encode("utf-8", "surrogatepass"))
    assert httpx.get(f"{url}/v1/responses/{odd or 'x'}").status_code == 404
    assert httpx.delete(f"{url}/v1/responses/{odd or 'x'}").status_code == 404
    assert httpx.get(f"{url}/v1/conversations/{odd or 'x'}").status_code == 404


def test_input_tokens_are_counted_before_anything_is_generated(api: openai.OpenAI) -> None:
    response = whole(api, "text", instructions="Be brief.")
    counted = api.responses.input_tokens.count(model="text", input="Hello", instructions="Be brief.")
    assert counted.input_tokens == response.usage.input_tokens
    more = api.responses.input_tokens.count(model="text", input="More", previous_response_id=response.id)
    assert more.input_tokens > counted.input_tokens - 10
    with pytest.raises(openai.BadRequestError):
        api.responses.input_tokens.count(model="text")


def test_a_store_outlives_its_server(tmp_path: Path) -> None:
    recordings = [Recording("text", "Hello!")]
    with served(ReplayEngine(recordings), store=SqliteStore(tmp_path / "s")) as url:
        first = whole(client(url), "text")
    with served(ReplayEngine(recordings), store=SqliteStore(tmp_path / "s")) as url:
        assert client(url).responses.retrieve(first.id).output_text == "Hello!"
        assert whole(client(url), "text", previous_response_id=first.id).status == "completed"


def test_a_store_that_fails_does_not_take_the_answer_away(caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore()
    with served(ReplayEngine([Recording("text", "Hello!")]), store=store) as url:
        asyncio.run(store._run(lambda: store._database.execute("DROP TABLE records")))
        assert whole(client(url), "text").output_text == "Hello!"
        assert "is not stored" in caplog.text
        last = list(client(url).responses.create(model="text", input="Hi", stream=True))[-1]
        assert isinstance(last, ResponseCompletedEvent)
        assert last.response.output_text == "Hello!"
        caplog.clear()
        with pytest.raises(openai.InternalServerError, match="The store of responses") as caught:
            client(url).conversations.create()
        with pytest.raises(openai.InternalServerError, match="The store of responses"):
            client(url).responses.create(model="text", input="Hi", previous_response_id="resp_1")
        assert (caught.value.status_code, caught.value.code) == (503, "store_error")
    # What the database says is for the operator, who needs no traceback for it.
    assert "no such table" not in str(caught.value)
    assert {record.name for record in caplog.records} >= {"unspool.server.errors"}
    assert "Traceback" not in caplog.text


def test_reasoning_can_be_left_out(api: openai.OpenAI) -> None:
    response = whole(api, "reasoning", extra_body={"include_reasoning": False})
    assert [item.type for item in response.output] == ["message"]


def test_calls_can_be_held_back_until_they_are_whole() -> None:
    with served(ReplayEngine(RECORDINGS, chunking="chars:3"), Settings(arguments="atomic")) as url:
        (call,) = whole(client(url), "cut", tools=[WEATHER]).output
    assert call.status == "completed"


def test_half_a_surrogate_pair_goes_both_ways() -> None:
    with served(ReplayEngine([Recording("odd", "a\ud83d")], chunking="chars:1")) as url:
        first = whole(client(url), "odd")
        assert first.output_text == client(url).responses.retrieve(first.id).output_text == "a\ud83d"
        assert whole(client(url), "odd", previous_response_id=first.id).output_text == "a\ud83d"


def test_an_error_behind_the_finish_changes_nothing_that_is_stored() -> None:
    engine = ScriptedEngine(Chunk("Hello!", finish_reason="stop"), EngineError("late"))
    with served(engine) as url:
        api = client(url)
        conversation = api.conversations.create()
        asked: Any = {"model": "scripted", "input": "Hi", "conversation": conversation.id}
        last = list(api.responses.create(**asked, stream=True))[-1]
        assert last.type == "response.completed"
        assert api.responses.retrieve(last.response.id).status == "completed"
        assert [item.type for item in api.conversations.items.list(conversation.id)] == ["message"] * 2


@pytest.mark.parametrize("answer", [whole, streamed])
def test_what_is_not_stored_can_not_be_gone_on_from(api: openai.OpenAI, answer: Any) -> None:
    conversation = api.conversations.create()
    response = answer(api, "text", store=False, extra_body={"conversation": conversation.id})
    assert response.store is False
    for ask in (
        api.responses.retrieve,
        api.responses.delete,
        api.responses.cancel,
        api.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError):
            ask(response.id)
    with pytest.raises(openai.NotFoundError, match="never stored") as caught:
        answer(api, "text", previous_response_id=response.id)
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "previous_response_not_found")
    with pytest.raises(openai.BadRequestError, match="not stored"):
        answer(api, "text", input=[{"type": "item_reference", "id": response.output[0].id}])
    assert len(list(api.conversations.items.list(conversation.id))) == 2
    # The items themselves are as good.
    again = answer(
        api,
        "text",
        input=[{"role": "user", "content": "Hello"}, *response.output, {"role": "user", "content": "More"}],
        store=False,
    )
    assert again.status == "completed"


def test_what_is_not_stored_can_not_be_looked_at_while_it_streams() -> None:
    with (
        served(ScriptedEngine(Chunk("a"), None)) as url,
        client(url).responses.create(model="scripted", input="Hi", store=False, stream=True) as stream,
    ):
        first: Any = next(iter(stream))
        assert httpx.get(f"{url}/v1/responses/{first.response.id}").status_code == 404


def test_a_response_can_be_cancelled_before_its_first_token() -> None:
    engine = ScriptedEngine(None)
    with served(engine, Settings(heartbeat=0.05)) as url, httpx.Client(base_url=url) as http:
        with http.stream("POST", "/v1/responses", json={"input": "Hello", "stream": True}) as answer:
            lines = answer.iter_bytes()
            received = next(lines)
            name = json.loads(received.split(b"\n")[1][6:])["response"]["id"]
            assert client(url).responses.cancel(name).status == "cancelled"
            assert engine.aborted.wait(10)
            received += b"".join(lines)
        assert read_stream(received)["status"] == "cancelled"
        assert http.get(f"/v1/responses/{name}").json()["status"] == "cancelled"
