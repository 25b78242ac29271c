from __future__ import annotations

import json
import re

import pytest

import unspool
from tests.cli.conftest import Run, Show
from unspool.formats import samples

NAMES = [each.name for each in unspool.formats()]


def test_piped_the_list_is_one_json_object_a_line(run: Run) -> None:
    listed = [json.loads(line) for line in run("formats").stdout.splitlines()]
    assert [each["name"] for each in listed] == NAMES
    for each, declared in zip(listed, unspool.formats(), strict=True):
        assert each == {
            "name": declared.name,
            "aliases": list(declared.aliases),
            "summary": declared.summary,
            "models": list(declared.models),
        }


def test_for_people_the_list_has_every_name(run: Run, show: Show) -> None:
    shown = show("formats")
    assert all(name in shown for name in NAMES)
    assert run("formats", "--json", FORCE_COLOR="1").stdout == run("formats").stdout


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_declaration_samples_and_engine_names(run: Run, name: str) -> None:
    declared = unspool.get_format(name)
    result = run("formats", "show", name)
    assert (result.exit_code, result.stderr) == (0, "")
    told = json.loads(result.stdout)
    assert told["name"] == name
    assert told["engine_names"] == {engine: list(names) for engine, names in declared.engine_names.items()}
    assert [(each["case"], each["prompt_tail"], each["raw_output"]) for each in told["samples"]] == samples(
        declared
    )
    calls = told["declaration"].get("calls", {"type": "NoneType"})
    assert calls["type"] == type(declared.calls).__name__


@pytest.mark.parametrize("name", NAMES)
def test_for_people_show_has_the_same(show: Show, name: str) -> None:
    declared = unspool.get_format(name)
    shown = show("formats", "show", name)
    assert (f"calls: {type(declared.calls).__name__}" in shown) == (declared.calls is not None)
    for names in declared.engine_names.values():
        assert ", ".join(names) in shown
    for case, _, raw in samples(declared):
        assert f"sample: {case}" in shown
        # A line longer than the panel goes on in the next.
        assert all(line in shown or _squeezed(line) in _squeezed(shown) for line in raw.split("\n"))


def _squeezed(text: str) -> str:
    return re.sub(r"[\s│]", "", text)


def test_show_takes_an_alias_and_a_combination(run: Run) -> None:
    assert json.loads(run("formats", "show", "qwen3").stdout)["name"] == "hermes"
    combined = json.loads(run("formats", "show", "qwen3+mistral").stdout)
    assert combined["name"] == "hermes+mistral"
    assert combined["declaration"]["reasoning"][0]["open"] == "<think>"
    assert combined["declaration"]["calls"]["open"] == "[TOOL_CALLS]"
