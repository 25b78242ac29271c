from __future__ import annotations

import json
import re
from pathlib import Path

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


def test_find_looks_at_every_name(run: Run) -> None:
    def found(text: str) -> list[str]:
        return [json.loads(line)["name"] for line in run("formats", "--find", text).stdout.splitlines()]

    assert found("GLM") == [name for name in NAMES if "glm" in name]
    assert found("harmony") == ["gpt_oss"]
    assert "hermes" in found("Qwen3-8B")
    result = run("formats", "--find", "zzz")
    assert result.exit_code == 1
    assert "no format has 'zzz' in a name" in result.stderr


DECLARED = """
extends = "hermes"
name = "mine"
summary = "hermes with other tags"
calls = { open = ["<my_call>"] }
[[samples]]
raw = "Hello."
content = "%s"
"""


@pytest.fixture
def declared(tmp_path: Path, clean_registry: None) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(DECLARED % "Hello.")
    return path


def test_check_says_what_came_of_each_case(run: Run, show: Show, declared: Path) -> None:
    result = run("formats", "check", declared)
    findings = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [finding["case"] for finding in findings][-1] == "sample 1"
    assert not any(finding["problem"] for finding in findings)
    assert "\u2713 nested arguments" in show("formats", "check", declared)
    assert "- reasoning\n  can't be written: the format 'mistral_v3' has no reasoning" in show(
        "formats", "check", "mistral_v3"
    )


def test_check_fails_where_a_sample_is_read_otherwise(run: Run, declared: Path) -> None:
    declared.write_text(DECLARED % "Bye.")
    result = run("formats", "check", declared, FORCE_COLOR="1", TERM="dumb")
    assert result.exit_code == 1
    assert "\u2717 sample 1\n  in one piece: content is 'Hello.', not 'Bye.'\n  Hello.\n" in result.stdout
    declared.write_text(DECLARED.replace("raw", "text") % "")
    result = run("formats", "check", declared)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {declared}: sample 1: unknown key 'text'; there are raw, ")
    declared.write_text("samples = 5\n" + DECLARED.partition("[[samples]]")[0])
    result = run("formats", "check", declared)
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: {declared}: samples must be a list of tables, not 5\n",
    )


def test_a_file_goes_where_a_name_goes(run: Run, declared: Path) -> None:
    assert json.loads(run("formats", "show", declared).stdout)["name"] == "mine"
    assert json.loads(run("parse", "-f", declared, input="Hi").stdout)["content"] == "Hi"


@pytest.mark.parametrize(
    ("text", "problem"), [(None, "No such file or directory"), ("name = 1", "summary is missing")]
)
def test_a_file_that_declares_nothing_is_a_usage_error(
    run: Run, tmp_path: Path, text: str | None, problem: str
) -> None:
    path = tmp_path / "x.toml"
    if text is not None:
        path.write_text(text)
    result = run("parse", "-f", path, input="Hi")
    assert result.exit_code == 2
    assert f"{path}: {problem}" in result.stderr.replace("\n", "")


TEMPLATE = {
    "start_anchor": "<|bot|>",
    "fields": {"thinking": {"open": "<think>", "close": "</think>"}, "content": {"close": "<|end|>"}},
}


def test_a_response_template_goes_where_a_name_goes(run: Run, tmp_path: Path, clean_registry: None) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"response_template": TEMPLATE}))
    message = json.loads(run("parse", "-f", path, input="<think>Hm.</think>Hi<|end|>").stdout)
    assert (message["reasoning"], message["content"]) == ("Hm.", "Hi")
    path.write_text("{}")
    result = run("parse", "-f", path, input="Hi")
    assert result.exit_code == 2
    assert "there is neither a response_template nor a response_schema" in " ".join(result.stderr.split())
    path.write_text(json.dumps({"response_template": {**TEMPLATE, "fields": {"answer": {}}}}))
    assert run("parse", "-f", path, input="Hi").exit_code == 2
