"""What is said of calls: the one being read, and those before it that are not certain yet.

The reader says when a call starts, what its arguments are and when it is complete; this says which events that
makes, and when. Calls are numbered as they start. The raw text of a call is the reader's.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from unspool.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.parsing.scanner import pattern

_NEW_ID = pattern(r"call_[0-9a-f]{24}")


def new_call_id() -> str:
    """A call id, unique across servers."""
    return "call_" + os.urandom(12).hex()


def is_new_call_id(call_id: str) -> bool:
    """Whether an id looks like one of :func:`new_call_id`, so that no model wrote it."""
    return _NEW_ID.fullmatch(call_id) is not None


class OpenCall:
    """The open call, if any, and the closed ones that are not confirmed.

    ``atomic``: nothing of a call is sent before it is certain. ``parallel``: more calls than the first count.
    ``ended``: a call was confirmed.
    """

    __slots__ = (
        "_atomic",
        "_closed",
        "_flowed",
        "_holding",
        "_index",
        "_parallel",
        "_pieces",
        "_sent",
        "_silent",
        "_started",
        "ended",
    )

    def __init__(self, *, atomic: bool, parallel: bool) -> None:
        self.ended = False
        self._atomic = atomic
        self._parallel = parallel
        self._silent = atomic
        self._index = -1
        self._started: ToolCallStart | None = None
        self._pieces: list[str] = []
        self._sent = 0
        self._flowed = False
        self._holding = 0
        self._closed: list[tuple[ToolCallStart, list[str]]] = []

    @property
    def pending(self) -> bool:
        """Whether a call has started that is not confirmed."""
        return self._started is not None or bool(self._closed)

    @property
    def text(self) -> str:
        """All argument text of the open call so far."""
        return "".join(self._pieces)

    def start(self, name: str, out: list[Event]) -> None:
        """The call's name is complete."""
        dropped = not self._parallel and (self.ended or bool(self._closed))
        self._silent = self._atomic or dropped
        self._holding = 0
        self._pieces = []
        self._sent = 0
        if dropped:
            return
        self._index += 1
        self._started = ToolCallStart(self._index, new_call_id(), name)
        if not self._atomic:
            out.append(self._started)

    def say(self, text: str) -> None:
        """Argument text, as JSON."""
        if text:
            self._pieces.append(text)

    def send(self, out: list[Event]) -> None:
        """What was said since the last time goes out, if it may."""
        pieces = self._pieces
        if len(pieces) > self._sent and self._started is not None and not self._silent and not self._holding:
            out.append(ToolCallDelta(self._index, "".join(pieces[self._sent :])))
            self._sent = len(pieces)

    def hold(self) -> Callable[[str], None]:
        """Nothing more goes out until the returned function is told what comes before it."""
        place = len(self._pieces)
        self._pieces.append("")
        self._holding += 1

        def put(text: str) -> None:
            self._pieces[place] = text
            self._holding -= 1

        return put

    def flow(
        self, raw: Callable[[str], object], convert: Callable[[str], str] | None
    ) -> Callable[[str], list[Event]]:
        """From a delta of argument text to its events, as it stands or converted; ``raw`` takes the delta itself.

        All that was said before must have been sent. :meth:`flowed` ends the flow.
        """
        say = self._pieces.append
        index = self._index
        if self._silent or self._holding:

            def hold(delta: str) -> list[Event]:
                raw(delta)
                say(delta if convert is None else convert(delta))
                return []

            return hold
        self._flowed = True
        if convert is None:

            def verbatim(delta: str) -> list[Event]:
                raw(delta)
                say(delta)
                return [ToolCallDelta(index, delta)]

            return verbatim

        def converted(delta: str) -> list[Event]:
            raw(delta)
            piece = convert(delta)
            say(piece)
            return [ToolCallDelta(index, piece)]

        return converted

    def flowed(self) -> None:
        """What flowed has been sent."""
        if self._flowed:
            self._flowed = False
            self._sent = len(self._pieces)

    def close(self, out: list[Event]) -> None:
        """The call's arguments are complete; it counts once :meth:`confirm` says so."""
        if self._started is not None:
            self.send(out)
            self._closed.append((self._started, self._pieces))
            self._started = None
        self._pieces = []
        self._sent = 0

    def confirm(self, out: list[Event]) -> None:
        """The calls closed so far are certain."""
        for start, pieces in self._closed:
            if self._atomic:
                out += [start, ToolCallDelta(start.index, "".join(pieces))]
            out.append(ToolCallEnd(start.index))
            self.ended = True
        self._closed.clear()

    def reject(self, out: list[Event]) -> None:
        """What has started was no call, nor were those before it that are not confirmed."""
        self.send(out)
        if self._atomic:
            # Nothing of these was sent, so their numbers are free again.
            self._index -= len(self._closed) + (self._started is not None)
        self._started = None
        self._closed.clear()

    def count_from_here(self) -> int:
        """The first pending call, or else the next one, gets the number 0; returns which one it had."""
        self.ended = False
        before = self._index + 1 - len(self._closed) - (self._started is not None)
        self._index -= before
        self._closed = [(_renumbered(start, before), pieces) for start, pieces in self._closed]
        self._started = self._started and _renumbered(self._started, before)
        return before


def _renumbered(start: ToolCallStart, before: int) -> ToolCallStart:
    return ToolCallStart(start.index - before, start.id, start.name)
