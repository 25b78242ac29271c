"""MiniMax-M3: nested elements, typed by the schema at every depth; FunctionGemma's quotes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import unspool
from tests.conformance.replay import Outcome, calls
from tests.formats.families.cutting import INTEGER, STRING, read, tool
from unspool import Message, ToolCall, ToolCallDelta
from unspool.formats import WriteError, write

M = "]<]minimax[>["
ITEMS = {
    "type": "array",
    "items": {"type": "object", "properties": {"sku": STRING, "count": INTEGER, "tags": {"type": "array"}}},
}
TOOLS = [
    tool(
        "order",
        user=INTEGER,
        note=STRING,
        items=ITEMS,
        options={"type": "object", "properties": {"fast": {"type": "boolean"}, "id": STRING}},
        word={"type": ["string", "null"]},
        any={},
        map={"type": "object", "additionalProperties": INTEGER},
        either={"anyOf": [{"type": "array", "items": STRING}, {"type": "object"}]},
    ),
    tool("get_time"),
]


def tags(text: str) -> str:
    """The text with the marker before every tag."""
    return text.replace("<", f"{M}<")


def call(parameters: str, name: str = "order") -> str:
    return tags(f'<tool_call>\n<invoke name="{name}">\n{parameters}\n</invoke>\n</tool_call>')


VALUES: list[tuple[str, dict[str, Any]]] = [
    ("<user>42</user>", {"user": 42}),
    ("<user>42</user><note>\n 7 \n</note>", {"user": 42, "note": "\n 7 \n"}),
    ("<items><item><sku>1</sku><count>2</count></item></items>", {"items": [{"sku": "1", "count": 2}]}),
    ("<items>\n<entry>\n<sku>1</sku>\n</entry>\n<entry><sku>2</sku></entry>\n</items>",
     {"items": [{"sku": "1"}, {"sku": "2"}]}),
    ("<items><sku>1</sku></items><items><sku>2</sku></items>", {"items": [{"sku": "1"}, {"sku": "2"}]}),
    ("<items><item><tags>a</tags><tags>2</tags></item></items>", {"items": [{"tags": ["a", 2]}]}),
    ('<items>[{"sku": "1"}]</items>', {"items": [{"sku": "1"}]}),
    ("<items></items><options></options><note></note><word></word><any></any>",
     {"items": [], "options": {}, "note": "", "word": "", "any": ""}),
    ("<items> \n</items>", {"items": []}),
    ("<options><fast>True</fast><id>007</id><more>7</more></options>",
     {"options": {"fast": True, "id": "007", "more": 7}}),
    ("<options><item>1</item></options>", {"options": {"item": 1}}),
    ("<options>text<id>1</id>more</options>", {"options": {"$text": "textmore", "id": "1"}}),
    ("<options><$text>a</$text>b</options>", {"options": {"$text": "a"}}),
    ("<map><a>1</a><b>2</b></map>", {"map": {"a": 1, "b": 2}}),
    ("<either><x>1</x></either>", {"either": {"x": 1}}),
    ("<any><item>1</item><item>a</item></any>", {"any": [1, "a"]}),
    ("<any><a>1</a><a>2</a><b><c>null</c></b></any>", {"any": {"a": [1, 2], "b": {"c": None}}}),
    ("<any>1</any><any>2</any>", {"any": [1, 2]}),
    ("<any>text</any><user>1</user><any>later</any>", {"any": "text", "user": 1}),
    ("<options><id>1</id></options><options><id>2</id></options>", {"options": {"id": "1"}}),
    ("<note>one</note><note>two</note>", {"note": "one"}),
    ("<word>null</word>", {"word": None}),
    ("<-n>1</-n><a/b>x</a/b>", {"-n": 1, "a/b": "x"}),
    ("", {}),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "arguments"), VALUES)
def test_values_are_typed_at_every_depth(parameters: str, arguments: dict[str, Any]) -> None:
    assert read("minimax_m3", call(parameters), tools=TOOLS) == Outcome(calls=calls(("order", arguments)))


TOLERATED: list[tuple[str, dict[str, Any]]] = [
    # A closer of another name, none at all, one too many.
    ("<note>a</text><user>1</user>", {"note": "a", "user": 1}),
    ("<options><id>1</ID></options><user>1</user>", {"options": {"id": "1"}, "user": 1}),
    ("<note>a<user>1</user>", {"note": "a", "user": 1}),
    ("<user>1<note>a</note>", {"note": "a", "user": 1}),
    ("<note>a", {"note": "a\n"}),
    ("<options><id>1</options><user>1</user>", {"options": {"id": "1"}, "user": 1}),
    ("<options><id>1", {"options": {"id": "1\n"}}),
    ("<note>a</note></note><user>1</user></x>", {"note": "a", "user": 1}),
    # Tags that are text.
    ("<note>a <b c> < </ d></note>", {"note": f"a {M}<b c> {M}< {M}</ d>"}),
    ("<note>see <b></note>", {"note": f"see {M}<b>"}),
    ("<options><id>a <b c></id></options>", {"options": {"id": f"a {M}<b c>"}}),
]


@pytest.mark.parametrize(("parameters", "arguments"), TOLERATED)
def test_tags_that_are_missing_misspelt_or_text(parameters: str, arguments: dict[str, Any]) -> None:
    assert read("minimax_m3", call(parameters), tools=TOOLS) == Outcome(calls=calls(("order", arguments)))


TIME = calls(("get_time", {}))


@pytest.mark.parametrize(
    ("raw", "content", "found"),
    [
        (tags('<invoke name="get_time">\n</invoke>\n</tool_call>'), None, TIME),
        (tags('<tool_call>\n<invoke name="get_time">\n</tool_call>'), None, TIME),
        (tags('<tool_call>\n<invoke name="get_time">\n</invoke>'), None, TIME),
        (tags('<tool_call>\n<invoke name="get_time">\n<invoke name="get_time">\n</invoke></tool_call>'), None,
         TIME * 2),
        ("One.\n" + call("", "get_time") + "\nTwo.\n" + call("", "get_time") + "\nThree.", "One.\nTwo.\nThree.",
         TIME * 2),
        (tags('<invoke name="unknown">\n</invoke>'), tags('<invoke name="unknown">\n</invoke>'), ()),
        (call("", "unknown"), None, calls(("unknown", {}))),
        (call("prose"), call("prose"), ()),
        (call("<a b>1</a b>"), call("<a b>1</a b>"), ()),
        (call("<any>" + "<x>" * 80), call("<any>" + "<x>" * 80), ()),
        (call("").replace(' name="order"', " "), call("").replace(' name="order"', " "), ()),
    ],
)  # fmt: skip
def test_calls_and_what_is_none(raw: str, content: str | None, found: tuple[tuple[str, str], ...]) -> None:
    assert read("minimax_m3", raw, tools=TOOLS) == Outcome(None, content, found)


@pytest.mark.parametrize("parameters", ["<note>a", "<any>a", "<any><b>a", "<note>a</no", "<user>1</user>"])
def test_a_call_that_the_token_limit_cut_is_no_call(parameters: str) -> None:
    raw = call(parameters)
    raw = "Hi.\n" + raw[: raw.index(f"\n{M}</invoke>")]
    assert read("minimax_m3", raw, tools=TOOLS, finish="length") == Outcome(content="Hi.")
    if parameters != "<user>1</user>":
        assert read("minimax_m3", raw, tools=TOOLS) == Outcome(content=raw)


@pytest.mark.parametrize("opened", ["<any>a", "<any><b>a", "<note>a"])
def test_a_call_that_has_no_end_at_all_ends_where_the_next_one_begins(opened: str) -> None:
    raw = tags(f'<tool_call>\n<invoke name="order">{opened}<invoke name="get_time">\n</invoke>\n</tool_call>')
    [order, time] = read("minimax_m3", raw, tools=TOOLS).calls
    assert (order[0], time) == ("order", TIME[0])


def test_calls_of_one_tool_share_its_schema() -> None:
    parameters = "<items><item><sku>1</sku></item></items>"
    raw = call(parameters) + call(parameters)
    assert read("minimax_m3", raw, tools=TOOLS) == Outcome(calls=calls(("order", {"items": [{"sku": "1"}]})) * 2)


def test_string_parameters_stream_and_others_come_whole() -> None:
    parser = unspool.Parser(unspool.get_format("minimax_m3"), tools=TOOLS)
    pieces = [tags('<tool_call>\n<invoke name="order">\n<note>one'), " two", tags("</note>\n<any>1"), "2"]
    pieces += [tags("</any>\n"), tags("<user>1</user></invoke>")]
    sent = [[e.arguments for e in parser.feed(piece) if isinstance(e, ToolCallDelta)] for piece in pieces]
    assert sent == [['{"note": "one'], [" two"], ['"'], [], [], [', "any": 12, "user": 1}']]


WRITTEN: list[tuple[Any, str]] = [
    (["a", 1, [True]], "\n<item>a</item>\n<item>1</item>\n<item><item>true</item></item>\n"),
    ({"a": {"b": "x", "c": 1.5}}, "\n<a><b>x</b><c>1.5</c></a>\n"),
    # What elements can't say without a schema is JSON.
    ([], "[]"),
    ({}, "{}"),
    (["1"], '["1"]'),
    ({"item": 1}, '{"item": 1}'),
    ({"$text": 1}, '{"$text": 1}'),
    ({"a b": 1}, '{"a b": 1}'),
    ({"a": []}, '{"a": []}'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_values_are_written_as_elements_or_as_json(value: Any, text: str) -> None:
    message = Message(tool_calls=(ToolCall("", "order", json.dumps({"any": value})),))
    raw = write("minimax_m3", message)
    assert raw == call(f"<any>{text}</any>")
    assert read("minimax_m3", raw, tools=TOOLS) == Outcome(calls=calls(("order", {"any": value})))


def test_a_key_that_is_no_name_of_an_element_cannot_be_written() -> None:
    message = Message(tool_calls=(ToolCall("", "order", '{"a b": 1}'),))
    with pytest.raises(WriteError, match="'a b' can't name an element"):
        write("minimax_m3", message)


@pytest.mark.parametrize(
    ("prompt", "raw"),
    [
        ("<mm:think>", "Hm.</mm:think>\nHi."),
        ("", "<mm:think>Hm.</mm:think>Hi."),
    ],
)
def test_reasoning_is_opened_by_the_prompt_or_the_model(prompt: str, raw: str) -> None:
    assert read("minimax_m3", raw, prompt=prompt) == Outcome("Hm.", "Hi.")


def test_a_bare_closer_at_the_start_is_framing() -> None:
    assert read("minimax_m3", "</mm:think>Hi.", prompt="") == Outcome(None, "Hi.")


def test_functiongemma_has_bare_values_nested_ones_and_its_own_quotes() -> None:
    raw = '<start_function_call>call:f{s:<escape>a "b" {<escape>,n:3,o:{l:[1,null]}}<end_function_call>'
    assert read("functiongemma", raw + "<start_function_response>", tools=[tool("f")]) == Outcome(
        calls=calls(("f", {"s": 'a "b" {', "n": 3, "o": {"l": [1, None]}}))
    )
