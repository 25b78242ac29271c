"""Law 4: the work is linear in the text, counted in characters and not by a clock; idle text wakes nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import SupportsIndex, TypeAlias

import pytest

from tests.laws.strategies import FORMATS, TOOLS, every_format, every_format_with_calls
from tests.laws.workloads import workloads
from unspool import Event, Message, Parser, ToolCall
from unspool.formats import write
from unspool.parsing.reader import Reader

MOST = 64
"""Examined characters a fed one, at most: a marker that turns out to be none may have a whole header looked at."""


Counts: TypeAlias = dict[str, dict[str, list[tuple[int, int]]]]


@pytest.fixture(scope="module")
def counts(request: pytest.FixtureRequest) -> Counts:
    """For each format whose test runs, and each workload: fed and examined characters at each size."""
    here = (item for item in request.session.items if item.path == request.path)
    items = [item for item in here if isinstance(item, pytest.Function)]
    names = {str(item.callspec.params["name"]) for item in items if "counts" in item.fixturenames}
    run = subprocess.run(
        [sys.executable, "-m", "tests.laws.counting", *sorted(names)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: Counts = json.loads(run.stdout)
    return found


@every_format
def test_more_text_is_as_much_more_work(name: str, counts: Counts) -> None:
    """BUG-127 (an opener with nothing but layout behind it) and BUG-203 (long reasoning) are workloads."""
    assert counts[name].keys() == workloads(FORMATS[name]).keys()
    for workload, ((fed, examined), (more_fed, more_examined)) in counts[name].items():
        assert more_fed > 2 * fed, workload
        assert more_examined <= MOST * more_fed, workload
        # What is examined again and again would grow by the square.
        assert more_examined / examined <= 3 * more_fed / fed, workload


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that wake a reader from here on."""
    texts: list[str] = []
    step = Reader.step

    def counted(self: Reader, delta: str) -> list[Event]:
        texts.append(delta)
        return step(self, delta)

    monkeypatch.setattr(Reader, "step", counted)
    return texts


def call(name: str) -> str:
    arguments = '{"city": "x", "data": {"inner": [7123456]}}'
    return write(FORMATS[name], Message(tool_calls=(ToolCall("", "get_weather", arguments),)))


@every_format_with_calls
@pytest.mark.parametrize("word", ["get_weather", "city", "inner", "7123456"])
def test_letters_of_names_keys_and_numbers_wake_nobody(name: str, word: str, woken: list[str]) -> None:
    parser = Parser(FORMATS[name], tools=TOOLS)
    for char in call(name).partition(word)[0]:
        parser.feed(char)
    woken.clear()
    for letter in word:
        parser.feed(letter)
    # The first letter may decide what it is the beginning of.
    assert woken in ([], [word[0]])


@every_format_with_calls
def test_layout_behind_a_call_wakes_nobody(name: str, woken: list[str]) -> None:
    parser = Parser(FORMATS[name], tools=TOOLS)
    for char in call(name):
        parser.feed(char)
    woken.clear()
    for char in "\n \n":
        parser.feed(char)
    assert woken == []


@every_format
def test_words_of_content_wake_nobody(name: str, woken: list[str]) -> None:
    parser = Parser(FORMATS[name], tools=TOOLS)
    text = write(FORMATS[name], Message(content="Hello world"))
    for char in text.partition(" world")[0]:
        parser.feed(char)
    woken.clear()
    for char in "world":
        parser.feed(char)
    assert woken == []


class Sliced(str):
    """A text that adds up how many characters are copied out of it."""

    copied = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        found = super().__getitem__(key)
        Sliced.copied += len(found)
        return found


@pytest.fixture
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader holds counts what is copied out of it from here on."""
    held = {}

    def keep(reader: Reader, text: str) -> None:
        held[id(reader)] = Sliced(text)

    monkeypatch.setattr(Reader, "text", property(lambda reader: held[id(reader)], keep), raising=False)


@every_format
def test_text_in_one_piece_is_copied_a_few_times(name: str, sliced: None) -> None:
    for workload, (prompt, pieces) in workloads(FORMATS[name]).items():
        shares = []
        for size in (50, 800):
            text = "".join(pieces(size))
            parser = Parser(FORMATS[name], tools=TOOLS, prompt=prompt)
            Sliced.copied = 0
            parser.feed(text)
            parser.finish("stop")
            shares.append(Sliced.copied / len(text))
        # A copy of all that is still to come, for each call or marker, would grow with their number.
        assert shares[1] <= 2 * shares[0] + 4, workload
