from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

import unspool
from tests.cli.conftest import WEATHER, Run
from unspool.cli.options import complete_format, load_tools, unescape


@pytest.mark.parametrize("value", [[WEATHER], {"tools": [WEATHER], "model": "m"}, WEATHER])
def test_tools_may_be_a_list_a_request_or_one_tool(tmp_path: Path, value: object) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    assert load_tools(str(path)) == [WEATHER]


def test_tools_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([WEATHER]), encoding="utf-8-sig")
    assert load_tools(str(path)) == [WEATHER]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[\n  {"type": }\n]', "tools.json:2:12: not JSON: Expecting value"),
        ("", "tools.json:1:1: not JSON: Expecting value"),
        ("[" * 100_000, "tools.json: nested too deeply"),
        ('"get_weather"', "tools.json: the file must be a list of tools, not a string"),
        ('{"tools": null}', "tools.json: tools must be a list of tools, not null"),
        ('[{"function": {"name": "a"}}, 7]', "tools.json: [1] is a number; a tool is "),
        ('{"tools": [""]}', "tools.json: tools[0] is an empty string; a tool is "),
        ('[{"name": "a"}]', "tools.json: [0].function is missing; a tool is "),
        ('{"type": "function", "function": "a"}', "tools.json: function is a string; a tool is "),
        ('[{"type": "custom", "function": {}}]', 'tools.json: [0].type is "custom"; only "function" tools'),
        ('{"tools": [{"function": {}}]}', "tools.json: tools[0].function.name is missing"),
        (
            '[{"function": {"name": ""}}]',
            "tools.json: [0].function.name must be a non-empty string, not an empty string",
        ),
        (
            '[{"function": {"name": "a", "parameters": true}}]',
            "tools.json: [0].function.parameters must be a JSON Schema object, not true",
        ),
    ],
)
def test_wrong_tools_are_named_by_their_place(
    run: Run, tmp_path: Path, raw: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text, encoding="utf-8")
    result = run("parse", "-f", "qwen3", "--tools", path, raw)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {tmp_path}/{complaint}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("some.toml", "name = " + "[" * 50_000, "some.toml: nested too deeply"),
        ("some.toml", "name = " + "9" * 5000, "some.toml: Exceeds the limit"),
        ("some.json", "[]", "some.json: a response_template is an object"),
        ("some.json", "9" * 5000, "some.json: Exceeds the limit"),
        ("some.toml", "name = ", "some.toml: Invalid value"),
    ],
)
def test_a_format_file_that_is_wrong_is_named_once(
    run: Run, tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    result = run("parse", "-f", path, input="")
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stderr.count(name) == 1
    assert result.stderr.count("\n") == 1


def test_tools_with_a_number_that_is_too_long_are_named(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text("9" * 5000, encoding="utf-8")
    with pytest.raises(click.UsageError, match=r"tools\.json: a number has more than 4300 digits"):
        load_tools(str(path))


def test_tools_that_are_not_text_are_named_by_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_bytes(b'["\xff"]')
    with pytest.raises(click.UsageError, match="byte 2 is not UTF-8 text"):
        load_tools(str(path))


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--tool-choice", "required"], "--tool-choice required needs tools to choose from: add --tools"),
        (["--tool-choice", "get_time"], "--tool-choice get_time needs tools to choose from: add --tools"),
        (
            ["--prompt", "a", "--prompt-tail", "b"],
            "--prompt and --prompt-tail say the same thing: give one of them",
        ),
    ],
)
def test_flags_that_do_not_go_together(run: Run, raw: Path, args: list[str], complaint: str) -> None:
    result = run("explain", "-f", "qwen3", *args, raw)
    assert (result.exit_code, result.stderr) == (2, f"Error: {complaint}\n")


def test_a_named_tool_choice_must_be_offered(run: Run, raw: Path, tools: Path) -> None:
    result = run("parse", "-f", "qwen3", "--tools", tools, "--tool-choice", "get_time", raw)
    assert result.exit_code == 2
    assert "get_time is not an offered tool; give auto, none, required, or one of get_weather" in result.stderr


@pytest.mark.parametrize("choice", ["auto", "required", "get_weather"])
def test_every_tool_choice_but_none_reads_calls(run: Run, raw: Path, tools: Path, choice: str) -> None:
    result = run("parse", "-f", "qwen3", "--tools", tools, "--tool-choice", choice, raw)
    assert [call["name"] for call in json.loads(result.stdout)["tool_calls"]] == ["get_weather"]


def test_tool_choice_none_leaves_call_syntax_in_the_content(run: Run, raw: Path, tools: Path) -> None:
    message = json.loads(run("parse", "-f", "qwen3", "--tools", tools, "--tool-choice", "none", raw).stdout)
    assert message["tool_calls"] == []
    assert "<tool_call>" in message["content"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\\n", r"\n"),
        (r"\x41é\u00e9", "Aéé"),
        (r"\d \x4 \u12 end\ ".strip(), "\\d \\x4 \\u12 end\\"),
    ],
)
def test_escapes_in_a_prompt_tail(text: str, meant: str) -> None:
    assert unescape(text) == meant


def test_the_three_ways_to_give_the_prompt_agree(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("<|im_start|>assistant\n<think>\n", encoding="utf-8")
    ways: list[list[Any]] = [
        ["--prompt", "<|im_start|>assistant\n<think>\n"],
        ["--prompt-tail", r"<|im_start|>assistant\n<think>\n"],
        ["--prompt-file", path],
    ]
    for way in ways:
        message = json.loads(run("parse", "-f", "qwen3", *way, "-", input="Hm.\n</think>\n\nHi!").stdout)
        assert (message["reasoning"], message["content"]) == ("Hm.", "Hi!")


def test_the_shell_completes_names_and_aliases() -> None:
    command = click.Command("parse")
    typed = complete_format(click.Context(command), click.Argument(["format"]), "qwen")
    everything = complete_format(click.Context(command), click.Argument(["format"]), "")
    assert "qwen3" in typed
    assert all(name.startswith("qwen") for name in typed)
    assert {alias for each in unspool.formats() for alias in each.aliases} <= set(everything)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"cannot read .*missing: No such file or directory"):
        load_tools(str(tmp_path / "missing"))


COMBINED = "<think>\nHm.\n</think>\n\n[TOOL_CALLS]get_weather[ARGS]{}"
HALVES = ("--reasoning-format", "qwen3", "--tool-format", "mistral")


@pytest.mark.parametrize("flags", [HALVES, ("-f", "qwen3+mistral")])
@pytest.mark.parametrize("command", ["parse", "explain"])
def test_a_format_may_be_given_in_halves(run: Run, tmp_path: Path, command: str, flags: tuple[str, ...]) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([WEATHER]), encoding="utf-8")
    result = run(command, *flags, "--tools", tools, input=COMBINED)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    if command == "parse":
        assert lines[0]["reasoning"] == "Hm."
        assert [call["name"] for call in lines[0]["tool_calls"]] == ["get_weather"]
    else:
        assert {"reasoning", "name", "arguments"} <= {line["kind"] for line in lines}


def test_two_halves_of_one_format_are_that_format(run: Run) -> None:
    result = run("parse", "--reasoning-format", "hermes", "--tool-format", "qwen3", input="Hi")
    assert json.loads(result.stdout)["content"] == "Hi"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("-f", "qwen3", *HALVES), "--format and --reasoning-format and --tool-format exclude each other"),
        (("-f", "qwen3", "--tool-format", "glm"), "--format and --tool-format exclude each other"),
        (("--tool-format", "glm"), "--tool-format is half of a format: add --reasoning-format, or give --format"),
        (("--reasoning-format", "glm"), "--reasoning-format is half of a format: add --tool-format"),
        (("--reasoning-format", "qwen33", "--tool-format", "glm"), "unknown format 'qwen33'"),
        (
            ("--reasoning-format", "glm", "--tool-format", "a+b"),
            "--tool-format takes one format, not a combination",
        ),
        (("--reasoning-format", "gpt_oss", "--tool-format", "glm"), "'gpt_oss' goes only by itself"),
        (("-f", "gpt_oss+glm"), "'gpt_oss' goes only by itself"),
    ],
)
@pytest.mark.parametrize("command", ["parse", "explain", "serve"])
def test_formats_that_do_not_go_together(run: Run, command: str, flags: tuple[str, ...], complaint: str) -> None:
    given = ["--format" if flag == "-f" else flag for flag in flags]
    result = run(command, *given, input="Hi")
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", [["parse", "-f"], ["formats", "check"], ["serve", "--format"]])
def test_a_file_that_can_declare_no_format_is_told_from_an_unknown_name(
    run: Run, tmp_path: Path, command: list[str]
) -> None:
    path = tmp_path / "format.yaml"
    path.write_text("name: mine")
    result = run(*command, path, input="Hi")
    assert result.exit_code == 2
    complaint = "format.yaml: a file that declares a format ends in .toml, or in .json with a response_template"
    assert complaint in " ".join(result.stderr.split())
