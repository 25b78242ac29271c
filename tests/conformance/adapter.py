"""How the canitoolcall suite drives unspool.

The suite loads one class in a worker process and hands it the token ids of each recorded output, in
groups. The non-streaming parse is the streaming parse fed once: there is no second path to test. Both run
with ``arguments="atomic"``, because the suite rejects any trace of a call that was cut.

Token ids become bytes through ``canitoolcall_pieces.jsonl``. Which of them are special is a property of a
tokenizer, not of one output, so a vocabulary is the union over all fixtures of one model.
``UnspoolTextAdapter`` withholds the ids: the same outputs as an engine would deliver them that gives text
only.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from canitoolcall.adapters.base import Adapter, AdapterUnavailable, ReplayInput, Support, ToolSpec
from canitoolcall.chunking import TokensPerStep
from canitoolcall.fixtures import load_fixtures
from canitoolcall.results import ParseResult, StreamAccumulator

import unspool
from unspool import ContentDelta, Event, ReasoningDelta, ToolCallDelta, ToolCallStart

PIECES = Path(__file__).with_name("canitoolcall_pieces.jsonl")

# Per family: a part of the reference model's name and the format it writes; the first match counts.
FORMATS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "qwen3-hermes": (("", "hermes"),),
    "qwen3-xml": (("Qwen3-Coder", "qwen3_coder"), ("", "qwen3_5")),
    "gpt-oss": (("", "gpt_oss"),),
    "deepseek": (
        ("DeepSeek-V4.1", "deepseek_v41"),
        ("DeepSeek-V4", "deepseek_v4"),
        ("DeepSeek-V3.2", "deepseek_v32"),
        ("DeepSeek-V3.1", "deepseek_v31"),
        ("", "deepseek_v3"),
    ),
    "kimi": (("Kimi-K3", "kimi_k3"), ("", "kimi_k2")),
    "glm": (("GLM-4.5", "glm45"), ("", "glm47")),
    "llama": (("Llama-4", "pythonic"), ("", "llama3_json")),
    "mistral": (("Mistral-7B", "mistral_v3"), ("", "mistral")),
    "gemma4": (("", "gemma4"),),
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the parser needs of one model's tokenizer."""

    pieces: dict[int, bytes] = field(default_factory=dict)
    special: dict[int, str] = field(default_factory=dict)

    def piece(self, token_id: int) -> bytes:
        """The bytes of one token."""
        return self.pieces[token_id]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a whole sequence of tokens."""
        return b"".join(map(self.piece, token_ids)).decode("utf-8", "replace")


@cache
def vocabularies() -> Mapping[str, Vocabulary]:
    """One vocabulary per reference model, from the pieces of all its fixtures."""
    if not PIECES.is_file():
        raise AdapterUnavailable(f"the token pieces are missing: {PIECES}")
    with PIECES.open(encoding="utf-8") as lines:
        rows = {row["id"]: row for row in map(json.loads, lines)}
    found: dict[str, Vocabulary] = {}
    for fixture in load_fixtures():
        row = rows[fixture.id]
        vocabulary = found.setdefault(fixture.reference_model, Vocabulary())
        pieces = [piece.encode("latin-1") for piece in row["pieces"]]
        vocabulary.pieces.update(zip(fixture.output_token_ids or (), pieces, strict=True))
        for token_id in row["special_ids"]:
            vocabulary.special[token_id] = vocabulary.pieces[token_id].decode()
    return found


class UnspoolAdapter(Adapter):
    """Token ids in, the way an engine that gives ids would feed the parser."""

    name: ClassVar[str] = "unspool"
    pinned_version: ClassVar[str] = version("unspool")
    supports_text_deltas: ClassVar[bool] = True
    tokens_per_step: ClassVar[TokensPerStep] = "many"

    def version(self) -> str:
        return self.pinned_version

    def supports(self, family: str, model: str) -> Support:
        if family not in FORMATS:
            return Support(False, f"no format is named for the family {family!r}")
        return Support(True)

    def parser_config(self, raw: ReplayInput) -> dict[str, Any]:
        return {
            "format": self._format(raw),
            "prompt": raw.generation_prompt,
            "arguments": "atomic",
            "finish_reason": _finish_reason(raw),
        }

    def units(self, raw: ReplayInput) -> list[int]:
        if raw.token_ids is None:
            raise ValueError(f"{raw.fixture_id} has no output_token_ids")
        return list(raw.token_ids)

    def special_token_ids(self, raw: ReplayInput) -> Collection[int]:
        return frozenset(vocabularies()[raw.model].special)

    def parse(self, raw: ReplayInput, tools: Sequence[ToolSpec]) -> ParseResult:
        return self.parse_stream(raw, [self.units(raw)], tools)

    def parse_stream(
        self, raw: ReplayInput, chunks: Sequence[Sequence[int]], tools: Sequence[ToolSpec]
    ) -> ParseResult:
        parser = self._parser(raw, tools, vocabularies()[raw.model])
        return _collect(raw, parser, (parser.feed_tokens(list(chunk)) for chunk in chunks))

    def parse_stream_text(self, raw: ReplayInput, deltas: Sequence[str], tools: Sequence[ToolSpec]) -> ParseResult:
        parser = self._parser(raw, tools, None)
        return _collect(raw, parser, map(parser.feed, deltas))

    def _format(self, raw: ReplayInput) -> str:
        return next(name for part, name in FORMATS[raw.family] if part in raw.model)

    def _parser(
        self, raw: ReplayInput, tools: Sequence[ToolSpec], vocabulary: Vocabulary | None
    ) -> unspool.Parser:
        return unspool.Parser(
            unspool.get_format(self._format(raw)),
            tools=list(tools),
            prompt=raw.generation_prompt,
            arguments="atomic",
            tokenizer=vocabulary,
        )


class UnspoolTextAdapter(UnspoolAdapter):
    """The same outputs as text only: what is left when an engine gives no token ids."""

    name: ClassVar[str] = "unspool-text"

    def parse_stream(
        self, raw: ReplayInput, chunks: Sequence[Sequence[int]], tools: Sequence[ToolSpec]
    ) -> ParseResult:
        return self.parse_stream_text(raw, _detokenize(vocabularies()[raw.model], chunks), tools)


def _detokenize(vocabulary: Vocabulary, chunks: Sequence[Sequence[int]]) -> list[str]:
    """The text deltas of an incremental detokenizer: an incomplete character waits for its rest."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = [decoder.decode(b"".join(map(vocabulary.piece, chunk))) for chunk in chunks]
    return [*texts, decoder.decode(b"", final=True)]


def _finish_reason(raw: ReplayInput) -> str:
    return "length" if raw.truncated else "stop"


def _collect(raw: ReplayInput, parser: unspool.Parser, steps: Iterable[list[Event]]) -> ParseResult:
    """Merges events as a streaming client would; an exception of the parser is a result, not a crash."""
    client = StreamAccumulator()
    try:
        for events in steps:
            _receive(client, events)
        _receive(client, parser.finish(_finish_reason(raw)))
    except Exception as error:
        return client.result(exception=f"{type(error).__name__}: {error}")
    return client.result()


def _receive(client: StreamAccumulator, events: Iterable[Event]) -> None:
    for event in events:
        match event:
            case ContentDelta(text):
                client.add_content(text)
            case ReasoningDelta(text):
                client.add_reasoning(text)
            case ToolCallStart(index, _, name):
                client.add_tool_call(index, name)
            case ToolCallDelta(index, arguments):
                client.add_tool_call(index, None, arguments)
            case _:
                pass
