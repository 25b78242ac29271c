"""Plain text by small pieces, as a lazily built automaton: what a piece does where only text is read.

A stretch of text has few states: nothing is held, or the beginning of one of its markers is. What a piece of text
does in a state never changes, so it is searched once and looked up from then on; a vocabulary has only so many
pieces. A piece that completes a marker is no move: the coroutine, which sleeps until then, goes on there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from unspool.events import ContentDelta, ReasoningDelta
from unspool.parsing.scanner import Watch
from unspool.parsing.tokens import SENTINEL

LONGEST = 32
"""Most characters of a piece that is remembered; few tokens have more."""
_MOST_MOVES = 1 << 14
"""Of all states of a stretch; when there are more, all are forgotten and found anew."""

Text: TypeAlias = ContentDelta | ReasoningDelta


class State:
    """A stretch in which ``held`` waits for what follows it.

    ``moves`` has by piece what it makes certain, if anything, and the state that it leads to.
    """

    __slots__ = ("held", "moves", "stretch")

    def __init__(self, stretch: Stretch, held: str) -> None:
        self.stretch = stretch
        self.held = held
        self.moves: dict[str, Move] = {}

    def move(self, piece: str) -> Move | None:
        """Finds out what a piece does; ``None`` if more is in it than text, or it is too long to be kept."""
        return self.stretch.find_out(self, piece) if len(piece) <= LONGEST else None


Move: TypeAlias = tuple[Text | None, State]


class Stretch:
    """Text of one kind up to what ``watch`` finds, and the states that were come to in it."""

    def __init__(self, watch: Watch, reasoning: bool) -> None:
        self.watch = watch
        self.start = State(self, "")
        self._said = ReasoningDelta if reasoning else ContentDelta
        self._states = {"": self.start}
        self._moves = 0

    def find_out(self, state: State, piece: str) -> Move | None:
        """As :meth:`State.move`."""
        text = state.held + piece
        found = self.watch.find(text, 0, False)
        if (found and found.lastindex) or SENTINEL.search(text):
            return None
        end = found.start() if found else len(text)
        if self._moves >= _MOST_MOVES:
            self._forget()
        self._moves += 1
        after = self._states.get(text[end:])
        if after is None:
            after = self._states[text[end:]] = State(self, text[end:])
        move = state.moves[piece] = (self._said(text[:end]) if end else None, after)
        return move

    def _forget(self) -> None:
        """Lets go of all moves. States that parsers are in stay right: they find out anew."""
        for state in list(self._states.values()):
            state.moves = {}
        self._states = {"": self.start}
        self._moves = 0


@lru_cache(maxsize=512)
def stretch(watch: Watch, reasoning: bool) -> Stretch:
    """The stretch of content, or of reasoning, that ``watch`` ends, the same for all parsers."""
    return Stretch(watch, reasoning)
