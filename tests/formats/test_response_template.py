"""Loading response templates: what they become, and every complaint about one that can't be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.formats.response_templates import STYLES, TOOLS, Json
from unspool import (
    Message,
    Parser,
    ResponseTemplateError,
    ToolCall,
    from_response_template,
    load_response_template,
)
from unspool.formats import registry
from unspool.parsing.declaration import RegionCalls
from unspool.parsing.grammar import openers

HERMES = STYLES["hermes"].template
CALL = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'


def changed(field: str | None = None, /, **members: Any) -> Json:
    """The Hermes template with these members, or this field with them; ``None`` removes one."""
    template: Json = json.loads(json.dumps(HERMES))
    target = template if field is None else template["fields"].setdefault(field, {})
    for key, value in members.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value
    return template


def test_a_template_becomes_a_format() -> None:
    fmt = from_response_template(HERMES, name="mine")
    assert fmt.name == "mine"
    assert isinstance(fmt.calls, RegionCalls)
    assert [region.kind for region in fmt.calls.regions] == ["reasoning", "calls", "content"]
    assert fmt.turns == ("<|im_start|>assistant\n",)
    assert unspool.get_format(fmt) is fmt
    assert hash(fmt) == hash(from_response_template(json.dumps(HERMES), name="mine"))
    message = unspool.parse(fmt, f"<think>Hm.</think>Hi.{CALL}", tools=TOOLS)
    assert (message.reasoning, message.content, message.tool_calls[0].name) == ("Hm.", "Hi.", "get_time")


def test_it_streams() -> None:
    parser = Parser(from_response_template(HERMES), tools=TOOLS)
    said = [parser.feed(piece) for piece in ("<think>", "One ", "two", "</think>", "\n\n", "Hi", " there")]
    assert said == [
        [],
        [unspool.ReasoningDelta("One")],
        [unspool.ReasoningDelta(" two")],
        [],
        [],
        [unspool.ContentDelta("Hi")],
        [unspool.ContentDelta(" there")],
    ]
    (start,) = parser.feed('\n<tool_call>{"name": "get_weather", "arguments": {')[-2:-1]
    assert isinstance(start, unspool.ToolCallStart)
    assert parser.feed('"city": "Pa') == [unspool.ToolCallDelta(0, '"city": "Pa')]
    assert parser.feed('r"}}') == [unspool.ToolCallDelta(0, 'r"}'), unspool.ToolCallEnd(0)]


def test_the_prompt_says_whether_reasoning_has_begun() -> None:
    for name in ("prefilled", "either"):
        style = STYLES[name]
        fmt = from_response_template(style.template)
        parser = Parser(fmt, prompt=style.prompt)
        assert parser.feed("Hm") == [unspool.ReasoningDelta("Hm")], "no waiting for the closer"
        closed = style.prompt.removesuffix("\n") + "</think>"
        assert Parser(fmt, prompt=closed).feed("Hi") == [unspool.ContentDelta("Hi")]


def test_without_a_prompt_text_waits_for_the_closer_where_nothing_else_tells() -> None:
    fmt = from_response_template(STYLES["either"].template)
    parser = Parser(fmt)
    assert parser.feed("Hm.") == []
    assert parser.feed("</think>Hi") == [unspool.ReasoningDelta("Hm."), unspool.ContentDelta("Hi")]
    assert unspool.parse(fmt, "Hello.") == Message(content="Hello.")
    assert unspool.parse(fmt, "<think>Hm.</think>Hi") == Message(reasoning="Hm.", content="Hi")
    assert unspool.parse(fmt, "") == Message()
    prefilled = from_response_template(STYLES["prefilled"].template)
    assert unspool.parse(prefilled, "Hm.</think>Hi") == Message(reasoning="Hm.", content="Hi")


@pytest.mark.parametrize("anchor", ["<bot>", "<bot></think>"])
def test_an_anchor_that_has_no_opener_of_reasoning_says_nothing(anchor: str) -> None:
    fields = {"thinking": STYLES["either"].template["fields"]["thinking"], "content": {}}
    fmt = from_response_template({"start_anchor": anchor, "fields": fields})
    assert fmt.turns == (anchor,)
    assert unspool.parse(fmt, "Hm.</think>Hi", prompt="x" + anchor) == Message(reasoning="Hm.", content="Hi")
    fields["thinking"] = {"open_pattern": "(?=.*?<end>)", "close": "<end>"}
    fmt = from_response_template({"start_anchor_pattern": "<bot>", "fields": fields})
    assert unspool.parse(fmt, "Hm.<end>Hi", prompt="<bot>a<bot>") == Message(reasoning="Hm.", content="Hi")
    assert unspool.parse(fmt, "Hi", prompt="nothing of that kind") == Message(content="Hi")


def test_an_opener_alone_is_no_anchor() -> None:
    fields = {"thinking": {"open_pattern": "(?=.*?</think>)", "close": "</think>"}, "content": {}}
    for anchor in ({"start_anchor": "<think>"}, {"start_anchor_pattern": "<think>\n?"}):
        fmt = from_response_template({**anchor, "fields": fields})
        assert unspool.parse(fmt, "Hm.</think>Hi", prompt="a<think>") == Message(reasoning="Hm.", content="Hi")


def test_a_call_drafted_in_reasoning_is_reasoning() -> None:
    style = STYLES["prefilled"]
    fmt = from_response_template(style.template)
    assert style.call is not None
    call = style.call("get_time", {})
    for size in (1, 1000):
        for raw, reasoning, calls in (
            (f"A\n{call}</think>B", f"A\n{call.rstrip()}", 0),
            (f"A\n{call}B", "A", 1),
            (f"A\n{call.replace('get_time', 'unknown')}", f"A\n{call.replace('get_time', 'unknown').rstrip()}", 0),
        ):
            parser = Parser(fmt, tools=TOOLS, prompt=style.prompt)
            events = [e for at in range(0, len(raw), size) for e in parser.feed(raw[at : at + size])]
            message = Message.from_events(events + parser.finish())
            assert (message.reasoning, len(message.tool_calls)) == (reasoning, calls)


@pytest.mark.parametrize("transform", [None, "json", "lines"])
def test_a_call_in_reasoning_that_only_its_own_text_names(transform: str | None) -> None:
    template: Json = json.loads(json.dumps(STYLES["prefilled"].template))
    template["fields"]["tool_calls"] = HERMES["fields"]["tool_calls"]
    if transform == "lines":
        template["fields"]["tool_calls"] = STYLES["lines"].template["fields"]["tool_calls"]
    fmt = from_response_template(template)
    prompt = STYLES["prefilled"].prompt
    assert unspool.parse(fmt, f"A{CALL}", tools=TOOLS, prompt=prompt).reasoning == (
        "A" if transform != "lines" else f"A{CALL}"
    )
    message = unspool.parse(fmt, "A<tool_call>B", tools=TOOLS, prompt=prompt)
    assert message.reasoning == "A<tool_call>B"
    for finish in ("stop", "length"):
        message = unspool.parse(fmt, 'A<tool_call>{"na', tools=TOOLS, prompt=prompt, finish_reason=finish)
        assert message.reasoning == 'A<tool_call>{"na'
    assert unspool.parse(fmt, "A[CALL]\na = 1\n", tools=TOOLS, prompt=prompt).reasoning == "A[CALL]\na = 1"


def test_without_tools_call_syntax_is_content() -> None:
    assert unspool.parse(from_response_template(HERMES), f"Hi {CALL}") == Message(content=f"Hi {CALL}")
    harmony = STYLES["harmony"]
    raw = harmony.write(None, "Hi", [("get_time", {})])
    fmt = from_response_template(harmony.template)
    expected = "Hito=functions.get_time<|channel|>commentary json<|message|>{}<|call|>"
    for size in (1, len(raw)):
        parser = Parser(fmt, prompt=harmony.prompt)
        events = [e for at in range(0, len(raw), size) for e in parser.feed(raw[at : at + size])]
        assert Message.from_events(events + parser.finish()).content == expected
    assert unspool.parse(fmt, raw[:-4], prompt=harmony.prompt).content == expected[:-4]


def test_a_call_cut_by_the_token_limit_is_nothing() -> None:
    for name, style in STYLES.items():
        if style.call is None:
            continue
        raw = "" if not style.reasoning else style.reasoning("Hm.")
        raw += style.call("get_weather", {"city": "Par"})
        fmt = from_response_template(style.template)
        cut = unspool.parse(
            fmt, raw[: raw.index("Par") + 1], tools=TOOLS, prompt=style.prompt, finish_reason="length"
        )
        assert cut.tool_calls == (), name
        assert cut.content is None, name
        assert cut.finish_reason == "length"


def test_special_tokens_are_known_by_id() -> None:
    class Vocabulary:
        special: Mapping[int, str] = {
            0: "<arg_key>",
            1: "</arg_key>",
            2: "<arg_value>",
            3: "</arg_value>",
            4: "<tool_call>",
            5: "</tool_call>",
            6: '<|"|>',
            7: "<|tool_call>",
            8: "<tool_call|>",
        }
        words = (
            "get_weather",
            "city",
            "\n",
            "</arg_value>",
            "<tool_call>",
            "Par",
            "call:get_weather",
            "{city:",
            "}",
        )
        more = ('<|"|>', "«a", "»")

        def piece(self, token_id: int, /) -> bytes:
            return [*self.special.values(), *self.words, *self.more][token_id].encode()

    glm = Parser(from_response_template(STYLES["glm"].template), tools=TOOLS, tokenizer=Vocabulary())
    ids = [13, 4, 9, 11, 0, 10, 1, 11, 2, 14, 12, 3, 11, 5]
    message = Message.from_events([event for i in ids for event in glm.feed_tokens([i])] + glm.finish())
    assert message.content == "<tool_call>"
    assert json.loads(message.tool_calls[0].arguments) == {"city": "Par</arg_value>"}

    gemma = Parser(from_response_template(STYLES["gemma"].template), tools=TOOLS, tokenizer=Vocabulary())
    ids = [7, 15, 16, 6, 18, 14, 6, 17, 8]
    message = Message.from_events([event for i in ids for event in gemma.feed_tokens([i])] + gemma.finish())
    assert json.loads(message.tool_calls[0].arguments) == {"city": '<|"|>Par'}


def test_an_opener_may_be_a_look_at_what_comes() -> None:
    transform = {"function": "{content}"}
    calls = {"open_pattern": r"(?=\w+\()", "close": ";", "content": "json", "transform": transform}
    fmt = from_response_template({"start_anchor": "<bot>", "fields": {"tool_calls": calls, "content": {}}})
    assert unspool.parse(fmt, "a f(1); b", tools=TOOLS) == Message(content="a f(1); b")


def test_a_call_needs_a_name_and_may_have_no_closer() -> None:
    transform = {"function": {"name": "{name}", "arguments": "{content}"}}
    calls = {"open_pattern": r"<c (?P<name>\s?\w*)>", "content": "json", "transform": transform}
    fmt = from_response_template({"start_anchor": "<bot>", "fields": {"tool_calls": calls, "content": {}}})
    assert unspool.parse(fmt, "<c >{}", tools=TOOLS).content == "<c >{}"
    message = unspool.parse(fmt, "<c get_time>{} and", tools=TOOLS)
    assert (message.content, message.tool_calls[0].name) == ("and", "get_time")


def test_one_call_at_a_time() -> None:
    fmt = from_response_template(HERMES)
    message = unspool.parse(fmt, CALL * 2, tools=TOOLS, parallel_tool_calls=False)
    assert len(message.tool_calls) == 1


def test_it_is_not_written() -> None:
    fmt = from_response_template(HERMES)
    with pytest.raises(unspool.WriteError, match="response template"):
        unspool.write(fmt, Message(content="Hi", tool_calls=(ToolCall("", "f", "{}"),)))


def test_the_text_that_opens_a_call_is_known() -> None:
    found = {name: openers(from_response_template(style.template)) for name, style in STYLES.items()}
    assert found["hermes"] == found["prefilled"] == found["glm"] == ("<tool_call>",)
    assert found["gemma"] == ("<|tool_call>call:",)
    assert found["llama"] == ('{"name":',)


def test_it_goes_only_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    unspool.formats()
    for known in ("_registered", "_names"):
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))
    unspool.register(from_response_template(HERMES, name="a_response_template"))
    with pytest.raises(ValueError, match="goes only by itself"):
        unspool.get_format("a_response_template+mistral")


# ---- files


def test_a_checkpoint_declares_its_format(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    assert load_response_template(folder) is None
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "{{ x }}"}), "utf-8")
    assert load_response_template(folder) is None
    assert load_response_template(config) is None
    with pytest.raises(ResponseTemplateError, match="has no response_template"):
        from_response_template(config)
    (folder / "processor_config.json").write_text("\ufeff" + json.dumps({"response_template": HERMES}), "utf-8")
    found = load_response_template(str(folder))
    assert found is not None
    assert found.name == "my-model"
    (folder / "response_template.json").write_text(json.dumps(HERMES), "utf-8")
    assert from_response_template(folder / "response_template.json", name="x").calls == found.calls


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "template.json"
    with pytest.raises(ResponseTemplateError, match=r"cannot read .*template\.json.*No such file"):
        load_response_template(file)
    file.write_bytes(b"{\n \xff}")
    with pytest.raises(ResponseTemplateError, match="byte 3 is not UTF-8"):
        load_response_template(file)
    file.write_text("{\n oops}", "utf-8")
    with pytest.raises(ResponseTemplateError, match=r"template\.json'?:2:2: not JSON"):
        load_response_template(file)
    file.write_text("[" * 100_000, "utf-8")
    with pytest.raises(ResponseTemplateError, match="nested too deeply"):
        load_response_template(file)
    file.write_text("[]", "utf-8")
    with pytest.raises(ResponseTemplateError, match="an object, not list"):
        load_response_template(file)
    file.write_text(json.dumps(changed(version=2)), "utf-8")
    with pytest.raises(ResponseTemplateError, match=r"template\.json': response_template\.version is 2"):
        load_response_template(file)


# ---- complaints

XML: Json = {"content": "xml-inline", "content_args": {"tag_pattern": "<(?P<key>.)>(?P<value>.)"}}
COMPLAINTS: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "no 'fields'"),
    "a text": ({"response_template": "x"}, "must be an object, not str"),
    "an unknown member": (changed(start="x"), "response_template has no 'start'"),
    "no fields": (changed(fields={}), "at least one field"),
    "fields as a list": (changed(fields=[]), "at least one field"),
    "no anchor": (changed(start_anchor=None), "neither start_anchor nor start_anchor_pattern"),
    "two anchors": (changed(start_anchor_pattern="x"), "both start_anchor and start_anchor_pattern"),
    "an empty anchor": (changed(start_anchor=""), "start_anchor must be a text"),
    "an anchor that is no text": (
        changed(start_anchor=None, start_anchor_pattern=1),
        "a regular expression, not 1",
    ),
    "a broken anchor": (changed(start_anchor=None, start_anchor_pattern="("), "is no regular expression"),
    "defaults": (changed(defaults=[]), "defaults must be an object"),
    "a default text": (changed(defaults={"content": "x"}), r"defaults\.content: a message has no such default"),
    "a default of another kind": (changed(defaults={"tone": ""}), r"defaults\.tone"),
    "an unknown field": (changed("plan", open="x"), r"fields\.plan: a message has no 'plan'"),
    "a field that is a text": (changed(fields={"content": "x"}), r"fields\.content must be an object"),
    "an unknown member of a field": (changed("content", opens="x"), r"fields\.content has no 'opens'"),
    "two sinks": (changed("thinking", open=None), "not 'thinking' and 'content'"),
    "calls without an opener": (changed("tool_calls", open=None), "has no opener"),
    "two openers": (changed("thinking", open_pattern="x"), "both open and open_pattern"),
    "an opener of no text": (changed("thinking", open=[]), r"thinking\.open must be a text or a list"),
    "an opener with an empty text": (changed("thinking", open=["a", ""]), "none of them empty"),
    "an opener that may be empty": (changed("thinking", open=None, open_pattern=r"\s*"), "may match no text"),
    "a sink's closer that may be empty": (changed("content", close_pattern=r"(?=x)"), "may match no text"),
    "calls somewhere ahead": (
        changed("tool_calls", open=None, open_pattern=r"(?=.*?</x>)"),
        "only reasoning may open so",
    ),
    "a look ahead without a limit": (
        changed("thinking", open=None, open_pattern=r"<t(?=.*>)"),
        "looks ahead without a limit",
    ),
    "the end inside": (changed("content", close_pattern="a$b"), "an alternative of its own"),
    "repeats of repeats": (changed("content", close_pattern="x(?:a*b)*"), "a repetition inside a repetition"),
    "a lookbehind": (changed("content", close_pattern="(?<=a)b"), "lookbehind"),
    "a reference back": (changed("content", close_pattern=r"(a)\1"), r"has '\\1' at character 3"),
    "a start of a line": (changed("content", close_pattern="^a"), r"the start of the text"),
    "a word boundary": (changed("content", close_pattern=r"\ba"), r"has '\\b'"),
    "a flag": (changed("content", close_pattern="(?i)a"), "a flag other than 's'"),
    "an opener that is no expression": (
        changed("thinking", open=None, open_pattern=1),
        "a regular expression, not 1",
    ),
    "a broken opener": (changed("thinking", open=None, open_pattern="("), r"open_pattern: '\(' is no regular"),
    "a broken closer": (changed("content", close_pattern="a("), r"close_pattern: 'a\(' is no regular expression"),
    "repeats of another kind": (changed("thinking", repeats="yes"), r"thinking\.repeats must be true or false"),
    "a join of one": (changed("thinking", join="x"), r"thinking\.join must be a text, and needs"),
    "reasoning that is JSON": (changed("thinking", content="json"), "reasoning is text that streams"),
    "an unknown parser": (changed("tool_calls", content="yaml"), "no content parser 'yaml'"),
    "arguments as a list": (changed("tool_calls", content_args=[]), "content_args must be an object"),
    "unknown arguments": (changed("tool_calls", content_args={"x": 1}), r"content_args has no 'x'"),
    "an argument of another kind": (
        changed("tool_calls", content_args={"unquoted_keys": 1}),
        "unquoted_keys must be true or false",
    ),
    "a separator of nothing": (
        changed("tool_calls", content="kv-lines", content_args={"kv_sep": ""}),
        "kv_sep must be a text",
    ),
    "separators as a list": (
        changed("tool_calls", content="kv-lines", content_args={"line_sep": ["\n", ";"]}),
        r"tool_calls\.content_args\.line_sep must be a text that is not empty, not \['\\n', ';'\]",
    ),
    "delimiters that are no pairs": (
        changed("tool_calls", content_args={"string_delims": [["a"]]}),
        "a list of pairs",
    ),
    "no tag": (changed("tool_calls", content="xml-inline"), "tag_pattern must be a regular expression"),
    "a broken tag": (
        changed("tool_calls", content="xml-inline", content_args={"tag_pattern": "("}),
        "tag_pattern: '\\(' is no regular",
    ),
    "a tag without a key": (
        changed("tool_calls", content="xml-inline", content_args={"tag_pattern": "a"}),
        "has no group 'key'",
    ),
    "an odd tag without a key": (
        changed("tool_calls", content="xml-inline", content_args={"tag_pattern": "(?<=a)b"}),
        "has no group 'key'",
    ),
    "a value's parser that is a text": (
        changed(
            "tool_calls",
            content="xml-inline",
            content_args={**XML["content_args"], "value_parser": "json"},
        ),
        "value_parser must be an object",
    ),
    "a value that is a call": (
        changed(
            "tool_calls",
            content="xml-inline",
            content_args={**XML["content_args"], "value_parser": {"name": "python-call-list"}},
        ),
        "no value of an argument",
    ),
    "each without a transform": (
        changed("tool_calls", transform=None, transform_each=True),
        "transform_each needs a transform",
    ),
    "a group that reaches nothing": (
        changed("thinking", open=None, open_pattern="<(?P<who>x)>"),
        "the group 'who' reaches nothing",
    ),
    "transformed reasoning": (changed("thinking", transform={"a": 1}), "can't be transformed"),
    "a mixed placeholder": (
        changed("tool_calls", transform={"function": {"name": "a{content}", "arguments": "{content}"}}),
        "mixes a placeholder with text",
    ),
    "a placeholder of nothing": (
        changed("tool_calls", transform={"function": {"name": "{who}", "arguments": "{content}"}}),
        "neither the content nor a group",
    ),
    "a transform that makes no call": (changed("tool_calls", transform=["{content}", 1]), "makes no call"),
    "Python calls made into something else": (
        changed(
            "tool_calls",
            content="python-call-list",
            transform_each=True,
            transform={"name": "{a}", "arguments": "{b}"},
        ),
        "the calls of a python-call-list",
    ),
}


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_what_cannot_be_used_is_named(complaint: str) -> None:
    template, text = COMPLAINTS[complaint]
    with pytest.raises(ResponseTemplateError, match=text):
        from_response_template(template)


@pytest.mark.parametrize(
    "template",
    [
        changed(version=1, defaults={"role": "assistant", "content": "", "tool_calls": []}),
        changed("thinking", transform="{content}"),
        changed("content", close_pattern="$"),
        changed("content", close_pattern=r"x|\Z"),
        changed(start_anchor=None, start_anchor_pattern=r"(?<=\n)assistant\b"),
    ],
)
def test_what_is_harmless_is_no_complaint(template: Json) -> None:
    assert unspool.parse(from_response_template(template), "Hello.").content == "Hello."


@pytest.mark.parametrize("source", ["<[[t]>", "<[t+--]>", "<[a~~t]>", "<[a||t]>", "<[a&&b]>", "(?<=[[x])"])
def test_an_expression_that_python_will_read_otherwise_is_no_warning(
    source: str, recwarn: pytest.WarningsRecorder
) -> None:
    try:
        fmt = from_response_template(changed("thinking", open=None, open_pattern=source))
    except ResponseTemplateError:
        assert source.startswith("(?<=")
    else:
        unspool.parse(fmt, "<t>Hm.")
    assert [str(warning.message) for warning in recwarn] == []
