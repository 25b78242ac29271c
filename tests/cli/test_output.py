from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.cli.output import indent_json, plain, print_json, quoted, visible, write_file

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_indented_json_keeps_every_spelling() -> None:
    text = '{"a":[1.10,1e5,"\\u00e9 {,}"],"b":{ },"c":[],"d":"\\""}'
    assert indent_json(text) == (
        '{\n  "a": [\n    1.10,\n    1e5,\n    "\\u00e9 {,}"\n  ],\n  "b": {},\n  "c": [],\n  "d": "\\""\n}'
    )


@given(values)
def test_indented_json_is_what_json_would_indent(value: object) -> None:
    text = json.dumps(value)
    assert indent_json(text) == json.dumps(value, indent=2)


@given(st.text(alphabet='{}[],:"\\ \nab1'))
def test_indenting_any_text_changes_only_whitespace(text: str) -> None:
    squeezed = re.compile(r"\s")
    assert squeezed.sub("", indent_json(text)) == squeezed.sub("", text)


def test_control_characters_become_pictures() -> None:
    assert visible("a\x1b[0m\x00\r\n\t\x7f\x9b") == "a␛[0m␀␍\n\t␡\ufffd"


@given(st.text())
def test_quoted_text_is_one_line_and_reads_back(text: str) -> None:
    line = quoted(text)
    assert "\n" not in line
    if not re.search("[\x7f-\x9f]", text):
        assert json.loads(line) == text


def test_half_a_surrogate_pair_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "\ud83d é"})
    assert capsys.readouterr().out == '{"a": "\\ud83d é"}\n'
    assert visible("\ud83d é") == "\ufffd é"


def test_json_on_a_terminal_has_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "\x1b[0m\x7f\x9b31m"})
    said = capsys.readouterr().out
    assert said == '{"a": "\\u001b[0m\\u007f\\u009b31m"}\n'
    assert json.loads(said) == {"a": "\x1b[0m\x7f\x9b31m"}


def test_what_json_cannot_say_is_given_by_name_or_source() -> None:
    @dataclass
    class Thing:
        pattern: re.Pattern[str]
        function: object
        members: frozenset[str]
        pair: tuple[int, None]
        mapping: dict[int, bool]

    assert plain(Thing(re.compile("a+"), len, frozenset({"b", "a"}), (1, None), {1: True})) == {
        "pattern": "a+",
        "function": "len",
        "members": ["a", "b"],
        "pair": [1, None],
        "mapping": {"1": True},
    }


def test_a_document_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"cannot write .*page\.html: No such file or directory"):
        write_file(tmp_path / "missing" / "page.html", "")
