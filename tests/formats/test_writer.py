"""Messages as the text a model would have written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import unspool
from tests.samples.test_samples import SAMPLES, TOOLS, format_of
from unspool.formats import WriteError, samples, write
from unspool.message import Message, ToolCall
from unspool.parsing.declaration import Format

_WIRE_IDS = re.compile(r"<\|tool_call:begin\|>(.*?)<\|tool_call:name\|>")


def message_of(sample: dict[str, Any]) -> Message:
    """The sample's message; its calls have the ids that the output shows."""
    expected = sample["expected"]
    ids = _WIRE_IDS.findall(sample["raw_output"]) or [""] * len(expected["tool_calls"])
    calls = zip(ids, expected["tool_calls"], strict=True)
    written = tuple(ToolCall(call_id, c["name"], json.dumps(c["arguments"])) for call_id, c in calls)
    return Message(expected["reasoning"], expected["content"], written)


WRITTEN_BY = {"F06a": "granite_30", "F13b": "phi4_mini_tokens", "F37b": "nemotron_v3_super"}
"""Sections whose checkpoints write another layout than the canonical name's: the variant that writes it."""


@pytest.mark.parametrize("sample_id", SAMPLES)
def test_the_samples_are_written_exactly(sample_id: str) -> None:
    sample = SAMPLES[sample_id]
    fmt = unspool.get_format(WRITTEN_BY.get(sample_id.split("/")[0], format_of(sample_id)))
    assert write(fmt, message_of(sample), prompt=sample["generation_prompt"]) == sample["raw_output"]


@pytest.mark.parametrize("fmt", unspool.formats(), ids=str)
def test_each_format_shows_its_cases(fmt: Format) -> None:
    for case, prompt, raw in samples(fmt):
        message = unspool.parse(fmt, raw, prompt=prompt, tools=TOOLS)
        assert (len(message.tool_calls) == 2) == (case == "two calls")
        assert (message.reasoning is not None) == (case == "reasoning")
        assert (message.content == "Hello.") == (case == "answer")


def test_what_a_format_cannot_carry_is_an_error() -> None:
    call = ToolCall("", "f", '{"a key": 1}')
    with pytest.raises(WriteError, match="no reasoning"):
        write(unspool.get_format("llama3"), Message(reasoning="Hm."))
    with pytest.raises(WriteError, match="'a key' is no Python keyword"):
        write(unspool.get_format("pythonic"), Message(tool_calls=(call,)))
    with pytest.raises(WriteError, match="no calls"):
        write(replace(unspool.get_format("hermes"), calls=None), Message(tool_calls=(call,)))


_NO_OBJECT = {
    "no JSON": "oops",
    "nothing": "",
    "a list": "[1]",
    "a text": '"{}"',
    "null": "null",
    "two objects": "{}{}",
    "a number that is none": '{"a": NaN}',
    "an object that is no text": {"a": 1},
}


@pytest.mark.parametrize("arguments", _NO_OBJECT.values(), ids=_NO_OBJECT)
@pytest.mark.parametrize("fmt", [fmt for fmt in unspool.formats() if fmt.calls], ids=str)
def test_arguments_that_are_no_json_object_are_an_error(fmt: Format, arguments: Any) -> None:
    calls = (ToolCall("", "f", "{}"), ToolCall("", "f", arguments))
    with pytest.raises(WriteError, match=r"tool_calls\[1\]\.arguments must be the text of a JSON object, not "):
        write(fmt, Message(tool_calls=calls))


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "problem"),
    [
        ("hermes", "", "{}", ".name must be the name of a tool, not ''"),
        ("hermes", 3, "{}", ".name must be the name of a tool, not 3"),
        (
            "hermes",
            "f",
            '{"a": ' + "[" * 10**5 + "]" * 10**5 + "}",
            ".arguments must be the text of a JSON object",
        ),
        ("gemma4", "f", '{"a": ' + "[" * 700 + "]" * 700 + "}", ".arguments are nested too deeply"),
        (
            "qwen3_coder",
            "a b",
            '{"x": 1}',
            ".name: 'a b' can't be written",
        ),
        ("qwen3_coder", "a>b", "{}", ".name: 'a>b' can't be written"),
        ("qwen3_coder", "f", '{"a": 1, "": 2}', ".arguments: the key '' can't be written"),
        ("gemma4", "f", '{"b": 1, "a": {"b:c": 1}}', ".arguments: the value of 'a' can't be written"),
        ("gemma4", "f", '{"a:b": [1, 2]}', ".arguments: the key 'a:b' can't be written"),
        ("pythonic", "1f", "{}", ".name: '1f' can't be written in the format 'pythonic', which reads no call"),
        ("pythonic", "f", '{"a b": 1}', ": 'a b' is no Python keyword"),
        ("pythonic", "f", '{"a": ' + "[" * 99 + "]" * 99 + "}", ".arguments: the value of 'a' can't be written"),
    ],
)
def test_what_would_be_read_back_otherwise_is_named(name: str, tool: Any, arguments: str, problem: str) -> None:
    with pytest.raises(WriteError) as caught:
        write(name, Message(tool_calls=(ToolCall("", tool, arguments),)))
    assert str(caught.value).startswith("tool_calls[0]" + problem)


def test_a_format_without_calls_still_shows_an_answer() -> None:
    assert [case for case, _, _ in samples(replace(unspool.get_format("hermes"), calls=None))] == [
        "answer",
        "reasoning",
    ]


@pytest.mark.parametrize(
    "name", ["pythonic", "lfm2", "minicpm3", "gemma4", "kimi_k3", "deepseek_v32", "qwen3_coder"]
)
def test_values_of_every_type(name: str) -> None:
    arguments = {"s": "a", "n": 1.5, "i": 3, "b": True, "z": None, "l": [1, {"k": False}], "o": {"x": ["y"]}}
    schema = {
        "n": {"type": "number"},
        "i": {"type": "integer"},
        "b": {"type": "boolean"},
        "z": {"type": "null"},
        "l": {"type": "array"},
        "o": {"type": "object"},
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": schema}}}
    raw = write(unspool.get_format(name), Message(tool_calls=(ToolCall("", "f", json.dumps(arguments)),)))
    [call] = unspool.parse(name, raw, tools=[tool]).tool_calls
    assert json.loads(call.arguments) == arguments
