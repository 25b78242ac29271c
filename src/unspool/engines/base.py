"""The contract between the server and whatever turns a prompt into tokens.

An engine owns one loaded model. It renders nothing and parses nothing: it takes a prompt (text or token ids),
yields chunks of raw output with special tokens spelled out, and stops when its iterator is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from unspool.events import readonly

if TYPE_CHECKING:
    from unspool.constrained import Constraint

EngineFinish: TypeAlias = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose the next token.

    ``max_tokens`` counts generated tokens (``None``: up to the context length). ``temperature`` 0 is greedy.
    ``top_k`` 0 and ``top_p`` 1 switch those filters off. ``stop`` are strings that end the text and are not
    part of it. ``seed`` makes sampling repeatable.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logit_bias: Mapping[int, float] = field(default_factory=dict)


@readonly
class Chunk:
    """Some output. ``text`` has special tokens spelled out; ``token_ids`` is empty if the engine has none.

    The last chunk of a generation carries ``finish_reason``, the token counts of the whole request and the stop
    string that ended it, if one did; earlier ones may already carry the counts of the prompt.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: EngineFinish | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    stop_sequence: str | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the server must know about a loaded model.

    ``chat_template`` is the checkpoint's own Jinja source (``None``: it has none). ``format`` is the name of
    its wire format when the engine knows it. ``special`` are ``bos_token``, ``eos_token`` and the like for
    the template. ``context_length`` is in tokens. ``demo`` marks the small default model.
    """

    id: str
    created: int
    context_length: int
    chat_template: str | None = None
    format: str | None = None
    special: Mapping[str, str] = field(default_factory=dict)
    demo: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


class EngineError(Exception):
    """The engine failed or refused; the message says what to do."""


class SamplingError(EngineError):
    """A sampling setting that this model can't follow: the caller's fault.

    ``field`` is its name in :class:`Sampling`, with the member that is wrong where it has some.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ContextOverflowError(EngineError):
    """The prompt does not fit the model's context; both numbers are in tokens."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        super().__init__(
            f"This model's maximum context length is {context_length} tokens. "
            f"However, your messages resulted in {prompt_tokens} tokens. Please reduce the length of the messages."
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class ConstraintFailedError(EngineError):
    """The constraint of a request could not go on: what was demanded is more than can be held."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The output can't be held any longer to what is demanded; demand less of it. {reason}")


@runtime_checkable
class Engine(Protocol):
    """One loaded model that generates."""

    @property
    def model(self) -> ModelInfo:
        """The loaded model."""
        ...

    @property
    def tokenizer(self) -> Any | None:
        """A tokenizer for ``unspool.Parser(tokenizer=...)``, or ``None`` when only text is available."""
        ...

    @property
    def constrains(self) -> bool:
        """Whether :meth:`stream` holds its output to a constraint; otherwise it must get none."""
        ...

    def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Generates until a stop; closing the iterator aborts within one token.

        Only what ``constraint`` allows is generated, and nothing behind its end. It belongs to this generation.

        Raises, before the first chunk, :class:`ContextOverflowError` if the prompt is too long and
        :class:`SamplingError` if the model can't follow ``sampling``; :class:`ConstraintFailedError` where
        ``constraint`` can't go on, and :class:`EngineError` when the engine fails.
        """
        ...

    async def start(self) -> None:
        """Loads the model; called once."""
        ...

    async def close(self) -> None:
        """Aborts what runs and frees the model."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """An engine that can say how long a prompt is without answering it."""

    async def count_tokens(self, prompt: str) -> int:
        """How many tokens :meth:`Engine.stream` would make of this prompt."""
        ...


@runtime_checkable
class EncodesPrompts(Protocol):
    """A tokenizer that encodes prompts itself, so that text of a request that spells a control token stays text.

    What an engine gets as text instead is encoded out of reach, with whatever it spells.
    """

    @property
    def special(self) -> Mapping[int, str]:
        """The control tokens: id to text."""
        ...

    @property
    def added(self) -> Mapping[int, str]:
        """The other tokens that were added to the vocabulary and are found in any text."""
        ...

    def encode_prompt(self, text: str, cuts: Sequence[int] = ()) -> list[int]:
        """The ids of a prompt, of which none spans one of these positions (in characters, ascending)."""
        ...
