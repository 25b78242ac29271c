"""Every format as a reasoning parser."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from unspool.compat.following import (
    Following,
    class_name,
    format_shown_by,
    parser_of,
    plain,
    readable,
    reasons,
    spelled_out,
    vocabulary,
)
from unspool.compat.interface import Ids, ReasoningParser, tool_records
from unspool.compat.records import DeltaMessage
from unspool.compat.splitting import Splitter, count_reasoning, delimiters, prompt_for
from unspool.message import Message
from unspool.parsing.binding import bound
from unspool.parsing.declaration import ChannelCalls, Format
from unspool.parsing.parser import Parser, open_block, turn_tail


class FormatReasoningParser(ReasoningParser):
    """Reads one format's reasoning with the parser of :mod:`unspool`.

    What comes after it is left for the format's tool parser: raw text where there are calls, plain content where
    there are none. ``tools`` are the offered tools, if they are known (else those of the request, else any).
    ``prompt`` is the rendered prompt or its end; otherwise ``chat_template_kwargs`` may say whether the model
    thinks, and if nothing does, the format's default applies.
    """

    format: Format | None = None

    def __init__(
        self,
        tokenizer: Any = None,
        *args: Any,
        tools: Iterable[Any] | None = None,
        prompt: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        if self.format is None:
            self.format = format_shown_by(tokenizer)
        self.format = bound(self.format, vocabulary=vocabulary(tokenizer), prompt=prompt)
        self._tools = tool_records(tools)
        if prompt is None:
            switches = [self.chat_template_kwargs.get(name) for name in ("enable_thinking", "thinking")]
            thinking = next((switch for switch in switches if isinstance(switch, bool)), None)
            prompt = prompt_for(self.format, thinking)
        self._prompt = prompt
        self._reads_ids = readable(tokenizer)
        self._begin()

    def _begin(self) -> None:
        self._following = Following(self._reads_ids and reasons(self._form))
        self._splitter: Splitter | None = None
        self._finished = False
        self._watching: Splitter | None = None
        self._watched = 0
        self._last_ids: list[int] | None = None

    @property
    def _form(self) -> Format:
        assert self.format is not None
        return self.format

    @property
    def reasoning_start_str(self) -> str | None:
        """The text that opens reasoning."""
        return delimiters(self._form)[0]

    @property
    def reasoning_end_str(self) -> str | None:
        """The text that closes reasoning."""
        return delimiters(self._form)[1]

    @property
    def start_token(self) -> str | None:
        """:attr:`reasoning_start_str`, as vllm-mlx calls it."""
        return self.reasoning_start_str

    @property
    def end_token(self) -> str | None:
        """:attr:`reasoning_end_str`, as vllm-mlx calls it."""
        return self.reasoning_end_str

    def adjust_request(self, request: Any) -> Any:
        """Notes the offered tools, and keeps special tokens in the text, since markers may be some."""
        self._tools = list(getattr(request, "tools", None) or self._tools)
        request.skip_special_tokens = False
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Ids) -> None:
        """The end of the prompt decides whether the output starts inside reasoning."""
        if prompt_token_ids and self._reads_ids:
            self._prompt = spelled_out(self.model_tokenizer, prompt_token_ids)
            self.format = bound(self._form, prompt=self._prompt)
            self._begin()

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Ids) -> None:
        """The same as :meth:`set_prompt_token_ids`."""
        self.set_prompt_token_ids(prompt_token_ids)

    def reset_state(self, implicit_mode: bool = False) -> None:
        """Forgets the stream; ``implicit_mode``: the next output starts inside reasoning."""
        if implicit_mode and self._form.reasoning:
            self._prompt = self._form.reasoning[0].open + self._form.reasoning[0].open_pad
        self._begin()

    def extract_reasoning(self, model_output: str, request: Any = None) -> tuple[str | None, str | None]:
        """All reasoning of a whole output, and the rest of it."""
        if not reasons(self._form):
            return None, model_output
        parser = self._parser(request)
        message = Message.from_events(parser.feed(model_output or "") + parser.finish("stop"))
        if not message.tool_calls:
            return message.reasoning, message.content
        splitter = Splitter(self._form, self._parser(request))
        _, rest = splitter.feed(model_output)
        return message.reasoning, (rest + splitter.finish()[1]) or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Ids | None = (),
        current_token_ids: Ids | None = (),
        delta_token_ids: Ids | None = (),
    ) -> DeltaMessage | None:
        """Reasoning as it comes; from the end of it on, the text as it is, as content."""
        ids = current_token_ids or ()
        if self._following.begins_anew(previous_text, current_text, ids):
            self._begin()
        text, new = self._following.new(current_text, ids)
        if not reasons(self._form):
            return _delta("", text)
        self._last_ids = list(delta_token_ids or ())
        if self._finished or not (text or new):
            return None
        if self._splitter is None:
            tokenizer = self.model_tokenizer if self._following.by_ids else None
            self._splitter = Splitter(self._form, self._parser(None, tokenizer), tokenizer)
        return _delta(*(self._splitter.feed_ids(new) if new else self._splitter.feed(text)))

    def finish(self, reason: str | None = "stop") -> DeltaMessage | None:
        """What was still held when the stream ended, for ``reason`` (any engine's word)."""
        if self._splitter is None or self._finished:
            return None
        self._finished = True
        return _delta(*self._splitter.finish(reason))

    flush = finish

    def finish_streaming(self) -> DeltaMessage | None:
        """:meth:`finish`, as vLLM calls it."""
        return self.finish()

    def finalize_stream(self) -> DeltaMessage | None:
        """:meth:`finish`, as vllm-mlx calls it."""
        return self.finish()

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """Whether content or a call has begun."""
        return self._splitter is not None and self._splitter.ended

    def is_reasoning_end(self, input_ids: Ids) -> bool:
        """Whether reasoning is over after a prompt, or after an output, with these tokens."""
        if not reasons(self._form):
            return True
        if not self._reads_ids:
            return False
        text = spelled_out(self.model_tokenizer, input_ids)
        tail = turn_tail(self._form, text)
        if tail == text and not any(turn and turn in text for turn in self._form.turns):
            splitter = Splitter(self._form, self._parser(None))
            splitter.feed(text)
            return splitter.closed
        if open_block(self._form, tail) is not None:
            return False
        return bool(tail.strip()) and not isinstance(self._form.calls, ChannelCalls)

    def is_reasoning_end_streaming(self, input_ids: Ids, delta_ids: Iterable[int]) -> bool:
        """Whether reasoning is over.

        While text is read with this object: whether its content has begun, for the content must not go to the tool
        parser with the layout before it. Otherwise as soon as the closer is there.
        """
        if not reasons(self._form):
            return True
        if self._splitter is not None:
            return self._splitter.ended
        if not self._reads_ids:
            return False
        if self._watching is None or len(input_ids) < self._watched:
            tokenizer = self.model_tokenizer
            self._watching = Splitter(self._form, self._parser(None, tokenizer), tokenizer)
            self._watched = 0
        self._watching.feed_ids(input_ids[self._watched :])
        self._watched = len(input_ids)
        return self._watching.closed

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The tokens after the reasoning; none if the tokenizer can't be read."""
        if self._splitter is not None and self._following.by_ids and list(input_ids) == self._last_ids:
            return list(self._splitter.content_ids)
        if not self._reads_ids:
            return []
        tokenizer = self.model_tokenizer
        splitter = Splitter(self._form, self._parser(None, tokenizer), tokenizer)
        splitter.feed_ids(input_ids)
        return splitter.content_ids

    def count_reasoning_tokens(self, token_ids: Ids) -> int:
        """How many of these tokens are reasoning, markers left out; 0 if the tokenizer can't be read."""
        if not self._reads_ids:
            return 0
        return count_reasoning(self._parser(None, self.model_tokenizer), self.model_tokenizer, token_ids)

    def _parser(self, request: Any, tokenizer: Any = None) -> Parser:
        asked = plain(request) or {}
        tools = asked.get("tools") or self._tools
        return parser_of(self._form, tools, request, prompt=self._prompt, tokenizer=tokenizer, trace=True)


def _delta(reasoning: str, rest: str) -> DeltaMessage | None:
    delta = DeltaMessage()
    if reasoning:
        delta.reasoning = reasoning
    if rest:
        delta.content = rest
    return delta if len(delta) else None


@lru_cache(maxsize=256)
def reasoning_parser_of(fmt: Format | None) -> type[FormatReasoningParser]:
    """The reasoning parser class of a format; ``None``: of the one that the tokenizer's chat template shows."""
    body = {"format": fmt, "__module__": __name__}
    return type(class_name(fmt, "ReasoningParser"), (FormatReasoningParser,), body)
