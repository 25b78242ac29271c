"""Token ids to text with the tokenizers people have, and markers known by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import unspool
from unspool.parsing.tokens import Detokenizer, Vocabulary

TOOL = {
    "type": "function",
    "function": {"name": "note", "parameters": {"properties": {"text": {"type": "string"}}}},
}
TEXT = "Grüße, 世界! 🌸 <tool_call> é"


def byte_level(*special: str) -> Tokenizer:
    """A byte-level tokenizer that knows single bytes and these special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    return tokenizer


def sentence_piece() -> Tokenizer:
    """A SentencePiece-like tokenizer: word pieces with a low line for the space, bytes as a fallback."""
    pieces = ["<unk>", "<s>", "</s>", "▁Hello", "▁", "w", "orld", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(
        models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], byte_fallback=True)
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    return tokenizer


class Pieces:
    """The fastest kind of tokenizer there is."""

    special: Mapping[int, str] = {0: "<|tool|>"}

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id])


class OnlyDecode:
    """A tokenizer that can do no more than decode and name its special tokens."""

    all_special_ids = (256,)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return ["<|end|>" for _ in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")


def streamed(tokenizer: Any, ids: Sequence[int]) -> Iterator[str]:
    detokenizer = Detokenizer(tokenizer)
    for token in ids:
        yield detokenizer.text(token)
    yield detokenizer.flush()


def test_a_byte_level_tokenizer_gives_whole_characters() -> None:
    tokenizer = byte_level("<|im_end|>")
    ids = tokenizer.encode(TEXT).ids
    pieces = list(streamed(tokenizer, ids))
    assert "".join(pieces) == TEXT
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(pieces) == len(ids) + 1


def test_a_transformers_tokenizer_is_read_through_its_tables() -> None:
    inner = byte_level("<|im_end|>")
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=inner)  # type: ignore[no-untyped-call]
    assert Detokenizer(tokenizer).special == {inner.token_to_id("<|im_end|>"): "<|im_end|>"}
    assert "".join(streamed(tokenizer, inner.encode(TEXT).ids)) == TEXT


def test_added_tokens_that_are_not_special_stay_text() -> None:
    tokenizer = byte_level("<|im_end|>")
    assert "<tool_call>" not in Detokenizer(tokenizer).special.values()


def test_a_sentence_piece_tokenizer_keeps_spaces_and_joins_bytes() -> None:
    tokenizer = sentence_piece()
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary[t] for t in ("▁Hello", "▁", "w", "orld", "<0xC3>", "<0xA9>", "<0xC3>")]
    assert "".join(streamed(tokenizer, ids)) == " Hello worldé\ufffd"
    assert Detokenizer(tokenizer).special == {2: "</s>"}


def test_an_added_token_is_spelled_as_it_is() -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("世", special=False)])
    assert Detokenizer(tokenizer).text(tokenizer.get_vocab()["世"]) == "世"


def test_tables_of_another_kind_are_not_guessed_at() -> None:
    tokenizer = Tokenizer(models.WordPiece(vocab={"un": 0, "##spool": 1}))
    tokenizer.decoder = decoders.WordPiece()
    assert "".join(streamed(tokenizer, [0, 1])) == "unspool"


def test_a_marker_by_id_where_it_is_none_is_spelled_out() -> None:
    class Hermes:
        special: Mapping[int, str] = {0: "<tool_call>", 1: "</tool_call>"}

        def piece(self, token_id: int) -> bytes:
            return bytes([token_id])

    parser = unspool.Parser(unspool.get_format("hermes"), tools=[TOOL], tokenizer=Hermes())
    events = parser.feed_tokens([*b"Close ", 1, *b" it."]) + parser.finish("stop")
    assert unspool.Message.from_events(events).content == "Close </tool_call> it."


def test_an_id_that_no_token_has_is_no_text() -> None:
    assert Detokenizer(byte_level()).text(10**6) == ""


def test_mistral_common_control_tokens_are_known_by_id() -> None:
    tokenizer = MistralTokenizer.v3(is_tekken=True)
    inner = tokenizer.instruct_tokenizer.tokenizer
    detokenizer = Detokenizer(tokenizer)
    assert "[TOOL_CALLS]" in detokenizer.special.values()
    ids = inner.encode(TEXT, bos=False, eos=False)
    assert "".join(streamed(tokenizer, ids)) == TEXT


def test_mistral_call_by_ids() -> None:
    tokenizer = MistralTokenizer.v3(is_tekken=True)
    inner = tokenizer.instruct_tokenizer.tokenizer
    raw = '[{"name": "note", "arguments": {"text": "[TOOL_CALLS] is only text here"}}]'
    ids = [inner.get_special_token("[TOOL_CALLS]"), *inner.encode(raw, bos=False, eos=False), inner.eos_id]
    parser = unspool.Parser(unspool.get_format("mistral"), tools=[TOOL], tokenizer=tokenizer, prompt="[/INST]")
    events = [event for token in ids for event in parser.feed_tokens([token])] + parser.finish("stop")
    message = unspool.Message.from_events(events)
    assert message.content is None
    assert message.tool_calls[0].arguments == '{"text": "[TOOL_CALLS] is only text here"}'


def test_a_tokenizer_that_can_only_decode_is_read_through_a_window() -> None:
    text = "é" * 30 + "plain" + "🌸" * 5
    assert "".join(streamed(OnlyDecode(), text.encode())) == text
    assert "".join(streamed(OnlyDecode(), "é".encode()[:1])) == "\ufffd"
    broken = bytes([0xE4] * 9)
    assert "".join(streamed(OnlyDecode(), broken)).strip("\ufffd") == ""


def test_other_ways_to_name_special_tokens() -> None:
    class Added:
        added_tokens_decoder: Mapping[int, AddedToken] = {
            1: AddedToken("<s>", special=True),
            2: AddedToken("<t>", special=False),
        }

        def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
            return "" if skip_special_tokens else "x" * len(ids)

    class Pieced:
        n_words = 3

        def is_special(self, token_id: int) -> bool:
            return token_id == 0

        def id_to_piece(self, token_id: int) -> str:
            return ["<s>", "▁a", "<0xZZ>"][token_id]

        def decode(self, ids: Sequence[int]) -> str:
            raise AssertionError("the pieces are enough")

    assert Detokenizer(Added()).special == {1: "<s>"}
    assert list(streamed(Added(), [5])) == ["x", ""]
    assert Detokenizer(Pieced()).special == {0: "<s>"}
    assert "".join(streamed(Pieced(), [1, 2])) == " a<0xZZ>"
    assert Detokenizer(OnlyDecode()).special == {256: "<|end|>"}
    assert isinstance(Pieces(), Vocabulary)


def test_a_tokenizer_that_does_not_say_its_special_tokens_is_refused() -> None:
    class Nothing:
        def decode(self, ids: Sequence[int]) -> str:
            return ""

    with pytest.raises(TypeError, match="cannot tell the special tokens of Nothing"):
        Detokenizer(Nothing())


def test_markers_match_by_id_only() -> None:
    class Gemma:
        special: Mapping[int, str] = {0: "<|tool_call>", 1: "<tool_call|>", 2: '<|"|>', 3: "<eos>", 4: "<unused>"}

        def piece(self, token_id: int) -> bytes:
            return {0: b"<|tool_call>", 1: b"<tool_call|>", 2: b'<|"|>'}.get(token_id) or bytes([token_id])

    def ids(*parts: int | str) -> list[int]:
        return [i for part in parts for i in ([part] if isinstance(part, int) else part.encode())]

    parser = unspool.Parser(unspool.get_format("gemma4"), tools=[TOOL], tokenizer=Gemma(), prompt="")
    written = ids("As <|tool_call>: ", 0, "call:note{text:", 2, 'a <|"|> b<tool_call|>', 2, "}", 1, 4, "!", 3)
    message = unspool.Message.from_events(parser.feed_tokens(written) + parser.finish("stop"))
    assert message.content == "As <|tool_call>: !"
    assert [call.arguments for call in message.tool_calls] == ['{"text": "a <|\\"|> b<tool_call|>"}']


def test_what_is_written_for_readers_names_no_markers() -> None:
    """A special token that only the docs mention is one that the format doesn't name: no text."""
    hermes, told = unspool.get_format("hermes"), "not <|tool|>"
    for name, fmt in {
        "summary": replace(hermes, summary=told),
        "source": replace(hermes, source=told),
        "quirks": replace(hermes, quirks=(told,)),
        "disagreements": replace(hermes, disagreements=(told,)),
    }.items():
        parser = unspool.Parser(fmt, tokenizer=Pieces())
        events = parser.feed_tokens([*b"a", 0, *b"b"]) + parser.finish()
        assert unspool.Message.from_events(events).content == "ab", name


def test_a_character_cut_by_a_marker_or_the_end_becomes_a_replacement_character() -> None:
    parser = unspool.Parser(unspool.get_format("hermes"), tokenizer=Pieces())
    events = parser.feed_tokens(list("é".encode())[:1]) + parser.feed_tokens([0]) + parser.feed_tokens([0xC3])
    message = unspool.Message.from_events(events + parser.finish("stop"))
    assert message.content == "\ufffd\ufffd"


def test_ascii_behind_a_character_that_was_cut_does_not_overtake_it() -> None:
    tokenizer = byte_level()
    by_bytes = Detokenizer(tokenizer)
    ids = {byte: tokenizer.encode(chr(byte)).ids[0] for byte in b"ab"}
    first = tokenizer.encode("é").ids[0]
    assert [by_bytes.text(token) for token in (first, ids[ord("a")], ids[ord("b")])] == ["", "\ufffda", "b"]
    assert by_bytes.text(first) == ""
    assert by_bytes.flush() == "\ufffd"
    assert by_bytes.text(ids[ord("a")]) == "a"


def test_ascii_that_is_known_does_not_overtake_a_character_that_was_cut() -> None:
    tokenizer = Pieces()
    for _ in range(2):
        parser = unspool.Parser(unspool.get_format("hermes"), tokenizer=tokenizer)
        events = [event for token in (*b"ab", 0xC3, *b"a", 0, *b"b") for event in parser.feed_tokens([token])]
        assert unspool.Message.from_events(events + parser.finish()).content == "ab\ufffdab"


def test_a_tokenizer_that_cannot_be_hashed_is_read_each_time() -> None:
    class Listed(Pieces):
        __hash__ = None  # type: ignore[assignment]

    assert Detokenizer(Listed()).special == {0: "<|tool|>"}


def test_feeding_ids_needs_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="tokenizer="):
        unspool.Parser(unspool.get_format("hermes")).feed_tokens([1])
