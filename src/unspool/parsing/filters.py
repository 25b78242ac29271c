"""Text filters: what a tokenizer does to text, undone. A format names the one it needs.

A filter sees what became content or reasoning, never the arguments of a call, and may hold back one character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unspool.events import ContentDelta, Event, ReasoningDelta
from unspool.parsing.scanner import pattern

_PIECES = pattern(r"`++|\$++|\\[\s\S]|\\|[^`$\\]++")


class EscapedNewlines:
    r"""Turns the two characters ``\n`` into a newline, outside code and formulas, where they mean something.

    Code stands between runs of backticks of one length; a formula in ``$``, ``$$``, ``\(`` or ``\[`` and its
    counterpart. A single dollar before a digit or a space is money. An escaped backslash escapes nothing else.
    """

    __slots__ = ("_code", "_dollars", "_formula", "_held", "_ticks")

    def __init__(self) -> None:
        self._held = ""
        self._ticks = 0
        self._dollars = 0
        self._code = 0
        self._formula = ""

    def feed(self, text: str) -> str:
        """The text, as far as it is certain."""
        text, self._held = self._held + text, ""
        out = []
        for found in _PIECES.finditer(text):
            piece = found.group()
            if piece == "\\":
                self._held = piece
            elif piece[0] == "`":
                self._dollar("`")
                self._ticks += len(piece)
                out.append(piece)
            elif piece[0] == "$":
                self._tick()
                self._dollars += len(piece)
                out.append(piece)
            else:
                self._tick()
                self._dollar(piece[0])
                out.append(self._escape(piece) if piece[0] == "\\" else piece)
        return "".join(out)

    def flush(self) -> str:
        """The held rest, when what follows is something else."""
        rest, self._held = self._held, ""
        return rest

    def _tick(self) -> None:
        run, self._ticks = self._ticks, 0
        if run and not self._formula:
            self._code = 0 if run == self._code else self._code or run

    def _dollar(self, after: str) -> None:
        run, self._dollars = self._dollars, 0
        if not run or self._code:
            return
        mark = "$$" if run > 1 else "$"
        if self._formula:
            self._formula = "" if self._formula == mark else self._formula
        elif mark == "$$" or not (after.isspace() or after.isdigit()):
            self._formula = mark

    def _escape(self, pair: str) -> str:
        if self._code:
            return pair
        if self._formula:
            self._formula = "" if self._formula == pair else self._formula
            return pair
        self._formula = {"\\(": "\\)", "\\[": "\\]"}.get(pair, "")
        return "\n" if pair == "\\n" else pair


FILTERS: dict[str, type[EscapedNewlines]] = {"escapes": EscapedNewlines}


def event_filter(name: str) -> Callable[[Sequence[Event], bool], list[Event]]:
    """A function from events, and whether they are the last, to events with filtered text."""
    filters = {ContentDelta: FILTERS[name](), ReasoningDelta: FILTERS[name]()}
    kind: type[ContentDelta | ReasoningDelta] = ContentDelta

    def filtered(events: Sequence[Event], last: bool) -> list[Event]:
        nonlocal kind
        out: list[Event] = []

        def say(text: str) -> None:
            if text:
                out.append(kind(text))

        for event in events:
            if not isinstance(event, ContentDelta | ReasoningDelta):
                say(filters[kind].flush())
                out.append(event)
                continue
            if type(event) is not kind:
                say(filters[kind].flush())
                kind = type(event)
            say(filters[kind].feed(event.text))
        if last:
            say(filters[kind].flush())
        return out

    return filtered
