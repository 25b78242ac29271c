"""Somebody else's parsers behind the interface of :class:`unspool.Parser`.

A reasoning parser sees the output until it says that reasoning is over; its content, and everything after, goes to
the tool parser. Both are shown one token at a time (or, without ids, one marker at a time), as their engines do.
Whatever they do, the events are legal: what raises or gives nonsense is logged once, and the text it did not deal
with is read whole at the end, or else is content.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from unspool.compat.calls import CallLog, Told, told
from unspool.compat.following import plain
from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.compat.mlx import is_mlx
from unspool.compat.plugins import FAULTS, build_reasoning_parser, build_tool_parser, fitted, imports_of
from unspool.compat.reasoning import FormatReasoningParser
from unspool.compat.records import ChatCompletionRequest
from unspool.compat.tokenizer import Pieces, TextTokenizer, tokenizer_for_plugins
from unspool.compat.tools import FormatToolParser
from unspool.events import ContentDelta, Event, Finish, FinishReason, ReasoningDelta, Usage
from unspool.parsing.declaration import Format
from unspool.parsing.parser import turn_tail
from unspool.parsing.scanner import Watch
from unspool.parsing.tokens import Detokenizer

log = logging.getLogger(__name__)
T = TypeVar("T")

_CUT = ("length", "cancelled", "error")
_ANY_FORMAT = Format("plugin", "whatever a plugin reads")
STOPS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "</s>", "<｜end▁of▁sentence｜>")
"""Ends of turns that engines leave out of the text they show parsers."""


@dataclass(slots=True)
class _Views:
    """What a parser was shown so far."""

    text: str = ""
    ids: list[int] = field(default_factory=list)

    def next(self, text: str, ids: list[int]) -> tuple[str, str, str, list[int], list[int], list[int]]:
        """Before, now and new, of text and ids."""
        before, before_ids = self.text, self.ids
        self.text += text
        self.ids = before_ids + ids
        return before, self.text, text, before_ids, self.ids, ids


class PluginParser:
    """Reads one generation with a tool parser, a reasoning parser, or both.

    ``stream`` false reads the output whole at its end, with the methods for that; so is what a parser has no
    methods for streams. ``prompt`` is the rendered
    prompt or its end. ``tokenizer`` is the engine's, if it gives ids. ``stops`` are texts that end a turn and
    are no content. Raises :class:`PluginError` if a parser can't be made.
    """

    def __init__(
        self,
        tool_parser: type[ToolParser] | None = None,
        reasoning_parser: type[ReasoningParser] | None = None,
        *,
        request: ChatCompletionRequest | None = None,
        tokenizer: Any = None,
        prompt: str | None = None,
        stream: bool = True,
        stops: Sequence[str] = STOPS,
        chat_template: str | None = None,
    ) -> None:
        self._request: Any = ChatCompletionRequest() if request is None else request
        shown, self._by_ids = tokenizer_for_plugins(tokenizer, chat_template)
        tools = list(self._request.tools or ())
        self._reasoner: ReasoningParser | None = None
        self._caller: ToolParser | None = None
        if reasoning_parser is not None:
            kwargs = self._request.chat_template_kwargs
            self._reasoner = build_reasoning_parser(reasoning_parser, shown, tools, prompt, kwargs)
        if tool_parser is not None and tools and self._request.tool_choice != "none":
            self._caller = build_tool_parser(tool_parser, shown, tools)
        self._stream = stream and (self._reasoner is None or _splits_streams(self._reasoner))
        self._failed: set[str] = set()
        self._adjust()
        self._detokenizer = Detokenizer(tokenizer) if tokenizer is not None else None
        self._cutter = Pieces(shown) if isinstance(shown, TextTokenizer) else None
        self._stops = Watch(("", tuple(filter(None, dict.fromkeys(stops)))))
        self._held = ""
        self._seen = _Views()
        self._rest = _Views()
        self._over = self._reasoner is None
        self._waits = self._caller is not None and not _streams(self._caller)
        self._read = 0
        self._content: list[str] = []
        self._calls = CallLog(self._name(self._caller), parallel=self._request.parallel_tool_calls is not False)
        self._finished = False
        if prompt is not None and self._reasoner is not None:
            self._start_after(shown, prompt)

    # ---- text in

    def feed(self, text: str) -> list[Event]:
        """The events of the next text."""
        if self._finished:
            raise ValueError("the generation is finished; use a new parser")
        events: list[Event] = []
        for piece in self._without_stops(text, final=False):
            events += self._pieces(piece)
        return events

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        """The events of the next tokens; only with a tokenizer."""
        if self._detokenizer is None:
            raise ValueError("feed_tokens needs a parser that was built with tokenizer=")
        events: list[Event] = []
        for token in ids:
            special = self._detokenizer.special.get(token)
            if special is None:
                text = self._detokenizer.text(token)
            else:
                text = self._detokenizer.flush()
                text += "" if self._request.skip_special_tokens else special
            if not self._by_ids:
                events += self.feed(text) + self._hidden(special)
            elif special is None or self._stops.at(special, 0, True) is None:
                events += self._show(text, [token])
        return events

    def _hidden(self, special: str | None) -> list[Event]:
        """A special token that is no text, for parsers that look for it by a made-up id."""
        if self._cutter is None or special is None or not self._request.skip_special_tokens:
            return []
        token = self._cutter.known(special)
        return [] if token is None else [*self._pieces("", final=True), *self._show("", [token])]

    def finish(self, reason: str | None = "stop", usage: Usage | None = None) -> list[Event]:
        """The last events; ends with one :class:`Finish`."""
        if self._finished:
            return []
        events: list[Event] = []
        rest = self._detokenizer.flush() if self._detokenizer else ""
        if self._by_ids:
            events += self._show(rest, []) if rest else []
        else:
            for piece in self._without_stops(rest, final=True):
                events += self._pieces(piece)
            events += self._pieces("", final=True)
        self._finished = True
        cut = reason in _CUT
        events += self._end_stream(reason) if self._stream else self._read_whole()
        events += self._settle(cut)
        events += self._calls.finish(cut=cut)
        events.append(Finish(self._reason(reason), usage))
        return events

    def _reason(self, reason: str | None) -> FinishReason:
        match reason:
            case "length" | "content_filter" | "error" | "cancelled":
                return reason
            case _:
                return "tool_calls" if self._calls.complete else "stop"

    def _without_stops(self, text: str, *, final: bool) -> list[str]:
        """The text without ends of turns; what may become one waits."""
        self._held += text
        pieces = []
        at = 0
        while found := self._stops.find(self._held, at, final):
            pieces.append(self._held[at : found.start()])
            at = found.start()
            if not found.lastindex:
                break
            at = found.end()
        else:
            pieces.append(self._held[at:])
            at = len(self._held)
        self._held = self._held[at:]
        return [piece for piece in pieces if piece]

    def _pieces(self, text: str, *, final: bool = False) -> list[Event]:
        if self._cutter is None:
            return self._show(text, []) if text else []
        return [event for piece, ids in self._cutter.feed(text, final=final) for event in self._show(piece, ids)]

    # ---- reasoning

    def _show(self, text: str, ids: list[int]) -> list[Event]:
        """One piece of output."""
        views = self._seen.next(text, ids)
        if not self._stream or not (text or ids):
            return []
        if self._over or self._reasoner is None:
            return self._show_rest(text, ids)
        reasoner = self._reasoner
        events: list[Event] = []
        shown = views[:3] if is_mlx(reasoner) else views
        delta = self._try(reasoner, lambda: _parts(fitted(_streaming_method(reasoner), shown)))
        if delta is None:
            # From here on nobody tells reasoning from content.
            self._over = True
            return self._show_rest(text, ids)
        reasoning, content, _ = delta
        if reasoning:
            events.append(ReasoningDelta(reasoning))
        self._over = self._is_over(reasoner, ids)
        left: list[int] = []
        if self._over:
            left = self._try(reasoner, lambda: list(reasoner.extract_content_ids(ids))) or []
        elif content == text:
            left = ids
        return events + (self._show_rest(content, left) if content or left else [])

    def _is_over(self, reasoner: ReasoningParser, ids: list[int]) -> bool:
        if is_mlx(reasoner):
            return False
        return bool(self._try(reasoner, lambda: reasoner.is_reasoning_end_streaming(self._seen.ids, ids)))

    def _start_after(self, tokenizer: Any, prompt: str) -> None:
        """Tells the reasoning parser what the prompt has of this turn."""
        reasoner = self._reasoner
        if reasoner is None or isinstance(reasoner, FormatReasoningParser) or is_mlx(reasoner):
            return
        encoded = tokenizer.encode(turn_tail(_ANY_FORMAT, prompt))
        ids = list(getattr(encoded, "ids", encoded))

        def tell() -> bool:
            reasoner.set_prompt_token_ids(ids)
            over = bool(reasoner.is_reasoning_end(ids))
            if not over:
                reasoner.adjust_initial_state_from_prompt(ids)
            return over

        self._over = bool(self._try(reasoner, tell))

    # ---- content and calls

    def _show_rest(self, text: str, ids: list[int]) -> list[Event]:
        """One piece of what is no reasoning."""
        caller = self._caller
        views = self._rest.next(text, ids)
        if caller is None:
            return self._say(text)
        if self._waits:
            return []
        before = self._read
        self._read = len(self._rest.text)
        try:
            with imports_of(type(caller)):
                delta = _parts(fitted(caller.extract_tool_calls_streaming, (*views, self._request)))
            return self._say_delta(delta)
        except FAULTS as error:
            if isinstance(error, NotImplementedError):
                self._complain(caller, "does not stream; what it reads is sent at the end")
            else:
                self._complain(caller, f"failed on {text!r}; its output is read whole at the end", error)
            self._waits = True
            self._read = before
            return []

    def _say(self, text: str) -> list[Event]:
        if not text:
            return []
        self._content.append(text)
        return [ContentDelta(text)]

    def _say_delta(self, delta: tuple[str, str, list[Told]]) -> list[Event]:
        reasoning, content, calls = delta
        events: list[Event] = [ReasoningDelta(reasoning)] if reasoning else []
        events += self._say(content)
        for call in calls:
            events += self._calls.delta(call)
        return events

    # ---- the end

    def _end_stream(self, reason: str | None) -> list[Event]:
        """What the parsers still hold."""
        events: list[Event] = []
        reasoner, caller = self._reasoner, self._caller
        if reasoner is not None and not self._over:
            last = self._try(reasoner, lambda: _parts(_flush(reasoner, "finalize_stream", reason)))
            reasoning, content, _ = last or ("", "", [])
            events += [ReasoningDelta(reasoning)] if reasoning else []
            events += self._show_rest(content, []) if content else []
        if caller is not None and not self._waits:
            text = self._rest.text
            final = self._try(caller, lambda: _parts(_flush(caller, "finalize_streaming", reason, text)))
            events += self._say_delta(final) if final else []
            left = self._try(caller, lambda: _text(caller.get_remaining_unstreamed_args()))
            events += self._calls.rest(left or "")
        return events

    def _read_whole(self) -> list[Event]:
        """Reads a whole output, up to its calls."""
        text = self._seen.text
        reasoner = self._reasoner
        reasoning: Any = None
        content: Any = text
        if reasoner is not None:
            split = self._try(reasoner, lambda: _two(fitted(_whole_method(reasoner), (text, self._request))))
            reasoning, content = split or (None, text)
        events: list[Event] = [ReasoningDelta(reasoning)] if reasoning else []
        self._rest.text = content or ""
        if self._caller is None:
            return events + self._say(content or "")
        self._waits = True
        return events

    def _settle(self, cut: bool) -> list[Event]:
        """Compares what was sent with the output as a whole: what is missing follows."""
        caller = self._caller
        text = self._rest.text
        if caller is None or (isinstance(caller, FormatToolParser) and not self._waits) or not text:
            return []
        if not self._waits and cut:
            return []
        found = self._try(caller, lambda: _whole(caller.extract_tool_calls(text, self._request)))
        if found is None:
            lost = self._waits or not (self._content or self._calls.count)
            return self._say(text[self._read if self._waits else 0 :]) if lost else []
        calls = found[1]
        content = self._content_of(*found, cut=cut)
        events: list[Event] = []
        sent = "".join(self._content)
        if content.startswith(sent) and (self._waits or not content[len(sent) :].isspace()):
            events += self._say(content[len(sent) :])
        if not self._waits and len(calls) > self._calls.count:
            self._complain(caller, "held calls back to the end of the stream; they follow now")
        for number, call in enumerate(calls):
            events += self._calls.whole(number, call)
        return events

    def _content_of(self, content: str, calls: list[Told], *, cut: bool) -> str:
        """The content of the output as a whole: what the plugin reads as that, unless text would be lost."""
        sent = "".join(self._content)
        unread = sent + self._rest.text[self._read :] if self._waits else self._rest.text
        if calls and not cut and not any(call.counts for call in calls) and (self._waits or not self._calls.count):
            return unread
        if self._waits and not content.startswith(sent):
            # Many strip a whole output and stream it as it is.
            content = sent[: len(sent) - len(sent.lstrip())] + content
            if not calls and not content.startswith(sent):
                return unread
        return content

    # ---- faults

    def _try(self, parser: Any, do: Callable[[], T]) -> T | None:
        """What a plugin answers; ``None``, once logged, if it raises."""
        try:
            with imports_of(type(parser)):
                return do()
        except FAULTS as error:
            self._complain(parser, "failed; what it does not read is content", error)
            return None

    def _complain(self, parser: Any, what: str, error: BaseException | None = None) -> None:
        if what in self._failed:
            return
        self._failed.add(what)
        details = f" ({type(error).__name__}: {error})" if error else ""
        log.warning("%s %s%s", self._name(parser), what, details, exc_info=error)

    def _name(self, parser: Any) -> str:
        return f"The parser {type(parser).__name__}"

    def _adjust(self) -> None:
        """Lets the parsers change the request, as before a generation."""
        for parser in (self._reasoner, self._caller):
            adjust = getattr(parser, "adjust_request", None)
            if adjust is not None and not is_mlx(parser):
                self._request = self._try(parser, partial(_adjusted, adjust, self._request)) or self._request


def _streams(parser: ToolParser) -> bool:
    own = getattr(type(parser), "extract_tool_calls_streaming", ToolParser.extract_tool_calls_streaming)
    return own is not ToolParser.extract_tool_calls_streaming


def _splits_streams(reasoner: ReasoningParser) -> bool:
    own = _streaming_method(reasoner)
    return getattr(own, "__func__", own) is not ReasoningParser.extract_reasoning_streaming


def _method(parser: Any, name: str, older: str) -> Any:
    """The method of this name, or of its older one if only that is the plugin's own."""
    own = getattr(type(parser), name, None)
    if own is getattr(ReasoningParser, name) and hasattr(parser, older):
        return getattr(parser, older)
    for kind in type(parser).__mro__:
        if name in vars(kind):
            break
        if older in vars(kind):
            return getattr(parser, older)
    return getattr(parser, name)


def _streaming_method(reasoner: Any) -> Any:
    return _method(reasoner, "extract_reasoning_streaming", "extract_reasoning_content_streaming")


def _whole_method(reasoner: Any) -> Any:
    return _method(reasoner, "extract_reasoning", "extract_reasoning_content")


def _adjusted(adjust: Callable[[Any], Any], request: Any) -> Any:
    """The request that a parser makes of one; ``None`` if it answers none, as it may."""
    adjusted = adjust(request)
    if adjusted is not None and not isinstance(adjusted, type(request)):
        raise TypeError(f"a request must be adjusted to a request, not {adjusted!r}")
    return adjusted


def _flush(parser: Any, name: str, reason: str | None, *arguments: Any) -> Any:
    if isinstance(parser, FormatToolParser | FormatReasoningParser):
        return parser.finish(reason)
    method = getattr(parser, name, None)
    return fitted(method, arguments) if callable(method) else None


def _parts(delta: Any) -> tuple[str, str, list[Told]]:
    """Reasoning, content and calls of a delta. Raises ``TypeError`` for what is none."""
    if delta is None:
        return "", "", []
    given = plain(delta)
    if not isinstance(given, Mapping):
        raise TypeError(f"a delta must be a DeltaMessage, an object or None, not {delta!r}")
    reasoning = given.get("reasoning")
    if reasoning is None:
        reasoning = given.get("reasoning_content")
    return _text(reasoning), _text(given.get("content")), _calls(given)


def _calls(given: Mapping[str, Any]) -> list[Told]:
    calls = given.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise TypeError(f"the calls must be a list, not {calls!r}")
    return [told(call) for call in calls]


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"text must be a string, not {value!r}")
    return value or ""


def _two(split: Any) -> tuple[str | None, str | None]:
    reasoning, content = split
    return _text(reasoning) or None, _text(content) or None


def _whole(found: Any) -> tuple[str, list[Told]]:
    """Content and calls of a whole output. Raises ``TypeError`` for what is none."""
    given = plain(found)
    if not isinstance(given, Mapping):
        raise TypeError(f"an output must be read as ExtractedToolCallInformation, not {found!r}")
    return _text(given.get("content")), _calls(given) if given.get("tools_called", True) else []
