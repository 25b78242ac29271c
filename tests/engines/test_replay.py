from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from unspool.engines.base import Chunk, Engine, EngineError, Sampling
from unspool.engines.replay import Chunking, Recording, ReplayEngine, load_recordings, read_recording

TOKENS = {"token_pieces": ["<think>", "Caf", "\xc3", "\xa9", "</think>", "</think>"], "special": [0, 5]}


def chunks(stream: AsyncIterator[Chunk]) -> list[Chunk]:
    async def collect() -> list[Chunk]:
        return [chunk async for chunk in stream]

    return asyncio.run(collect())


def played(recording: Recording, chunking: str | None = None) -> list[Chunk]:
    return chunks(ReplayEngine([recording], chunking=chunking).stream("prompt", Sampling()))


def test_it_is_an_engine() -> None:
    engine = ReplayEngine([Recording("a", "text")])
    assert isinstance(engine, Engine)
    assert isinstance(engine.pick("prompt"), Engine)


@pytest.mark.parametrize(
    ("chunking", "texts"),
    [
        ("whole", ["Hello, world"]),
        ("chars:5", ["Hello", ", wor", "ld"]),
        (None, ["Hell", "o, w", "orld"]),
    ],
)
def test_text_is_cut_as_asked(chunking: str | None, texts: list[str]) -> None:
    assert [chunk.text for chunk in played(Recording("a", "Hello, world"), chunking)] == texts


def test_random_cuts_are_repeatable_and_lose_nothing() -> None:
    recording = Recording("a", "The quick brown fox jumps over the lazy dog")
    texts = [chunk.text for chunk in played(recording, "random:7:5")]
    assert "".join(texts) == recording.raw_output
    assert max(map(len, texts)) <= 5
    assert texts == [chunk.text for chunk in played(recording, "random:7:5")]
    assert texts != [chunk.text for chunk in played(recording, "random:8:5")]


def test_tokens_are_played_one_by_one_with_whole_characters() -> None:
    recording = read_recording(TOKENS)
    played_chunks = played(recording)
    assert [chunk.text for chunk in played_chunks] == ["<think>", "Caf", "", "é", "</think>", "</think>"]
    assert all(len(chunk.token_ids) == 1 for chunk in played_chunks)
    assert played(recording, "whole")[0].token_ids == recording.token_ids


def test_a_special_token_differs_from_the_same_letters() -> None:
    recording = read_recording(TOKENS)
    tokenizer = ReplayEngine([recording]).pick("").tokenizer
    assert tokenizer is not None
    letters, special = recording.token_ids[4:]
    assert letters != special
    assert tokenizer.special == {recording.token_ids[0]: "<think>", special: "</think>"}
    assert tokenizer.piece(letters) == tokenizer.piece(special) == b"</think>"
    assert tokenizer.decode(recording.token_ids) == recording.raw_output == "<think>Café</think></think>"


def test_recorded_ids_and_a_vocabularys_special_tokens_are_kept() -> None:
    record = {"token_pieces": ["a", "b"], "token_ids": [7, 9]}
    assert read_recording({**record, "special": [9]}).special == {9: "b"}
    assert read_recording({**record, "special": {"5": "<eos>"}}).special == {5: "<eos>"}
    assert read_recording({**record, "special": [9]}).token_ids == (7, 9)


def test_the_last_chunk_says_how_it_ended_and_counts() -> None:
    first, *_, last = played(Recording("a", "12345678", finish_reason="length"))
    assert first.finish_reason is None
    assert (last.finish_reason, last.prompt_tokens, last.completion_tokens) == ("length", 2, 2)
    assert played(read_recording(TOKENS))[-1].completion_tokens == 6


def test_every_chunk_counts_the_prompt_and_the_last_names_the_stop_string() -> None:
    chunks = played(Recording("a", "12345678", stop_sequence="END"))
    assert [chunk.prompt_tokens for chunk in chunks] == [2, 2]
    assert [chunk.stop_sequence for chunk in chunks] == [None, "END"]
    assert read_recording({"raw_output": "", "stop_sequence": "END"}).stop_sequence == "END"
    assert asyncio.run(ReplayEngine([Recording("a", "")]).count_tokens("prompt")) == 2


def test_an_empty_recording_still_ends() -> None:
    assert played(Recording("a", "")) == [Chunk("", finish_reason="stop", prompt_tokens=2)]


def test_a_recording_can_fail_on_purpose() -> None:
    texts: list[str] = []

    async def play() -> None:
        async for chunk in ReplayEngine([Recording("a", "12345678", fail_after=1)]).stream("", Sampling()):
            texts.append(chunk.text)

    with pytest.raises(EngineError, match="'a' fails here"):
        asyncio.run(play())
    assert texts == ["1234"]


def test_requests_take_turns() -> None:
    engine = ReplayEngine([Recording("a", ""), Recording("b", ""), Recording("c", "", match="never said")])
    assert [engine.pick("prompt").model.id for _ in range(4)] == ["a", "b", "a", "b"]


def test_a_named_recording_or_model_answers() -> None:
    recordings = [Recording("a", "", model="m"), Recording("b", "", model="n"), Recording("c", "", model="n")]
    engine = ReplayEngine(recordings)
    assert engine.names == ["m", "n", "a", "b", "c"]
    assert engine.pick("", "b").model.id == "b"
    assert [engine.pick("", "n").model.id for _ in range(3)] == ["b", "c", "b"]
    assert engine.pick("", "replay").model.id == "a"


def test_the_longest_match_in_the_prompt_answers() -> None:
    engine = ReplayEngine(
        [
            Recording("any", ""),
            Recording("w", "", match="weather"),
            Recording("p", "", match="weather in Paris"),
        ]
    )
    assert engine.pick("the weather in Paris?").model.id == "p"
    assert engine.pick("the weather in Rome?").model.id == "w"
    assert engine.pick("hello").model.id == "any"
    assert ReplayEngine([Recording("w", "", match="weather")]).pick("hello").model.id == "w"


def test_a_recordings_reader_is_told_what_it_needs() -> None:
    info = ReplayEngine([Recording("a", "", format="qwen3", prompt_tail="<think>\n")]).pick("").model
    assert (info.format, info.details) == ("qwen3", {"prompt_tail": "<think>\n"})


@pytest.mark.parametrize(
    "text", ["", "tokens", "chars", "chars:0", "chars:x", "random:1", "random:1:0", "whole:1"]
)
def test_an_unknown_chunking_is_refused(text: str) -> None:
    with pytest.raises(EngineError, match="'chars:N'"):
        Chunking.parse(text)


def test_recordings_that_cannot_be_played_are_refused() -> None:
    with pytest.raises(EngineError, match="nothing to replay"):
        ReplayEngine([])
    with pytest.raises(EngineError, match="Two recordings have the id 'a'"):
        ReplayEngine([Recording("a", ""), Recording("a", "")])
    with pytest.raises(EngineError, match="no `token_pieces`"):
        ReplayEngine([Recording("a", "text")], chunking="token")


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ([], "must be a JSON object"),
        ({}, "`raw_output` is missing"),
        ({"raw_output": 5}, "`raw_output` must be a string"),
        ({"raw_output": "a", "finish_reason": "bored"}, "`finish_reason` must be one of"),
        ({"raw_output": "a", "fail_after": "now"}, "`fail_after` must be a whole number"),
        ({"raw_output": "a", "special": 5}, "`special` must be a list"),
        ({"token_pieces": ["\u20ac"]}, "latin-1"),
        ({"token_pieces": [5]}, "latin-1"),
        ({"token_pieces": ["a"], "token_ids": [1, 2]}, "1 `token_pieces` but 2 `token_ids`"),
        ({"token_pieces": ["a"], "raw_output": "b"}, "do not add up"),
    ],
)
def test_a_wrong_recording_is_explained(record: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_recording(record)


def test_files_are_read_by_line_or_whole(tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text(json.dumps({"raw_output": "one"}) + "\n\n" + json.dumps({"id": "x", "raw_output": "two"}))
    assert [(r.id, r.raw_output) for r in load_recordings(lines)] == [("recording-1", "one"), ("x", "two")]
    text = tmp_path / "output.txt"
    text.write_text("raw\n")
    assert load_recordings(text) == [Recording("output", "raw\n")]


def test_a_bad_file_is_named_with_its_line(tmp_path: Path) -> None:
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"raw_output": "one"}\n{"raw')
    with pytest.raises(EngineError, match=r"some\.jsonl, line 2: "):
        load_recordings(lines)
    with pytest.raises(EngineError, match=r"none\.jsonl can't be read: No such file"):
        load_recordings(tmp_path / "none.jsonl")
