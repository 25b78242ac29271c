"""The streamed side of the formats' parsers: what engines do with them besides calling in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.compat.calling import Gathered, request, views
from tests.laws.strategies import FORMATS, TOOLS, every_format, points, requests, soups, split, without_ids
from tests.laws.vocabulary import Vocabulary
from unspool import Message, Parser, ToolCall
from unspool.compat import DeltaMessage, get_reasoning_parser, get_tool_parser
from unspool.compat.following import reasons
from unspool.formats import samples

RAW = 'Hi.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
EXPECTED = Message(None, "Hi.", (ToolCall("", "get_weather", '{"city": "Oslo"}'),), "tool_calls")


def shown(parser: Any, pieces: list[str], gathered: Gathered | None = None) -> Gathered:
    gathered = gathered or Gathered()
    for previous, current, piece in views(pieces, ""):
        gathered.add(parser.extract_tool_calls_streaming(previous, current, piece, request=request(TOOLS)))
    return gathered


def test_what_a_server_reads_off_a_tool_parser() -> None:
    parser = get_tool_parser("hermes")(None, TOOLS)
    assert (parser.prev_tool_call_arr, parser.streamed_args_for_tool, parser.current_tool_id) == ([], [], -1)
    assert shown(parser, list(RAW)).message == EXPECTED
    assert parser.prev_tool_call_arr == [{"name": "get_weather", "arguments": '{"city": "Oslo"}'}]
    assert parser.streamed_args_for_tool == ['{"city": "Oslo"}']
    assert (parser.current_tool_id, parser.current_tool_name_sent) == (0, True)
    assert parser.get_remaining_unstreamed_args() == ""
    assert parser.finish() is None


def test_a_call_that_is_cut() -> None:
    parser = get_tool_parser("hermes")(None, TOOLS)
    gathered = shown(parser, [RAW[:65]])
    gathered.add(parser.finish("length"))
    assert gathered.calls[0]["arguments"] == '{"city": "Os'
    assert gathered.content == "Hi."


def test_held_text_comes_at_the_end() -> None:
    for name in ("finish", "flush", "finish_streaming", "finalize_streaming"):
        parser = get_tool_parser("hermes")(None)
        assert shown(parser, ["a <tool"]).content == "a"
        last = getattr(parser, name)()
        assert last == DeltaMessage(content=" <tool")
        assert getattr(parser, name)() is None


def test_text_that_was_never_shown_is_read_at_the_end() -> None:
    parser = get_tool_parser("hermes")(None, TOOLS)
    gathered = shown(parser, [RAW[:20]])
    gathered.add(parser.finalize_streaming(RAW))
    assert gathered.message == EXPECTED


def test_calls_may_be_skipped_and_repeated() -> None:
    parser = get_tool_parser("hermes")(None, TOOLS)
    gathered = Gathered()
    for at in (3, 9, 9, 30, 31, len(RAW), len(RAW)):
        gathered.add(parser.extract_tool_calls_streaming(RAW[: at - 2], RAW[:at], RAW[at - 2 : at]))
    assert gathered.message == EXPECTED


@pytest.mark.parametrize("first", [RAW, RAW[:50], "Something else"])
def test_the_same_object_reads_the_next_stream(first: str) -> None:
    parser = get_tool_parser("hermes")(None, TOOLS)
    shown(parser, list(first))
    assert shown(parser, list(RAW)).message == EXPECTED
    assert parser.streamed_args_for_tool == ['{"city": "Oslo"}']
    parser.finish()
    assert shown(parser, [RAW]).message == EXPECTED
    # Another text without a beginning.
    assert shown(parser, ["x"]).content == "x"
    parser.extract_tool_calls_streaming("abc", "abcdef", "def")
    assert parser.extract_tool_calls_streaming("uvw", "uvwxyz", "xyz") == DeltaMessage(content="uvwxyz")
    parser.reset()
    assert shown(parser, [RAW]).message == EXPECTED
    reasoner = get_reasoning_parser("hermes")(None)
    for _ in range(2):
        delta = reasoner.extract_reasoning_streaming("", "<think>a", "<think>a")
        assert delta == DeltaMessage(reasoning="a")
    reasoner.reset()
    assert reasoner.extract_reasoning_streaming("x", "xHi", "Hi") == DeltaMessage(content="xHi")


@every_format
@given(data=st.data())
def test_any_text_streams_like_the_parser_itself(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt))
    prompt = data.draw(requests(fmt))["prompt"]
    own = Parser(fmt, tools=TOOLS, prompt=prompt)
    expected = Message.from_events(own.feed(text) + own.finish("stop"))
    kind: Any = get_tool_parser(fmt.name)
    parser = kind(None, TOOLS, prompt=fmt.start if prompt is None else prompt)
    gathered = shown(parser, split(text, data.draw(points)))
    gathered.add(parser.finish())
    assert (gathered.reasoning or None, gathered.content or None) == (expected.reasoning, expected.content)
    found = parser.extract_tool_calls(text, request(TOOLS))
    calls = [(call.name, call.arguments) for call in expected.tool_calls]
    assert [(call.name, call.arguments) for call in found.tool_calls] == calls
    assert {(call["name"], call["arguments"]) for call in gathered.calls.values()} >= set(calls)
    assert (found.content, found.reasoning) == (expected.content, expected.reasoning)


@every_format
@given(data=st.data())
def test_a_reasoning_parser_loses_nothing_of_any_text(name: str, data: st.DataObject) -> None:
    fmt = FORMATS[name]
    text = data.draw(soups(fmt))
    outcomes = set()
    for cuts in ([], data.draw(points), range(len(text))):
        parser = get_reasoning_parser(fmt.name)(None, tools=TOOLS)
        gathered = Gathered()
        for previous, current, piece in views(split(text, list(cuts)), ""):
            gathered.add(parser.extract_reasoning_streaming(previous, current, piece))
        gathered.add(parser.finalize_stream())
        outcomes.add((gathered.reasoning, gathered.content))
        # A call inside reasoning takes the opener of its block along.
        inside = "".join(block.open for block in fmt.reasoning[:1] if block.holds_calls)
        rest = gathered.content.removeprefix(fmt.lead).removeprefix(inside)
        assert text.endswith(rest)
    assert len(outcomes) == 1


# ---- token ids


@pytest.mark.parametrize("name", list(FORMATS))
def test_ids_are_read_where_there_are_some(name: str) -> None:
    fmt = FORMATS[name]
    for _, _, raw in samples(fmt):
        expected = without_ids(unspool.parse(fmt, raw, tools=TOOLS))
        for size in (1, 3):
            vocabulary = Vocabulary.of(fmt)
            ids = spelled(vocabulary, raw)
            assert by_ids(fmt, vocabulary, ids, size).message == expected


def spelled(vocabulary: Vocabulary, raw: str) -> list[int]:
    """The ids of a text whose markers are special tokens."""
    special = sorted(vocabulary.special.items(), key=lambda item: -len(item[1]))
    ids: list[int] = []
    while raw:
        token = next((token for token, text in special if raw.startswith(text)), None)
        if token is None:
            token, text = vocabulary.ordinary(raw[0].encode()), raw[0]
        else:
            text = vocabulary.special[token]
        ids.append(token)
        raw = raw[len(text) :]
    return ids


def by_ids(fmt: unspool.Format, vocabulary: Vocabulary, ids: list[int], size: int) -> Gathered:
    """What vLLM's server makes of ids, with text from which special tokens were dropped."""
    reasoner = get_reasoning_parser(fmt.name)(vocabulary, tools=TOOLS)
    caller = get_tool_parser(fmt.name)(vocabulary, TOOLS)
    gathered = Gathered()
    text = rest = ""
    seen: list[int] = []
    left: list[int] = []
    over = not reasons(fmt)
    for at in range(0, len(ids), size):
        new = ids[at : at + size]
        piece = "".join(vocabulary.piece(token).decode() for token in new if token not in vocabulary.special)
        if not over:
            delta = reasoner.extract_reasoning_streaming(text, text + piece, piece, seen, seen + new, new)
            text, seen = text + piece, seen + new
            over = reasoner.is_reasoning_end_streaming(seen, new)
            gathered.reasoning += (delta.reasoning if delta else None) or ""
            if not over:
                continue
            new, piece = reasoner.extract_content_ids(new), (delta.content if delta else None) or ""
        gathered.add(
            caller.extract_tool_calls_streaming(rest, rest + piece, piece, left, left + new, new, request(TOOLS))
        )
        rest, left = rest + piece, left + new
    if not over:
        last = reasoner.finalize_stream()
        gathered.add(last and DeltaMessage(reasoning=last.reasoning, content=last.content))
    gathered.add(caller.finish())
    return gathered


def test_a_token_may_hold_the_end_of_reasoning_and_the_beginning_of_content() -> None:
    vocabulary = Vocabulary({})
    pieces = ["<think>", "Hm", ".\n</thi", "nk>\n\nHe", "llo", " there"]
    ids = [vocabulary.ordinary(piece.encode()) for piece in pieces]
    parser = get_reasoning_parser("hermes")(vocabulary)
    deltas = []
    for at, piece in enumerate(pieces):
        before, before_ids = "".join(pieces[:at]), ids[:at]
        new = [ids[at]]
        deltas.append(
            parser.extract_reasoning_streaming(before, before + piece, piece, before_ids, before_ids + new, new)
        )
        over = at >= 3
        assert parser.is_reasoning_end_streaming(before_ids + new, new) is over
        assert parser.has_engine_confirmed_reasoning_end() is over
        # Half a token has no id, so its text alone goes on.
        assert parser.extract_content_ids(new) == (new if at > 3 else [])
    assert [delta for delta in deltas if delta] == [
        DeltaMessage(reasoning="Hm"),
        DeltaMessage(reasoning="."),
        DeltaMessage(content="He"),
        DeltaMessage(content="llo"),
        DeltaMessage(content=" there"),
    ]
    parser.finish()
    text = "".join(pieces)
    assert parser.extract_reasoning_streaming(text, text + "x", "x", ids, [*ids, 1], [1]) is None
    assert get_reasoning_parser("hermes")(vocabulary).extract_content_ids(ids) == ids[4:]


THINKING = Vocabulary(
    {1: "<think>", 2: "</think>", 3: "<|im_start|>"}, [b"", b"<think>", b"</think>", b"<|im_start|>"]
)


def encoded(text: str) -> list[int]:
    return spelled(THINKING, text)


def test_letters_of_a_special_token_stay_letters() -> None:
    parser = get_reasoning_parser("hermes")(THINKING)
    ids = [1, *(THINKING.ordinary(char.encode()) for char in "a</think>b"), 2, THINKING.ordinary(b"c")]
    delta = parser.extract_reasoning_streaming("", "a</think>bc", "a</think>bc", [], ids, ids)
    assert delta == DeltaMessage(reasoning="a</think>b", content="c")
    assert parser.extract_content_ids(ids) == ids[-1:]


def test_where_reasoning_ends_by_ids() -> None:
    parser = get_reasoning_parser("qwen3")(THINKING)
    ids = encoded("<think>\nab\n</think>\n\ncd")
    ends = [parser.is_reasoning_end_streaming(ids[: at + 1], ids[at : at + 1]) for at in range(len(ids))]
    assert ends == [at >= ids.index(2) for at in range(len(ids))]
    assert parser.is_reasoning_end_streaming(ids[:2], ids[1:2]) is False
    assert [parser.is_reasoning_end(ids[:at]) for at in (1, 4, len(ids))] == [False, False, True]
    assert parser.extract_content_ids(ids) == encoded("cd")
    assert parser.count_reasoning_tokens(ids) == 2
    assert parser.count_reasoning_tokens(encoded("ab")) == 0


@pytest.mark.parametrize(
    ("prompt", "over"),
    [
        ("<think>\nx\n</think>\n\ny<|im_start|>assistant\n", False),
        ("<|im_start|>assistant\n<think>\n", False),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", True),
        ("<|im_start|>assistant\nThe answer", True),
    ],
)
def test_what_a_prompt_says(prompt: str, over: bool) -> None:
    parser = get_reasoning_parser("qwen3")(THINKING)
    assert parser.is_reasoning_end(encoded(prompt)) is over
    parser.adjust_initial_state_from_prompt(encoded(prompt))
    delta = parser.extract_reasoning_streaming("", "a", "a")
    opened = prompt.endswith("<think>\n")
    assert delta == (DeltaMessage(reasoning="a") if opened else DeltaMessage(content="a"))


def test_answers_without_reasoning_have_none_to_end() -> None:
    parser = get_reasoning_parser("qwen3_coder")(None)
    assert parser.is_reasoning_end([])
    assert parser.is_reasoning_end_streaming([1], [1])
    assert parser.extract_reasoning("a") == (None, "a")
    assert (parser.reasoning_start_str, parser.reasoning_end_str) == (None, None)


def test_a_tokenizer_that_cant_be_read_leaves_the_text() -> None:
    for tokenizer in (None, MagicMock(), SimpleNamespace(decode=None), object()):
        parser = get_reasoning_parser("qwen3")(tokenizer)
        assert parser.count_reasoning_tokens([1]) == 0
        assert parser.extract_content_ids([1]) == []
        assert not parser.is_reasoning_end([1])
        assert not parser.is_reasoning_end_streaming([1], [1])
        parser.set_prompt_token_ids([1])
        delta = parser.extract_reasoning_streaming("", "<think>a</think>b", "<think>a</think>b", [], [1], [1])
        assert delta == DeltaMessage(reasoning="a", content="b")
        caller = get_tool_parser("qwen3")(tokenizer, TOOLS)
        delta = caller.extract_tool_calls_streaming("", "a", "a", [], [1], [1])
        assert delta == DeltaMessage(content="a")


# ---- requests


@pytest.mark.parametrize("dump", ["record", "dict", "object"])
def test_requests_of_any_shape(dump: str) -> None:
    asked: Any = request(TOOLS, parallel_tool_calls=False)
    if dump == "dict":
        asked = asked.model_dump()
    elif dump == "object":
        asked = SimpleNamespace(tools=TOOLS, tool_choice="auto", parallel_tool_calls=False)
    found = get_tool_parser("hermes")(None).extract_tool_calls(RAW + "\n" + RAW, asked)
    assert len(found.tool_calls) == 1


@pytest.mark.parametrize(
    "choice", ["none", "auto", "required", {"type": "function", "function": {"name": "x"}}, 7]
)
def test_choices(choice: Any) -> None:
    found = get_tool_parser("hermes")(None).extract_tool_calls(RAW, request(TOOLS, tool_choice=choice))
    assert found.tools_called == (choice != "none")


def test_without_tools_every_call_counts() -> None:
    bare = '{"name": "whatever", "parameters": {}}'
    nothing: list[Any] = [None, {}, request(None, tool_choice="none"), request([])]
    for asked in nothing:
        assert get_tool_parser("llama3_json")(None).extract_tool_calls(bare, asked).tools_called
    assert get_tool_parser("llama3_json")(None).extract_tool_calls("").content is None


def test_requests_are_adjusted_so_that_markers_stay_in_the_text() -> None:
    for asked, kept in (
        (request(TOOLS), False),
        (request(TOOLS, tool_choice="none"), True),
        (request(None), True),
    ):
        assert get_tool_parser("hermes")(None).adjust_request(asked).skip_special_tokens is kept
    assert get_reasoning_parser("hermes")(None).adjust_request(request(None)).skip_special_tokens is False


@pytest.mark.parametrize(
    ("name", "kwargs", "reasoning"),
    [
        ("qwen3", {}, None),
        ("qwen3", {"enable_thinking": False}, None),
        ("qwen3", {"enable_thinking": True}, None),
        ("deepseek_v31", {}, None),
        ("deepseek_v31", {"thinking": True}, "a"),
        ("deepseek_r1", {}, "a"),
        ("deepseek_r1", {"enable_thinking": False}, None),
        ("gpt_oss", {"enable_thinking": False}, None),
    ],
)
def test_the_templates_switch_decides_the_start(name: str, kwargs: Any, reasoning: str | None) -> None:
    parser = get_reasoning_parser(name)(None, chat_template_kwargs=kwargs)
    assert parser.extract_reasoning("a") == (reasoning, None if reasoning else "a")


def test_reasoning_that_the_prompt_opened() -> None:
    parser = get_reasoning_parser("qwen3")(None)
    parser.reset_state(implicit_mode=True)
    assert parser.extract_reasoning("a</think>b") == ("a", "b")
    assert (parser.start_token, parser.end_token) == ("<think>", "</think>")  # type: ignore[attr-defined]
    assert get_reasoning_parser("gpt_oss")(None).reasoning_start_str == "<|channel|>analysis<|message|>"


def test_a_tool_parser_alone_keeps_reasoning_out_of_the_content() -> None:
    raw = "<think>\nHm.\n</think>\n\n" + RAW
    found = get_tool_parser("qwen3")(None, TOOLS).extract_tool_calls(raw)
    assert (found.reasoning, found.content, found.tools_called) == ("Hm.", "Hi.", True)
    alone: Any = get_tool_parser("deepseek_r1")
    assert alone(None, prompt="<think>\n").extract_tool_calls("a</think>b").reasoning == "a"
    assert alone(None).extract_tool_calls("ab").content == "ab"
