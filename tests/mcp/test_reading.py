"""Reading what servers write: what is no text or no tool is left out, and all else is read."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from unspool.mcp.reading import message_of, read_content, read_tools


def test_a_message_is_read_as_it_is() -> None:
    message = message_of(b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\\ud83d\\ude00 \\u0000"}}')
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"a": "😀 \0"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"caf\xe9", "caf\ufffd"),
        (b"\\ud800", "\ufffd"),
        (b"\\udc00\\ud800", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd" * 3),
    ],
)
def test_what_is_no_text_is_replaced(line: bytes, text: str) -> None:
    message = message_of(b'{"jsonrpc": "2.0", "id": 1, "result": {"%s": "%s"}}' % (line, line))
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {text: text}


@pytest.mark.parametrize(
    "answer", [b'"result": null', b'"result": [1]', b'"error": "no"', b'"error": {"code": "x"}']
)
def test_an_answer_that_is_none_is_an_error_under_its_id(answer: bytes) -> None:
    message = message_of(b'{"jsonrpc": "2.0", "id": 7, %s}' % answer)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 7


@pytest.mark.parametrize("result", [b"[" * 100_000, b"[" * 5000 + b"]" * 5000, b"1" * 5000, b'{"a": nope}'])
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 7, "result": %b}',
        b'{"id":7,"result":%b,"jsonrpc":"2.0"}\n',
        b'{"result":%b,"jsonrpc":"2.0","id":7}\n',
    ],
)
def test_so_is_one_that_can_not_be_read(line: bytes, result: bytes) -> None:
    message = message_of(line % result)
    assert isinstance(message, types.JSONRPCError)
    assert message.id == 7


@pytest.mark.parametrize(
    "line",
    [
        *(
            b'{"id": 7, "method": nope}',
            b'{"method": nope, "jsonrpc": "2.0", "id": 7}',
            b'{"result": nope, "id": 7}',
        ),
        *(b"Welcome!", b"", b"5", b"[]", b"\xff", b'{"jsonrpc": "2.0", "id": [1], "result": null}'),
        *(b'{"jsonrpc": "2.0", "id": true, "result": null}', b'{"id": 1}', b"[" * 100_000),
        b'{"id": 1, "method": 5, "result": null}',
    ],
)
def test_anything_else_is_no_message(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever reads it
        message_of(line)


@pytest.mark.parametrize(
    ("said", "schema"),
    [
        ({}, {"type": "object"}),
        ({"inputSchema": None}, {"type": "object"}),
        ({"inputSchema": {"properties": {"a": True}}}, {"type": "object", "properties": {"a": True}}),
        ({"inputSchema": {"type": "object", "required": 5, "properties": [], "$schema": 5}}, {"type": "object"}),
        ({"icons": 5, "title": 5, "outputSchema": 5, "execution": 5, "_meta": 5}, {"type": "object"}),
    ],
)
def test_a_tool_is_read_as_far_as_it_can_be(said: dict[str, Any], schema: dict[str, Any]) -> None:
    result = {"tools": [{"name": "t", **said}]}
    read_tools(result, "s")
    assert result["tools"] == [{"name": "t", "inputSchema": schema}]


@pytest.mark.parametrize(
    "tool",
    [
        *(5, None, {}, {"name": 5}, {"name": "t", "description": 5}, {"name": "t", "annotations": "x"}),
        *({"name": "t", "inputSchema": "x"}, {"name": "t", "inputSchema": {"type": "string"}}),
        # Whether it destroys something is not known then.
        {"name": "t", "annotations": {"destructiveHint": "maybe"}},
    ],
)
def test_a_tool_that_can_not_be_read_is_left_out(tool: Any) -> None:
    result = {"tools": [tool, {"name": "good", "inputSchema": {"type": "object"}}]}
    read_tools(result, "s")
    assert [each["name"] for each in result["tools"]] == ["good"]


@pytest.mark.parametrize("result", [{"tools": 5}, {"content": [], "tools": [5]}, {}, {"content": 5}])
def test_other_results_stay_as_they_are(result: dict[str, Any]) -> None:
    before = dict(result)
    read_tools(result, "s")
    read_content(result)
    assert result == before


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "hologram", "data": "x" * 1000}, "[hologram omitted]"),
        ({"type": "image", "data": 5, "mimeType": "image/png"}, "[image omitted]"),
        ({"type": "text"}, "[text omitted]"),
        ({"type": "x" * 1000}, f"[{'x' * 50} omitted]"),
        ({"data": 5}, "[something omitted]"),
        (5, "[something omitted]"),
    ],
)
def test_a_part_of_a_result_that_nobody_knows_is_a_note(block: Any, text: str) -> None:
    good = {"type": "text", "text": "good", "_meta": {"a": 1}}
    result = {"content": [good, block], "isError": True, "more": 1}
    read_content(result)
    assert result == {"content": [good, {"type": "text", "text": text}], "isError": True, "more": 1}


def test_a_result_may_be_nothing_but_data() -> None:
    result: dict[str, Any] = {"structuredContent": {"a": 1}}
    read_content(result)
    assert result == {"structuredContent": {"a": 1}, "content": []}


def test_only_so_many_parts_are_looked_at() -> None:
    result: dict[str, Any] = {"content": [5] * 1010}
    read_content(result)
    assert len(result["content"]) == 1001
    assert result["content"][-1] == {"type": "text", "text": "[10 more parts omitted]"}
