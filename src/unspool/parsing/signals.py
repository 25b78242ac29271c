"""What the coroutines of this package say to each other: their type, their bounds, why a call is none.

No state: that is the reader's.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

from unspool.events import ContentDelta, Event, ReasoningDelta
from unspool.parsing.scanner import pattern

T = TypeVar("T")


class Finder(Protocol):
    """A search in a text from a position (characters) on: anything but ``None`` is a find."""

    def __call__(self, text: str, pos: int = 0, /) -> object: ...


Steps: TypeAlias = Generator[None, None, T]
"""A coroutine that yields whenever it needs more text and returns ``T``."""

Rejection: TypeAlias = Literal["malformed", "unfinished", "cut"]
"""Why what began like a call is none: it went wrong, the text ended inside, the token limit ended it."""

Kind: TypeAlias = Literal["reasoning", "content", "name", "arguments", "framing", "cut"]

HOLD = 64
"""Most characters of layout that wait for what follows them; more is taken as text."""

HEADER = 256
"""Most characters a call's header may have; more is no header."""

PROBE = 4096
"""Most characters between a call's opener inside open reasoning and the end of its name."""

no_space = pattern(r"[^ \t\r\n]").search
"""For :meth:`Reader.wait`: anything but layout."""


@dataclass(frozen=True, slots=True)
class Span:
    """Which characters of the raw text (``start`` to ``end``) became what, and why in a few words."""

    start: int
    end: int
    kind: Kind
    note: str


class NotACall(Exception):  # noqa: N818 - control flow, never seen outside
    """What began like a call is none; its raw text is content."""


class Unfinished(NotACall):
    """The text ended inside a call."""


class Opened(Exception):  # noqa: N818 - control flow, never seen outside
    """A probe reached the name of a call."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def content_sink(delta: str) -> list[Event]:
    """For :meth:`Reader.flow`: the delta is content."""
    return [ContentDelta(delta)]


def reasoning_sink(delta: str) -> list[Event]:
    """For :meth:`Reader.flow`: the delta is reasoning."""
    return [ReasoningDelta(delta)]
