"""The parser: one generation in, events out, the same however the text is cut."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from unspool.events import (
    ContentDelta,
    Event,
    Finish,
    FinishReason,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format, Reasoning, RegionCalls, map_strings, strings
from unspool.parsing.expressions import ended
from unspool.parsing.filters import event_filter
from unspool.parsing.grammar import compile_grammar
from unspool.parsing.reader import Reader
from unspool.parsing.scanner import pattern
from unspool.parsing.schema import AnyTool, offered_tools
from unspool.parsing.signals import Rejection, Span
from unspool.parsing.tokens import Detokenizer, Shown, Tables, sentinels
from unspool.parsing.turn import turn

ToolChoice: TypeAlias = str | Mapping[str, Any] | None

_COMMON_TURNS = (
    "<|im_start|>assistant\n",
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|assistant|>",
    "<|Assistant|>",
    "<｜Assistant｜>",
    "[/INST]",
    "<start_of_turn>model\n",
    "<|turn>model\n",
    "<|start|>assistant",
)
"""Turn openers of common templates, for prompts of a template that is not the format's own."""

_REASONS: dict[str | None, FinishReason] = {
    None: "stop",
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "error": "error",
    "cancelled": "cancelled",
    "abort": "cancelled",
}


def _with_sentinels(format: Format, tables: Tables) -> Shown:
    """What every parser of a served model needs of a format and a tokenizer, made once for both."""
    if format not in tables.shown:
        marks = sentinels(tables.special, strings(format))
        by_id = {token: marks.get(text, "") for token, text in tables.special.items()}
        tables.shown[format] = marks, by_id, map_strings(format, marks)
    return tables.shown[format]


class Parser:
    """Reads one generation of a model.

    ``tools`` are the offered OpenAI function tools; without any, or with ``tool_choice="none"``, call syntax is
    ordinary content. ``prompt`` is the rendered prompt or its tail: what stands after the last turn opener
    decides whether the output starts inside reasoning; without a prompt the format's default start applies.
    ``arguments="incremental"`` sends argument text as it comes, ``"atomic"`` holds a call back until it is
    complete. ``tokenizer`` enables :meth:`feed_tokens`; markers that are special tokens then match by id only.
    ``parallel_tool_calls=False`` lets only the first call through.

    No text raises, whatever it is. ``ValueError``: an argument is wrong; ``TypeError``: so is the tokenizer.
    """

    __slots__ = ("_cut", "_detokenizer", "_finished", "_first", "_marks", "_reader", "_texts", "format")

    def __init__(
        self,
        format: Format,
        *,
        tools: Iterable[Mapping[str, Any]] | AnyTool | None = None,
        tool_choice: ToolChoice = "auto",
        prompt: str | None = None,
        arguments: Literal["incremental", "atomic"] = "incremental",
        tokenizer: Any | None = None,
        parallel_tool_calls: bool = True,
        trace: bool = False,
    ) -> None:
        if not isinstance(format, Format):
            raise TypeError(f"format must be a Format, not {format!r}; unspool.get_format(name) gives one")
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"prompt must be the rendered prompt's text, not {type(prompt).__name__}")
        if arguments not in ("incremental", "atomic"):
            raise ValueError(f"arguments must be 'incremental' or 'atomic', not {arguments!r}")
        offered = offered_tools(tools)
        if tool_choice == "none":
            offered = {}
        marks: Mapping[str, str] = {}
        self._detokenizer: Detokenizer | None = None
        # Whether it may hold part of a character: here as well, since each token asks.
        self._cut = False
        self._marks: Mapping[int, str] = {}
        self._texts: Mapping[int, str] = {}
        special: Mapping[int, str] = {}
        if tokenizer is not None:
            self._detokenizer = Detokenizer(tokenizer)
            special = self._detokenizer.special
        shown = format = bound(format, vocabulary=special.values(), prompt=prompt)
        if self._detokenizer is not None:
            marks, self._marks, shown = _with_sentinels(format, self._detokenizer.tables)
            self._texts = self._detokenizer.tables.texts
        reader = Reader(
            tools=offered,
            atomic=arguments == "atomic",
            parallel=parallel_tool_calls,
            spelled={char: text for text, char in marks.items()} if tokenizer is not None else None,
            trace=trace,
        )
        self.format = format
        reader.stops = shown.stops
        reader.reopens = tuple(block.open for block in shown.reasoning if block.recurs)
        reader.steps = turn(reader, compile_grammar(shown, bool(offered), _forces_a_call(tool_choice, offered)))
        self._reader = reader
        self._finished = False
        self._first: list[Event] = []
        self._start_from(prompt, marks)
        if format.text_filter:
            reader.filter = event_filter(format.text_filter)

    def feed(self, text: str) -> list[Event]:
        """Takes the next piece of text, however cut, and returns the events that it makes certain."""
        # Nearly every token ends here. While text flows, nothing unusual can be due.
        reader = self._reader
        stop = reader.stop
        if (state := reader.state) is not None and text:
            move = state.moves.get(text)
            if move is None:
                # Whoever feeds text may feed anything: only what is found out at some cost is remembered.
                if stop is not None and stop(text) is None:
                    return reader.sink(text)
                move = state.move(text)
            return reader.step(text) if move is None else reader.go(move)
        if stop is not None and text:
            if stop(text) is None or ((whole := reader.whole) is not None and whole(text)):
                return reader.sink(text)
            return reader.step(text)
        if self._first or self._finished:
            return self._unusual(text)
        return reader.feed(text)

    def feed_tokens(self, ids: Sequence[int]) -> list[Event]:
        """Takes the next token ids; markers that are special tokens are known by id.

        Special tokens that the format does not name, such as an end of text, are no text.
        """
        if len(ids) == 1:
            # Nearly every token ends here.
            token = ids[0]
            if not self._cut and (known := self._texts.get(token)) is not None:
                if (state := self._reader.state) is not None:
                    move = state.moves.get(known) or state.move(known)
                    if move is not None:
                        said, after = move
                        return [said] if after is state and said is not None else self._reader.go(move)
                return self.feed(known)
        detokenizer, marks = self._detokenizer, self._marks
        if detokenizer is None:
            raise ValueError("feed_tokens needs a parser that was built with tokenizer=")
        out: list[Event] = []
        pending = ""
        for token in ids:
            mark = marks.get(token)
            if mark is None:
                pending += detokenizer.text(token)
                self._cut = detokenizer.cut
                continue
            pending += detokenizer.flush()
            if mark:
                if pending:
                    out += self.feed(pending)
                    pending = ""
                out += self._unusual("") if self._first or self._finished else []
                out += self._reader.step(mark)
        if pending:
            out += self.feed(pending)
        return out

    def finish(self, reason: str | None = "stop", usage: Usage | None = None) -> list[Event]:
        """Ends the generation; the last event is its only :class:`Finish`.

        ``reason`` is why it ended, in any engine's spelling; ``length`` wins, and a plain stop after a complete
        call is ``tool_calls``.
        """
        if self._finished:
            return []
        if reason not in _REASONS:
            raise ValueError(f"unknown finish reason {reason!r}; use one of {sorted(filter(None, _REASONS))}")
        out: list[Event] = []
        if self._detokenizer is not None and (rest := self._detokenizer.flush()):
            out += self.feed(rest)
        elif self._first:
            out += self._unusual("")
        self._finished = True
        self._reader.final = True
        self._reader.cut = _REASONS[reason] in ("length", "cancelled", "error")
        out += self._reader.step("")
        final = _REASONS[reason]
        if final in ("stop", "tool_calls"):
            final = "tool_calls" if self._reader.call.ended else "stop"
        out.append(Finish(final, usage))
        return out

    @property
    def spans(self) -> list[Span]:
        """With ``trace=True``: what each character read so far became, in order."""
        return list(self._reader.spans or ())

    @property
    def rejected(self) -> Mapping[Rejection, int]:
        """How often text that began like a call was none, by reason."""
        return self._reader.rejected

    def _unusual(self, text: str) -> list[Event]:
        if self._finished:
            raise ValueError("the generation is finished; use a new parser")
        first, self._first = self._first, []
        return first + self._reader.feed(text)

    def _start_from(self, prompt: str | None, marks: Mapping[str, str]) -> None:
        """Reads the prompt after the last turn opener, as the beginning of what the model goes on with."""
        tail = turn_tail(self.format, prompt)
        for text, char in marks.items():
            tail = tail.replace(text, char)
        reader = self._reader
        reader.begin_prompt(len(tail))
        events = reader.step(tail)
        if not reader.holding and reader.text[reader.pos :].isspace():
            reader.pos = len(reader.text)
        spoke = any(isinstance(event, ContentDelta | ToolCallStart) for event in events)
        reader.fresh = not spoke and not reader.call.pending
        before = reader.begin_output()
        for event in events:
            # A call that the prompt leaves open belongs to the answer.
            match event:
                case ToolCallStart(index, call_id, name) if index >= before:
                    self._first.append(ToolCallStart(index - before, call_id, name))
                case ToolCallDelta(index, arguments) if index >= before:
                    self._first.append(ToolCallDelta(index - before, arguments))


def _forces_a_call(choice: ToolChoice, offered: Container[str]) -> bool:
    """Whether a call must come: then it may come as the plain JSON that some engines constrain to."""
    if not isinstance(choice, Mapping):
        if choice in ("auto", "none", None):
            return False
        if choice in ("required", "any") or choice in offered:
            return True
        raise ValueError(f"tool_choice must be auto, none, required or an offered tool's name, not {choice!r}")
    if choice.get("type") == "allowed_tools":
        return bool(choice.get("allowed_tools", choice).get("mode") == "required")
    return choice.get("type") not in ("auto", "none")


def turn_tail(fmt: Format, prompt: str | None) -> str:
    """What the prompt has after its last turn opener; without a prompt, what the format's default one has."""
    if prompt is None:
        return fmt.start
    if isinstance(fmt.calls, RegionCalls) and fmt.calls.anchor:
        anchors = [found.end() for found in pattern(ended(fmt.calls.anchor, bounded=False)).finditer(prompt)]
        if anchors:
            return prompt[anchors[-1] :]
    for turns in (fmt.turns, _COMMON_TURNS):
        ends = [found + len(mark) for mark in turns if mark and (found := prompt.rfind(mark)) >= 0]
        if ends:
            return prompt[max(ends) :]
    # Of a template whose turns aren't known, only what it leaves open or closed at its very end.
    end = prompt.rstrip()
    for block in fmt.reasoning:
        for mark in (block.open, block.close):
            if end.endswith(mark):
                return prompt[len(end) - len(mark) :]
    return prompt


def open_block(fmt: Format, tail: str) -> Reasoning | None:
    """The reasoning block that a prompt with this end leaves open."""
    for block in fmt.reasoning:
        if block.open in tail and tail.rfind(block.open) > tail.rfind(block.close):
            return block
    return None
