"""Each client, driven in the same way: asked about one recording, it says what it heard.

Most of the clients are no part of the development environment (``make clients`` installs them), so each is
imported when it is asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any, ClassVar, Protocol

import anthropic
import openai

from tests.clients.recordings import PARAMETERS, QUESTION, WEATHER, Call, Heard, finish

# Without this, LiteLLM asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

ANTHROPIC_WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": PARAMETERS,
}
ASKED: Any = [{"role": "user", "content": QUESTION}]
LIMIT = 99  # tokens


class Driver(Protocol):
    """One client of one of the APIs.

    ``package`` is what has to be installed. ``reasoning`` is whether the client shows reasoning at all; ``mends``
    is whether it completes the arguments of a call that was cut, so that only the finish reason tells.
    With ``must_call`` a request demands exactly one call.
    """

    package: str
    reasoning: bool
    mends: bool

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        """The whole answer at once."""
        ...

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        """The client's own chunks of a streamed answer; closing the iterator hangs up."""
        ...

    def join(self, chunks: list[Any]) -> Heard:
        """The answer that the client puts together from its chunks."""
        ...


def _heard(text: Any, reasoning: Any, calls: list[Call], reason: Any) -> Heard:
    return Heard((text or "").strip(), (reasoning or "").strip(), tuple(calls), finish(reason))


def _parsed(arguments: str) -> Any:
    """Arguments as a value; as they are if they are cut."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _of_choice(choice: Any) -> Heard:
    """A choice of a chat completion."""
    message = choice.message
    calls = [(call.function.name, _parsed(call.function.arguments)) for call in message.tool_calls or []]
    return _heard(message.content, getattr(message, "reasoning_content", None), calls, choice.finish_reason)


class OpenAI:
    """The official client of Chat Completions."""

    package, reasoning, mends = "openai", True, False

    def _options(self, url: str, model: str, must_call: bool) -> tuple[openai.OpenAI, dict[str, Any]]:
        api = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        choice = {"tool_choice": "required", "parallel_tool_calls": False} if must_call else {}
        return api, {"model": model, "messages": ASKED, "tools": [WEATHER], **choice}

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        api, options = self._options(url, model, must_call)
        return _of_choice(api.chat.completions.create(**options).choices[0])

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        api, options = self._options(url, model, must_call)
        with api.chat.completions.stream(**options) as stream:
            for event in stream:
                if event.type == "chunk":
                    yield event

    def join(self, chunks: list[Any]) -> Heard:
        return _of_choice(chunks[-1].snapshot.choices[0])


class Anthropic:
    """The official client of the Messages API."""

    package, reasoning, mends = "anthropic", True, True

    def _options(self, url: str, model: str, must_call: bool) -> tuple[anthropic.Anthropic, dict[str, Any]]:
        api = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
        choice = {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}} if must_call else {}
        return api, {
            "model": model,
            "messages": ASKED,
            "tools": [ANTHROPIC_WEATHER],
            "max_tokens": LIMIT,
            **choice,
        }

    def _message(self, message: Any) -> Heard:
        blocks = message.content
        return _heard(
            "".join(block.text for block in blocks if block.type == "text"),
            "".join(block.thinking for block in blocks if block.type == "thinking"),
            [(block.name, block.input) for block in blocks if block.type == "tool_use"],
            message.stop_reason,
        )

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        api, options = self._options(url, model, must_call)
        return self._message(api.messages.create(**options))

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        api, options = self._options(url, model, must_call)
        with api.messages.stream(**options) as stream:
            for _ in stream:
                yield stream.current_message_snapshot

    def join(self, chunks: list[Any]) -> Heard:
        return self._message(chunks[-1])


class _LangChain:
    """What LangChain's models have in common: a message whose content is blocks, and chunks that are added up."""

    mends = True

    def _model(self, url: str, model: str) -> Any:
        raise NotImplementedError

    def _asked(self, url: str, model: str, must_call: bool) -> Any:
        choice = {"tool_choice": "any", "parallel_tool_calls": False} if must_call else {}
        return self._model(url, model).bind_tools([WEATHER], **choice)

    def _message(self, message: Any) -> Heard:
        blocks = message.content_blocks
        reason = message.response_metadata
        return _heard(
            "".join(block["text"] for block in blocks if block["type"] == "text"),
            "".join(block["reasoning"] for block in blocks if block["type"] == "reasoning"),
            [(call["name"], call["args"]) for call in message.tool_calls],
            reason.get("finish_reason") or reason.get("stop_reason"),
        )

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        return self._message(self._asked(url, model, must_call).invoke(QUESTION))

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        yield from self._asked(url, model, must_call).stream(QUESTION)

    def join(self, chunks: list[Any]) -> Heard:
        return self._message(reduce(add, chunks))


class LangChainOpenAI(_LangChain):
    """``ChatOpenAI``, which knows no reasoning in Chat Completions."""

    package, reasoning = "langchain_openai", False

    def _model(self, url: str, model: str) -> Any:
        module: Any = import_module("langchain_openai")
        return module.ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=model, max_retries=0)


class LangChainAnthropic(_LangChain):
    """``ChatAnthropic``."""

    package, reasoning = "langchain_anthropic", True

    def _model(self, url: str, model: str) -> Any:
        module: Any = import_module("langchain_anthropic")
        return module.ChatAnthropic(base_url=url, api_key="none", model=model, max_retries=0, max_tokens=LIMIT)


class _PydanticAI:
    """A model of pydantic-ai without an agent around it, which would run the calls."""

    package, reasoning, mends = "pydantic_ai", True, False

    def _model(self, url: str, model: str) -> Any:
        raise NotImplementedError

    def _asked(self, url: str, model: str, must_call: bool) -> tuple[Any, ...]:
        models: Any = import_module("pydantic_ai.models")
        tools: Any = import_module("pydantic_ai.tools")
        messages: Any = import_module("pydantic_ai.messages")
        weather = tools.ToolDefinition(name="get_weather", parameters_json_schema=PARAMETERS)
        parameters = models.ModelRequestParameters(function_tools=[weather], allow_text_output=not must_call)
        asked = [messages.ModelRequest.user_text_prompt(QUESTION)]
        return self._model(url, model), asked, {"parallel_tool_calls": not must_call}, parameters

    def _message(self, response: Any) -> Heard:
        parts = {"text": "", "thinking": ""}
        calls: list[Call] = []
        for part in response.parts:
            if part.part_kind == "tool-call":
                calls.append((part.tool_name, _parsed(part.args) if isinstance(part.args, str) else part.args))
            else:
                parts[part.part_kind] += part.content
        return _heard(parts["text"], parts["thinking"], calls, response.finish_reason)

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        direct: Any = import_module("pydantic_ai.direct")
        target, asked, settings, parameters = self._asked(url, model, must_call)
        return self._message(
            direct.model_request_sync(target, asked, model_settings=settings, model_request_parameters=parameters)
        )

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        direct: Any = import_module("pydantic_ai.direct")
        target, asked, settings, parameters = self._asked(url, model, must_call)
        with direct.model_request_stream_sync(
            target, asked, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            for _ in stream:
                yield stream.response
            yield stream.response

    def join(self, chunks: list[Any]) -> Heard:
        return self._message(chunks[-1])


class PydanticAIChat(_PydanticAI):
    """``OpenAIChatModel``."""

    def _model(self, url: str, model: str) -> Any:
        models: Any = import_module("pydantic_ai.models.openai")
        providers: Any = import_module("pydantic_ai.providers.openai")
        api = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        return models.OpenAIChatModel(model, provider=providers.OpenAIProvider(openai_client=api))


class PydanticAIMessages(_PydanticAI):
    """``AnthropicModel``."""

    def _model(self, url: str, model: str) -> Any:
        models: Any = import_module("pydantic_ai.models.anthropic")
        providers: Any = import_module("pydantic_ai.providers.anthropic")
        api = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)
        return models.AnthropicModel(model, provider=providers.AnthropicProvider(anthropic_client=api))


class _LiteLLM:
    """``litellm.completion``, whose answers have the shape of Chat Completions for every API."""

    package, reasoning, mends = "litellm", True, False
    provider: ClassVar[str]
    path: ClassVar[str]

    def _ask(self, url: str, model: str, must_call: bool, *, stream: bool) -> Any:
        litellm: Any = import_module("litellm")
        return litellm.completion(
            model=f"{self.provider}/{model}",
            api_base=url + self.path,
            api_key="none",
            messages=ASKED,
            tools=[WEATHER],
            tool_choice="required" if must_call else "auto",
            parallel_tool_calls=not must_call,
            max_tokens=LIMIT,
            num_retries=0,
            max_retries=0,
            stream=stream,
        )

    def whole(self, url: str, model: str, *, must_call: bool = False) -> Heard:
        return _of_choice(self._ask(url, model, must_call, stream=False).choices[0])

    def stream(self, url: str, model: str, *, must_call: bool = False) -> Iterator[Any]:
        stream = self._ask(url, model, must_call, stream=True)
        try:
            yield from stream
        finally:
            stream.close()

    def join(self, chunks: list[Any]) -> Heard:
        litellm: Any = import_module("litellm")
        return _of_choice(litellm.stream_chunk_builder(chunks).choices[0])


class LiteLLMChat(_LiteLLM):
    """The provider for servers that speak Chat Completions."""

    provider, path = "openai", "/v1"


class LiteLLMMessages(_LiteLLM):
    """The provider for servers that speak the Messages API."""

    provider, path = "anthropic", ""


DRIVERS: tuple[Driver, ...] = (
    OpenAI(),
    Anthropic(),
    LangChainOpenAI(),
    LangChainAnthropic(),
    PydanticAIChat(),
    PydanticAIMessages(),
    LiteLLMChat(),
    LiteLLMMessages(),
)
