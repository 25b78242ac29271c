"""Base classes that reasoning parsers of the field are derived from: a marker before, a marker after.

Written for plugins; a format's own reasoning parser (:mod:`unspool.compat.reasoning`) is the exact one. Markers
are known by token id where the vocabulary has them, and by their text anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unspool.compat.interface import Ids, ReasoningParser
from unspool.compat.records import DeltaMessage


class BaseThinkingReasoningParser(ReasoningParser):
    """Reasoning between ``start_token`` and ``end_token``, which subclasses define.

    ``starts_inside``: an output without a start token is reasoning up to the end token.
    """

    start_token: str = ""
    end_token: str = ""
    starts_inside = False

    def __init__(self, tokenizer: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        if not self.start_token or not self.end_token:
            raise ValueError(f"{type(self).__name__} must define start_token and end_token")
        self.start_token_id: int | None = self.vocab.get(self.start_token)
        self.end_token_id: int | None = self.vocab.get(self.end_token)

    @property
    def reasoning_start_str(self) -> str | None:
        """The text that opens reasoning."""
        return self.start_token

    @property
    def reasoning_end_str(self) -> str | None:
        """The text that closes reasoning."""
        return self.end_token

    def is_reasoning_end(self, input_ids: Ids) -> bool:
        """Whether the last marker is the one that closes."""
        for token in reversed(input_ids):
            if token in (self.start_token_id, self.end_token_id):
                return token == self.end_token_id
        return False

    def is_reasoning_end_streaming(self, input_ids: Ids, delta_ids: Iterable[int]) -> bool:
        """Whether the closing marker is among the new tokens."""
        return self.end_token_id in tuple(delta_ids)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The tokens after the closing marker."""
        if self.end_token_id not in input_ids:
            return []
        return list(input_ids[input_ids.index(self.end_token_id) + 1 :])

    def count_reasoning_tokens(self, token_ids: Ids) -> int:
        """The tokens between the markers."""
        count = 0
        inside = self.starts_inside
        for token in token_ids:
            if token in (self.start_token_id, self.end_token_id):
                inside = token == self.start_token_id
            elif inside:
                count += 1
        return count

    def extract_reasoning(self, model_output: str, request: Any = None) -> tuple[str | None, str | None]:
        """Reasoning up to the closing marker, content after it; without one, all is reasoning."""
        before, start, after = model_output.partition(self.start_token)
        text = after if start else before
        reasoning, end, content = text.partition(self.end_token)
        return reasoning or None, (content or None) if end else None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids = (),
        current_token_ids: Ids = (),
        delta_token_ids: Ids = (),
    ) -> DeltaMessage | None:
        """What the new text adds; the markers themselves are nothing."""
        if self.end_token in previous_text:
            return DeltaMessage(content=delta_text) if delta_text else None
        inside = self.starts_inside or self.start_token in current_text
        text = current_text[len(previous_text) :]
        if self.start_token in current_text and self.start_token not in previous_text:
            # What a token of an engine ends with is never the first half of a marker.
            text = current_text[current_text.index(self.start_token) + len(self.start_token) :]
        before, end, after = text.partition(self.end_token)
        delta = DeltaMessage()
        if before:
            delta["reasoning" if inside or end else "content"] = before
        if after:
            delta.content = after
        return delta if len(delta) else None

    def extract_reasoning_content(self, model_output: str, request: Any = None) -> tuple[str | None, str | None]:
        """The older name of :meth:`extract_reasoning`."""
        return BaseThinkingReasoningParser.extract_reasoning(self, model_output, request)

    def extract_reasoning_content_streaming(self, *views: Any) -> DeltaMessage | None:
        """The older name of :meth:`extract_reasoning_streaming`."""
        return BaseThinkingReasoningParser.extract_reasoning_streaming(self, *views)


class DeepSeekR1ReasoningParser(BaseThinkingReasoningParser):
    """``<think>`` blocks that the prompt may have opened."""

    start_token = "<think>"
    end_token = "</think>"
    starts_inside = True


class Qwen3ReasoningParser(BaseThinkingReasoningParser):
    """``<think>`` blocks that the model opens itself."""

    start_token = "<think>"
    end_token = "</think>"


class IdentityReasoningParser(ReasoningParser):
    """No reasoning: everything is content."""

    def is_reasoning_end(self, input_ids: Ids) -> bool:
        """Always: there is none."""
        return True

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """All of them."""
        return list(input_ids)

    def extract_reasoning(self, model_output: str, request: Any = None) -> tuple[str | None, str | None]:
        """Everything is content."""
        return None, model_output

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids = (),
        current_token_ids: Ids = (),
        delta_token_ids: Ids = (),
    ) -> DeltaMessage | None:
        """Everything is content."""
        return DeltaMessage(content=delta_text) if delta_text else None
