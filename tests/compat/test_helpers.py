"""What plugins import besides parsers: small functions and base classes."""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType
from typing import Any

import pytest

from unspool.compat import (
    BaseThinkingReasoningParser,
    DeltaMessage,
    ReasoningParser,
    ToolParser,
    helpers,
    mlx,
    standins,
)
from unspool.compat.thinking import DeepSeekR1ReasoningParser, IdentityReasoningParser, Qwen3ReasoningParser

VOCAB = {"<think>": 1, "</think>": 2, "a": 3, "b": 4}


class Tokenizer:
    def get_vocab(self) -> dict[str, int]:
        return VOCAB


def test_small_functions() -> None:
    assert [helpers.partial_tag_overlap(text, "<tool>") for text in ("a", "a<", "<to", "<tool>", "")] == [
        0,
        1,
        3,
        0,
        0,
    ]
    assert helpers.find_common_prefix("abcd", "abxd") == "ab"
    assert helpers.find_common_prefix("ab", "abc") == "ab"
    assert helpers.find_common_suffix('a"}', 'bcd"}') == '"}'
    assert helpers.find_common_suffix('xa"}', 'ya"}') == '"}'
    assert helpers.extract_intermediate_diff('{"fruit": "apple"}', '{"fruit": "ap"}') == "ple"
    assert helpers.find_all_indices("aXbXX", "X") == [1, 3, 4]
    assert helpers.find_all_indices("a", "") == []
    assert [helpers.is_complete_json(text) for text in ("{}", "{", "1")] == [True, False, True]
    assert helpers.consume_space(1, "a  b") == 3
    assert helpers.consume_space(0, "  ") == 2
    assert helpers.safe_literal_eval("[1, 'a']") == [1, "a"]
    assert [helpers.is_list_of(value, str) for value in (["a"], [1], "a")] == [True, False, False]


def test_json_that_is_cut_is_read_by_the_package_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="partial_json_parser"):
        helpers.partial_json_loads("{", 0)
    package: Any = ModuleType("partial_json_parser")

    def loads(text: str, flags: int) -> Any:
        return json.loads(text if text.endswith("}") or flags == 0 else text + "}")

    package.loads = loads
    monkeypatch.setitem(sys.modules, "partial_json_parser", package)
    assert helpers.partial_json_loads('{"a": 1', 1) == ({"a": 1}, 7)
    assert helpers.partial_json_loads('{"a": 1} more', 0) == ({"a": 1}, 8)
    with pytest.raises(ValueError, match="Expecting"):
        helpers.partial_json_loads("{", 0)


def test_the_engines_logger(caplog: pytest.LogCaptureFixture) -> None:
    log = standins.modules("vllm")["vllm.logger"].init_logger("some.plugin")
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            log.warning_once("careful %d", 1)
            log.info_once("hello")
            log.debug_once("detail", scope="local")
            log.error("no")
    assert [record.getMessage() for record in caplog.records] == ["careful 1", "hello", "detail", "no", "no"]


def test_standins_are_only_there_while_somebody_uses_them() -> None:
    with standins.available(), standins.available():
        assert "vllm.tool_parsers" in sys.modules
        assert not standins.installed("vllm")
    assert "vllm.tool_parsers" not in sys.modules
    with pytest.raises(AttributeError):
        _ = standins.modules("vllm")["vllm.envs"].__nothing__


@pytest.mark.parametrize("kind", [DeepSeekR1ReasoningParser, Qwen3ReasoningParser])
def test_two_markers_by_ids(kind: type[BaseThinkingReasoningParser]) -> None:
    parser = kind(Tokenizer())
    assert (parser.start_token_id, parser.end_token_id) == (1, 2)
    assert [parser.is_reasoning_end(ids) for ids in ([], [1, 3], [1, 3, 2, 4], [2, 1])] == [
        False,
        False,
        True,
        False,
    ]
    assert [parser.is_reasoning_end_streaming([], ids) for ids in ([2], [3])] == [True, False]
    assert parser.extract_content_ids([1, 3, 2, 4]) == [4]
    assert parser.extract_content_ids([1, 3]) == []
    assert parser.count_reasoning_tokens([1, 3, 3, 2, 4]) == 2
    assert parser.extract_reasoning_content("<think>a</think>b") == ("a", "b")
    assert parser.extract_reasoning_content_streaming("", "<think>a", "<think>a") == DeltaMessage(reasoning="a")
    assert parser.extract_reasoning_streaming("<think>a</think>", "<think>a</think>", "") is None
    assert parser.extract_reasoning_streaming("", "<think>", "<think>") is None
    both = parser.extract_reasoning_streaming("<think>a", "<think>ab</think>c", "b</think>c")
    assert both == DeltaMessage(reasoning="b", content="c")


def test_only_one_of_the_two_starts_inside() -> None:
    assert DeepSeekR1ReasoningParser(None).extract_reasoning_streaming("", "a", "a") == DeltaMessage(reasoning="a")
    assert Qwen3ReasoningParser(None).extract_reasoning_streaming("", "a", "a") == DeltaMessage(content="a")


def test_markers_must_be_defined() -> None:
    with pytest.raises(ValueError, match="must define start_token and end_token"):
        BaseThinkingReasoningParser(None)


def test_no_reasoning_at_all() -> None:
    parser = IdentityReasoningParser(None)
    assert parser.is_reasoning_end([])
    assert parser.extract_content_ids([1]) == [1]
    assert parser.extract_reasoning("a") == (None, "a")
    assert parser.extract_reasoning_streaming("", "a", "a") == DeltaMessage(content="a")
    assert parser.extract_reasoning_streaming("a", "a", "") is None


def test_what_a_parser_does_that_overrides_nothing() -> None:
    tools = ToolParser(Tokenizer(), [{"type": "function", "function": {"name": "f"}}])
    assert (tools.vocab, tools.tools[0].function.name) == (VOCAB, "f")
    assert tools.adjust_request(1) == 1
    assert tools.get_structural_tag(None) is tools.finish() is tools.finalize_streaming("a") is None
    assert not tools.supports_native_format()
    assert ToolParser.strip_think_tags("<think>a</think>\n b") == "b"
    with pytest.raises(NotImplementedError, match="extract_tool_calls is missing"):
        tools.extract_tool_calls("a")
    with pytest.raises(NotImplementedError, match="extract_tool_calls_streaming is missing"):
        tools.extract_tool_calls_streaming("", "a", "a")
    tools.prev_tool_call_arr = [{"name": "f", "arguments": {"a": "é"}}]
    assert tools.get_remaining_unstreamed_args() == '{"a": "é"}'
    tools.streamed_args_for_tool = ['{"a"']
    assert tools.get_remaining_unstreamed_args() == ': "é"}'
    tools.streamed_args_for_tool = ["other"]
    assert tools.get_remaining_unstreamed_args() == ""
    tools.reset()
    assert tools.get_remaining_unstreamed_args() == ""
    reasoning = ReasoningParser(None, chat_template_kwargs={"thinking": True})
    assert (reasoning.vocab, reasoning.chat_template_kwargs) == ({}, {"thinking": True})
    assert not reasoning.is_reasoning_end_streaming([1], [1])
    assert not reasoning.has_engine_confirmed_reasoning_end()
    assert (reasoning.extract_content_ids([1]), reasoning.count_reasoning_tokens([1])) == ([], 0)
    assert (reasoning.reasoning_start_str, reasoning.reasoning_end_str, reasoning.finish()) == (None, None, None)
    assert reasoning.prepare_structured_tag("tag", None) == "tag"
    assert reasoning.adjust_request(1) == 1
    reasoning.reset()


def test_the_registry_of_vllm_mlx() -> None:
    mlx.register_parser("mine", Qwen3ReasoningParser)
    assert mlx.get_parser("mine") is Qwen3ReasoningParser
    assert "mine" in mlx.list_parsers()
    assert mlx.is_mlx(mlx.MlxToolParser())
    assert not mlx.is_mlx(ToolParser())
