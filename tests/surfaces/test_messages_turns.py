from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.events import ContentDelta, Event, Finish, ReasoningDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.message import Message, ToolCall
from unspool.surfaces.chat_messages import decode_messages
from unspool.surfaces.chat_writer import completion
from unspool.surfaces.conversation import Turn
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields
from unspool.surfaces.messages_turns import decode_turns
from unspool.surfaces.messages_writer import message

HELLO = {"role": "user", "content": "Hello"}
HI = Turn("user", ("Hello",))


def turns(*messages: Any, **body: Any) -> tuple[Turn, ...]:
    return decode_turns(Fields({"messages": list(messages), **body}))


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def result(content: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": "call_1",
        **({} if content is None else {"content": content}),
        **more,
    }


def test_content_is_a_string_or_blocks() -> None:
    assert turns(HELLO) == (HI,)
    assert turns({"role": "user", "content": [text("a", cache_control={"type": "ephemeral"}), text("b")]}) == (
        Turn("user", ("a", "b")),
    )


@pytest.mark.parametrize("system", ["Be brief.", [text("Be brief.", cache_control={"type": "ephemeral"})]])
def test_the_system_text_comes_first(system: Any) -> None:
    assert turns(HELLO, system=system) == (Turn("system", ("Be brief.",)), HI)


def test_system_texts_are_one_turn_wherever_they_stand() -> None:
    later = {"role": "system", "content": [text("Be kind.")]}
    first = {"role": "system", "content": "Be brief."}
    assert turns(first, HELLO, later, system="Obey.") == (Turn("system", ("Obey.", "Be brief.", "Be kind.")), HI)


def test_a_clients_count_of_its_requests_is_no_part_of_the_prompt() -> None:
    system = [text("x-anthropic-billing-header: cc_version=2; cch=f00;"), text("Be brief.")]
    assert turns(HELLO, system=system) == (Turn("system", ("Be brief.",)), HI)
    assert turns(HELLO, system=system[:1]) == (HI,)
    assert turns(HELLO, system=f"{system[0]['text']}\nBe brief.") == (Turn("system", ("Be brief.",)), HI)
    assert turns(HELLO, system="") == (HI,)


def test_messages_of_one_role_in_a_row_are_one_turn() -> None:
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": "why", "signature": ""}, text("a")]}
    more = {"role": "assistant", "content": [text("b"), {"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    assert turns(HELLO, HELLO, said, more) == (
        Turn("user", ("Hello", "Hello")),
        Turn("assistant", ("a", "b"), reasoning="why", tool_calls=(ToolCall("c", "f", "{}"),)),
    )


def test_text_that_a_call_or_a_thought_divided_is_one_text() -> None:
    content = [
        text("Let me "),
        {"type": "thinking", "thinking": "w", "signature": "s"},
        {"type": "redacted_thinking", "data": "opaque"},
        text("look."),
        {"type": "thinking", "thinking": "hy", "signature": "s"},
    ]
    assert turns(HELLO, {"role": "assistant", "content": content})[1] == Turn(
        "assistant", ("Let me look.",), reasoning="why"
    )


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (result("18"), ("18",)),
        (result([text("18"), text("C")]), ("18", "C")),
        (result(), ()),
        (result(""), ()),
        (result([]), ()),
        (result("no such city", is_error=True), ("Error: no such city",)),
        (result("Error: no such city", is_error=True), ("Error: no such city",)),
        (result([text("no"), text("more")], is_error=True), ("Error: no", "more")),
        (result(is_error=True), ("Error:",)),
        (result("18", is_error=False), ("18",)),
    ],
)
def test_a_result_is_a_turn_of_its_own(block: dict[str, Any], parts: tuple[str, ...]) -> None:
    assert turns({"role": "user", "content": [block]}) == (Turn("tool", parts, tool_call_id="call_1"),)


def test_results_and_text_of_one_message_keep_their_order() -> None:
    content = [result("18"), result("19", tool_use_id="call_2"), text("And"), text("Oslo?")]
    assert turns({"role": "user", "content": content}) == (
        Turn("tool", ("18",), tool_call_id="call_1"),
        Turn("tool", ("19",), tool_call_id="call_2"),
        Turn("user", ("And", "Oslo?")),
    )


@pytest.mark.parametrize("content", ["", [], [text("")]])
def test_an_assistant_may_have_said_nothing(content: Any) -> None:
    assert turns(HELLO, {"role": "assistant", "content": content})[1] == Turn("assistant")


EVENTS: list[Event] = [
    ReasoningDelta("Hm, "),
    ReasoningDelta("Oslo."),
    ContentDelta("Let me look."),
    ToolCallStart(0, "call_1", "get_weather"),
    ToolCallDelta(0, '{"city": "Zürich", "days": [1, 2.5, null]}'),
    ToolCallEnd(0),
    ToolCallStart(1, "call_2", "now"),
    ToolCallEnd(1),
    Finish("stop"),
]


def from_chat(events: list[Event]) -> tuple[Turn, ...]:
    body = completion([Message.from_events(events)], completion_id="c", created=0, model="m")
    results = [{"role": "tool", "tool_call_id": f"call_{i}", "content": "18"} for i in (1, 2)]
    messages = [HELLO, body["choices"][0]["message"], *results]
    return decode_messages(Fields({"messages": messages}))


def from_messages(events: list[Event]) -> tuple[Turn, ...]:
    body = json.loads(message(events, message_id="m", model="m"))
    results = [result("18", tool_use_id=f"call_{i}") for i in (1, 2)]
    answer = {"role": "assistant", "content": body["content"]}
    return turns(HELLO, answer, {"role": "user", "content": results})


def test_what_the_server_emits_can_be_sent_back_and_is_what_chat_completions_makes_of_it() -> None:
    assert from_messages(EVENTS) == from_chat(EVENTS)
    assert from_messages(EVENTS)[1] == Turn(
        "assistant",
        ("Let me look.",),
        reasoning="Hm, Oslo.",
        tool_calls=(
            ToolCall("call_1", "get_weather", '{"city": "Zürich", "days": [1, 2.5, null]}'),
            ToolCall("call_2", "now", "{}"),
        ),
    )


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
said: st.SearchStrategy[Event] = st.builds(ContentDelta, words) | st.builds(ReasoningDelta, words)


@given(st.lists(said, max_size=6), st.lists(said, max_size=3), st.dictionaries(words, words, max_size=2))
def test_any_answer_comes_back_as_from_chat_completions(
    before: list[Event], after: list[Event], arguments: dict[str, str]
) -> None:
    call: list[Event] = [
        ToolCallStart(0, "call_1", "f"),
        ToolCallDelta(0, json.dumps(arguments, ensure_ascii=False)),
        ToolCallEnd(0),
    ]
    events = [*before, *call, *after, Finish("stop")]
    assert from_messages(events) == from_chat(events)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (5, "messages[0]"),
        ({}, "messages[0].role"),
        ({"role": "tool", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [text("x"), {"type": "image", "source": {}}]}, "messages[0].content[1]"),
        ({"role": "user", "content": [{"type": "document"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "messages[0].content[0].tool_use_id"),
        ({"role": "user", "content": [result(5)]}, "messages[0].content[0].content"),
        ({"role": "user", "content": [result("", is_error="yes")]}, "messages[0].content[0].is_error"),
        ({"role": "user", "content": [result([{"type": "image"}])]}, "messages[0].content[0].content[0]"),
        ({"role": "assistant"}, "messages[0].content"),
        ({"role": "assistant", "content": [{"type": "thinking"}]}, "messages[0].content[0].thinking"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]}, "messages[0].content[0].name"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "{}"}]},
            "messages[0].content[0].input",
        ),
        ({"role": "assistant", "content": [{"type": "server_tool_use"}]}, "messages[0].content[0]"),
        ({"role": "assistant", "content": [{"type": "web_search_tool_result"}]}, "messages[0].content[0]"),
        ({"role": "system", "content": 5}, "messages[0].content"),
        ({"role": "system", "content": [{"type": "image"}]}, "messages[0].content[0]"),
        ({"role": "system", "content": "alone"}, "messages"),
    ],
)
def test_a_wrong_message_is_named(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        turns(message)
    assert caught.value.param == param


def test_an_input_too_deep_to_be_written_is_named() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200_000):
        deep = {"x": deep}
    call = {"type": "tool_use", "id": "c", "name": "f", "input": deep}
    with pytest.raises(InvalidRequestError) as caught:
        turns({"role": "assistant", "content": [call]})
    assert caught.value.param == "messages[0].content[0].input"


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": {}}, {"messages": [HELLO], "system": 5}])
def test_a_wrong_conversation_is_named(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decode_turns(Fields(body))
    assert caught.value.param == ("system" if "system" in body else "messages")


known = st.sampled_from(["type", "text", "thinking", "tool_use", "tool_result", "content", "input", "id", "name"])
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | known,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | known, inner, max_size=4),
    max_leaves=8,
)


@given(any_json, any_json, st.sampled_from(["system", "user", "assistant", "robot"]))
def test_no_message_raises_anything_but_an_invalid_request(content: Any, system: Any, role: str) -> None:
    with suppress(InvalidRequestError):
        turns({"role": role, "content": content}, HELLO, system=system)


def use(name: str = "now", server: str = "time") -> dict[str, Any]:
    return {"type": "mcp_tool_use", "id": f"use_{name}", "name": name, "server_name": server, "input": {"a": 1}}


def came(text: str, name: str = "now", *, is_error: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "mcp_tool_result", "tool_use_id": f"use_{name}", "is_error": is_error, "content": content}


def test_results_of_the_servers_calls_are_turns_before_what_was_written_next() -> None:
    content = [text("Let me look."), use(), use("zones"), came("noon"), came("down", "zones", is_error=True)]
    assert turns(HELLO, {"role": "assistant", "content": [*content, text("Noon.")]})[1:] == (
        Turn(
            "assistant",
            ("Let me look.",),
            tool_calls=(
                ToolCall("use_now", "time__now", '{"a": 1}'),
                ToolCall("use_zones", "time__zones", '{"a": 1}'),
            ),
        ),
        Turn("tool", ("noon",), tool_call_id="use_now"),
        Turn("tool", ("Error: down",), tool_call_id="use_zones"),
        Turn("assistant", ("Noon.",)),
    )


def test_a_call_of_the_servers_without_a_result_is_left_out() -> None:
    assert turns(HELLO, {"role": "assistant", "content": [text("Hm."), use()]})[1] == Turn("assistant", ("Hm.",))


@pytest.mark.parametrize("name", [None, "", 1, ["use_now"], {}])
def test_a_result_of_no_call_is_named(name: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        turns(HELLO, {"role": "assistant", "content": [use(), {**came("noon"), "tool_use_id": name}]})
    assert caught.value.param == "messages[1].content[1].tool_use_id"
