"""Plugins behind the API, as the official client sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.compat.conftest import EXAMPLES, fresh_registries
from tests.server.serving import WEATHER, ScriptedEngine, replaying
from tests.server.test_chat import streamed, whole
from unspool.compat import PluginError, ToolParserManager, load_plugin
from unspool.engines.replay import Recording, read_recording
from unspool.server.parsers import choose_plugins, named_format, request_of
from unspool.server.service import Service, Settings
from unspool.surfaces.conversation import Conversation, ToolChoice, Turn

__all__ = ["fresh_registries"]

RAW = '<thought>Well.</thought>See: [[get_weather {"city": "Paris"}]][[get_weather {"city": "東京"}]]<|im_end|>'
PIECES = ["<thought>", "Well", ".", "</thought>", "See", ":", " ", '[[get_weather {"city": "Paris"}', "]]"]
TOKENS = {
    "id": "tokens",
    "token_pieces": [piece.encode().decode("latin-1") for piece in PIECES],
    "token_ids": list(range(len(PIECES))),
    "special": [0, 3],
}


@pytest.fixture(autouse=True)
def plugins() -> None:
    load_plugin(EXAMPLES / "my_parser.py")
    load_plugin(EXAMPLES / "my_reasoning.py")


@pytest.fixture(params=["chars:1", "chars:5", "random:3:40", "whole"])
def api(request: pytest.FixtureRequest, plugins: None) -> Iterator[openai.OpenAI]:
    settings = Settings(tool_parser="my_parser", reasoning_parser="my_reasoning")
    with replaying(Recording("a", RAW), chunking=request.param, settings=settings) as api:
        yield api


@pytest.mark.parametrize("answer", [whole, streamed])
def test_reasoning_content_and_calls(api: openai.OpenAI, answer: Any) -> None:
    (choice,) = answer(api, "a", tools=[WEATHER]).choices
    assert choice.message.reasoning == "Well."
    assert choice.message.content.strip() == "See:"
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
    assert calls == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "東京"})]
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("answer", [whole, streamed])
def test_without_tools_there_are_no_calls(api: openai.OpenAI, answer: Any) -> None:
    (choice,) = answer(api, "a").choices
    assert choice.message.content == RAW.partition("</thought>")[2].removesuffix("<|im_end|>")
    assert choice.finish_reason == "stop"


@pytest.mark.parametrize("answer", [whole, streamed])
def test_token_by_token(answer: Any) -> None:
    settings = Settings(tool_parser="my_parser", reasoning_parser="my_reasoning")
    with replaying(read_recording(TOKENS), settings=settings) as api:
        message = answer(api, "tokens", tools=[WEATHER]).choices[0].message
    assert (message.reasoning, message.content.strip()) == ("Well.", "See:")
    assert message.tool_calls[0].function.arguments == '{"city": "Paris"}'


def test_special_tokens_that_are_no_text_are_still_known_by_their_ids() -> None:
    pieces = ["<thought>", "Well", "</thought>", "Hi"]
    record = {"id": "tokens", "token_pieces": pieces, "token_ids": [0, 1, 2, 3], "special": [0, 2]}
    with replaying(read_recording(record), settings=Settings(reasoning_parser="my_reasoning")) as api:
        message = streamed(api, "tokens").choices[0].message
    assert (message.reasoning, message.content) == ("Well", "Hi")


def test_content_streams_as_it_comes() -> None:
    with replaying(
        Recording("a", "one two three"), chunking="chars:4", settings=Settings(tool_parser="brackets")
    ) as api:
        chunks = [chunk.choices[0].delta.content for chunk in whole(api, "a", tools=[WEATHER], stream=True)]
    assert len([text for text in chunks if text]) >= 3
    assert "".join(text or "" for text in chunks) == "one two three"


def test_a_plugin_for_reasoning_leaves_calls_to_the_detected_format() -> None:
    raw = '<thought>Well.</thought>\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    with replaying(Recording("a", raw), settings=Settings(reasoning_parser="my_reasoning")) as api:
        message = streamed(api, "a", tools=[WEATHER]).choices[0].message
    assert message.reasoning == "Well."
    assert message.tool_calls[0].function.name == "get_weather"


def test_a_plugin_for_calls_beside_a_formats_reasoning() -> None:
    raw = "Well.\n</think>\n\nSee: [[get_weather {}]]"
    for settings in (
        Settings(tool_parser="my_parser", format="qwen3"),
        Settings(tool_parser="my_parser", reasoning_parser="deepseek_r1"),
        Settings(tool_parser="my_parser", reasoning_parser="auto"),
    ):
        with replaying(Recording("a", raw, prompt_tail="<think>\n"), settings=settings) as api:
            message = streamed(api, "a", tools=[WEATHER]).choices[0].message
        assert (message.reasoning, len(message.tool_calls)) == ("Well.", 1)


def test_a_faulty_plugin_never_breaks_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text(
        "from vllm.tool_parsers import ToolParser, ToolParserManager\n"
        "@ToolParserManager.register_module('faulty')\n"
        "class Faulty(ToolParser):\n"
        "    def extract_tool_calls_streaming(self, *views): raise RuntimeError('boom')\n"
        "    def extract_tool_calls(self, *views): raise RuntimeError('boom')\n"
    )
    load_plugin(path)
    with replaying(Recording("a", "Hello there"), settings=Settings(tool_parser="faulty")) as api:
        for answer in (whole, streamed):
            (choice,) = answer(api, "a", tools=[WEATHER]).choices
            assert (choice.message.content, choice.finish_reason) == ("Hello there", "stop")


def test_a_parser_that_cant_be_made_is_found_before_anything_is_served(tmp_path: Path) -> None:
    path = tmp_path / "picky.py"
    path.write_text(
        "from vllm.tool_parsers import ToolParser, ToolParserManager\n"
        "@ToolParserManager.register_module('picky')\n"
        "class Picky(ToolParser):\n"
        "    def __init__(self, tokenizer): raise RuntimeError('no marker in the vocabulary')\n"
    )
    load_plugin(path)
    with pytest.raises(PluginError, match="Picky can't be made: RuntimeError: no marker in the vocabulary"):
        Service(ScriptedEngine(), Settings(tool_parser="picky"))


def test_what_reads_is_said() -> None:
    settings = Settings(tool_parser="my_parser", reasoning_parser="my_reasoning")
    assert Service(ScriptedEngine(), settings).reads == "read by MyReasoningParser + MyToolParser"
    assert Service(ScriptedEngine(), Settings(format="qwen3")).reads == "hermes format"


def test_names_of_formats_are_a_format() -> None:
    assert named_format("hermes", "qwen3") == "hermes"
    assert named_format("deepseek_v3", "deepseek_r1") == "deepseek_r1+deepseek_v3"
    assert named_format("llama3_json", None) == "llama3_json"
    assert named_format(None, "kimi_k2") == "kimi_k2"
    assert named_format("auto", "auto") is None
    assert named_format(None, None) is None
    with pytest.raises(PluginError, match=r"don't go together: .*goes only by itself"):
        named_format("hermes", "openai_gptoss")
    with pytest.raises(PluginError, match="There is no tool parser 'hermse'"):
        named_format("hermse", None)
    with pytest.raises(PluginError, match="There is no reasoning parser 'quen3'"):
        choose_plugins("my_parser", "quen3", None, "hermes")
    ToolParserManager.register_lazy_module("gone", "no.such.module", "Gone")
    with pytest.raises(PluginError, match="'gone' was registered as Gone of"):
        choose_plugins("gone", None, None, "hermes")


def test_parsers_see_the_request() -> None:
    turns = (
        Turn("user", ("Hi",)),
        Turn("assistant", ("Yes",), reasoning="Hm."),
        Turn("tool", ("1",), tool_call_id="c"),
    )
    conversation = Conversation(
        turns, (WEATHER,), ToolChoice("named", ("get_weather",)), False, {"thinking": True}
    )
    asked = request_of(conversation, True)
    assert asked.tools is not None
    assert asked.tools[0].function.name == asked.tool_choice.function.name == "get_weather"
    assert (asked.stream, asked.parallel_tool_calls, asked.chat_template_kwargs) == (
        True,
        False,
        {"thinking": True},
    )
    assert [message["content"] for message in asked.messages] == ["Hi", "Yes", "1"]
    assert (asked.messages[1]["reasoning"], asked.messages[2]["tool_call_id"]) == ("Hm.", "c")
    assert request_of(Conversation(turns), False).tools is None
