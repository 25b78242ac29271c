"""From generated tokens to deliverable text.

Without stop strings every token leaves at once; only the text of a character that is not whole yet waits for
the token that completes it. With stop strings, text that may be the beginning of one is held back, and with
it the ids of its tokens, so that text and ids stay in step: what was released is the decoded released ids.
Only the part of a token that stands before a stop string is released as text without an id.
"""

from __future__ import annotations

import codecs
import itertools
from collections import deque
from collections.abc import Sequence


class Output:
    """The output of one request. ``stop_sequence`` is the stop string that ended it, once one did."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.stop_sequence: str | None = None
        self._stop = tuple(text for text in stop if text)
        self._longest = max(map(len, self._stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._offset = 0  # of the held text in the whole text
        # Tokens whose characters are whole together, and where they end in the whole text.
        self._groups: deque[tuple[list[int], int]] = deque()
        self._open: list[int] = []  # the latest tokens, if the last character is not whole

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self.stop_sequence is not None

    def push(self, token: int, piece: bytes) -> tuple[str, tuple[int, ...]]:
        """Takes the next token and returns the text and ids that are certain now."""
        if not self._stop:
            return self._decoder.decode(piece), (token,)
        self._text += self._decoder.decode(piece)
        self._open.append(token)
        if not self._decoder.getstate()[0]:
            self._groups.append((self._open, self._offset + len(self._text)))
            self._open = []
        # Which stop string is complete first does not depend on how the text is cut into tokens.
        found = [(at + len(stop), at, stop) for stop in self._stop if (at := self._text.find(stop)) >= 0]
        if found:
            _, at, self.stop_sequence = min(found)
            self._text = self._text[:at]
            return self._release(len(self._text))
        return self._release(len(self._text) - self._possible_stop())

    def finish(self) -> tuple[str, tuple[int, ...]]:
        """What is still held, at the end of the generation; called once."""
        ids: tuple[int, ...] = ()
        if not self.stopped:
            self._text += self._decoder.decode(b"", final=True)
            ids = (*itertools.chain(*(group for group, _ in self._groups)), *self._open)
        return self._text, ids

    def _possible_stop(self) -> int:
        """How many of the last characters may be the beginning of a stop string."""
        for length in range(min(len(self._text), self._longest - 1), 0, -1):
            if any(stop.startswith(self._text[-length:]) for stop in self._stop):
                return length
        return 0

    def _release(self, length: int) -> tuple[str, tuple[int, ...]]:
        """The tokens that are whole within the first ``length`` held characters, and their text."""
        ids: list[int] = []
        end = self._offset
        while self._groups and self._groups[0][1] <= self._offset + length:
            group, end = self._groups.popleft()
            ids += group
        cut = end - self._offset
        text, self._text = self._text[:cut], self._text[cut:]
        self._offset = end
        return text, tuple(ids)
