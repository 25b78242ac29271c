"""HY V3 and V4: markers with a suffix of the checkpoint's own, bound when a parser or a text is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import unspool
from tests.conformance.replay import Outcome, calls
from tests.formats.families.cutting import TOOLS, read
from tests.laws.vocabulary import Vocabulary
from unspool import Message, ToolCall
from unspool.formats import samples, write
from unspool.parsing.binding import bound
from unspool.parsing.declaration import SUFFIX, strings

CITY = calls(("get_weather", {"city": "Paris"}))


def v3(suffix: str) -> str:
    marks = (
        "<think>Hm.</think><tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n"
        "<arg_value>Paris</arg_value>\n</tool_call>\n</tool_calls>"
    )
    return marks.replace(">", f"{suffix}>").replace(f"Hm.</think{suffix}>", f"Hm.</think{suffix}>")


@pytest.mark.parametrize("suffix", ["", ":opensource"])
def test_the_declared_suffix_and_none_are_read_without_being_told(suffix: str) -> None:
    assert read("hy_v3", v3(suffix)) == Outcome("Hm.", None, CITY)


@pytest.mark.parametrize("name", ["hy_v3", "hy_v4"])
def test_the_prompt_says_the_suffix_and_its_last_marker_counts(name: str) -> None:
    prompt = "Call tools in <tool_calls:old>. Call tools in <tool_calls:0a1b>.</tool_calls:0a1b><｜Assistant｜>"
    assert read(name, v3(":0a1b").replace("<tool_sep:0a1b>", ""), prompt=prompt) == Outcome("Hm.", None, CITY)


def test_without_prompt_or_vocabulary_v4_takes_the_checkpoint_that_was_seen() -> None:
    raw = v3(":6124c78e").replace("<tool_sep:6124c78e>", "").removeprefix("<think:6124c78e>")
    assert read("hy_v4", raw) == Outcome("Hm.", None, CITY)


class Tokens(Vocabulary):
    """A vocabulary with these special tokens."""

    def __init__(self, *special: str) -> None:
        super().__init__(dict(enumerate(special)), [token.encode() for token in special])


def test_the_vocabulary_says_the_suffix_before_the_prompt_does() -> None:
    special = ["<|bos|>", "<think:77>", "</think:77>"]
    vocabulary = Tokens(*special)
    parser = unspool.Parser(
        unspool.get_format("hy_v3"), tokenizer=vocabulary, prompt="Think in <think:88>.<｜Assistant｜>"
    )
    ids = [1, *vocabulary.spell("Hm.", [1]), 2, *vocabulary.spell("Hi.", [2])]
    message = Message.from_events(parser.feed_tokens(ids) + parser.finish())
    assert (message.reasoning, message.content) == ("Hm.", "Hi.")


def test_the_writer_writes_the_prompt_s_suffix() -> None:
    call = ToolCall("", "get_weather", '{"city": "Paris"}')
    message = Message("Hm.", None, (call,))
    assert write("hy_v3", message) == v3(":opensource")
    assert write("hy_v3", message, prompt="Think in <think:7>.<｜Assistant｜>") == v3(":7")


def test_a_bound_format_has_no_placeholder_and_binding_again_changes_nothing() -> None:
    for name in ("hy_v3", "hy_v4"):
        declared = unspool.get_format(name)
        fmt = bound(declared)
        assert any(SUFFIX in text for text in strings(declared.calls))
        assert not any(SUFFIX in text for text in strings(fmt))
        assert bound(fmt) is fmt
        assert not any(SUFFIX in text for case in samples(declared) for text in case)


def test_offered_tools_are_not_changed_by_binding() -> None:
    tools: list[Mapping[str, object]] = list(TOOLS)
    assert unspool.parse("hy_v3", v3(":opensource"), tools=tools).tool_calls[0].name == "get_weather"


def test_of_a_whole_prompt_with_unknown_turns_the_end_decides() -> None:
    prompt = "Think in <think:0a1b>, call in <tool_calls:0a1b>.\nHello!\n"
    assert read("hy_v4", "Hm.</think:0a1b>Hi.", prompt=prompt + "<think:0a1b>") == Outcome("Hm.", "Hi.")
    assert read("hy_v3", v3(":0a1b"), prompt=prompt + "<think:0a1b></think:0a1b>\n").calls == CITY


@pytest.mark.parametrize("suffix", ["", ":a"])
def test_a_suffix_that_stands_in_no_marker_is_none(suffix: str) -> None:
    fmt = replace(unspool.get_format("hermes"), suffix=suffix)
    assert unspool.parse(fmt, "Hello.", prompt="<tool_call:b>").content == "Hello."
    assert unspool.write(fmt, unspool.Message(content="Hello.")) == "Hello."
