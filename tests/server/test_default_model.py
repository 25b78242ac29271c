"""The promise of the project's first page: one command, a real model, the official clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.server.process import running
from tests.server.serving import WEATHER, client

QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[openai.OpenAI, str]]:
    with running("--threads", "1", "--ctx", "2048") as (url, banner, _):
        yield client(url), banner


def test_the_banner_says_that_it_is_a_demo(server: tuple[openai.OpenAI, str]) -> None:
    assert "SmolLM2-135M-Instruct" in server[1]
    assert "small demo model" in server[1]


def test_it_streams_to_the_official_client(server: tuple[openai.OpenAI, str]) -> None:
    api, _ = server
    (model,) = api.models.list()
    options: Any = {"model": model.id, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    chunks = list(api.chat.completions.create(stream=True, stream_options={"include_usage": True}, **options))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert "Paris" in text
    assert "<|im_end|>" not in text
    assert chunks[-2].choices[0].finish_reason == "stop"
    usage = chunks[-1].usage
    assert len([c for c in chunks if c.choices and c.choices[0].delta.content]) <= usage.completion_tokens <= 24
    whole = api.chat.completions.create(**options)
    assert whole.choices[0].message.content == text


def test_tools_are_put_to_a_model_whose_template_knows_none(server: tuple[openai.OpenAI, str]) -> None:
    api, _ = server
    options: Any = {"model": api.models.list().data[0].id, "messages": QUESTION, "max_tokens": 4}
    without = api.chat.completions.create(**options).usage
    offered = api.chat.completions.create(**options, tools=[WEATHER]).usage
    assert offered.prompt_tokens > without.prompt_tokens + 50


def test_the_token_limit_and_stop_strings_hold(server: tuple[openai.OpenAI, str]) -> None:
    api, _ = server
    options: Any = {"model": api.models.list().data[0].id, "messages": QUESTION, "temperature": 0}
    cut = api.chat.completions.create(**options, max_tokens=3).choices[0]
    assert cut.finish_reason == "length"
    stopped = api.chat.completions.create(**options, max_tokens=24, stop=["Paris"]).choices[0]
    assert stopped.finish_reason == "stop"
    assert "Paris" not in (stopped.message.content or "")


def test_a_prompt_longer_than_the_context_is_a_400(server: tuple[openai.OpenAI, str]) -> None:
    api, _ = server
    messages: Any = [{"role": "user", "content": "long " * 3000}]
    for stream in (True, False):
        with pytest.raises(openai.BadRequestError, match="maximum context length is 2048 tokens") as caught:
            api.chat.completions.create(model=api.models.list().data[0].id, messages=messages, stream=stream)
        assert caught.value.code == "context_length_exceeded"


def test_the_responses_api_streams_and_goes_on(server: tuple[openai.OpenAI, str]) -> None:
    api, _ = server
    options: Any = {"model": api.models.list().data[0].id, "temperature": 0, "max_output_tokens": 24}
    with api.responses.stream(input="What is the capital of France?", **options) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        response: Any = stream.get_final_response()
    assert "Paris" in text
    assert response.output_text == text
    counted = api.responses.input_tokens.count(model=response.model, input="What is the capital of France?")
    assert counted.input_tokens == response.usage.input_tokens
    further: Any = api.responses.create(input="And of Italy?", previous_response_id=response.id, **options)
    assert further.usage.input_tokens > response.usage.total_tokens
    cut = api.responses.create(input="Tell me a story.", **{**options, "max_output_tokens": 3})
    assert (cut.status, cut.output[-1].status) == ("incomplete", "incomplete")


def test_it_answers_the_messages_api(server: tuple[openai.OpenAI, str]) -> None:
    address = str(server[0].base_url).removesuffix("/v1/")
    api = anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)
    options: Any = {"model": next(iter(api.models.list())).id, "messages": QUESTION, "max_tokens": 24}
    greedy: Any = {**options, "extra_body": {"temperature": 0}}
    with api.messages.stream(**greedy) as stream:
        text = "".join(stream.text_stream)
        streamed = stream.get_final_message()
    assert "Paris" in text
    assert streamed.stop_reason == "end_turn"
    whole: Any = api.messages.create(**greedy)
    assert whole.content[0].text == text
    counted = api.messages.count_tokens(model=options["model"], messages=QUESTION).input_tokens
    for usage in (whole.usage, streamed.usage):
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted
    stopped = api.messages.create(**{**greedy, "stop_sequences": ["Paris"]})
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Paris")
    cut = api.messages.create(**{**greedy, "max_tokens": 3})
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 2048 maximum"):
        api.messages.create(**{**options, "messages": [{"role": "user", "content": "long " * 3000}]})
