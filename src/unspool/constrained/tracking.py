"""The boundary tracker of a format: its declared markers as token ids, its start as the parser reads the prompt.

The tracker and the parser must not differ about where reasoning is, so the parser itself is asked what the prompt
leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from unspool.constrained.boundary import BoundaryTracker, Marker
from unspool.constrained.thinking import Covers
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of
from unspool.events import ReasoningDelta
from unspool.parsing.binding import bound
from unspool.parsing.declaration import ChannelCalls, Format, RegionCalls
from unspool.parsing.expressions import Expression, Text
from unspool.parsing.parser import Parser, turn_tail

_BYTES = 256  # units from here on are special tokens


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """What opens and closes reasoning in a format, as texts.

    ``others`` close it as well. ``shared``: content has such markers too, so they can't be kept out of it.
    ``recurs``: reasoning may come again after content.
    """

    open: str
    close: str
    others: tuple[str, ...] = ()
    shared: bool = False
    recurs: bool = False


def markers_of(form: Format) -> list[ReasoningMarkers]:
    """Every kind of reasoning that a format has; empty if it has none, or none between plain texts."""
    found = [
        ReasoningMarkers(
            block.open,
            block.close,
            (*block.closes_too, *block.ends_at),
            shared=bool(block.ends_at),
            recurs=block.recurs,
        )
        for block in form.reasoning
    ]
    calls = form.calls
    if isinstance(calls, ChannelCalls) and calls.written.reasoning:
        others = tuple(end for end in calls.ends if end != calls.written.end)
        found.append(ReasoningMarkers(calls.written.reasoning, calls.written.end, others, shared=True))
    if isinstance(calls, RegionCalls):
        for region in calls.regions:
            texts = [_literal(region.open), _literal(region.close)]
            if region.kind == "reasoning" and all(texts):
                found.append(ReasoningMarkers(texts[0], texts[1]))
    return found


class SpelledTracker(BoundaryTracker):
    """A tracker whose markers are spelled with letters, which tokens share with the text around them.

    Markers are matched by *units*: the bytes of an ordinary token, or a special token as one. What is forced is
    the rest of a marker as the tokenizer spells it.
    """

    def __init__(self, vocabulary: Vocabulary, start: str, ends: Sequence[str], **options: Any) -> None:
        """``start`` and ``ends`` are texts; ``options`` are those of :class:`BoundaryTracker`."""
        self._vocabulary = vocabulary
        first, *more = [self._units_of(vocabulary.marker(text)) for text in ends]
        super().__init__(self._units_of(vocabulary.marker(start)), first, more_ends=more, **options)

    @property
    def markers(self) -> tuple[Marker, ...]:
        """None: no id can be kept out of content for what it spells together with others."""
        return ()

    @property
    def opener(self) -> int | None:
        """None: several ids go on with the start marker."""
        return None

    def _units_of(self, tokens: Sequence[int]) -> list[int]:
        return [unit for token in tokens for unit in self._units(token)]

    def _units(self, token: int) -> Sequence[int]:
        vocabulary = self._vocabulary
        if token in vocabulary.special:
            return (_BYTES + token,)
        return vocabulary.tokens[token] if 0 <= token < vocabulary.spare else ()

    def _advance(self, markers: Sequence[Marker], matched: Sequence[int], token: int) -> tuple[int, ...]:
        return tuple(self._spell(marker, count, token) for marker, count in zip(markers, matched, strict=True))

    def _spell(self, marker: Marker, matched: int, token: int) -> int:
        for unit in self._units(token):
            matched = marker.advance(matched, unit)
            if matched == len(marker):
                break
        return matched

    def _rest(self, matched: tuple[int, ...]) -> tuple[int, ...]:
        ids: list[int] = []
        for special, group in groupby(super()._rest(matched), lambda unit: unit >= _BYTES):
            units = list(group)
            ids += [unit - _BYTES for unit in units] if special else self._vocabulary.encode(bytes(units))
        return tuple(ids)


def reasoning_tracker(
    form: Format, tokenizer: Any, *, budget: int | None = None, prompt: str | None = None
) -> tuple[BoundaryTracker, Covers] | None:
    """A tracker of one generation's reasoning, ``None`` if the format has none that can be followed.

    With it comes what a :class:`~unspool.constrained.thinking.ThinkingConstraint` may cover without a grammar:
    the ``"turn"`` where nothing can be kept out of content, because its text shares tokens with the markers or it
    has them, too. ``prompt`` is the rendered prompt; without it the format's default start applies. ``budget`` is
    in tokens.
    """
    vocabulary = vocabulary_of(tokenizer)
    form = bound(form, vocabulary=vocabulary.flagged, prompt=prompt)
    kinds = markers_of(form)
    if not kinds:
        return None
    opened = _reasons(form, prompt)
    kind = _of_this_turn(kinds, vocabulary, turn_tail(form, prompt) if opened else None)
    start, *ends = [vocabulary.marker(text) for text in (kind.open, kind.close, *kind.others)]
    # Whether reasoning may still come is told by what the parser makes of it.
    closed = not opened and not _reasons(form, prompt, kind.open)
    options: dict[str, Any] = {
        "budget": budget,
        "prompt": (*start, *ends[0]) if closed else start if opened else (),
        "layout": vocabulary.layout,
        "piece": vocabulary.tokens.__getitem__,
    }
    if any(len(ids) > 1 for ids in (start, *ends)):
        return SpelledTracker(vocabulary, kind.open, (kind.close, *kind.others), **options), "turn"
    tracker = BoundaryTracker(start, ends[0], more_ends=ends[1:], reopens=kind.recurs, **options)
    return tracker, "turn" if kind.shared else "content"


def _of_this_turn(kinds: list[ReasoningMarkers], vocabulary: Vocabulary, opened: str | None) -> ReasoningMarkers:
    """The kind that a prompt leaves open, or the first whose markers the vocabulary has, or the first."""
    if opened is not None:
        return max(kinds, key=lambda kind: (opened.rfind(kind.open), len(kind.open)))
    return min(kinds, key=lambda kind: len(vocabulary.marker(kind.open)) > 1)


def _reasons(form: Format, prompt: str | None, text: str = "") -> bool:
    """Whether a letter behind the prompt and some text is reasoning."""
    parser = Parser(form, prompt=prompt)
    events = [*parser.feed(text + "x"), *parser.finish()]
    return any(isinstance(event, ReasoningDelta) and event.text.endswith("x") for event in events)


def _literal(expression: Expression) -> str:
    """The text that an expression stands for, ``""`` if it is not just one."""
    match expression:
        case (Text(text),):
            return text
    return ""
