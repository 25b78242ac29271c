"""What a model can say.

Everything a generation contains is a list of these six events; every API surface is a function of that
list. Events are append-only: text deltas of one kind concatenate to that kind's text, the argument deltas of
one call concatenate to its JSON text, and nothing that was sent is ever contradicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, dataclass_transform

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "error", "cancelled"]
"""Why a generation ended. ``length`` is the token limit and wins over ``tool_calls``."""


if TYPE_CHECKING:
    _T = TypeVar("_T")

    @dataclass_transform(frozen_default=True)
    def readonly(cls: type[_T]) -> type[_T]: ...

else:
    # For records made for every token: read-only to type checkers. At run time nothing enforces it, since a
    # frozen dataclass takes 0.3 us longer to make, as much as the rest of a parser step.
    readonly = dataclass(slots=True, unsafe_hash=True)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one generation.

    ``prompt_tokens`` and ``completion_tokens`` are what the engine counted; ``reasoning_tokens`` is the part
    of the completion that became reasoning; ``cached_tokens`` is the part of the prompt that was reused.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


@readonly
class ReasoningDelta:
    """Text that the model thinks and the user may be shown as reasoning."""

    text: str


@readonly
class ContentDelta:
    """Text of the answer."""

    text: str


@readonly
class ToolCallStart:
    """A call has begun: its name is complete, its arguments follow.

    ``index`` is the call's position in this message (0, 1, 2, ...); ``id`` is unique and never changes.
    """

    index: int
    id: str
    name: str


@readonly
class ToolCallDelta:
    """The next piece of a call's arguments, as JSON text."""

    index: int
    arguments: str


@readonly
class ToolCallEnd:
    """The call is complete and certain: its argument deltas concatenate to one valid JSON object."""

    index: int


@readonly
class Finish:
    """The generation ended; always the last event, exactly once."""

    reason: FinishReason
    usage: Usage | None = None


Event: TypeAlias = ReasoningDelta | ContentDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | Finish
