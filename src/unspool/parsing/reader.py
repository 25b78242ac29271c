"""What every reader of this package reads from, by way of the buffer, and speaks through.

The grammar of a generation is written as coroutines (``turn``, ``calls``, ``codecs``) that read straight ahead
and ``yield`` when they need more text. What they decide goes out through the methods here, in order and for
good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from unspool.events import ContentDelta, Event, ReasoningDelta
from unspool.parsing.buffer import Buffer
from unspool.parsing.opencall import OpenCall
from unspool.parsing.signals import HOLD, PROBE, Kind, NotACall, Opened, Rejection, Span, Steps, Unfinished
from unspool.parsing.tokens import SENTINEL


def stop(r: Reader, why: str) -> NoReturn:
    """Raises what fits: the text ended, perhaps in the middle of a marker, or what stands here is wrong."""
    if r.final and r.pos in (len(r.text), r.torn):
        raise Unfinished("the text ends inside a call")
    raise NotACall(why)


class Reader(Buffer):
    """Text in, events out; the state that the coroutines share."""

    __slots__ = (
        *("_out", "_probing", "_raw_base", "_settled", "_spelled", "barriers", "call", "cut", "fresh", "holding"),
        *("in_prompt", "rejected", "reopens", "spoke", "steps", "stops", "tools", "unclosed"),
    )

    def __init__(
        self,
        *,
        tools: Mapping[str, Any],
        atomic: bool,
        parallel: bool,
        spelled: Mapping[str, str] | None,
        trace: bool,
    ) -> None:
        super().__init__(trace=trace)
        self.cut = False
        self.tools = tools
        self.call = OpenCall(atomic=atomic, parallel=parallel)
        self.spoke = False
        self.fresh = True
        self.in_prompt = False
        self.holding = False
        self.stops: tuple[str, ...] = ()
        self.reopens: tuple[str, ...] = ()
        self.barriers: tuple[str, ...] = ()
        self.unclosed: set[str] = set()
        self._out: list[Event] = []
        self.steps: Steps[None]
        self._spelled = spelled
        self.rejected: Counter[Rejection] = Counter()
        self._probing = False
        self._raw_base = 0
        self._settled = 0

    # ---- text in

    def feed(self, delta: str) -> list[Event]:
        """The events that this text makes certain."""
        if not delta:
            return []
        if not isinstance(delta, str):
            raise TypeError(f"feed takes text, not {type(delta).__name__}; feed_tokens takes token ids")
        return self.step(delta)

    def step(self, delta: str) -> list[Event]:
        """Wakes the coroutine with this text, which may be empty; the events that it then makes."""
        self.stop = None
        self.state = None
        self.call.flowed()
        self._let_go()
        self.text += delta
        out: list[Event] = []
        self._out = out
        next(self.steps, None)
        self.call.send(out)
        return out if self.filter is None else self.filter(out, self.final)

    # ---- for coroutines: speaking

    def certain(self, literal: str) -> bool:
        """Whether the literal holds a special token that arrived by id, so that it can't be mere letters."""
        return self._spelled is not None and SENTINEL.search(literal) is not None

    def spell(self, text: str) -> str:
        """The text with special tokens spelled out."""
        spelled = self._spelled
        if spelled is None or SENTINEL.search(text) is None:
            return text
        return SENTINEL.sub(lambda found: spelled.get(found.group(), ""), text)

    def content(self, end: int, note: str = "plain text") -> None:
        """Everything up to ``end`` is content."""
        if end > self.pos:
            start = self.offset
            if text := self._generated(self.take(end, "content", note), start):
                self._out.append(ContentDelta(self.spell(text)))
            self.spoke = True
            self.fresh = False

    def reasoning(self, end: int, note: str = "inside reasoning") -> None:
        """Everything up to ``end`` is reasoning."""
        if end > self.pos:
            start = self.offset
            self.say_reasoning(self.take(end, "reasoning", note), start)

    def say_reasoning(self, text: str, start: int) -> None:
        """This text, consumed before from the offset ``start`` on, is reasoning."""
        if text := self._generated(text, start):
            self._out.append(ReasoningDelta(self.spell(text)))
        self.spoke = True

    def insert(self, text: str, *, reasoning: bool) -> None:
        """Text that stands in the message and not in the output."""
        self._out.append(ReasoningDelta(text) if reasoning else ContentDelta(text))

    def _generated(self, text: str, start: int) -> str:
        """Text that was read from the offset ``start`` on, without what the prompt has of it."""
        return text if start >= 0 or self.in_prompt else text[-start:]

    def arguments_sink(self, convert: Callable[[str], str] | None = None) -> Callable[[str], list[Event]]:
        """For :meth:`flow`: the delta is argument text, as it stands or converted."""
        assert self._raw is not None
        self.call.send(self._out)
        return self.call.flow(self._raw.append, convert)

    def raw_sink(self, parts: list[str]) -> Callable[[str], list[Event]]:
        """For :meth:`flow`: the delta is text of the open call and gathers in ``parts``."""
        assert self._raw is not None
        raw = self._raw.append

        def gather(delta: str) -> list[Event]:
            raw(delta)
            parts.append(delta)
            return []

        return gather

    # ---- for coroutines: calls

    def begin_call(self) -> None:
        """From here on the text may be a call; what was read before is certain."""
        self._raw = []
        self._raw_from = self.pos
        self._raw_base = self._base + self.pos
        self._settled = 0

    def settle(self, part: Callable[[str], int] | None = None) -> None:
        """What was read of the call so far, or ``part`` of it, is read for good, even if the call is none.

        The rest is read again then: a marker in it may be the opener of the next call. ``part`` says how many
        characters of the text read since the last time are settled.
        """
        if self._raw is None:
            return
        self._raw.append(self.text[self._raw_from : self.pos])
        self._raw_from = self.pos
        if part is not None:
            rest = "".join(self._raw[self._settled :])
            size = part(rest)
            self._raw[self._settled :] = [rest[:size], rest[size:]]
            self._settled += 1
        else:
            self._settled = len(self._raw)

    def start_call(self, name: str) -> None:
        """The call's name is complete."""
        if self._probing:
            raise Opened(name)
        self.settle()
        self.spoke = True
        self.fresh = False
        self.call.start(name, self._out)

    def arguments(self, text: str) -> None:
        """Argument text, as JSON."""
        self.call.say(text)

    def hold_arguments(self) -> Callable[[str], None]:
        """From here on no argument text goes out, until the returned function is told what comes before it."""
        return self.call.hold()

    def argument_text(self) -> str:
        """All argument text of the open call so far."""
        return self.call.text

    def close_call(self) -> None:
        """The call's arguments are complete; it counts once :meth:`confirm_calls` says so."""
        self.call.close(self._out)

    def confirm_calls(self) -> None:
        """The calls closed so far are certain."""
        self.call.confirm(self._out)

    def end_call(self) -> None:
        """The raw text of a call that succeeded is no longer needed."""
        if self._probing:
            raise NotACall("no call was named")
        self.confirm_calls()
        self._raw = None

    def reject_call(self, why: NotACall, *, in_reasoning: bool = False) -> None:
        """What was taken for a call is text, as it was written; a call cut by the token limit is nothing.

        What is not settled is read again.
        """
        assert self._raw is not None
        self.call.reject(self._out)
        raw = self._generated(self._give_back(everything=isinstance(why, Unfinished)), self._raw_base)
        cut = isinstance(why, Unfinished) and self.cut
        self.rejected["cut" if cut else "unfinished" if isinstance(why, Unfinished) else "malformed"] += 1
        if self.spans is not None:
            start = max(self._raw_base, 0)
            self._forget(start)
            note = "call cut by the token limit" if cut else f"no call: {why}"
            kind: Kind = "cut" if cut else "reasoning" if in_reasoning else "content"
            if self.offset > start:
                self.spans.append(Span(start, self.offset, kind, note))
        if raw and not cut:
            said = ReasoningDelta if in_reasoning else ContentDelta
            self._out.append(said(self.spell(raw)))
        self.spoke = True
        self.fresh = False

    def attempt(self, steps: Steps[None], *, in_reasoning: bool = False) -> Steps[bool]:
        """Reads the call that :meth:`begin_call` began, by these steps; whether it is one."""
        try:
            yield from steps
        except NotACall as why:
            self.reject_call(why, in_reasoning=in_reasoning)
            return False
        self.end_call()
        return True

    def _give_back(self, *, everything: bool) -> str:
        """The raw text of the open call that is text for good; unless that is all of it, the rest comes again."""
        assert self._raw is not None
        said = "".join(self._raw[: self._settled])
        rest = "".join(self._raw[self._settled :])
        if everything:
            said += rest + self.text[self._raw_from :]
            self.pos = len(self.text)
        else:
            # Mostly it is still here: a copy for each call that is none would cost their number times the text.
            self.pos = self._raw_from - len(rest)
            if self.pos < 0:
                self.text = rest + self.text[self._raw_from :]
                self.pos = 0
            # Counted from the call's beginning: what flowed since is not in the offset.
            self._base = self._raw_base + len(said) - self.pos
        self._raw = None
        return said

    # ---- for coroutines: looking ahead without deciding

    def probe(self, steps: Steps[Any]) -> Steps[str | None]:
        """Runs a call reader only as far as the name; reads nothing for good. ``None``: no call opens here."""
        self._keep = self.pos
        self._probing = True
        try:
            for _ in steps:
                if len(self.text) - self._keep > PROBE + HOLD:
                    return None
                yield
        except Opened as opened:
            return opened.name if self.pos - self._keep <= PROBE else None
        except Unfinished:
            raise
        except NotACall:
            pass
        finally:
            self._probing = False
            start = self._keep
            self._keep = None
            self.pos = start
            self._forget(self.offset)
        return None

    def begin_prompt(self, size: int) -> None:
        """The next ``size`` characters are the prompt's: their offsets are negative."""
        self.in_prompt = True
        self._base = -size

    def begin_output(self) -> int:
        """Calls count from here; returns the number that the first one had until now."""
        self.in_prompt = False
        self.stop = None
        self.state = None
        return self.call.count_from_here()

    def rewind(self, text: str, offset: int) -> None:
        """Gives text back that was read from ``offset`` (characters of the whole generation) on."""
        self.text = text
        self.pos = 0
        self._base = offset
        self._forget(offset)

    def _forget(self, offset: int) -> None:
        """Drops the spans behind ``offset``: that text is read again, or became something else."""
        while self.spans and self.spans[-1].end > offset:
            self.spans.pop()
