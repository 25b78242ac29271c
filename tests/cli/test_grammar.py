from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import WEATHER, Run, Show
from tests.constrained.turns.acceptor import refused
from tests.constrained.vocabularies import byte_level
from unspool import Message, ToolCall, get_format
from unspool.constrained import lark
from unspool.formats import write

CALL = write(get_format("qwen3"), Message(tool_calls=(ToolCall("", "get_weather", '{"city": "Oslo"}'),)))


def test_gbnf_holds_to_the_tools(run: Run, tools: Path) -> None:
    result = run("grammar", "-f", "qwen3", "--tools", tools, "--tool-choice", "required", "--for", "gbnf")
    assert (result.exit_code, result.stderr) == (0, "")
    assert refused(result.stdout, CALL) is None
    assert refused(result.stdout, f"{CALL}\n{CALL}") is None
    assert refused(result.stdout, "Hi.") is not None


def test_options_of_the_request(run: Run, tools: Path) -> None:
    given = ["grammar", "-f", "qwen3", "--tools", tools, "--tool-choice", "get_weather", "--for", "gbnf"]
    grammar = run(*given, "--no-parallel", "--reasoning", "required").stdout
    assert refused(grammar, "<think>\nHm.\n</think>\n\n" + CALL) is None
    assert refused(grammar, CALL) is not None
    opened = run(*given, "--prompt-tail", "<|im_start|>assistant\\n<think>\\n").stdout
    assert refused(opened, "Hm.\n</think>\n\n" + CALL) is None
    assert refused(opened, CALL) is not None


def test_lark_names_markers_by_their_letters_or_by_id(run: Run, tools: Path, tmp_path: Path) -> None:
    given = ["grammar", "-f", "qwen3", "--tools", tools, "--constrain", "schema"]
    letters = run(*given).stdout
    assert lark(letters)
    assert "<tool_call>" in letters
    byte_level().save(str(tmp_path / "tokenizer.json"))
    marker = f"<[{byte_level().token_to_id('<tool_call>')}]>"
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        ids = run(*given, "--tokenizer", path).stdout
        assert lark(ids)
        assert marker in ids


def test_texts_in_calls_are_bounded_in_tokens_unless_that_is_not_wanted(run: Run, tools: Path) -> None:
    given = ["grammar", "-f", "qwen3_coder", "--tools", tools, "--tool-choice", "required"]
    assert "max_tokens=4096" in run(*given).stdout
    assert "max_tokens=100]" in run(*given, "--max-text", "100").stdout
    assert "max_tokens" not in run(*given, "--max-text", "0").stdout
    assert "--max-text is for Lark alone" in run(*given, "--max-text", "9", "--for", "gbnf").stderr


def test_servers_get_fields(run: Run, show: Show, tools: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "integer"}', encoding="utf-8")
    given = ["grammar", "-f", "qwen3", "--schema", schema, "--reasoning", "off"]
    assert json.loads(run(*given, "--for", "vllm").stdout) == {"structured_outputs": {"json": {"type": "integer"}}}
    assert json.loads(run(*given, "--for", "sglang").stdout) == {"json_schema": '{"type": "integer"}'}
    assert json.loads(run(*given, "--for", "llama-server").stdout) == {"json_schema": {"type": "integer"}}
    assert [each["name"] for each in json.loads(run(*given).stdout)["grammars"]] == ["turn", "response"]
    assert show(*given, "--for", "llama-server").startswith('{\n  "json_schema": {\n')


def test_what_is_left_out_is_told(run: Run, tools: Path) -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"n": {"multipleOf": 2}}}}
    tools.write_text(json.dumps([{"type": "function", "function": function}]), encoding="utf-8")
    given = ["grammar", "-f", "qwen3_coder", "--tools", tools, "--tool-choice", "required"]
    assert "Note: 'multipleOf' at /properties/n" in run(*given, "--for", "gbnf").stderr
    tools.write_text(
        json.dumps([{"type": "function", "function": {**function, "strict": True}}]), encoding="utf-8"
    )
    result = run(*given, "--for", "gbnf")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: The schema of tool 'f' can't be enforced: 'multipleOf' at")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "which format? Give -f NAME"),
        (["-f", "qwen3"], 1, "nothing is held: no call has to come"),
        (["-f", "qwen3", "--tool-choice", "required"], 2, "--tool-choice required needs tools"),
        (["-f", "qwen3", "--tokenizer", ".", "--for", "vllm"], 2, "--tokenizer is for Lark alone: vllm"),
        (["-f", "qwen3", "--schema", "{broken}"], 2, "1:1: not JSON"),
        (["-f", "qwen3", "--schema", "{list}"], 2, "The schema must be an object"),
        (["-f", "qwen3", "--schema", "{list}", "--tokenizer", "{broken}"], 2, "The schema must be an object"),
        (["-f", "qwen3", "--schema", "{number}", "--tokenizer", "{broken}"], 2, "broken.json: "),
        (["-f", "kimi_vl", "--tools", "{tools}", "--tool-choice", "required"], 2, "'kimi_vl' has no calls"),
    ],
)
def test_what_is_wrong_is_one_line(
    run: Run, tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    files = {"broken": "x", "list": "[]", "number": '{"type": "number"}', "tools": json.dumps([WEATHER])}
    paths = {name: tmp_path / f"{name}.json" for name in files}
    for name, text in files.items():
        paths[name].write_text(text, encoding="utf-8")
    result = run("grammar", *(each.format(**paths) for each in arguments))
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
