from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.surfaces.custom_input import CustomInput, as_function, unwrap, wrap

any_text = st.text(st.characters(exclude_categories=()), max_size=12)


def streamed(arguments: str, cuts: list[int]) -> tuple[str, CustomInput]:
    reader = CustomInput()
    said, start = "", 0
    for cut in [*sorted(cut % (len(arguments) + 1) for cut in cuts), len(arguments)]:
        said += reader.feed(arguments[start:cut])
        start = cut
    return said, reader


@given(any_text, st.booleans(), st.lists(st.integers(0, 200), max_size=8))
def test_the_text_is_the_same_however_its_arguments_are_cut(text: str, ascii_only: bool, cuts: list[int]) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    said, reader = streamed(arguments, cuts)
    # json joins two escaped halves of a surrogate pair, whoever wrote them.
    assert said + reader.finish() == json.loads(arguments)["input"] == unwrap(arguments)


@given(st.text(max_size=30), st.lists(st.integers(0, 200), max_size=8))
def test_no_arguments_raise(arguments: str, cuts: list[int]) -> None:
    for text in (arguments, '{"input": "' + arguments, '{"input": "a\\' + arguments):
        said, reader = streamed(text, cuts)
        assert reader.text == said
        reader.finish()


@given(any_text)
def test_wrapping_is_undone(text: str) -> None:
    assert unwrap(json.dumps(json.loads(wrap(text)))) == json.loads(wrap(text))["input"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"command": "ls"}', '{"command": "ls"}'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"why": "so", "input": "ls"}', "ls"),
        ('{"input": "ls", "why": "so"}', "ls"),
        ("[1]", "[1]"),
        ("{}", "{}"),
        ('{"input": "a\nb"}', "a\nb"),
    ],
)
def test_other_arguments_than_expected_are_passed_on(arguments: str, text: str) -> None:
    said, reader = streamed(arguments, list(range(50)))
    assert said + reader.finish() == text


def test_the_function_that_stands_for_a_custom_tool() -> None:
    assert as_function("shell", "Runs a command")["function"] == {
        "name": "shell",
        "description": "Runs a command",
        "parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]},
    }
    assert "description" not in as_function("shell", None)["function"]


@pytest.mark.parametrize(
    "arguments",
    [
        " " * 500,
        '{"command": "' + "x" * 500,
        '{"input": "ls", "why": "' + "x" * 500,
        '{"input": "' + "\\uZZZZ" * 100,
        '{"input": "' + "\\ud83d" * 100,
    ],
)
def test_nothing_is_read_twice_but_an_escape_that_was_cut(arguments: str) -> None:
    reader = CustomInput()
    for char in arguments:
        reader.feed(char)
        assert len(reader._cut) <= len(r"\ud83d\ude00")
