"""Plugins and token ids: an engine's own, and ids made up for plain text."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from tests.compat.conftest import Load
from tests.compat.test_plugins import check_legal, request
from tests.laws.strategies import without_ids
from unspool import Message, ToolCall
from unspool.compat import DeltaMessage, PluginParser, get_reasoning_parser, get_tool_parser
from unspool.compat.tokenizer import NamedTokenizer, Pieces, TextTokenizer, tokenizer_for_plugins

SPECIAL = {0: "<think>", 1: "</think>", 2: "<call>", 3: "</call>", 4: "<|im_end|>", 5: "<note>"}
EXPECTED = Message("a b", "c", (ToolCall("", "f", '{"x": 1}'),), "tool_calls")

BY_IDS = """
from vllm.entrypoints.openai.engine.protocol import DeltaFunctionCall, DeltaMessage, DeltaToolCall
from vllm.entrypoints.openai.engine.protocol import ExtractedToolCallInformation
from vllm.reasoning.abs_reasoning_parsers import ReasoningParserManager
from vllm.reasoning.deepseek_r1_reasoning_parser import DeepSeekR1ReasoningParser
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

@ToolParserManager.register_module("ids")
class ByIds(ToolParser):
    def __init__(self, tokenizer, tools=None):
        super().__init__(tokenizer, tools)
        self.open, self.close = self.vocab.get("<call>"), self.vocab["</call>"]
        self.inside = False

    def adjust_request(self, request):
        request.skip_special_tokens = {skip}
        return request

    def extract_tool_calls(self, model_output, request):
        return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=None)

    def extract_tool_calls_streaming(self, previous_text, current_text, delta_text, previous_token_ids,
                                     current_token_ids, delta_token_ids, request):
        if self.open in delta_token_ids:
            self.inside = True
            function = DeltaFunctionCall(name="f")
            return DeltaMessage(tool_calls=[DeltaToolCall(index=0, function=function)])
        if self.close in delta_token_ids:
            self.inside = False
            return None
        if self.inside:
            return DeltaMessage(tool_calls=[
                DeltaToolCall(index=0, function=DeltaFunctionCall(arguments=delta_text))])
        return DeltaMessage(content=delta_text)

ReasoningParserManager.register_module("thinks", module=DeepSeekR1ReasoningParser)
"""


class EngineTokenizer:
    """What an engine in this process has: bytes by id, special tokens, encoding."""

    special = SPECIAL
    size = 256 + len(SPECIAL)

    def piece(self, token: int) -> bytes:
        return SPECIAL[token].encode() if token in SPECIAL else bytes([token - len(SPECIAL)])

    def decode(self, ids: Any) -> str:
        return b"".join(map(self.piece, ids)).decode("utf-8", "replace")

    def encode(self, text: str, parse_special: bool = True) -> list[int]:
        for token, special in SPECIAL.items():
            before, found, after = text.partition(special)
            if found:
                return [*self.encode(before), token, *self.encode(after)]
        return [byte + len(SPECIAL) for byte in text.encode()]


def by_tokens(text: str, size: int, *, prompt: str | None = None, reasoning: bool = True) -> Message:
    tokenizer = EngineTokenizer()
    reasoner = get_reasoning_parser("thinks") if reasoning else None
    parser = PluginParser(get_tool_parser("ids"), reasoner, request=request(), tokenizer=tokenizer, prompt=prompt)
    ids = tokenizer.encode(text)
    events = [e for at in range(0, len(ids), size) for e in parser.feed_tokens(ids[at : at + size])]
    events += parser.finish("stop")
    check_legal(events)
    return without_ids(Message.from_events(events))


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("skip", [True, False])
def test_an_engines_ids(load: Load, size: int, skip: bool) -> None:
    load(BY_IDS.replace("{skip}", str(skip)))
    text = '<think>a b</think>c<call>{"x": 1}</call><|im_end|>'
    assert by_tokens(text, size) == EXPECTED
    assert by_tokens('c<call>{"x": 1}</call>', size, reasoning=False).content == "c"


def test_special_tokens_are_text_only_if_the_request_says_so(load: Load) -> None:
    load(BY_IDS.replace("{skip}", "True"))
    assert by_tokens("a<note>é b<|im_end|>", 1, reasoning=False).content == "aé b"
    load(BY_IDS.replace("{skip}", "False"))
    assert by_tokens("a<note>é b<|im_end|>", 1, reasoning=False).content == "a<note>é b"


def test_a_character_that_is_cut(load: Load) -> None:
    load(BY_IDS.replace("{skip}", "True"))
    parser = PluginParser(get_tool_parser("ids"), request=request(), tokenizer=EngineTokenizer())
    events = parser.feed_tokens([6 + 0xC3]) + parser.finish("stop")
    assert Message.from_events(events).content == "\ufffd"


def test_the_prompt_by_an_engines_ids(load: Load) -> None:
    load(BY_IDS.replace("{skip}", "True"))
    closed, opened = "<|im_start|>assistant\n<think></think>", "<|im_start|>assistant\n<think>"
    assert by_tokens("a</think>b", 1, prompt=opened) == Message("a", "b")
    assert by_tokens("ab", 1, prompt=closed) == Message(content="ab")


def test_a_formats_reasoning_by_an_engines_ids(load: Load) -> None:
    load(BY_IDS.replace("{skip}", "True"))
    tokenizer = EngineTokenizer()
    parser = PluginParser(
        get_tool_parser("ids"), get_reasoning_parser("qwen3"), request=request(), tokenizer=tokenizer
    )
    events = parser.feed_tokens(tokenizer.encode('<think>a b</think>c<call>{"x": 1}</call>'))
    assert without_ids(Message.from_events(events + parser.finish())) == EXPECTED


def test_made_up_ids_are_found_in_plain_text(load: Load) -> None:
    load(BY_IDS.replace("{skip}", "True"))
    text = '<think>a b</think>c<call>{"x": 1}</call><|im_end|>'
    for size in (1, 3, len(text)):
        parser = PluginParser(get_tool_parser("ids"), get_reasoning_parser("thinks"), request=request())
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.finish()
        assert without_ids(Message.from_events(events)) == EXPECTED


def test_an_engines_tokenizer_under_the_names_plugins_know() -> None:
    shown, by_ids = tokenizer_for_plugins(EngineTokenizer(), "template")
    assert isinstance(shown, NamedTokenizer)
    assert by_ids
    assert shown.get_vocab() == shown.vocab
    assert (shown.vocab["<think>"], shown.vocab["A"]) == (0, 71)
    assert "<nothing>" not in shown.vocab
    assert shown.encode("<think>A", add_special_tokens=False) == [0, 71]
    assert shown.decode([0, 71], skip_special_tokens=False) == "<think>A"
    assert shown.decode(71) == "A"
    assert shown.convert_tokens_to_ids("<think>") == 0
    assert shown.convert_tokens_to_ids(["A", "ab"]) == [71, None]
    assert shown.all_special_tokens == list(SPECIAL.values())
    assert (shown.chat_template, shown.size) == ("template", EngineTokenizer.size)


def test_a_tokenizer_of_the_field_stays_what_it_is(load: Load) -> None:
    vocab = {"<think>": 0, "</think>": 1, "a": 2, "b": 3, "<|im_start|>assistant": 4}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="b"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<think>", "</think>", "<|im_start|>assistant"])
    assert tokenizer_for_plugins(tokenizer) == (tokenizer, True)
    load(BY_IDS.replace("{skip}", "True"))
    kind = get_reasoning_parser("thinks")
    parser = PluginParser(
        None, kind, request=request(), tokenizer=tokenizer, prompt="<|im_start|>assistant<think></think>"
    )
    assert Message.from_events(parser.feed_tokens([2, 3]) + parser.finish()).reasoning is None
    parser = PluginParser(None, kind, request=request(), tokenizer=tokenizer)
    message = Message.from_events(parser.feed_tokens([2, 1, 3]) + parser.finish())
    assert (message.reasoning, message.content) == ("a", "b")


def test_the_tokenizer_of_plain_text() -> None:
    tokenizer, by_ids = tokenizer_for_plugins(None)
    assert isinstance(tokenizer, TextTokenizer)
    assert not by_ids
    assert tokenizer
    marker = tokenizer.get_vocab()["<call>"]
    assert tokenizer.vocab.get("<call>") == marker == tokenizer.convert_tokens_to_ids("<call>")
    assert "anything" in tokenizer.vocab
    assert tokenizer.vocab.get("") is None
    assert tokenizer.vocab["a"] == ord("a")
    with pytest.raises(KeyError):
        tokenizer.vocab[""]
    assert tokenizer.encode("<call>", add_special_tokens=False) == [marker]
    assert len(tokenizer.encode("[TOOL_CALLS]")) == 1
    assert tokenizer.encode("a<call>b") == [97, marker, 98]
    assert tokenizer("a")["input_ids"] == [97]
    assert tokenizer.decode([97, marker]) == "a<call>"
    assert tokenizer.decode(97) == "a"
    assert tokenizer.tokenize("a<call>") == ["a", "<call>"]
    assert tokenizer.convert_tokens_to_ids(["a", "<call>"]) == [97, marker]


def test_markers_are_pieces_of_their_own() -> None:
    tokenizer = TextTokenizer()
    marker = tokenizer.vocab["<call>"]
    pieces = Pieces(tokenizer)
    assert pieces.feed("Hello you <ca") == [(w, list(map(ord, w))) for w in ("Hello", " you", " ")]
    assert pieces.feed("ll>x<") == [("<call>", [marker]), ("x", [ord("x")])]
    assert pieces.feed("", final=True) == [("<", [ord("<")])]


def test_what_was_held_joins_what_was_not_shown() -> None:
    raw = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    for shown in ("a", "a" + raw[:40]):
        caller = get_tool_parser("hermes")(None)
        caller.extract_tool_calls_streaming("", shown, shown)
        last = caller.finalize_streaming(f"a{raw} b <tool")
        assert last is not None
        assert last.content == " b <tool"
        arguments = "".join((call.function and call.function.arguments) or "" for call in last.tool_calls)
        assert '{"a": 1}'.endswith(arguments)
    caller = get_tool_parser("hermes")(None)
    caller.extract_tool_calls_streaming("", "a", "a")
    assert caller.finalize_streaming("abc") == DeltaMessage(content="bc")
