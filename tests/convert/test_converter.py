"""Rows of datasets from one dialect to another, and what is said to be lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

import unspool
from unspool.convert import OPENAI, Converted, Converter, RowError
from unspool.convert.converter import Dialect

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "note": {"type": "string"}},
        },
    },
}
ARGUMENTS = '{"city": "Paris", "days": 3}'
HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
CODER_CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)
ASKED = {"role": "user", "content": "What will the weather be?"}


def fmt(name: str) -> Dialect:
    return OPENAI if name == "openai" else unspool.get_format(name)


def converted(source: str, target: str, row: Any, **options: Any) -> Converted:
    return Converter(fmt(source), fmt(target), **options).convert(row)


def structured(*, content: str | None = None, reasoning: str | None = None, arguments: str | None = None) -> Any:
    """A message of the model in OpenAI's fields."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if arguments is not None:
        call = {"name": "get_weather", "arguments": arguments}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
    return message


def test_text_of_one_family_becomes_text_of_another() -> None:
    row = {
        "id": 7,
        "tools": [WEATHER],
        "messages": [ASKED, {"role": "assistant", "content": HERMES_CALL}],
        "x": None,
    }
    found = converted("hermes", "qwen3_coder", row)
    assert found.losses == ()
    assert found.row == {**row, "messages": [ASKED, {"role": "assistant", "content": CODER_CALL}]}
    assert list(found.row) == list(row)


def test_fields_become_text_and_text_becomes_fields() -> None:
    message = structured(content="I look.", reasoning="Hm.", arguments=ARGUMENTS)
    text = f"<think>\nHm.\n</think>\n\nI look.\n{HERMES_CALL}"
    row = {"tools": [WEATHER], "messages": [ASKED, {**message, "weight": 1}]}
    there = converted("openai", "hermes", row)
    assert there == Converted(
        {"tools": [WEATHER], "messages": [ASKED, {"role": "assistant", "content": text, "weight": 1}]}
    )
    assert there.row is not None
    assert converted("hermes", "openai", there.row) == Converted(row)


CASES = [
    {"content": "Hello.\n\nThere — 你好 <b>."},
    {"arguments": "{}"},
    {"arguments": ARGUMENTS},
    {"content": "I look.", "arguments": ARGUMENTS},
    {"arguments": json.dumps({"city": "São Paulo", "note": 'a "b"\n<c> & {d}'}, ensure_ascii=False)},
    {"reasoning": "Hm,\nso.", "content": "Hello."},
    {"reasoning": "Hm.", "arguments": ARGUMENTS},
]


@pytest.mark.parametrize("name", [each.name for each in unspool.formats()])
def test_what_is_not_said_to_be_lost_comes_back(name: str) -> None:
    without_loss = 0
    for case in CASES:
        row = {"tools": [WEATHER], "messages": [ASKED, structured(**case)]}
        there = converted("openai", name, row)
        if there.losses:
            continue
        assert there.row is not None
        assert isinstance(there.row["messages"][1]["content"], str)
        back = converted(name, "openai", there.row)
        assert back.row is not None
        said, kept = row["messages"][1], back.row["messages"][1]
        for message in (said, kept):
            for call in message.get("tool_calls", ()):
                call["id"] = "call_1"
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        assert kept == said
        without_loss += 1
    # Without calls of its own a format can carry no more than text, and reasoning if it has any.
    assert without_loss >= (3 if unspool.get_format(name).calls is not None else 1)


def test_reasoning_that_the_target_lacks_is_left_out_and_said() -> None:
    found = converted("openai", "qwen3_coder", {"messages": [structured(content="Hello.", reasoning="Hm.")]})
    assert found.row == {"messages": [{"role": "assistant", "content": "Hello."}]}
    assert found.losses == ("`messages[0]`: qwen3_coder has no reasoning, so it is left out",)


def test_a_call_that_the_target_cannot_write_leaves_the_row_out() -> None:
    found = converted("openai", "pythonic", {"messages": [structured(arguments='{"the city": 1}')]})
    assert found.row is None
    assert found.losses == (
        "`messages[0]`: tool_calls[0]: 'the city' is no Python keyword, so a call of 'get_weather' can't be "
        "written",
    )


@pytest.mark.parametrize("arguments", ["[1]", "{", '"x"'])
def test_arguments_that_are_no_object_leave_the_row_out(arguments: str) -> None:
    for target in ("hermes", "qwen3_coder", "openai"):
        found = converted("openai", target, {"messages": [structured(arguments=arguments)]})
        assert found == Converted(None, ("`messages[0]`: the arguments of get_weather are not a JSON object",))


def test_what_reads_back_differently_is_said() -> None:
    row = {"messages": [structured(arguments='{"city": "3"}')]}
    assert converted("openai", "qwen3_coder", {**row, "tools": [WEATHER]}).losses == ()
    # Without a schema nobody can tell the text 3 from the number.
    assert converted("openai", "qwen3_coder", row).losses == (
        '`messages[0]`: the call of get_weather is read back as get_weather {"city": 3}',
    )
    text = f"Look: {HERMES_CALL}"
    assert converted("openai", "hermes", {"tools": [WEATHER], "messages": [structured(content=text)]}).losses == (
        "`messages[0]`: content is not read back as it was",
        "`messages[0]`: of 0 calls 1 are read back",
    )
    thought = converted("openai", "hermes", {"messages": [structured(content="x", reasoning="a</think>b")]})
    assert "`messages[0]`: reasoning is not read back as it was" in thought.losses


def test_reasoning_behind_a_closed_start_is_said() -> None:
    found = converted("openai", "deepseek_v31", {"messages": [structured(content="Hello.", reasoning="Hm.")]})
    assert found.row == {"messages": [{"role": "assistant", "content": "<think>Hm.</think>Hello."}]}
    assert found.losses == (
        "`messages[0]`: reasoning comes after '</think>', with which prompts of deepseek_v31 end",
    )


def test_markup_that_is_no_call_is_said() -> None:
    row = {"tools": [WEATHER], "messages": [{"role": "assistant", "content": '<tool_call>{"name": "get_we'}]}
    found = converted("hermes", "openai", row)
    assert found.losses == ('`messages[0]`: "<tool_call>" begins no call that can be read and stays content',)


def test_guessed_types_are_said() -> None:
    row = {"messages": [{"role": "assistant", "content": CODER_CALL}]}
    found = converted("qwen3_coder", "openai", row)
    assert found.losses == ("`messages[0]`: the row has no tools, so the types of arguments are guessed",)
    assert converted("qwen3_coder", "openai", row, tools=[WEATHER]).losses == ()
    assert converted("qwen3_coder", "openai", {**row, "tools": json.dumps([WEATHER["function"]])}).losses == ()


def test_text_that_never_leaves_reasoning_is_said() -> None:
    found = converted("qwen3_thinking", "openai", {"text": "Hello."})
    assert found.losses == ("`text`: prompts of qwen3_thinking open reasoning, and the text never ends it",)
    assert converted("qwen3_thinking", "openai", {"text": "Hm.\n</think>\n\nHello."}).losses == ()


@pytest.mark.parametrize("name", ["completion", "response", "text"])
def test_a_field_with_what_the_model_wrote_is_found(name: str) -> None:
    row = {"question": "?", name: HERMES_CALL}
    assert converted("hermes", "mistral", row).row == {
        "question": "?",
        name: f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}",
    }
    assert converted("hermes", "openai", row).row == {"question": "?", name: [structured(arguments=ARGUMENTS)]}


def test_a_field_can_be_named() -> None:
    row = {"text": HERMES_CALL, "raw": HERMES_CALL}
    assert converted("hermes", "qwen3_coder", row, field="raw", tools=[WEATHER]).row == {
        "text": HERMES_CALL,
        "raw": CODER_CALL,
    }
    assert converted("openai", "hermes", {"raw": ""}, field="raw").row == {"raw": ""}
    with pytest.raises(RowError, match="`raw` must be the text that a model wrote; it is 3"):
        converted("hermes", "openai", {"raw": 3}, field="raw")
    with pytest.raises(RowError, match="`nope`: the row has no such field; it has raw, text"):
        converted("hermes", "openai", {"raw": "", "text": ""}, field="nope")
    beside = {"raw": HERMES_CALL, "conversations": [{"from": "gpt", "value": "x"}]}
    found = converted("hermes", "openai", beside, field="raw")
    assert found.row == {**beside, "raw": [structured(arguments=ARGUMENTS)]}


def test_a_rendered_prompt_decides_the_start_and_is_said_to_stay() -> None:
    row = {"prompt": "<|im_start|>assistant\n<think>\n", "completion": "Hm.\n</think>\n\nHello."}
    found = converted("hermes", "openai", row)
    assert found.row is not None
    assert found.row["completion"] == [structured(content="Hello.", reasoning="Hm.")]
    assert found.losses == ("`prompt` is rendered for hermes and stays as it is",)
    assert converted("hermes", "openai", {"prompt": "A question?", "completion": "Hi."}).losses == ()


def test_lists_of_messages_are_found_under_each_of_their_names() -> None:
    row = {
        "prompt": [ASKED],
        "chosen": [{"role": "assistant", "content": HERMES_CALL}],
        "rejected": [{"role": "assistant", "content": "No."}],
        "completion": "Text.",
    }
    found = converted("hermes", "openai", row)
    assert found == Converted(found.row)
    assert found.row == {
        "prompt": [ASKED],
        "completion": [structured(content="Text.")],
        "chosen": [structured(arguments=ARGUMENTS)],
        "rejected": [structured(content="No.")],
    }


def test_fields_beside_text_stay_fields() -> None:
    message = structured(content="<think>not read</think>", arguments=ARGUMENTS)
    assert converted("hermes", "openai", {"messages": [message]}).row == {"messages": [message]}
    thought = {"role": "assistant", "content": HERMES_CALL, "reasoning": "Hm."}
    assert converted("hermes", "openai", {"messages": [thought]}).row == {
        "messages": [structured(reasoning="Hm.", arguments=ARGUMENTS)]
    }


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_found_under_each_of_its_names(name: str) -> None:
    row = {"messages": [{"role": "assistant", "content": "Hi.", name: "Hm."}]}
    assert converted("hermes", "openai", row) == Converted(
        {"messages": [structured(content="Hi.", reasoning="Hm.")]}
    )
    text = "<think>\nHm.\n</think>\n\nHi."
    assert converted("openai", "hermes", row) == Converted({"messages": [{"role": "assistant", "content": text}]})


def test_reasonings_that_differ_are_a_loss() -> None:
    text = "<think>\nHm.\n</think>\n\nHi."
    same = {"role": "assistant", "content": text, "reasoning": "Hm.", "thinking": "Hm."}
    details = [{"type": "reasoning.text", "text": "H"}, {"type": "reasoning.text", "text": "m."}]
    kept = {"messages": [structured(content="Hi.", reasoning="Hm.")]}
    assert converted("hermes", "openai", {"messages": [{**same, "reasoning_details": details}]}) == Converted(kept)
    for further in ({"thinking": "Oh."}, {"reasoning_details": [{"text": "Oh."}]}):
        found = converted("hermes", "openai", {"messages": [{**same, **further}]})
        assert found == Converted(kept, ("`messages[0]`: it has several reasonings, of which the first is kept",))
    found = converted("hermes", "openai", {"messages": [{**structured(content=text), "reasoning": "Oh."}]})
    assert found == Converted(
        kept, ("`messages[0]`: the text has reasoning, so another one beside it is left out",)
    )
    hidden = {**same, "reasoning_details": [{"type": "reasoning.encrypted", "data": "xx"}]}
    found = converted("hermes", "openai", {"messages": [hidden]})
    assert found == Converted(kept, ("`messages[0]`: reasoning that is no text is left out",))


@pytest.mark.parametrize("source", ["qwen3_5", "qwen3_thinking", "deepseek_v31", "hermes"])
def test_text_beside_reasoning_that_is_a_field_is_no_reasoning(source: str) -> None:
    row = {"messages": [structured(content="Hi.", reasoning="Hm.")]}
    assert converted(source, "openai", row) == Converted(row)
    row = {"messages": [structured(content="Hi.", reasoning="Hm.", arguments=ARGUMENTS)]}
    assert converted(source, "openai", row) == Converted(row)


def test_markup_beside_calls_that_are_fields_is_said_to_stay() -> None:
    for content in (HERMES_CALL, "<think>Hm.</think>Hi."):
        row = {"messages": [structured(content=content, arguments=ARGUMENTS)]}
        assert converted("hermes", "openai", row) == Converted(
            row, ("`messages[0]`: the text beside calls that are fields is not read; it stays content",)
        )
    row = {"messages": [structured(content="Hi.", arguments=ARGUMENTS)]}
    assert converted("hermes", "openai", row) == Converted(row)
    assert converted("qwen3_5", "openai", row) == Converted(row)


def test_a_refusal_stays_one_where_there_are_fields() -> None:
    row = {"messages": [{"role": "assistant", "content": None, "refusal": "No way."}]}
    assert converted("hermes", "openai", row) == Converted(row)
    assert converted("openai", "hermes", row) == Converted(
        {"messages": [{"role": "assistant", "content": "No way."}]},
        ("`messages[0]`: the refusal is written as content",),
    )


@pytest.mark.parametrize("role", ["model", "Assistant", "gpt"])
def test_the_model_has_other_names(role: str) -> None:
    row = {"messages": [{"role": role, "content": HERMES_CALL}]}
    assert converted("hermes", "openai", row) == Converted({"messages": [structured(arguments=ARGUMENTS)]})
    text = f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"
    assert converted("hermes", "mistral", row).row == {"messages": [{"role": role, "content": text}]}


def test_a_role_that_nobody_knows_is_said() -> None:
    row = {"messages": [{"role": "bot", "content": HERMES_CALL}]}
    assert converted("hermes", "openai", row) == Converted(
        row, ("`messages[0]`: nobody knows the role 'bot'; it stays as it is",)
    )


def test_the_older_spelling_of_calls_and_results() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": ARGUMENTS}}
    result = {"role": "function", "name": "get_weather", "content": "sunny"}
    found = converted("openai", "openai", {"messages": [call, result]}).row
    assert found is not None
    said, answer = found["messages"]
    assert "function_call" not in said
    assert answer == {**result, "role": "tool", "tool_call_id": said["tool_calls"][0]["id"]}


def test_all_that_a_row_has_of_the_model_is_converted() -> None:
    read = [structured(arguments=ARGUMENTS)]
    row = {"prompt": [ASKED], "completion": HERMES_CALL, "response": "Hi.", "messages": []}
    assert converted("hermes", "openai", row) == Converted(
        {**row, "completion": read, "response": [structured(content="Hi.")]}
    )
    both = {"messages": [ASKED], "conversations": [{"from": "gpt", "value": HERMES_CALL}]}
    assert converted("hermes", "openai", both) == Converted(
        both, ("`conversations` stays as it is: the row has `messages` already",)
    )
    there = converted("hermes", "mistral", both).row
    assert there is not None
    assert there["conversations"] == [{"from": "gpt", "value": f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"}]
    assert converted("hermes", "openai", {**both, "messages": []}).row == {"messages": read}
    rendered = {"messages": [ASKED], "text": "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\nHi.<|im_end|>"}
    assert converted("hermes", "openai", rendered) == Converted(
        rendered, ("`text` is rendered for hermes and stays as it is",)
    )


@pytest.mark.parametrize("name", ["функция", "2fast", "a b", "mcp/x"])
def test_without_tools_every_name_is_one(name: str) -> None:
    text = json.dumps({"name": name, "parameters": {}}, ensure_ascii=False)
    found = converted("llama3_json", "openai", {"text": text})
    assert found.row is not None
    assert found.losses == ()
    (message,) = found.row["text"]
    assert [call["function"]["name"] for call in message["tool_calls"]] == [name]


def test_results_get_the_ids_of_their_calls() -> None:
    two = f"{HERMES_CALL}\n{HERMES_CALL}"
    result = {"role": "tool", "content": "sunny"}
    row = {
        "messages": [
            {"role": "assistant", "content": two},
            result,
            result,
            result,
            {"role": "assistant", "content": "."},
        ]
    }
    found = converted("hermes", "openai", row).row
    assert found is not None
    assert [call["id"] for call in found["messages"][0]["tool_calls"]] == ["call_1", "call_2"]
    assert [message.get("tool_call_id") for message in found["messages"][1:4]] == ["call_1", "call_2", None]
    named = {"messages": [{"role": "assistant", "content": two}, {**result, "tool_call_id": "call_2"}, result]}
    found = converted("hermes", "openai", named).row
    assert found is not None
    assert [message["tool_call_id"] for message in found["messages"][1:]] == ["call_2", "call_1"]


def test_ids_that_a_row_has_are_kept() -> None:
    message = structured(arguments=ARGUMENTS)
    message["tool_calls"][0]["id"] = "a1b2c3d4e"
    assert converted("openai", "openai", {"messages": [message]}).row == {"messages": [message]}


SHARED = {
    "conversations": [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "?"},
        {"from": "gpt", "value": HERMES_CALL},
        {"from": "observation", "value": "sunny"},
        {"from": "function_call", "value": f'[{{"name": "get_weather", "arguments": {ARGUMENTS}}}]'},
        {"from": "function_call", "value": json.dumps({"name": "get_weather", "arguments": ARGUMENTS})},
        {"from": "gpt", "value": ""},
    ],
    "tools": "",
}


def test_conversations_stay_conversations_as_long_as_they_are_text() -> None:
    found = converted("hermes", "mistral", SHARED)
    call = {"from": "gpt", "value": f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"}
    assert found.row is not None
    turns = SHARED["conversations"]
    assert found.row["conversations"] == [*turns[:2], call, turns[3], call, call, turns[6]]


def test_other_fields_of_a_turn_stay() -> None:
    turns = [{"from": "human", "value": "?", "weight": 1}, {"from": "model", "value": HERMES_CALL, "weight": 0}]
    found = converted("hermes", "openai", {"conversations": turns}).row
    asked, said = {"role": "user", "content": "?", "weight": 1}, structured(arguments=ARGUMENTS)
    assert found == {"messages": [asked, {**said, "weight": 0}]}
    written = converted("hermes", "mistral", {"conversations": turns}).row
    text = f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}"
    assert written == {"conversations": [turns[0], {**turns[1], "value": text}]}


def test_conversations_become_messages_with_fields() -> None:
    found = converted("hermes", "openai", SHARED)
    assert found.row is not None
    assert list(found.row) == ["messages", "tools"]
    roles = [message["role"] for message in found.row["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "assistant", "assistant"]
    assert found.row["messages"][3] == {"role": "tool", "content": "sunny", "tool_call_id": "call_1"}
    assert found.row["messages"][4]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": ARGUMENTS}
    assert found.row["messages"][6] == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (3, "a row must be a JSON object, not int"),
        ({}, "this one has nothing"),
        ({"a": 1, "b": 2}, "this one has a, b"),
        ({"text": "x", "tools": "{"}, "`tools` must be JSON"),
        ({"text": "x", "tools": 3}, "`tools` must be a list of tools; it is 3"),
        ({"text": "x", "tools": [{}]}, r"`tools\[0\]` must be a function tool with a name"),
        ({"text": "x", "tools": ["f"]}, r"`tools\[0\]` must be a function tool with a name"),
        ({"messages": [{"role": "assistant", "content": 3}]}, r"`messages\[0\].content` must be a string"),
        ({"conversations": ["x"]}, r"`conversations\[0\]` must have a text `value` and be `from` one of human"),
        ({"conversations": [{"from": ["gpt"], "value": ""}]}, r"`conversations\[0\]` must have"),
        ({"messages": 5}, "`messages` must be a list of messages; it is 5"),
        ({"messages": [ASKED, {"content": "x"}]}, r"`messages\[1\]` must be an object with a `role`; it is {"),
        ({"messages": [{"role": ["user"]}]}, r"`messages\[0\]` must be an object with a `role`"),
        ({"chosen": [ASKED, "x"]}, r"`chosen\[1\]` must be an object with a `role`; it is 'x'"),
        (
            {"messages": [{"role": "assistant", "thinking": 3}]},
            r"`messages\[0\].thinking` must be a string; it is 3",
        ),
        ({"conversations": [{"from": "cat", "value": ""}]}, r"`conversations\[0\]` must have"),
        ({"conversations": [{"from": "gpt", "value": 3}]}, r"`conversations\[0\]` must have"),
        ({"conversations": [{"from": "function_call", "value": "x"}]}, r"`conversations\[0\]` must be JSON"),
        ({"conversations": [{"from": "function_call", "value": "[3]"}]}, "must be a call with a name"),
    ],
)
def test_rows_that_cannot_be_read_are_named(row: Any, message: str) -> None:
    with pytest.raises(RowError, match=message):
        converted("hermes", "openai", row)
