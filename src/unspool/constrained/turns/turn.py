"""A whole turn as a tree: reasoning, content and calls, after whatever the prompt leaves open.

It is the writer (:mod:`unspool.formats.writer`) with holes, from the same declarations, so that what is written is
allowed and what is allowed is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from unspool.constrained.base import GrammarError
from unspool.constrained.turns.calls import HeldTool, Making, around, body_node, calls_node
from unspool.constrained.turns.nodes import (
    EMPTY,
    Free,
    Many,
    Node,
    Response,
    Text,
    Tree,
    alt,
    behind,
    maybe,
    seq,
)
from unspool.constrained.turns.patterns import ANY, one_of
from unspool.formats.writer import layout_due
from unspool.formats.written_calls import stands_bare
from unspool.parsing.declaration import ChannelCalls, Format, Frame, JsonArguments, Reasoning, RegionCalls
from unspool.parsing.grammar import compile_grammar
from unspool.parsing.parser import open_block, turn_tail

ReasoningChoice: TypeAlias = Literal["auto", "required", "off"]


@dataclass(slots=True)
class Turn:
    """What one turn is held to.

    ``calls`` says whether calls may come, must come or can't; ``tools`` are those that may be called. ``answers``:
    content is held to a grammar of its own.
    """

    fmt: Format
    tools: Sequence[HeldTool] = ()
    calls: Literal["none", "auto", "required"] = "none"
    parallel: bool = True
    reasoning: ReasoningChoice = "auto"
    answers: bool = False
    making: Making = field(default_factory=Making)

    def __post_init__(self) -> None:
        shape = self.fmt.calls
        ends = (*shape.ends, shape.start) if isinstance(shape, ChannelCalls) else ()
        self.making.marks = (*self.fmt.stops, *self.fmt.next_turns, *ends)

    def tree(self, prompt: str | None) -> Tree:
        """The tree of the turn after a prompt. Raises :class:`GrammarError`."""
        shape = self.fmt.calls
        if isinstance(shape, RegionCalls):
            raise GrammarError(
                f"The format {self.fmt.name!r} was read from a response template, which says how an output is "
                "read and not how one is written; use the family's own format."
            )
        tail = turn_tail(self.fmt, prompt)
        root = self._channels(shape, tail) if isinstance(shape, ChannelCalls) else self._blocks(tail)
        return Tree(root, self.making.rules)

    def content_marks(self) -> tuple[str, ...]:
        """What content may not hold, since a reader would take it for something else."""
        return compile_grammar(self.fmt, self.calls != "none", False).marks

    # ---- reasoning, then content and calls

    def _blocks(self, tail: str) -> Node:
        fmt = self.fmt
        opened = open_block(fmt, tail)
        calls = None
        if self.calls == "required" or (self.calls == "auto" and fmt.calls is not None):
            calls = calls_node(fmt, self.tools, self.making, parallel=self.parallel)
        if opened is not None:
            return self._reasoned(opened, calls, begun=True)
        closed, begun = _behind_reasoning(fmt, tail)
        if begun.strip():
            return self._going_on(calls, begun)
        if self.reasoning == "required" and (closed or not fmt.reasoning):
            raise GrammarError(
                f"The format {fmt.name!r} can't reason here: it has no reasoning, or the prompt has closed it."
            )
        options = []
        if fmt.reasoning and self.reasoning != "off":
            options.append(self._reasoned(fmt.reasoning[0], calls, begun=False))
        if self.reasoning != "required":
            options.append(self._answer(calls, layout_due(fmt, tail)))
        return alt(options)

    def _going_on(self, calls: Node | None, begun: str) -> Node:
        """The rest of an answer that the prompt begins."""
        nodes = [self._answer(calls, "")]
        if calls is not None and self.calls == "required" and not stands_bare(self.fmt.calls):
            nodes.append(self._content_and_calls(calls, self._frame(), ""))
        for node in nodes:
            for text in dict.fromkeys((begun, begun.lstrip())):
                left = behind(node, text)
                if left is not None:
                    return left
        raise GrammarError(f"The prompt ends with {begun[-40:]!r}, and what is demanded can't go on from there.")

    def _reasoned(self, block: Reasoning, calls: Node | None, *, begun: bool) -> Node:
        """A block of reasoning, which the prompt may have begun, and what follows it."""
        fmt = self.fmt
        before = EMPTY if begun else Text(fmt.lead + block.open + block.open_pad)
        marks = (block.close, *block.closes_too, *block.ends_at, *fmt.stops, block.open)
        if begun and self.reasoning == "off":
            return seq(block.close_pad + block.close, self._answer(calls, block.after))
        text = Free(marks, block.close_pad, block.close)
        if not (block.holds_calls and block.writes_inside and calls is not None):
            return seq(before, text, self._answer(calls, block.after))
        # Calls stand inside, and a closer may follow them, and content that.
        openers = tuple(compile_grammar(fmt, True, False).calls)
        closer = seq(block.close_pad, block.close)
        inside = seq(before, self._before_calls(calls, (*marks, *openers)), fmt.calls_end)
        options = [seq(inside, closer if block.closes_last else EMPTY)]
        if self.calls == "auto":
            quiet = replace(text, without=(*marks, *openers))
            options.append(seq(before, quiet, self._answer(None, block.after)))
            options.append(seq(inside, closer, self._answer(None, block.after)))
        return alt(options)

    def _answer(self, calls: Node | None, layout: str) -> Node:
        """Content and calls with the frames around them, behind the layout that is due."""
        fmt = self.fmt
        content = self._content(layout)
        if calls is None:
            return content
        frame = self._frame()
        opener = after = ""
        if frame is not None and frame.written == "always":
            opener = _opener(frame)
            after = frame.close_pad + frame.close + frame.after
        end = self._after_calls()
        if frame is not None and frame.holds_calls:
            alone = seq(layout, opener, fmt.before_call_alone, calls, after, end)
        else:
            alone = seq(layout, opener, after, fmt.before_call_alone, calls, end)
        if self.calls == "required":
            return alone
        options = [alone, content]
        if not self.answers and not stands_bare(fmt.calls):
            options.append(seq(self._content_and_calls(calls, frame, layout), end))
        return alt(options)

    def _after_calls(self) -> Node:
        """What follows the calls of a turn."""
        fmt, end = self.fmt, maybe(Text(self.fmt.turn_end))
        if fmt.calls_first and self.calls == "auto":
            end = alt((end, self._content("")))
        return seq(fmt.calls_end, end)

    def _content_and_calls(self, calls: Node, frame: Frame | None, layout: str) -> Node:
        fmt = self.fmt
        if frame is None:
            return self._before_calls(calls, self.content_marks())
        opener = _opened(frame, layout)
        if frame.holds_calls or not frame.close:
            return seq(
                opener,
                self._before_calls(calls, self.content_marks()),
                frame.close_pad + frame.close + frame.after,
            )
        text = Free((*self.content_marks(), frame.close), frame.close_pad, frame.close)
        return seq(opener, text, frame.after, fmt.before_call, calls)

    def _before_calls(self, calls: Node, marks: Sequence[str]) -> Node:
        """Free text that ends where the calls open, and the calls."""
        found = ((mark, behind(calls, mark)) for mark in dict.fromkeys(marks) if mark)
        opener, rest = next(((mark, rest) for mark, rest in found if rest is not None), ("", None))
        if rest is None:
            raise GrammarError(f"Calls of {self.fmt.name!r} have no opener that text could end at.")
        return seq(Free(tuple(marks), self.fmt.before_call, opener), rest)

    def _content(self, layout: str) -> Node:
        """Content that ends the turn."""
        fmt, frame = self.fmt, self._frame()
        opener = EMPTY if frame is None else _opened(frame, layout)
        closer = "" if frame is None else frame.close
        end = maybe(Text(fmt.turn_end))
        if self.answers:
            closed = "" if frame is None else frame.close_pad + frame.close + frame.after
            opener = maybe(Text(layout)) if frame is None else opener
            return seq(opener, Response(), closed, maybe(Text(fmt.content_end)), end)
        free = Free(tuple(filter(None, (*self.content_marks(), closer))), but=self._calls_alike())
        if closer:
            after = maybe(Text(frame.after if frame else ""))
            return seq(opener, replace(free, pad=frame.close_pad if frame else "", closer=closer), after, end)
        ends = [free] + ([replace(free, closer=fmt.turn_end)] if fmt.turn_end else [])
        return seq(opener, alt(ends))

    def _calls_alike(self) -> tuple[str, ...]:
        """Expressions for content that a reader could take for a call without markers."""
        if self.calls == "none" or not stands_bare(self.fmt.calls):
            return ()
        names = one_of(tool.name for tool in self.tools)
        return (rf"\s*[\[\{{]{ANY}", rf"\s*{names}\s*\n{ANY}")

    def _frame(self) -> Frame | None:
        """The frame that is written around content."""
        return next((frame for frame in self.fmt.frames if frame.written != "never"), None)

    # ---- messages in channels

    def _channels(self, shape: ChannelCalls, tail: str) -> Node:
        layout = shape.written
        ends = tuple(dict.fromkeys(filter(None, (*shape.ends, shape.start, layout.end, layout.last))))

        def free(header: str, end: str) -> Node:
            closer = next((mark for mark in ends if mark and end.startswith(mark)), "")
            return seq(header, Free(ends, closer=closer), end.removeprefix(closer))

        between: list[Node] = []
        if self.reasoning != "off" and layout.reasoning:
            between.append(free(layout.reasoning, layout.end))
        finals: list[Node] = []
        if self.calls != "none":
            if self.calls == "auto" and layout.preamble and not self.answers:
                between.append(free(layout.preamble, layout.end))
            finals.append(self._channel_calls(shape))
        if self.calls != "required":
            if self.answers:
                finals.append(seq(layout.content, Response(), layout.last))
            else:
                finals.append(free(layout.content, layout.last))
        final = alt(finals)
        if self.reasoning == "required" and not layout.reasoning:
            raise GrammarError(f"The format {self.fmt.name!r} has no reasoning, so none can be demanded.")
        if not between:
            return self._from(final, tail)
        one = alt(between)
        messages = Many(seq(one, layout.next), EMPTY, 0, None)
        first = seq(one, layout.next, messages, final)
        if self.reasoning == "required":
            return self._from(seq(between[0], layout.next, messages, final), tail)
        return self._from(alt((final, first)), tail)

    def _channel_calls(self, shape: ChannelCalls) -> Node:
        """The messages that hold the calls of a turn."""
        layout, body = shape.written, shape.body
        if layout.shared:
            header = layout.call.format(name=self.tools[0].name)
            one = alt(body_node(body, tool, self.making) for tool in self.tools)
            assert not isinstance(body, JsonArguments)
            return seq(header, around(self.fmt, body, one, parallel=self.parallel), layout.last_call)
        made = []
        for tool in self.tools:
            inside = body_node(body, tool, self.making)
            if not isinstance(body, JsonArguments):
                inside = around(self.fmt, body, inside, parallel=False)
            made.append(seq(layout.call.format(name=tool.name), inside))
        one = alt(made)
        if not self.parallel:
            return seq(one, layout.last_call)
        more = Many(seq(layout.call_end, layout.next, one), EMPTY, 0, None)
        return seq(one, more, layout.last_call)

    def _from(self, node: Node, tail: str) -> Node:
        """The tree behind what the prompt has begun of a message."""
        left = behind(node, tail) if tail else node
        return node if left is None else left


def _behind_reasoning(fmt: Format, tail: str) -> tuple[bool, str]:
    """Whether the prompt closes reasoning, and what it has of the answer."""
    ends = [found + len(block.close) for block in fmt.reasoning if (found := tail.rfind(block.close)) >= 0]
    return bool(ends), tail[max(ends, default=0) :]


def _opener(frame: Frame) -> str:
    return frame.open + frame.open_pad


def _opened(frame: Frame, layout: str) -> Node:
    """What opens a frame, with the layout before it or without."""
    return alt((Text(layout + _opener(frame)), Text(_opener(frame))))
