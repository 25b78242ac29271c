"""The operator's file, in the ways that others' products write it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.files import give_away, loaded, written
from unspool.mcp.config import load_config
from unspool.mcp.settings import McpConfigError, ServerConfig


def server(folder: Path, said: dict[str, Any], **environment: str) -> ServerConfig:
    (read,) = loaded(folder, {"s": said}, environment).servers
    return read


def refusal(folder: Path, said: Any, **environment: str) -> str:
    with pytest.raises(McpConfigError) as caught:
        loaded(folder, {"s": said}, environment)
    return str(caught.value)


CLAUDE = """
// What Claude Desktop writes, with comments and commas as people leave them.
{
  "mcpServers": {
    /* files */
    "files": {"command": "npx", "args": ["-y", "@scope/files@1.0.0", "/data // not a comment",], "env": {},},
  },
}
"""
VS_CODE = (
    """{"inputs": [], "servers": {"web": {"type": "http", "url": "https://x.test/mcp", "headers": {"A": "b"}}}}"""
)
YAML = """
mcpServers:
  time:
    command: uvx
    args: [mcp-server-time==1.0]
"""


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            CLAUDE,
            "mcp.json",
            ("files", "stdio", "npx", ("-y", "@scope/files@1.0.0", "/data // not a comment"), ""),
        ),
        (VS_CODE, "mcp.json", ("web", "http", "", (), "https://x.test/mcp")),
        (YAML, "mcp.yaml", ("time", "stdio", "uvx", ("mcp-server-time==1.0",), "")),
        (YAML, "mcp.yml", ("time", "stdio", "uvx", ("mcp-server-time==1.0",), "")),
    ],
)
def test_files_as_products_write_them(tmp_path: Path, text: str, name: str, expected: tuple[Any, ...]) -> None:
    config = load_config(written(tmp_path, text, name), {})
    (read,) = config.servers
    assert (read.name, read.transport, read.command, read.args, read.url) == expected
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("said", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"command": "x", "type": "stdio"}, "stdio"),
        ({"url": "http://h/mcp"}, "http"),
        ({"serverUrl": "http://h/mcp"}, "http"),
        ({"httpUrl": "http://h/mcp"}, "http"),
        ({"url": "http://h/mcp", "type": "streamable-http"}, "http"),
        ({"url": "http://h/mcp", "type": "streamableHttp"}, "http"),
        ({"url": "http://h/mcp", "type": "streamable_http"}, "http"),
        ({"url": "http://h/mcp", "transport": "http"}, "http"),
        ({"url": "http://h/sse", "type": "sse"}, "sse"),
    ],
)
def test_how_a_server_is_reached(tmp_path: Path, said: dict[str, Any], transport: str) -> None:
    assert server(tmp_path, said).transport == transport


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "neither command nor url"),
        ({"command": "x", "url": "http://h/"}, "both command and url"),
        ({"type": "grpc", "url": "http://h/"}, "type 'grpc' is not known"),
        ({"type": "stdio", "url": "http://h/"}, "command: is missing"),
        ({"type": "http", "command": "x"}, "url: is missing"),
        ({"url": "ftp://h/"}, "url: must be an http or https URL"),
        ({"url": "http://"}, "url: must be an http or https URL"),
        ({"url": "http://h:99999/"}, "url: must be an http or https URL"),
        ({"url": "http://h/\r\nX: y"}, "url: must be an http or https URL"),
        ({"url": "http://h/", "httpUrl": "http://i/"}, "say the same"),
        ({"command": ""}, "command: must not be empty"),
        ({"command": 5}, "command: must be text"),
        ({"command": "x", "args": "-y"}, "args: must be a list of texts"),
        ({"command": "x", "args": [1]}, "args: must be a list of texts"),
        ({"command": "x", "args": ["a\0b"]}, "args[0]: has a NUL character"),
        ({"command": "x", "env": ["A"]}, "env: must be an object of texts"),
        ({"command": "x", "env": {"A=B": "c"}}, "'A=B' is no name of a variable"),
        ({"command": "x", "enabled": True, "disabled": True}, "contradict each other"),
        ({"command": "x", "disabled": "no"}, "disabled: must be true or false"),
        ({"command": "x", "timeout_s": 0}, "timeout_s: must be a number above 0"),
        ({"command": "x", "timeout_s": 1, "timeout_ms": 1}, "timeout_s and timeout_ms say the same"),
        ({"command": "x", "max_output": 1.5}, "max_output: must be a whole number"),
        ({"command": "x", "max_output": True}, "max_output: must be a number"),
        ({"command": "x", "tools": {"a": "maybe"}}, "tools.a: must be one of allow, ask, deny"),
        ({"command": "x", "offer": "never"}, "offer: must be one of always, asked"),
        ({"command": "x", "sha256": "abc"}, "sha256: must be a SHA-256"),
        ({"command": "x", "pins": {"t": "abc"}}, "pins.t: must be a SHA-256"),
        ({"command": "x", "cwd": "nowhere"}, "cwd: "),
        ({"url": "http://h/", "headers": {"A": "b\r\nC: d"}}, "'A' is no header"),
        ({"url": "http://h/", "headers": {"A B": "b"}}, "'A B' is no header"),
        ({"url": "http://h/", "headers": {"A": "Bearer b "}}, "or spaces around it"),
        ("npx", "must be an object"),
    ],
)
def test_what_is_wrong_is_said_with_file_server_and_key(tmp_path: Path, said: Any, message: str) -> None:
    refused = refusal(tmp_path, said)
    assert message in refused
    assert str(tmp_path / "mcp.json") in refused
    assert "server 's'" in refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON: line 1 "),
        ("[]", "must be an object"),
        ('{"mcpServers": 1}', "must be an object"),
        ("{}", 'has no "mcpServers"'),
        ('{"mcpServers": [{"name": "a"}]}', "must be an object with a name for each server, not a list"),
        ('{"mcpServers": {}, "servers": {}}', "say the same"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "Duplicate key"),
        ('{"mcpServers": {"": {"command": "x"}}}', "1 to 64 printable characters"),
        ('{"mcpServers": {"a\\nb": {"command": "x"}}}', "1 to 64 printable characters"),
    ],
)
def test_a_file_that_is_not_one_of_servers(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(McpConfigError, match=re.escape(message)):
        load_config(written(tmp_path, text), {})


def test_no_key_of_yaml_is_there_twice(tmp_path: Path) -> None:
    text = "mcpServers:\n  a: {command: x}\n  b: &b {command: y}\n  'a': {command: z}\n"
    with pytest.raises(McpConfigError, match=r"(?s)is not YAML: 'a' is there twice.*line 4"):
        load_config(written(tmp_path, text, "mcp.yaml"), {})
    merged = "mcpServers:\n  b: &b {command: y, disabled: true}\n  c:\n    <<: *b\n    command: z\n"
    (_, server) = load_config(written(tmp_path, merged, "mcp.yaml"), {}).servers
    assert (server.command, server.disabled) == ("z", True)


def test_a_file_that_is_not_text_or_not_yaml(tmp_path: Path) -> None:
    with pytest.raises(McpConfigError, match="is not YAML"):
        load_config(written(tmp_path, "mcpServers: [", "mcp.yaml"), {})
    path = written(tmp_path, "")
    path.write_bytes(b"{\xff}")
    with pytest.raises(McpConfigError, match="byte 1 is not UTF-8 text"):
        load_config(path, {})


def test_variables_are_put_in_where_they_are_written(tmp_path: Path) -> None:
    said = {
        "command": "${DIR}/run",
        "args": ["${env:A}", "${B:-two}", "${EMPTY:-three}", "$A ${A}${A}"],
        "env": {"TOKEN": "${SECRET}"},
    }
    read = server(tmp_path, said, DIR="/opt", A="one", EMPTY="", SECRET="s3")
    assert read.command == "/opt/run"
    assert read.args == ("one", "two", "three", "$A oneone")
    assert read.env == {"TOKEN": "s3"}


def test_what_a_variable_holds_is_not_read_for_variables_again(tmp_path: Path) -> None:
    assert server(tmp_path, {"command": "${A}"}, A="${B}", B="x").command == "${B}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${GONE}", "args[0]: GONE is not set"),
        ("${env:GONE}", "args[0]: GONE is not set"),
        ("${input:key}", "args[0]: ${input:key} asks a person"),
        ("${a b}", "args[0]: ${a b} is not understood"),
    ],
)
def test_a_variable_that_can_not_be_put_in_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, {"command": "x", "args": [text]})


def test_an_env_file_is_read_and_env_goes_before_it(tmp_path: Path) -> None:
    text = "# keys\nexport A=1\nB = 'two words' \nC=3 # three\n\nD=\"#4\"\n"
    written(tmp_path, text, "s.env")
    read = server(tmp_path, {"command": "x", "envFile": "s.env", "env": {"A": "own"}})
    assert read.env == {"A": "own", "B": "two words", "C": "3", "D": "#4"}


def test_an_env_file_that_can_not_be_used(tmp_path: Path) -> None:
    assert "envFile: " in refusal(tmp_path, {"command": "x", "envFile": "none.env"})
    written(tmp_path, "A=1\nno line\n", "s.env")
    assert "line 2 of " in refusal(tmp_path, {"command": "x", "envFile": "s.env"})
    (tmp_path / "s.env").chmod(0o666)
    assert "envFile: others could change it" in refusal(tmp_path, {"command": "x", "envFile": "s.env"})


@pytest.mark.parametrize(
    ("said", "seconds", "warned"),
    [
        ({}, 60.0, None),
        ({"timeout_s": 5}, 5.0, None),
        ({"call_timeout_s": 5}, 5.0, None),
        ({"timeout_ms": 1500}, 1.5, None),
        ({"timeout": 60}, 60.0, "read as 60 seconds"),
        ({"timeout": 60000}, 60.0, "read as 60000 milliseconds"),
    ],
)
def test_times_and_the_unit_that_a_bare_one_is_read_with(
    tmp_path: Path, said: dict[str, Any], seconds: float, warned: str | None
) -> None:
    config = loaded(tmp_path, {"s": {"command": "x", **said}})
    assert config.servers[0].limits.call_timeout_s == seconds
    assert [warned in warning for warning in config.warnings if warned] == [True] * (warned is not None)


def test_a_call_may_take_as_long_as_it_is_given(tmp_path: Path) -> None:
    assert server(tmp_path, {"command": "x", "timeout_s": 3600}).limits.max_call_s == 3600


@pytest.mark.parametrize(
    ("said", "disabled"),
    [
        ({}, False),
        ({"disabled": True}, True),
        ({"enabled": False}, True),
        ({"enabled": True, "disabled": False}, False),
    ],
)
def test_a_server_may_be_disabled(tmp_path: Path, said: dict[str, Any], disabled: bool) -> None:
    assert server(tmp_path, {"command": "x", **said}).disabled is disabled


@pytest.mark.parametrize(
    ("said", "policies"),
    [
        ({}, {}),
        ({"tools": {"a": "allow", "*": "deny"}}, {"a": "allow", "*": "deny"}),
        ({"tools": ["a"]}, {"a": "allow", "*": "deny"}),
        ({"allowedTools": ["a", "b"]}, {"a": "allow", "b": "allow", "*": "deny"}),
        ({"includeTools": ["a"]}, {"a": "allow", "*": "deny"}),
        ({"disabledTools": ["a"]}, {"a": "deny"}),
        ({"excludeTools": ["a"], "tools": {"*": "allow", "a": "allow"}}, {"*": "allow", "a": "deny"}),
        ({"autoApprove": ["a"]}, {"a": "allow"}),
        ({"alwaysAllow": ["a"]}, {"a": "allow"}),
        ({"autoApprove": ["a"], "tools": {"a": "deny"}}, {"a": "deny"}),
        ({"autoApprove": ["a", "b"], "allowedTools": ["a"]}, {"a": "allow", "*": "deny"}),
    ],
)
def test_what_is_said_of_tools(tmp_path: Path, said: dict[str, Any], policies: dict[str, str]) -> None:
    assert server(tmp_path, {"command": "x", **said}).rules.policies == policies


def test_keys_of_our_own(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "command": "x",
        "offer": "asked",
        "readOnlyTools": ["a"],
        "sha256": "SHA256:" + "AB" * 32,
    }
    said |= {"pins": {"a": "cd" * 32}, "unpinned": "deny", "max_output": 10, "concurrency": 2, "memory": 1 << 30}
    read = server(tmp_path, said)
    assert (read.offer, read.rules.read_only, read.sha256) == ("asked", frozenset("a"), "ab" * 32)
    assert (read.rules.pins, read.rules.unpinned) == ({"a": "cd" * 32}, "deny")
    assert (read.limits.max_output, read.limits.concurrency, read.limits.memory) == (10, 2, 1 << 30)


def test_unknown_keys_are_warned_of(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"s": {"command": "x", "arg": ["-y"], "whatever": 1, "headers": {}}})
    warned = "\n".join(config.warnings)
    assert ".arg is not known and does nothing; is args meant?" in warned
    assert ".whatever is not known" in warned
    assert ".headers is not known" in warned


def test_secrets_are_not_in_what_is_printed_of_a_server(tmp_path: Path) -> None:
    local = {"command": "x", "args": ["--key=${KEY}"], "env": {"KEY": "s3cret"}}
    remote = {"url": "https://user:s3cret@h/?key=s3cret", "headers": {"Authorization": "s3cret"}}
    assert "s3cret" not in repr(loaded(tmp_path, {"local": local, "remote": remote}, {"KEY": "s3cret"}))


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, "{}")
    path.chmod(mode)
    with pytest.raises(McpConfigError, match=f"others could change what is run: {path} can be written by"):
        load_config(path, {})


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_file_in_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    path = written(folder, "{}")
    folder.chmod(mode)
    with pytest.raises(McpConfigError, match=f"{folder} can be written by .*; chmod go-w {folder}"):
        load_config(path, {})


def test_a_link_to_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    path = written(folder, "{}")
    folder.chmod(0o777)
    link = tmp_path / "mcp.json"
    link.symlink_to(path)
    with pytest.raises(McpConfigError, match="can be written by group and others"):
        load_config(link, {})


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "{}")
    give_away(path, monkeypatch)
    with pytest.raises(McpConfigError, match="belongs to user"):
        load_config(path, {})


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(McpConfigError, match="is not a regular file"):
        load_config(tmp_path, {})
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "none.json", {})
