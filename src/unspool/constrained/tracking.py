"""The boundary tracker of a format: its declared markers as token ids, its start as the parser reads the prompt.

The tracker and the parser must not differ about where reasoning is, so the parser itself is asked what the prompt
leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unspool.constrained.boundary import BoundaryTracker
from unspool.constrained.thinking import Covers
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of
from unspool.events import ReasoningDelta
from unspool.parsing.binding import bound
from unspool.parsing.declaration import ChannelCalls, Format, RegionCalls
from unspool.parsing.expressions import Expression, Text
from unspool.parsing.parser import Parser, turn_tail


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """What opens and closes reasoning in a format, as texts.

    ``others`` close it as well. ``pads`` are what may stand before and behind a closer. ``shared``: content has
    such markers too, so they can't be kept out of it. ``recurs``: reasoning may come again after content.
    """

    open: str
    close: str
    others: tuple[str, ...] = ()
    pads: tuple[str, str] = ("", "")
    shared: bool = False
    recurs: bool = False


def markers_of(form: Format) -> list[ReasoningMarkers]:
    """Every kind of reasoning that a format has; empty if it has none, or none between plain texts."""
    found = [
        ReasoningMarkers(
            block.open,
            block.close,
            (*block.closes_too, *block.ends_at),
            (block.close_pad, block.after or block.after_accepts),
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


def reasoning_tracker(
    form: Format, tokenizer: Any, *, budget: int | None = None, prompt: str | None = None
) -> tuple[BoundaryTracker, Covers] | None:
    """A tracker of one generation's reasoning, ``None`` if the format has none that can be followed.

    With it comes what a :class:`~unspool.constrained.thinking.ThinkingConstraint` may cover without a grammar:
    the ``"turn"`` where content has markers of reasoning, too. ``prompt`` is the rendered prompt; without it the
    format's default start applies. ``budget`` is in tokens.
    """
    vocabulary = vocabulary_of(tokenizer)
    form = bound(form, vocabulary=map(vocabulary.text, vocabulary.special), prompt=prompt)
    kinds = markers_of(form)
    if not kinds:
        return None
    opened = _reasons(form, prompt)
    kind = _of_this_turn(kinds, vocabulary, turn_tail(form, prompt) if opened else None)
    start, end = vocabulary.marker(kind.open), vocabulary.marker(kind.close)
    ends = dict.fromkeys(
        spelling for text in (kind.close, *kind.others) for spelling in _spellings(vocabulary, text, kind)
    )
    # Whether reasoning may still come is told by what the parser makes of it.
    closed = not opened and not _reasons(form, prompt, kind.open)
    tracker = BoundaryTracker(
        start,
        end,
        budget=budget,
        more_ends=[ids for ids in ends if ids != tuple(end)],
        prompt=(*start, *end) if closed else start if opened else (),
        reopens=kind.recurs and len(start) == 1,
        layout=vocabulary.layout,
        piece=vocabulary.tokens.__getitem__,
    )
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


def _spellings(vocabulary: Vocabulary, text: str, kind: ReasoningMarkers) -> Iterator[tuple[int, ...]]:
    """A marker's ids alone, and with the line breaks around it where a token holds some of both."""
    plain = tuple(vocabulary.marker(text))
    yield plain
    before, after = kind.pads
    for left in dict.fromkeys(("", "\n", before)):
        for right in dict.fromkeys(("", "\n", after)):
            ids = tuple(vocabulary.marker(left + text + right))
            if not any(ids[at : at + len(plain)] == plain for at in range(len(ids))):
                yield ids


def _literal(expression: Expression) -> str:
    """The text that an expression stands for, ``""`` if it is not just one."""
    match expression:
        case (Text(text),):
            return text
    return ""
