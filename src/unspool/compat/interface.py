"""The interfaces that engines' parsers are written against, in one form that serves vLLM and vllm-mlx.

Subclass :class:`ToolParser` or :class:`ReasoningParser` to write a parser; take one of a format from the managers
(:mod:`unspool.compat.managers`). What an engine calls and what it reads off a parser is all here; what a method
does when nobody overrides it is what the engines expect of it then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from unspool.compat.records import ChatCompletionToolsParam, DeltaMessage, ExtractedToolCallInformation

_THINK = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
Ids = Sequence[int]


def vocabulary(tokenizer: Any) -> Mapping[str, int]:
    """Token text to id, as far as the tokenizer tells."""
    get_vocab = getattr(tokenizer, "get_vocab", None)
    if get_vocab is not None:
        found: Mapping[str, int] = get_vocab()
        return found
    special: Mapping[int, str] = getattr(tokenizer, "special", None) or {}
    return {text: token for token, text in special.items()}


def tool_records(tools: Iterable[Any] | None) -> list[Any]:
    """Tools with attributes: dicts become records, other objects stay what they are."""
    return [ChatCompletionToolsParam.model_validate(t) if isinstance(t, Mapping) else t for t in tools or ()]


class ToolParser:
    """Finds tool calls in an output; one object per generation.

    ``prev_tool_call_arr`` and ``streamed_args_for_tool`` hold what was found and what was sent of each call, in
    order: servers read them at the end of a stream.
    """

    supports_required_and_named: bool = True
    structural_tag_model: str | None = None
    default_tool_strict_level: Any = None
    engine_based_streaming: bool = False
    SUPPORTS_NATIVE_TOOL_FORMAT: bool = False
    extra_stop_tokens: list[str] = []  # noqa: RUF012 - parsers assign a plain list

    def __init__(self, tokenizer: Any = None, tools: Iterable[Any] | None = None) -> None:
        self.model_tokenizer = tokenizer
        self.tools: list[Any] = tool_records(tools)
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id: int = -1
        self.current_tool_name_sent: bool = False
        self.streamed_args_for_tool: list[str] = []

    @cached_property
    def vocab(self) -> Mapping[str, int]:
        """Token text to id; empty if the tokenizer has none."""
        return vocabulary(self.model_tokenizer)

    def adjust_request(self, request: Any) -> Any:
        """May change the request before generation, for instance to keep special tokens in the text."""
        return request

    def get_structural_tag(self, request: Any, **_: Any) -> Any:
        """What constrains the output to this syntax; ``None``: nothing does."""
        return None

    def extract_tool_calls(self, model_output: str, request: Any = None) -> ExtractedToolCallInformation:
        """The calls of a whole output."""
        raise NotImplementedError(f"{type(self).__name__} can't read whole outputs: extract_tool_calls is missing")

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids = (),
        current_token_ids: Ids = (),
        delta_token_ids: Ids = (),
        request: Any = None,
    ) -> DeltaMessage | None:
        """What the new text adds to the message; ``None``: nothing yet."""
        raise NotImplementedError(f"{type(self).__name__} can't stream: extract_tool_calls_streaming is missing")

    def get_remaining_unstreamed_args(self) -> str:
        """Arguments of the last call that were found and not sent."""
        if not self.prev_tool_call_arr:
            return ""
        last = len(self.prev_tool_call_arr) - 1
        found = self.prev_tool_call_arr[last].get("arguments", {})
        whole = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        sent = self.streamed_args_for_tool[last] if last < len(self.streamed_args_for_tool) else ""
        return whole[len(sent) :] if whole.startswith(sent) else ""

    def finish(self, reason: str | None = "stop") -> DeltaMessage | None:
        """What was still held when the stream ended, for ``reason`` (any engine's word)."""
        return None

    def finalize_streaming(self, current_text: str = "") -> DeltaMessage | None:
        """The same as :meth:`finish`, as vllm-mlx calls it."""
        return None

    def reset(self) -> None:
        """Forgets the stream, so that the next one can be read."""
        self.prev_tool_call_arr = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.streamed_args_for_tool = []

    @classmethod
    def supports_native_format(cls) -> bool:
        """Whether the chat template renders calls and results itself."""
        return cls.SUPPORTS_NATIVE_TOOL_FORMAT

    @staticmethod
    def strip_think_tags(text: str) -> str:
        """The text without closed ``<think>`` blocks."""
        return _THINK.sub("", text)


class ReasoningParser:
    """Tells reasoning from the rest of an output; one object per generation."""

    engine_based_streaming: bool = False

    def __init__(self, tokenizer: Any = None, *args: Any, **kwargs: Any) -> None:
        self.model_tokenizer = tokenizer
        self.chat_template_kwargs: dict[str, Any] = dict(kwargs.get("chat_template_kwargs") or {})

    @cached_property
    def vocab(self) -> Mapping[str, int]:
        """Token text to id; empty if the tokenizer has none."""
        return vocabulary(self.model_tokenizer)

    @property
    def reasoning_start_str(self) -> str | None:
        """The text that opens reasoning, if there is one."""
        return None

    @property
    def reasoning_end_str(self) -> str | None:
        """The text that closes reasoning, if there is one."""
        return None

    def is_reasoning_end(self, input_ids: Ids) -> bool:
        """Whether reasoning is over after these tokens; a parser that doesn't tell is asked to the end."""
        return False

    def is_reasoning_end_streaming(self, input_ids: Ids, delta_ids: Iterable[int]) -> bool:
        """Whether reasoning is over after these tokens, the last of which are ``delta_ids``."""
        return self.is_reasoning_end(input_ids)

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether a parser that keeps its own text has seen the end; only for ``engine_based_streaming``."""
        return False

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The tokens after the reasoning, as far as the parser tells."""
        return []

    def count_reasoning_tokens(self, token_ids: Ids) -> int:
        """How many of these tokens are reasoning."""
        return 0

    def extract_reasoning(self, model_output: str, request: Any = None) -> tuple[str | None, str | None]:
        """Reasoning and the rest of a whole output."""
        raise NotImplementedError(f"{type(self).__name__} can't read whole outputs: extract_reasoning is missing")

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids = (),
        current_token_ids: Ids = (),
        delta_token_ids: Ids = (),
    ) -> DeltaMessage | None:
        """What the new text adds to reasoning and content; ``None``: nothing yet."""
        raise NotImplementedError(f"{type(self).__name__} can't stream: extract_reasoning_streaming is missing")

    def finish(self, reason: str | None = "stop") -> DeltaMessage | None:
        """What was still held when the stream ended, for ``reason`` (any engine's word)."""
        return None

    def finalize_stream(self) -> DeltaMessage | None:
        """The same as :meth:`finish`, as vllm-mlx calls it."""
        return None

    def adjust_request(self, request: Any) -> Any:
        """May change the request before generation."""
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Ids) -> None:
        """Tells the prompt before the output is read."""

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Ids) -> None:
        """Called once before a stream whose prompt has not closed reasoning."""

    def prepare_structured_tag(self, original_tag: str | None, tool_server: Any = None) -> str | None:
        """The constraint of the output, as this syntax needs it."""
        return original_tag

    def reset_state(self, implicit_mode: bool = False) -> None:
        """Forgets the stream; ``implicit_mode``: the next output starts inside reasoning."""

    def reset(self) -> None:
        """Forgets the stream, so that the next one can be read."""
        self.reset_state()
