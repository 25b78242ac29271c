"""Where reasoning ends in a stream, with the text after it untouched.

A tool parser reads the rest of the output itself, so the rest must be raw text: from the first character of
content or of a call on, everything is handed through. To know that character, the text is fed in small pieces
while the end may be near: character by character, or token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from unspool.compat.following import closed_block
from unspool.events import Event, Finish, ReasoningDelta
from unspool.parsing.declaration import ChannelCalls, Format, strings
from unspool.parsing.grammar import openers
from unspool.parsing.parser import Parser
from unspool.parsing.tokens import Detokenizer, sentinels

_TAIL = 64
"""How many characters are kept to see that a closer was read; more than any closer has."""


class Splitter:
    """Splits one output. ``ended``: the rest has begun; ``content_ids`` are its tokens among the last ones fed.

    ``parser`` must keep a trace. With ``tokenizer``, which must be the parser's, ids may be fed.
    """

    def __init__(self, fmt: Format, parser: Parser, tokenizer: Any = None) -> None:
        self._format = fmt
        self._parser = parser
        self._detokenizer = Detokenizer(tokenizer) if tokenizer is not None else None
        special = self._detokenizer.special if self._detokenizer else {}
        self._marks = sentinels(special, strings(fmt))
        self._beginnings = _beginnings(fmt)
        self._flows = False
        self._tail = ""
        # Each piece that was fed: its id, its text, and how many characters it is to the parser.
        self._units: list[tuple[int, str, int]] = []
        self.ended = False
        self.closed = False
        """Whether reasoning is over: the rest has begun, or a closer was read and nothing after it."""
        self.content_ids: list[int] = []

    def feed(self, text: str) -> tuple[str, str]:
        """Reasoning and rest in the next text."""
        if self.ended:
            return "", text
        if self._flows and self._beginnings.isdisjoint(text):
            reasoning, rest = self._step(-1, text, len(text), self._parser.feed(text))
            return reasoning, rest or ""
        reasoning = ""
        for at, char in enumerate(text):
            more, rest = self._step(-1, char, 1, self._parser.feed(char))
            reasoning += more
            if rest is not None:
                return reasoning, rest + text[at + 1 :]
        return reasoning, ""

    def feed_ids(self, ids: Sequence[int]) -> tuple[str, str]:
        """Reasoning and rest in the next tokens."""
        reasoning = rest = ""
        self.content_ids = []
        for token in ids:
            text, size = self._text(token)
            if self.ended:
                rest += text
                self.content_ids.append(token)
                continue
            more, begun = self._step(token, text, size, self._parser.feed_tokens([token]))
            reasoning += more
            rest = begun or ""
        return reasoning, rest

    def finish(self, reason: str | None = "stop") -> tuple[str, str]:
        """Reasoning and rest in what was still held."""
        if self.ended:
            return "", self._detokenizer.flush() if self._detokenizer else ""
        text = self._detokenizer.flush() if self._detokenizer else ""
        reasoning, rest = self._step(-1, text, len(text), self._parser.finish(reason))
        return reasoning, rest or ""

    def _text(self, token: int) -> tuple[str, int]:
        assert self._detokenizer is not None
        special = self._detokenizer.special.get(token)
        if special is None:
            text = self._detokenizer.text(token)
            return text, len(text)
        # Special tokens that the format does not name are no text.
        mark = special if special in self._marks else ""
        text = self._detokenizer.flush()
        return text + mark, len(text) + bool(mark)

    def _step(self, token: int, text: str, size: int, events: Sequence[Event]) -> tuple[str, str | None]:
        """Reasoning in the events, and the beginning of the rest if it begins here."""
        self._units.append((token, text, size))
        reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
        # While the last character begins nothing and was let go, nothing can be held.
        self._flows = bool(reasoning) and reasoning.endswith(text) and text[-1:] not in self._beginnings
        seen = self._tail + text
        closers = [block.close for block in self._format.reasoning]
        new = any(seen.find(closer, max(0, len(self._tail) - len(closer) + 1)) >= 0 for closer in closers)
        self.closed = new or (self.closed and not reasoning)
        self._tail = seen[-_TAIL:]
        if all(isinstance(event, ReasoningDelta | Finish) for event in events):
            return reasoning, None
        inside = not self.closed
        self.ended = self.closed = True
        return reasoning, self._rest(inside=inside)

    def _rest(self, *, inside: bool) -> str:
        """What was read from the first content or call on; a call ``inside`` reasoning keeps its block."""
        over = 0
        for span in self._parser.spans:
            if span.kind == "reasoning":
                over = span.end
            elif span.kind == "content":
                rest = self._from(span.start)
                # What the tool parser takes for the layout of the turn's start must not be content.
                lead = self._format.lead
                return lead + rest if lead and rest[:1] in tuple(lead) else rest
            elif span.kind in ("name", "arguments"):
                break
        block = next((block for block in self._format.reasoning if block.holds_calls), None)
        if over and inside and block is not None:
            rest = self._from(over)
            special = self._detokenizer.special if self._detokenizer else {}
            opener = [token for token, text in special.items() if text == block.open]
            # Without an id for the opener, only the text says it.
            self.content_ids = opener + self.content_ids if opener else []
            return block.open + rest
        return self._without_closer(self._from(over))

    def _from(self, offset: int) -> str:
        """The text from an offset of the parser's on, and its tokens if none is cut."""
        size = 0
        for at, (_, _, length) in enumerate(self._units):
            if size >= offset and length:
                self.content_ids = [token for token, _, _ in self._units[at:] if token >= 0]
                return "".join(text for _, text, _ in self._units[at:])
            if size + length > offset:
                self.content_ids = []
                cut = self._units[at][1][offset - size :]
                return cut + "".join(text for _, text, _ in self._units[at + 1 :])
            size += length
        return ""

    def _without_closer(self, text: str) -> str:
        for block in self._format.reasoning:
            before, closer, after = text.partition(block.close)
            if closer and not before.replace(block.open, "", 1).strip():
                for _ in block.after:
                    if after[:1] and after[0] in block.after:
                        after = after[1:]
                return after
        return text


@lru_cache(maxsize=256)
def _beginnings(fmt: Format) -> frozenset[str]:
    """The characters from which on reasoning may be held back: of its ends, and of the layout before them."""
    marks = [*fmt.stops, *openers(fmt)]
    layout = ""
    for block in fmt.reasoning:
        marks += [block.close, *block.ends_at]
        layout += block.close_pad
    if isinstance(fmt.calls, ChannelCalls):
        marks += [fmt.calls.start, *fmt.calls.ends]
    return frozenset(layout).union(mark[0] for mark in marks if mark)


def count_reasoning(parser: Parser, tokenizer: Any, ids: Sequence[int]) -> int:
    """How many of the tokens became reasoning text; markers are not counted."""
    texts: list[str] = []
    detokenizer = Detokenizer(tokenizer)
    count = 0
    for token in ids:
        special = detokenizer.special.get(token)
        texts.append(detokenizer.text(token) if special is None else special)
        size = sum(len(event.text) for event in parser.feed_tokens([token]) if isinstance(event, ReasoningDelta))
        while size > 0 and texts:
            size -= len(texts.pop())
            count += 1
    return count


def delimiters(fmt: Format) -> tuple[str | None, str | None]:
    """The texts that open and close reasoning."""
    if isinstance(fmt.calls, ChannelCalls):
        return fmt.calls.written.reasoning, fmt.calls.written.end
    if fmt.reasoning:
        return fmt.reasoning[0].open, fmt.reasoning[0].close
    return None, None


def prompt_for(fmt: Format, thinking: bool | None) -> str | None:
    """The end of the prompt that a template leaves when reasoning is switched on or off; ``None``: its default."""
    if thinking is None or not fmt.reasoning:
        return None
    block = fmt.reasoning[0]
    if not thinking:
        return closed_block(block)
    # Where the model itself opens the block, the default prompt is right.
    return block.open + block.open_pad if fmt.start.endswith(block.close) else None
