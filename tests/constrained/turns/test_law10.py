"""Law 10: what the grammar allows is read as calls that validate; what the writer writes, the grammar allows."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_common.tokens.tokenizers import tekken

from tests.conftest import EXPLORE, examples
from tests.constrained.turns.walks import SCHEMAS, TOOLS, byte_pairs, letters, refused, walk
from tests.laws.strategies import FORMATS, every_format_with_calls, is_bare, reasons
from unspool import Message, Parser, ToolCall
from unspool.constrained.turns import TurnGrammar, turn_grammar
from unspool.formats import write

_WALKS = 2 * max(EXPLORE, 1)
_VOCABULARIES = {"letters": letters, "byte pairs": byte_pairs}


def held(name: str, tokenizer: Any, **options: Any) -> TurnGrammar:
    """The grammar of a turn of a format, whose calls are held to their schemas."""
    grammar = turn_grammar(FORMATS[name], tokenizer, tools=TOOLS, constrain="schema", **options)
    assert grammar is not None
    return grammar


def read(name: str, tokenizer: Any, ids: list[int], choice: Any) -> Message:
    """The message that a parser makes of tokens."""
    parser = Parser(FORMATS[name], tools=TOOLS, tool_choice=choice, tokenizer=tokenizer)
    return Message.from_events(parser.feed_tokens(ids) + parser.finish("stop"))


@every_format_with_calls
@pytest.mark.parametrize("vocabulary", _VOCABULARIES)
@pytest.mark.parametrize("choice", ["auto", "required", "get_weather"])
def test_what_is_allowed_is_read_as_valid_calls(name: str, vocabulary: str, choice: str) -> None:
    tokenizer = _VOCABULARIES[vocabulary](FORMATS[name])
    grammar = held(name, tokenizer, tool_choice=choice)
    for seed in range(_WALKS):
        ids = walk(grammar, tokenizer, (name, vocabulary, choice, seed))
        if ids is None:
            continue
        message = read(name, tokenizer, ids, choice)
        for call in message.tool_calls:
            jsonschema.validate(json.loads(call.arguments), SCHEMAS[call.name])
        if choice != "auto":
            assert message.tool_calls
            assert message.content is None
        if choice == "get_weather":
            assert [call.name for call in message.tool_calls] == ["get_weather"]


@every_format_with_calls
def test_without_parallel_calls_there_is_one(name: str) -> None:
    tokenizer = byte_pairs(FORMATS[name])
    grammar = held(name, tokenizer, tool_choice="required", parallel_tool_calls=False)
    for seed in range(_WALKS):
        ids = walk(grammar, tokenizer, (name, seed))
        if ids is not None:
            assert len(read(name, tokenizer, ids, "required").tool_calls) == 1


_words = st.sampled_from(("Oslo", "the answer", "Größe 🙂", "a b", "New\nYork", "42", "no.", "x" * 40))
_values: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "get_weather": {
        "city": _words,
        "days": st.integers(1, 14),
        "unit": st.sampled_from(("c", "f", "kelvin")),
        "tags": st.lists(_words, min_size=1, max_size=2),
        "at": st.sampled_from(({"lat": 1.5}, {"lat": -3, "sure": None}, {"lat": 0, "sure": True})),
    },
    "get": {
        "what": st.integers(5, 10**6) | st.sampled_from(("ab", "New Yo")),
        "sure": st.booleans(),
        "note": st.sampled_from(("x", None, False)),
        "kind": st.sampled_from((1, "a", None, True)),
        "list": st.sampled_from(([], [{"a": "b"}], [{"a": "", "in": {"a": "c"}}])),
    },
    "save": {"code": st.sampled_from(("abc", "a")), "day": st.just("2024-02-28"), "none": st.just({})},
}


@st.composite
def _calls(draw: st.DrawFn) -> ToolCall:
    """A valid call, its arguments in the order of the schema, which is what grammars of JSON hold to."""
    name = draw(st.sampled_from(sorted(_values)))
    needed = SCHEMAS[name]["required"]
    arguments = {key: draw(value) for key, value in _values[name].items() if key in needed or draw(st.booleans())}
    return ToolCall("", name, json.dumps(arguments, ensure_ascii=False))


@cache
def _tekken() -> Any:
    path = Path(tekken.__file__).parents[2] / "data" / "tekken_240911.json"
    return tekken.Tekkenizer.from_file(path)


@st.composite
def _messages(draw: st.DrawFn, name: str) -> Message:
    fmt = FORMATS[name]
    calls = tuple(draw(st.lists(_calls(), max_size=3)))
    spoken = not (calls and (is_bare(fmt) or fmt.calls_first))
    return Message(
        reasoning=draw(st.none() | _words) if reasons(fmt) else None,
        content=draw(_words if not calls else st.none() | _words) if spoken else None,
        tool_calls=calls,
    )


@every_format_with_calls
@pytest.mark.parametrize("vocabulary", [*_VOCABULARIES, "tekken"])
@settings(max_examples=examples(6))
@given(data=st.data())
def test_what_is_written_is_allowed(name: str, vocabulary: str, data: st.DataObject) -> None:
    tokenizer = _tekken() if vocabulary == "tekken" else _VOCABULARIES[vocabulary](FORMATS[name])
    message = data.draw(_messages(name), label="message")
    choice = data.draw(st.sampled_from(("auto", "required")), label="choice") if message.tool_calls else "auto"
    if choice == "required" and message.content is not None:
        choice = "auto"
    text = write(FORMATS[name], message)
    assert refused(held(name, tokenizer, tool_choice=choice), tokenizer, text) is None
