"""Where a difference stands: from what a text became, back to the characters that it became it from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from unspool.compat.helpers import find_common_prefix
from unspool.lint.report import Difference
from unspool.message import Message, ToolCall, same_call
from unspool.parsing.signals import Span

_Place: TypeAlias = tuple[int, int, str] | tuple[None, None, None]


class Reading:
    """One text, the message that it was read as, and what each of its characters became."""

    def __init__(self, text: str, message: Message, spans: Sequence[Span]) -> None:
        self.text = text
        self.message = message
        self._spans = spans

    def differences(self, expected: Message) -> Iterator[Difference]:
        """Everything in which the message is not the expected one, each with its place."""
        read = self.message
        for kind, want, got in (
            ("reasoning", expected.reasoning, read.reasoning),
            ("content", expected.content, read.content),
        ):
            if want != got:
                place = self._place_of_text(kind, want or "", got or "")
                yield Difference(kind, _shown(want), _shown(got), *place)
        for i in range(max(len(expected.tool_calls), len(read.tool_calls))):
            wanted = expected.tool_calls[i] if i < len(expected.tool_calls) else None
            found = read.tool_calls[i] if i < len(read.tool_calls) else None
            if not same_call(wanted, found):
                yield self._call_difference(i, wanted, found)

    def _call_difference(self, i: int, wanted: ToolCall | None, found: ToolCall | None) -> Difference:
        what = f"call {i}"
        if wanted is not None and found is not None and wanted.name == found.name:
            return Difference(
                f"{what}, arguments", wanted.arguments, found.arguments, *self._place_of_arguments(i)
            )
        if found is not None:
            return Difference(what, _call(wanted), _call(found), *_place(self._names()[i : i + 1]))
        name = wanted.name if wanted else ""
        return Difference(what, _call(wanted), _call(None), *self._place_at(self.text.find(name), len(name)))

    def _names(self) -> list[Span]:
        return [span for span in self._spans if span.kind == "name"]

    def _place_of_arguments(self, i: int) -> _Place:
        names = self._names()
        end = names[i + 1].start if i + 1 < len(names) else len(self.text)
        inside = [s for s in self._spans if s.kind == "arguments" and names[i].end <= s.start < end]
        return _place(inside or names[i : i + 1])

    def _place_of_text(self, kind: str, want: str, got: str) -> _Place:
        """The characters that differ: what was read too much, or where the missing ones stand, if they do."""
        same = len(find_common_prefix(want, got))
        raw = self._raw_offset(kind, same)
        if raw is not None:
            return self._place_at(raw, self._span_at(raw).end - raw)
        return self._place_at(self.text.find(want[same:]) if want[same:] else -1, len(want) - same)

    def _place_at(self, at: int, length: int) -> _Place:
        """A place that begins at a character; negative is nowhere."""
        if at < 0:
            return None, None, None
        span = self._span_at(at)
        return at, at + length, f"{span.kind}: {span.note}"

    def _raw_offset(self, kind: str, offset: int) -> int | None:
        for span in self._spans:
            if span.kind == kind:
                if offset < span.end - span.start:
                    return span.start + offset
                offset -= span.end - span.start
        return None

    def _span_at(self, at: int) -> Span:
        return next(span for span in self._spans if span.start <= at < span.end)


def _place(spans: Sequence[Span]) -> _Place:
    if not spans:
        return None, None, None
    return spans[0].start, spans[-1].end, f"{spans[0].kind}: {spans[0].note}"


def _shown(text: str | None) -> str:
    return "nothing" if text is None else json.dumps(text, ensure_ascii=False)


def _call(call: ToolCall | None) -> str:
    return "nothing" if call is None else f"{call.name} {call.arguments}"
