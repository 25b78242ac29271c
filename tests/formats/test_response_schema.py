"""The predecessor of response templates: the trees that checkpoints have, and complaints about others."""

from __future__ import annotations

import json
from typing import Any

import pytest

import unspool
from tests.formats.response_templates import TOOLS, Json
from unspool import ResponseTemplateError, from_response_template

TEXT: Json = {"type": "string"}
ROLE: Json = {"const": "assistant"}
ITEM: Json = {"type": "object", "properties": {"type": {"const": "function"}}}


def tree(pattern: str | None = None, **properties: Any) -> Json:
    """A schema with these properties besides the role."""
    found: Json = {"type": "object", "properties": {"role": ROLE, **properties}}
    return found if pattern is None else {**found, "x-regex": pattern}


def function(directives: Json | None = None, **properties: Any) -> Json:
    """The schema of one item of the calls."""
    inner = {"type": "object", "properties": properties, **(directives or {})}
    return {"type": "object", "properties": {"type": {"const": "function"}, "function": inner}}


def json_calls(transform: str | None = None, **directives: Any) -> Json:
    """The schema of calls that are JSON."""
    args = {} if transform is None else {"x-parser-args": {"transform": transform}}
    return {"type": "array", "items": ITEM, "x-parser": "json", **args, **directives}


COHERE = tree(
    content={**TEXT, "x-regex": r"<\|START_RESPONSE\|>(.*?)(?:<\|END_RESPONSE\|>|$)"},
    thinking={**TEXT, "x-regex": r"<\|START_THINKING\|>(.*?)<\|END_THINKING\|>"},
    tool_calls=json_calls(
        "[*].{type: 'function', function: {name: tool_name, arguments: parameters}}",
        **{"x-regex": r"<\|START_ACTION\|>(.*?)<\|END_ACTION\|>"},
    ),
)
ERNIE = tree(
    content={**TEXT, "x-regex": "<response>\n(.*?)\n?</response>"},
    thinking={**TEXT, "x-regex": r"(?:^|<think>\s*)(.*?)\s*<\/think>"},
    tool_calls={
        "x-regex-iterator": "<tool_call>([\\s\\S]*?)</tool_call>",
        "type": "array",
        "items": {**ITEM, "x-parser": "json", "x-parser-args": {"transform": "{type: 'function', function: @}"}},
    },
)
HARMONY = tree(
    content={**TEXT, "x-regex": r"<\|channel\|>final<\|message\|>(.*?)(?:<\|end\|>|$)"},
    thinking={**TEXT, "x-regex": r"<\|channel\|>analysis<\|message\|>(.*?)<\|end\|>"},
    tool_calls={
        "x-regex-iterator": r"<\|channel\|>commentary (to=functions\..*?<\|message\|>.*?)(?:<\|call\|>|$)",
        "type": "array",
        "items": function(
            name={**TEXT, "x-regex": r"^to=functions\.(\w+)"},
            arguments={"type": "object", "x-regex": r"<\|message\|>(.*)", "x-parser": "json"},
        ),
    },
)
SMOLLM = tree(
    r"(?:<think>\n?(?P<thinking>.+?)\n?</think>)?\s*(?:<tool_call>(?P<tool_calls>.+?)</tool_call>)?\s*"
    r"(?P<content>.+?)?\s*(?:<\|im_end\|>|$)",
    content=TEXT,
    thinking=TEXT,
    tool_calls=json_calls("[{type: 'function', function: {name: name, arguments: arguments}}]"),
)
QWEN = tree(
    r"^(?:(?:<think>)?\s*(?P<thinking>.+?)\s*</think>)?\s*(?:<tool_call>(?P<tool_calls>.*?)\s*</tool_call>)?\s*"
    r"(?P<content>.+?)?\s*$",
    content=TEXT,
    thinking=TEXT,
    tool_calls={
        "x-regex-iterator": "^(.*)$",
        "type": "array",
        "items": function(
            name={**TEXT, "x-regex": r"<function=(\w+)>"},
            arguments={
                "type": "object",
                "x-regex-key-value": r"<parameter=(?P<key>\w+)>\n(?P<value>.*?)\n</parameter>",
                "additionalProperties": {"x-parser": "json", "x-parser-args": {"allow_non_json": True}},
            },
        ),
    },
)
GEMMA = tree(
    r"(\<\|channel\>thought\n(?P<thinking>.*?)\<channel\|\>)?"
    r"(?P<content>(?:(?!\<\|tool_call\>)(?!\<turn\|\>).)+)?(?P<tool_calls>\<\|tool_call\>.*\<tool_call\|\>)?"
    r"(?:\<turn\|\>)?",
    thinking=TEXT,
    content=TEXT,
    tool_calls={
        "x-regex-iterator": r"\<\|tool_call\>(.*?)\<tool_call\|\>",
        "type": "array",
        "items": function(
            {"x-regex": r"call\:(?P<name>\w+)(?P<arguments>\{.*\})"},
            name=TEXT,
            arguments={"type": "object", "x-parser": "gemma4-tool-call"},
        ),
    },
)
MARKED = tree(r"(?P<content>.*)END(?:<a>)?<b>", content=TEXT)

CASES: dict[str, tuple[Json, str, str | None, str | None, Json | None]] = {
    "cohere calls": (
        COHERE,
        "<|START_THINKING|>Hm.<|END_THINKING|>"
        '<|START_ACTION|>[\n{"tool_call_id": "0", "tool_name": "get_weather", '
        '"parameters": {"city": "Par"}}\n]<|END_ACTION|>',
        "Hm.",
        None,
        {"city": "Par"},
    ),
    "cohere": (COHERE, "<|START_THINKING|>A<|END_THINKING|><|START_RESPONSE|>B<|END_RESPONSE|>", "A", "B", None),
    "ernie prefilled": (ERNIE, "Hm.\n</think>\n<response>\nHello\n</response>\n", "Hm.", "Hello", None),
    "ernie": (
        ERNIE,
        '<think>Hm.\n</think>\n<tool_call>{"name": "get_weather", "arguments": {"city": "Par"}}</tool_call>',
        "Hm.",
        None,
        {"city": "Par"},
    ),
    "harmony": (
        HARMONY,
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
        '<|constrain|>json<|message|>{"city": "Par"}<|call|>',
        "Hm.",
        None,
        {"city": "Par"},
    ),
    "smollm calls": (
        SMOLLM,
        '<think>\nHm.\n</think>\n<tool_call>{"name": "get_weather", "arguments": {"city": "Par"}}</tool_call>'
        "<|im_end|>",
        "Hm.",
        None,
        {"city": "Par"},
    ),
    "smollm": (SMOLLM, "<think>\nHm.\n</think>\nHello<|im_end|>", "Hm.", "Hello", None),
    "qwen": (
        QWEN,
        "Hm.\n</think>\n<tool_call>\n<function=get_weather>\n<parameter=days>\n3\n</parameter>\n</function>\n"
        "</tool_call>",
        "Hm.",
        None,
        {"days": 3},
    ),
    "gemma": (
        GEMMA,
        '<|channel>thought\nHm.<channel|>Hi.<|tool_call>call:get_weather{city:<|"|>Par<|"|>}<tool_call|><turn|>',
        "Hm.",
        "Hi.",
        {"city": "Par"},
    ),
    "a pick of everything": (
        tree(r"(?P<content>[\s\S]+)", content={**TEXT, "x-regex": "^(.*)$"}),
        "Hi",
        None,
        "Hi",
        None,
    ),
    "ends": (MARKED, "HiEND", None, "Hi", None),
    "another end": (MARKED, "Hi<a>", None, "Hi", None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_checkpoints_have_is_read(case: str) -> None:
    schema, raw, reasoning, content, arguments = CASES[case]
    fmt = from_response_template({"response_schema": schema})
    assert fmt == from_response_template(schema)
    for size in (1, len(raw)):
        parser = unspool.Parser(fmt, tools=TOOLS)
        events = [event for at in range(0, len(raw), size) for event in parser.feed(raw[at : at + size])]
        message = unspool.Message.from_events(events + parser.finish())
        assert (message.reasoning, message.content) == (reasoning, content)
        found = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
        assert found == ([] if arguments is None else [("get_weather", arguments)])


def calls(**directives: Any) -> Json:
    """A schema with calls only."""
    return tree(tool_calls=directives)


NAMED = {"x-regex": "(a)"}
COMPLAINTS: dict[str, tuple[Any, str]] = {
    "no properties": ({"response_schema": {"type": "object"}}, "response_schema: it has no properties"),
    "an unknown directive": ({**tree(content=TEXT), "x-regex-iterator": "a"}, "has no 'x-regex-iterator'"),
    "substitutions": (
        calls(**{"x-regex-substitutions": [], "x-regex": "a(.*)"}),
        "has no 'x-regex-substitutions'",
    ),
    "an unknown field": (tree(plan=TEXT), "a message has no 'plan'"),
    "a field that is a text": (tree(content="x"), r"properties\.content: it is no object"),
    "no place": (tree(content=TEXT), r"properties\.content: nothing says where its text is"),
    "no group": (tree(content={"x-regex": "abc"}), "it has no group for the text"),
    "no expression": (tree(content={"x-regex": 1}), r"x-regex: \(\?:1\)\? is no regular|no group"),
    "a broken expression": (tree(content={"x-regex": "("}), "is no regular expression"),
    "an expression as a number": ({**tree(content=TEXT), "x-regex": 1}, "1 is no regular expression"),
    "groups too deep": (
        tree("(?:a(?:b(?P<content>.*)c)?d)?", content=TEXT),
        "the group 'content' is nested too deeply",
    ),
    "a pick from a pick": (
        tree("a(?P<content>.*)", content={"x-regex": "b(.*)c"}),
        "it picks from a text that a group has picked",
    ),
    "calls of no kind": (calls(**{"x-regex": "a(.*)b"}), "nothing says how a call is read"),
    "no function": (
        calls(**{"x-regex": "a(.*)b"}, items=ITEM),
        r"items\.properties\.function: it has no properties",
    ),
    "no arguments": (
        calls(**{"x-regex": "a(.*)b"}, items=function(name=NAMED)),
        r"properties\.arguments: it is no object",
    ),
    "no name": (
        calls(**{"x-regex": "a(.*)b"}, items=function(arguments={"x-parser": "json"})),
        r"properties\.name: nothing says where the name is",
    ),
    "no name in the function": (
        calls(**{"x-regex": "a(.*)b"}, items=function({"x-regex": "(?P<arguments>.*)"}, arguments={})),
        "it has no group 'name' before a group 'arguments'",
    ),
    "an unknown parser": (
        calls(**{"x-regex": "a(.*)b"}, items=function(name=NAMED, arguments={"x-parser": "yaml"})),
        r"arguments\.x-parser: 'yaml' is not understood",
    ),
    "an unknown parser of values": (
        calls(
            **{"x-regex": "a(.*)b"},
            items=function(
                name=NAMED,
                arguments={"x-regex-key-value": "(?P<key>.)", "additionalProperties": {"x-parser": "yaml"}},
            ),
        ),
        r"additionalProperties\.x-parser: 'yaml' is not understood",
    ),
    "an unusual expression": (
        tree(tool_calls=json_calls("sort_by(@, &name)", **{"x-regex": "a(.*)b"})),
        r"x-parser-args\.transform: \"sort_by\(@, &name\)\" is none of the usual forms",
    ),
    "an expression that is none": (
        tree(tool_calls={**json_calls(**{"x-regex": "a(.*)b"}), "x-parser-args": {"transform": 1}}),
        "1 is none of the usual forms",
    ),
    "calls that are all text": (tree("(?P<tool_calls>.*)", tool_calls=json_calls()), "its calls have no opener"),
}


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_what_cannot_be_said_in_regions_is_named(complaint: str) -> None:
    schema, text = COMPLAINTS[complaint]
    with pytest.raises(ResponseTemplateError, match=text):
        from_response_template(schema)


def test_values_and_members_may_be_plain() -> None:
    schema = tree(tool_calls=json_calls(**{"x-regex": "<c>(.*?)</c>"}), content={"x-regex": "<r>(.*)"})
    for call in (
        '{"name": "get_time", "arguments": {}}',
        '[{"type": "function", "function": {"name": "get_time"}}]',
    ):
        message = unspool.parse(from_response_template(schema), f"<c>{call}</c>", tools=TOOLS)
        assert [found.name for found in message.tool_calls] == ["get_time"]
    named = function(
        name={**TEXT, "x-regex": r"<function=(\w+)>"},
        arguments={"type": "object", "x-regex-key-value": r"<p=(?P<key>\w+)>(?P<value>.*?)</p>"},
    )
    schema = tree(tool_calls={"x-regex-iterator": "<c>(.*?)</c>", "items": named}, content={"x-regex": "<r>(.*)"})
    message = unspool.parse(
        from_response_template(schema), "<c><function=get_weather><p=city>3</p></c>", tools=TOOLS
    )
    assert json.loads(message.tool_calls[0].arguments) == {"city": "3"}
    json_items = function(name={**TEXT, "x-regex": r"(\w+):"}, arguments={"x-parser": "json"})
    schema = tree(
        tool_calls={"x-regex-iterator": "<c>(.*?)</c>", "items": json_items}, content={"x-regex": "<r>(.*)"}
    )
    message = unspool.parse(from_response_template(schema), '<c>get_weather:{"city": "3"}</c>', tools=TOOLS)
    assert json.loads(message.tool_calls[0].arguments) == {"city": "3"}
