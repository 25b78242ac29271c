"""Formats that come from files and from other packages."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.laws.strategies import FORMATS, TOOLS
from unspool.formats import WriteError, registry, samples
from unspool.formats.loading import FormatFileError, build_format, formats_of, load_format
from unspool.parsing.declaration import Format, JsonCalls, Reasoning

MADE_UP = """\
name = "made_up"
summary = "one JSON object in <call> a call, reasoning in <ponder>"
aliases = ["made up model"]
turns = ["<|bot|>"]
stops = ["<|end|>"]
before_call = "\\n"
between_calls = "\\n"

[[reasoning]]
open = "<ponder>"
close = "</ponder>"
close_pad = "\\n"

[calls]
shape = "json"
open = ["<call>"]
close = ["</call>"]
"""
HERMES_LIKE = {"extends": "hermes", "name": "mine", "summary": "hermes with other tags"}


def _as_file(value: Any) -> Any:
    """What a file that declares this says."""
    if isinstance(value, tuple):
        return [_as_file(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        table = {f.name: _as_file(getattr(value, f.name)) for f in dataclasses.fields(value)}
        shape = type(value).__name__.removesuffix("Calls").replace("Arguments", "_arguments").lower()
        table = {key: item for key, item in table.items() if item is not None}
        return table | ({"shape": shape} if type(value).__name__.endswith(("Calls", "Arguments")) else {})
    return {key: _as_file(item) for key, item in value.items()} if isinstance(value, dict) else value


def _with(shape: str, extends: str = "hermes", **said: Any) -> dict[str, Any]:
    return {**HERMES_LIKE, "extends": extends, "calls": {"shape": shape, **said}}


def test_a_file_declares_a_format(tmp_path: Path) -> None:
    path = tmp_path / "made_up.toml"
    path.write_text(MADE_UP)
    assert load_format(path) == Format(
        name="made_up",
        summary="one JSON object in <call> a call, reasoning in <ponder>",
        aliases=("made up model",),
        turns=("<|bot|>",),
        stops=("<|end|>",),
        before_call="\n",
        between_calls="\n",
        reasoning=(Reasoning("<ponder>", "</ponder>", close_pad="\n"),),
        calls=JsonCalls(open=("<call>",), close=("</call>",)),
    )


def test_a_file_may_begin_with_another_format() -> None:
    hermes = unspool.get_format("hermes")
    fmt = build_format({**HERMES_LIKE, "calls": {"open": ["<my_call>"]}})
    assert fmt.calls == JsonCalls(open=("<my_call>",), close=("</tool_call>",), body_pad="\n", body_end="\n")
    assert (fmt.reasoning, fmt.stops) == (hermes.reasoning, hermes.stops)
    assert (fmt.aliases, fmt.models, fmt.engine_names) == ((), (), {})
    other = build_format({**HERMES_LIKE, "between_calls": ", ", "calls": {"shape": "python", "bare": True}})
    assert type(other.calls).__name__ == "PythonCalls"


def test_every_declaration_can_be_said_in_a_file() -> None:
    for fmt in unspool.formats():
        assert build_format(_as_file(fmt)) == fmt


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": "x"}, "the file: summary is missing"),
        ({"summary": "x"}, "the file: name is missing"),
        ({"name": "a+b", "summary": ""}, "the file: name: 'a+b' can't be a format's name"),
        ({"name": 3, "summary": ""}, "the file: name: 3 is no text"),
        (
            {**HERMES_LIKE, "stop": ["x"]},
            "the file: stop: Format has no such key; did you mean stops?",
        ),
        ({**HERMES_LIKE, "stops": "x"}, "the file: stops: 'x' is no list"),
        ({**HERMES_LIKE, "stops": ["x", 4]}, "the file: stops[1]: 4 is no text"),
        ({**HERMES_LIKE, "calls_first": "yes"}, "the file: calls_first: 'yes' is no true or false"),
        (
            {**HERMES_LIKE, "extends": "hermse"},
            "the file: extends: unknown format 'hermse'. Did you mean 'hermes'",
        ),
        ({**HERMES_LIKE, "reasoning": [{"open": "<a>"}]}, "the file: reasoning[0]: close is missing"),
        (
            {**HERMES_LIKE, "frames": [{"open": "<a>", "written": "often"}]},
            "the file: frames[0].written: 'often' is none of 'content', 'always', 'never'",
        ),
        ({**HERMES_LIKE, "frames": ["<a>"]}, "the file: frames[0]: '<a>' is no table"),
        ({**HERMES_LIKE, "also": [{"open": ["<a>"]}]}, "the file: also[0].shape: is missing; there are 'json'"),
        ({**HERMES_LIKE, "calls": {"shape": "xml"}}, "the file: calls.shape: 'xml' is unknown; there are 'json'"),
        (
            {**HERMES_LIKE, "calls": {"written_list": ["[", "]"]}},
            "the file: calls.written_list: 3 items are wanted, 2 are there",
        ),
        ({**HERMES_LIKE, "calls": {"zzz": 1}}, "the file: calls.zzz: JsonCalls has no such key; there are open,"),
        ({**HERMES_LIKE, "engine_names": {"vllm": "x"}}, "the file: engine_names.vllm: 'x' is no list"),
        ({**HERMES_LIKE, "summary": ["x" * 50]}, "the file: summary: ['xxxxxxxx"),
        ({**HERMES_LIKE, "extends": ["hermes"]}, "the file: extends: a format is named by text, not by list"),
        ({**HERMES_LIKE, "extends": "gpt_oss+hermes"}, "the file: extends: 'gpt_oss+hermes' can't be combined"),
        ({**HERMES_LIKE, "calls": {"shape": ["json"]}}, "the file: calls.shape: ['json'] is unknown; there are"),
        ({**HERMES_LIKE, "calls": {"shape": "region"}}, "the file: calls.shape: 'region' is unknown; there are"),
        ({**HERMES_LIKE, "aliases": ["a+b"]}, "the file: aliases[0]: 'a+b' can't be a format's name"),
        ({**HERMES_LIKE, "suffix": ":a"}, "the file: suffix: no marker has {suffix} in it"),
        ({**HERMES_LIKE, "stops": ["<a>", ""]}, "the file: stops[1]: must not be empty"),
        ({**HERMES_LIKE, "reasoning": [{"open": "", "close": "a"}]}, "the file: reasoning[0].open: must not be"),
        ({**HERMES_LIKE, "frames": [{"open": "", "close": ""}]}, "the file: frames[0].open: must not be empty"),
        ({**HERMES_LIKE, "calls": {"name_keys": []}}, "the file: calls.name_keys: must not be empty"),
        ({**HERMES_LIKE, "also": [{"shape": "python"}]}, "the file: also[0].open: must not be empty"),
        (_with("named", id_size=-1), "the file: calls.id_size: -1 is less than 0"),
        (_with("named", written_header="{foo}"), "the file: calls.written_header: '{foo}' has {foo}; only {name}"),
        (_with("named", written_header="{name!r}"), "the file: calls.written_header: '{name!r}' has {name}; only"),
        (_with("named", written_header="{name"), "the file: calls.written_header: '{name': expected '}'"),
        (_with("python", bare=True, statements=True), "the file: calls.open: must not be empty"),
        (_with("tagged", "qwen3_coder", value_close=[]), "the file: calls.value_close: must not be empty"),
        (_with("tagged", "qwen3_coder", call_close=[]), "the file: calls.call_close: must not be empty"),
        (
            _with("tagged", "qwen3_coder", section_per_call=True, section_open=[]),
            "the file: calls.section_open: must not be empty",
        ),
        (
            _with("tagged", "qwen3_coder", section_open=["<s>"], section_close=[]),
            "the file: calls.section_close: must not be empty",
        ),
        (_with("element", "minimax_m3", element_open=""), "the file: calls.element_open: must not be empty"),
        (_with("channel", "gpt_oss", calls_in_content=True), "the file: calls.calls_in_content: only a body of"),
        (_with("channel", "gpt_oss", ends=[]), "the file: calls.ends: must not be empty"),
        (
            {**HERMES_LIKE, "calls": {"open": []}},
            "the file: calls.open: must not be empty unless the calls are bare",
        ),
        (_with("named"), "the file: calls.open: must not be empty where calls.header_end is"),
        (
            {**HERMES_LIKE, "calls": {"shape": "python", "bare": True}},
            "the file: between_calls: must have a comma in it",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(FormatFileError) as caught:
        build_format(said, "the file")
    assert str(caught.value).startswith(problem)


def test_a_file_that_is_no_toml_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"name = ")
    with pytest.raises(FormatFileError, match=r"x\.toml: Invalid value"):
        load_format(path)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(FormatFileError, match=r"x\.toml: byte 8 is not UTF-8 text"):
        load_format(path)


class _Point:
    """An entry point of another package."""

    name = "mine"
    value = "their_package:formats"

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def load(self) -> Any:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch, clean_registry: None) -> Any:
    """Lets the registry look again, with this entry point there."""

    def there(loaded: Any) -> None:
        monkeypatch.setattr(registry, "_others_loaded", False)
        monkeypatch.setattr(metadata, "entry_points", lambda *, group: [_Point(loaded)])

    return there


MINE = build_format(HERMES_LIKE)


@pytest.mark.parametrize("loaded", [MINE, [MINE], lambda: MINE])
def test_another_package_can_bring_formats(others: Any, loaded: Any) -> None:
    others(loaded)
    assert unspool.get_format("mine") == MINE


@pytest.mark.parametrize(
    ("loaded", "problem"),
    [
        (ImportError("no module"), "no module"),
        (["x"], "'x' is no Format"),
        (build_format({**HERMES_LIKE, "name": "qwen3"}), "the name 'qwen3' belongs to the format 'hermes'"),
    ],
)
def test_a_package_that_brings_none_is_a_warning(others: Any, loaded: Any, problem: str) -> None:
    others(loaded)
    with pytest.warns(RuntimeWarning, match=problem), pytest.raises(unspool.UnknownFormatError):
        unspool.get_format("mine")


def test_formats_of_a_plugin_are_formats() -> None:
    assert formats_of((MINE,)) == [MINE]


def test_files_that_the_environment_lists_are_registered(
    others: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others([])
    path = tmp_path / "made_up.toml"
    path.write_text(MADE_UP)
    missing = tmp_path / "missing.toml"
    monkeypatch.setenv(registry.FILES, os.pathsep.join([str(missing), str(path)]))
    with pytest.warns(RuntimeWarning, match=r"missing\.toml"):
        assert unspool.get_format("Made-Up Model").name == "made_up"


def test_the_laws_run_for_a_family_that_a_file_declares(tmp_path: Path) -> None:
    """The whole promise: twenty lines of data, and nothing else is touched."""
    path = tmp_path / "made_up.toml"
    path.write_text(MADE_UP)
    assert len(MADE_UP.splitlines()) <= 20
    assert "made_up" not in FORMATS
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/laws", "-k", "made_up", "-p", "no:cacheprovider", "--no-cov"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, registry.FILES: str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert run.stdout.count(".") >= 20


_ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1.5,
    "",
    "x",
    "{",
    "{name}",
    "{x}",
    "<a>",
    [],
    [""],
    ["x"],
    [1],
    [[]],
    {},
    {"x": 1},
)
"""A value of each type, right or wrong."""


def _spoilt(said: Any) -> Iterator[Any]:
    """The declaration with one value replaced, or left out."""
    items = list(said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ())
    for key, item in items:
        for other in (*_ODD, *_spoilt(item)):
            changed = said.copy()
            changed[key] = other
            yield changed
        changed = said.copy()
        del changed[key]
        yield changed


def _to_spoil() -> dict[str, Any]:
    """A format with all it can have, and calls of each shape."""
    frames, also = [{"open": "<f>", "close": "</f>"}], [_as_file(JsonCalls(("<a>",), ("</a>",)))]
    notes = {key: ["x"] for key in ("models", "aliases", "quirks", "disagreements", "evidence")}
    hunyuan = {**_as_file(unspool.get_format("hy_v4")), **notes, "engine_names": {"vllm": ["x"]}}
    said = {"whole": {**hunyuan, "frames": frames, "also": also}}
    shapes = {type(fmt.calls): fmt.calls for fmt in unspool.formats() if fmt.calls}
    for calls in (*shapes.values(), unspool.get_format("gemma4").calls):
        table = _as_file(calls)
        said[f"{table['shape']} {len(said)}"] = {**HERMES_LIKE, "calls": table}
    return said


TO_SPOIL = _to_spoil()


@pytest.mark.parametrize("whole", TO_SPOIL.values(), ids=TO_SPOIL)
def test_whatever_a_value_is_nothing_but_the_documented_error_comes(whole: dict[str, Any]) -> None:
    loaded = 0
    for said in _spoilt(whole):
        try:
            declared = build_format(said, "the file")
            loaded += 1
            for _, prompt, raw in samples(declared):
                unspool.parse(declared, raw, prompt=prompt, tools=TOOLS)
        except (FormatFileError, WriteError):
            continue
    assert loaded
