"""Which format a checkpoint writes, from what it ships: ``response_template``, chat template, vocabulary.

Nothing here knows a family. A format fits a text that has all of its evidence; of those that fit, the most
particular one is it: whose evidence says all that another's says, and more. Formats with the same calls are told
apart by how a turn of the model is opened, by its reasoning, and by what the template leaves at the end of the
prompt. What is still a tie is an error that names the candidates: nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from unspool.formats.checkpoint import Checkpoint, read_checkpoint
from unspool.formats.evidence import evidence
from unspool.formats.registry import formats
from unspool.formats.response_fields import texts_in
from unspool.formats.template_text import TemplateText
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format

Where: TypeAlias = Literal["response_template", "chat template", "vocabulary"]

# A marker that can be a token of its own, unlike the beginning of a tag such as <function=.
_TOKEN = re.compile(r"<[^<>\s=]+>|\[[^\[\]\s]+\]")

# Letters that a regular expression escapes.
_ESCAPED = re.compile(r"\\([^\w\s])")

_CALLS_FIELD = "tool_calls"
"""The field of a message that a template reads if it writes calls, in whatever way."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A format, ``where`` it was seen, and the texts there that decided it; ``reason`` says it in a sentence.

    ``shows_calls`` is false for a template that writes no calls: then the format is right about reasoning, and its
    calls are only what other checkpoints of the family write.
    """

    format: Format
    where: Where
    evidence: tuple[str, ...]
    reason: str
    shows_calls: bool = True


class UndetectedFormatError(LookupError):
    """No registered format fits what the checkpoint ships; the text says what was looked at."""


class AmbiguousFormatError(LookupError):
    """Several formats fit equally well; the text names them, says why they fit and what to do.

    ``found`` are the texts that speak for each candidate, by name; ``shows_calls`` is as in :class:`Detection`.
    """

    def __init__(self, where: Where, found: Mapping[str, tuple[str, ...]], *, shows_calls: bool = True) -> None:
        self.where = where
        self.found = found
        self.shows_calls = shows_calls
        if len(set(found.values())) == 1:
            told = f"{', '.join(found)}, by {_list(next(iter(found.values())))}"
        else:
            told = "; ".join(f"{name}, by {_list(texts)}" for name, texts in found.items())
        hint = "Its chat template would tell more, or name" if where == "vocabulary" else "Name"
        super().__init__(f"the {where} fits several formats equally well: {told}. {hint} the format that it is.")

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of the formats that fit."""
        return tuple(self.found)


def detect(source: Any) -> Detection:
    """The format of a checkpoint, and why.

    ``source`` is a chat template's text, the path of a model's directory, of its ``tokenizer_config.json`` or
    ``chat_template.jinja`` or of a GGUF file, the content of such a configuration, or a tokenizer. Its
    ``response_template`` decides before its chat template, and that before its vocabulary. Formats that were
    registered by others count like the built-in ones.

    Raises :class:`UndetectedFormatError`, :class:`AmbiguousFormatError`, and ``CheckpointError`` (a
    ``ValueError``) for what can't be read.
    """
    checkpoint = read_checkpoint(source)
    looked: list[str] = []
    tie: AmbiguousFormatError | None = None
    for where, fits in _looks(checkpoint):
        looked.append(where)
        if tie is not None:
            fits = [fit for fit in fits if fit.format.name in tie.candidates]
        if len(fits) == 1:
            return _detection(where, fits[0])
        if fits and tie is None:
            found = {fit.format.name: fit.found for fit in fits}
            tie = AmbiguousFormatError(where, found, shows_calls=fits[0].shows_calls)
    if tie is not None:
        raise tie
    if not looked:
        raise UndetectedFormatError("there is neither a response_template, a chat template nor a vocabulary")
    raise UndetectedFormatError(
        f"no known format fits the {' or the '.join(looked)}. 'unspool formats' lists all; name one of them."
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """A format that fits: the texts that say so, and how well turns, reasoning and start agree."""

    format: Format
    found: tuple[str, ...]
    agreement: tuple[int, int, int] = (0, 0, 0)
    shows_calls: bool = True

    def beats(self, other: _Fit) -> bool:
        """Whether this one says all that the other says, and more."""
        if not _covers(self.found, other.found):
            return False
        return not _covers(other.found, self.found) or self.agreement > other.agreement


def _covers(texts: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return all(any(other in text for text in texts) for other in others)


def _looks(checkpoint: Checkpoint) -> Iterator[tuple[Where, list[_Fit]]]:
    """Each thing that there is to look at, in order, and the formats that fit it best."""
    if checkpoint.response_template is not None:
        response = checkpoint.response_template
        anchors = [response.get("start_anchor"), response.get("start_anchor_pattern")]
        yield "response_template", _fitting("\n".join(_texts(response)), list(_texts(anchors)))
    if checkpoint.template is not None:
        text = TemplateText(checkpoint.template)
        yield "chat template", _fitting(text.whole, text.prompt_ends)
    vocabulary = checkpoint.read_vocabulary()
    if vocabulary:
        yield "vocabulary", _best(_tokens(vocabulary))


def _fitting(text: str, prompt_ends: Sequence[str]) -> list[_Fit]:
    """The formats whose calls the text shows; if there are none, those whose reasoning and turns it shows."""
    known = [(fmt, here) for fmt in _detectable() for here in _as_here(fmt, text=text)]
    shown = [(fmt, here, texts) for fmt, here in known if (texts := evidence(here))]
    calls = _CALLS_FIELD in text or any(_has(text, texts) for *_, texts in shown)
    if not calls:
        shown = [
            (fmt, here, (here.reasoning[0].open, here.reasoning[0].close))
            for fmt, here in known
            if here.reasoning and _turns(here, text)
        ]
    return _best(
        _Fit(fmt, texts, (_turns(here, text), _reasoning(here, text), _start(here, prompt_ends)), calls)
        for fmt, here, texts in shown
        if _has(text, texts)
    )


def _detectable() -> list[Format]:
    return [fmt for fmt in formats() if not fmt.by_name_only]


def _as_here(fmt: Format, *, text: str = "", vocabulary: Iterable[str] = ()) -> tuple[Format, ...]:
    """The format with its markers as they may be here: without a suffix, and with the one that is seen."""
    if fmt.suffix is None:
        return (fmt,)
    return bound(replace(fmt, suffix="")), bound(fmt, vocabulary=vocabulary, prompt=text)


def _has(text: str, texts: tuple[str, ...]) -> bool:
    return all(each in text for each in texts)


def _tokens(vocabulary: frozenset[str]) -> Iterator[_Fit]:
    """The formats all of whose markers that can be tokens are tokens."""
    for fmt in _detectable():
        for here in _as_here(fmt, vocabulary=vocabulary):
            texts = tuple(text for text in evidence(here) if _TOKEN.fullmatch(text))
            if texts and vocabulary.issuperset(texts):
                yield _Fit(fmt, texts)


def _best(fits: Iterable[_Fit]) -> list[_Fit]:
    each = list(fits)
    return [fit for fit in each if not any(other.beats(fit) for other in each)]


def _turns(fmt: Format, text: str) -> int:
    """1: the text opens a turn as the format does, as a whole; 0: it may still do so in pieces."""
    return int(any(turn.strip() in text for turn in fmt.turns))


def _reasoning(fmt: Format, text: str) -> int:
    """2: the text has the format's reasoning; 1: the format has none; 0: the text lacks it."""
    if not fmt.reasoning:
        return 1
    return 2 if any(block.open.strip() in text for block in fmt.reasoning) else 0


def _start(fmt: Format, prompt_ends: Sequence[str]) -> int:
    """2: a prompt can end as the format starts; 1: the format starts with nothing of its own; 0: none does."""
    start = fmt.start.strip()
    if not start:
        return 1
    return 2 if any(end.rstrip().endswith(start) for end in prompt_ends) else 0


def _detection(where: Where, fit: _Fit) -> Detection:
    fmt = fit.format
    reason = f"the {where} has {_list(fit.found)}" + ("" if fit.shows_calls else " and no calls")
    if fit.agreement[-1] == 2:
        reason += f", and its prompt can end with {_quoted(fmt.start)}"
    return Detection(fmt, where, fit.found, reason, fit.shows_calls)


def _texts(value: object) -> Iterator[str]:
    """The texts of a response template; of a pattern the letters it spells."""
    return (_ESCAPED.sub(r"\1", text).replace(r"\n", "\n") for text in texts_in(value))


def _list(texts: Sequence[str]) -> str:
    *before, last = map(_quoted, texts)
    return f"{', '.join(before)} and {last}" if before else last


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
