"""Plays recorded generations: for demos, for tests, and for showing a bug without the model that wrote it.

A recording is what one model wrote, as text or token by token, with whatever its reader has to know (format,
end of the prompt, how it finished). The engine plays recordings at a chosen pace and in chosen pieces; it
samples nothing, so everything in ``Sampling`` is ignored and nothing can be constrained: a recording plays to its
end as it is. Which recording answers is decided per request (:meth:`ReplayEngine.pick`): the one that is named,
else the one whose ``match`` stands in the prompt, else the next in turn.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from unspool.engines.base import Chunk, EngineError, EngineFinish, ModelInfo, Sampling

if TYPE_CHECKING:
    from unspool.constrained import Constraint

Piece: TypeAlias = tuple[str, tuple[int, ...]]
"""Some text and its token ids (none when the text was not cut at tokens)."""

CONTEXT_LENGTH = 131_072
"""Nothing here has a context; clients want a number."""

_CHARS_PER_TOKEN = 4
_DEFAULT_CHARS = 4


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded generation.

    ``token_ids`` and ``pieces`` (the bytes of each token) go together and concatenate to ``raw_output``;
    ``special`` are the texts of those ids that are special tokens. ``prompt_tail`` is the end of the prompt
    that was answered. ``tools`` are the tools that were offered. ``stop_sequence`` is the stop string that ended
    it. ``match`` is a text: requests whose prompt contains it get this recording. ``fail_after`` makes the engine
    fail after so many chunks.
    """

    id: str
    raw_output: str
    model: str | None = None
    format: str | None = None
    prompt_tail: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    token_ids: tuple[int, ...] = ()
    pieces: tuple[bytes, ...] = ()
    special: Mapping[int, str] = field(default_factory=dict)
    finish_reason: EngineFinish = "stop"
    stop_sequence: str | None = None
    match: str | None = None
    fail_after: int | None = None


@dataclass(frozen=True, slots=True)
class Chunking:
    """How to cut: ``whole``, ``token``, ``chars`` (``size`` characters) or ``random`` (1 to ``size``)."""

    kind: Literal["whole", "token", "chars", "random"]
    size: int = 0
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Chunking:
        """Reads ``whole``, ``token``, ``chars:N`` or ``random:SEED:MAX``; raises :class:`EngineError`."""
        kind, *numbers = text.split(":")
        try:
            match kind, [int(number) for number in numbers]:
                case "whole" | "token", []:
                    return cls("whole" if kind == "whole" else "token")
                case "chars", [size] if size > 0:
                    return cls("chars", size)
                case "random", [seed, size] if size > 0:
                    return cls("random", size, seed)
        except ValueError:
            pass
        raise EngineError(
            f"Chunking {text!r} is not known; use 'whole', 'token', 'chars:N' or 'random:SEED:MAX' "
            "(N and MAX at least 1)."
        )


class RecordedTokenizer:
    """The part of a tokenizer that one recording shows: the bytes of its own tokens."""

    def __init__(self, recording: Recording) -> None:
        self.special = recording.special
        self._pieces = dict(zip(recording.token_ids, recording.pieces, strict=True))

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token."""
        return self._pieces[token_id]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of some tokens; a cut character becomes U+FFFD."""
        return b"".join(self._pieces[token] for token in token_ids).decode("utf-8", "replace")


class Take:
    """One recording as an engine of its own."""

    constrains = False

    def __init__(self, recording: Recording, info: ModelInfo, chunking: Chunking | None, delay: float) -> None:
        self.recording = recording
        self.tokenizer = RecordedTokenizer(recording) if recording.token_ids else None
        self.model = info
        self._chunking = chunking or Chunking("token" if recording.token_ids else "chars", _DEFAULT_CHARS)
        self._delay = delay

    @cached_property
    def _chunks(self) -> tuple[Chunk, ...]:
        """All that is the same for every request."""
        return tuple(Chunk(*piece) for piece in _cut(self.recording, self._chunking)) or (Chunk(""),)

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Plays the recording; ``sampling`` and ``constraint`` are ignored."""
        recording = self.recording
        prompt_tokens = _estimate(prompt)
        last = len(self._chunks) - 1
        for i, chunk in enumerate(self._chunks):
            # A pause even without a delay: others get their turn, and a closed stream is noticed.
            await asyncio.sleep(self._delay)
            if recording.fail_after is not None and i >= recording.fail_after:
                raise EngineError(f"The recording {recording.id!r} fails here, as it was told to.")
            if i < last:
                # The first says how long the prompt is, as engines do.
                yield chunk if i else replace(chunk, prompt_tokens=prompt_tokens)
        yield replace(
            chunk,
            finish_reason=recording.finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(recording.token_ids) or _estimate(recording.raw_output),
            stop_sequence=recording.stop_sequence,
        )


class ReplayEngine:
    """Recordings behind the engine contract; each request is answered by one of them."""

    constrains = False

    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        chunking: str | None = None,
        delay: float = 0.0,
        chat_template: str | None = None,
        model_id: str = "replay",
    ) -> None:
        """``delay`` is in seconds per chunk. Without ``chunking``, recordings with tokens are played token by
        token and others four characters at a time. Raises :class:`EngineError` if that can't be done.
        """
        if not recordings:
            raise EngineError("There is nothing to replay: the recordings are empty.")
        how = Chunking.parse(chunking) if chunking else None
        self._takes: dict[str, Take] = {}
        self._by_model: dict[str, list[Take]] = {}
        self._turns: dict[str | None, Iterator[int]] = {}
        self.tokenizer = None
        self.model = ModelInfo(model_id, int(time.time()), CONTEXT_LENGTH, chat_template=chat_template)
        for recording in recordings:
            if recording.id in self._takes:
                raise EngineError(f"Two recordings have the id {recording.id!r}; ids must differ.")
            if how and how.kind == "token" and not recording.token_ids:
                raise EngineError(
                    f"The recording {recording.id!r} has no `token_pieces`, so it can't be played by "
                    "'token'; use 'chars:N' or 'random:SEED:MAX'."
                )
            take = self._takes[recording.id] = Take(recording, self._info(recording), how, delay)
            if recording.model:
                self._by_model.setdefault(recording.model, []).append(take)

    def _info(self, recording: Recording) -> ModelInfo:
        details = {} if recording.prompt_tail is None else {"prompt_tail": recording.prompt_tail}
        return ModelInfo(
            recording.id, self.model.created, CONTEXT_LENGTH, format=recording.format, details=details
        )

    @property
    def names(self) -> list[str]:
        """What a request may ask for besides the engine's own model: models and recordings."""
        return [*self._by_model, *self._takes]

    def pick(self, prompt: str, name: str | None = None) -> Take:
        """The recording that answers.

        ``name`` is a recording's id, a recorded model's name, or anything else for "any". Among several, the
        longest ``match`` found in ``prompt`` decides, then turns are taken. A recording with a ``match`` that
        is not in the prompt answers only when there is no other.
        """
        if name in self._takes:
            return self._takes[name]
        takes = self._by_model.get(name or "") or list(self._takes.values())
        found = [take for take in takes if take.recording.match and take.recording.match in prompt]
        if found:
            return max(found, key=lambda take: len(take.recording.match or ""))
        takes = [take for take in takes if take.recording.match is None] or takes
        turn = next(self._turns.setdefault(name if name in self._by_model else None, count()))
        return takes[turn % len(takes)]

    def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Plays the recording that is picked for this prompt; ``sampling`` and ``constraint`` are ignored."""
        return self.pick(prompt if isinstance(prompt, str) else "").stream(prompt, sampling)

    async def count_tokens(self, prompt: str) -> int:
        """An estimate: nothing here has a vocabulary."""
        return _estimate(prompt)

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""


def load_recordings(path: Path) -> list[Recording]:
    """Reads a ``.jsonl`` file (one recording per line) or any other file as the raw text of one recording.

    Raises :class:`EngineError` naming the file, the line (or byte) and what is wrong there.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EngineError(f"The recordings {path} can't be read: {error.strerror}.") from None
    if not data:
        raise EngineError(f"The recordings {path} are empty.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise EngineError(f"The recordings {path} can't be read: byte {error.start} is not UTF-8 text.") from None
    if path.suffix != ".jsonl":
        return [Recording(path.stem, text)]
    recordings = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            recordings.append(read_recording(json.loads(line), f"recording-{number}"))
        except ValueError as error:
            raise EngineError(f"{path}, line {number}: {error}") from None
    return recordings


def read_recording(record: object, default_id: str = "recording") -> Recording:
    """A recording from its JSON object; raises :class:`ValueError` saying what is wrong.

    Fields: ``raw_output``, and optionally ``id``, ``model``, ``format``, ``prompt_tail``, ``tools``,
    ``finish_reason``, ``stop_sequence``, ``match``, ``fail_after``, and for playing by tokens ``token_pieces``
    (the bytes of each token, spelled as latin-1) with ``token_ids`` and ``special`` (the special ones among the
    ids; without ``token_ids``: their positions in ``token_pieces``; or an object from ids to texts, which can
    name special tokens that this output lacks).
    """
    if not isinstance(record, dict):
        raise ValueError("a recording must be a JSON object")
    _check(record)
    pieces, token_ids, special = _tokens(record)
    spelled = b"".join(pieces).decode("utf-8", "replace") if pieces else None
    raw_output = record.get("raw_output", spelled)
    if raw_output is None:
        raise ValueError("`raw_output` is missing")
    if spelled not in (None, raw_output):
        raise ValueError("`token_pieces` do not add up to `raw_output`")
    return Recording(
        id=record.get("id") or default_id,
        raw_output=raw_output,
        model=record.get("model"),
        format=record.get("format"),
        prompt_tail=record.get("prompt_tail"),
        tools=tuple(record.get("tools") or ()),
        token_ids=token_ids,
        pieces=pieces,
        special=special,
        finish_reason=record.get("finish_reason") or "stop",
        stop_sequence=record.get("stop_sequence"),
        match=record.get("match"),
        fail_after=record.get("fail_after"),
    )


_KINDS: dict[str, type] = {
    "id": str,
    "raw_output": str,
    "model": str,
    "format": str,
    "prompt_tail": str,
    "finish_reason": str,
    "stop_sequence": str,
    "match": str,
    "tools": list,
    "token_pieces": list,
    "token_ids": list,
    "fail_after": int,
}
_SPOKEN: dict[type, str] = {str: "string", list: "list", int: "whole number"}


def _check(record: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        value = record.get(name)
        if value is not None and not isinstance(value, kind):
            raise ValueError(f"`{name}` must be a {_SPOKEN[kind]}; it is {value!r:.60}")
    reason = record.get("finish_reason")
    if reason is not None and reason not in get_args(EngineFinish):
        raise ValueError(f"`finish_reason` must be one of {', '.join(get_args(EngineFinish))}; it is {reason!r}")


def _tokens(record: Mapping[str, Any]) -> tuple[tuple[bytes, ...], tuple[int, ...], dict[int, str]]:
    spelled = record.get("token_pieces") or []
    try:
        pieces = tuple(piece.encode("latin-1") for piece in spelled)
    except (AttributeError, UnicodeEncodeError):
        raise ValueError("`token_pieces` must be strings of bytes spelled as latin-1") from None
    special = record.get("special") or []
    if not isinstance(special, list | dict):
        raise ValueError(f"`special` must be a list or an object; it is {special!r:.60}")
    marked = set(special) if isinstance(special, list) else set()
    ids = record.get("token_ids")
    if ids is None:
        # Numbers of our own: the same bytes get the same id, unless one of them is the special token.
        numbers: dict[tuple[bytes, bool], int] = {}
        ids = [numbers.setdefault((piece, i in marked), len(numbers)) for i, piece in enumerate(pieces)]
        marked = {token for i, token in enumerate(ids) if i in marked}
    if len(ids) != len(pieces):
        raise ValueError(f"there are {len(pieces)} `token_pieces` but {len(ids)} `token_ids`")
    if isinstance(special, dict):
        return pieces, tuple(ids), {int(token): str(text) for token, text in special.items()}
    texts = dict(zip(ids, pieces, strict=True))
    return pieces, tuple(ids), {token: texts[token].decode() for token in marked if token in texts}


def _cut(recording: Recording, chunking: Chunking) -> Iterator[Piece]:
    text = recording.raw_output
    if chunking.kind == "whole":
        yield text, recording.token_ids
    elif chunking.kind == "token":
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        last = len(recording.pieces) - 1
        for i, (token, piece) in enumerate(zip(recording.token_ids, recording.pieces, strict=True)):
            yield decoder.decode(piece, final=i == last), (token,)
    else:
        dice = random.Random(chunking.seed)
        start = 0
        while start < len(text):
            size = chunking.size if chunking.kind == "chars" else dice.randint(1, chunking.size)
            yield text[start : start + size], ()
            start += size


def _estimate(text: str | Sequence[int]) -> int:
    """Tokens of a text that nobody tokenised: four characters each."""
    return -(-len(text) // _CHARS_PER_TOKEN) if isinstance(text, str) else len(text)
