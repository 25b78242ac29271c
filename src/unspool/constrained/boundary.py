"""Where reasoning starts and ends in a generation, by token ids, and when its budget is used up.

One tracker per request is fed with accepted tokens; grammar, budget and parser read it. It is a fold: the state
after n tokens depends on nothing but those tokens, and one reference to it is kept for each token, so rollback
to any length is exact. Once in content, where no marker opens reasoning again, nothing more is kept. Prompt
tokens decide only the first state: they are never counted. No text is looked at, so letters that spell a marker
are letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import index

_LATEST = 3  # tokens that a character may still need when the budget is used up
_MOST_PADS = 2  # tokens of framing behind the end marker


class Phase(Enum):
    """What the model is writing: nothing yet, reasoning, the forced end of it, or content."""

    IDLE = "idle"
    THINKING = "thinking"
    TRANSITIONING = "transitioning"
    CONTENT = "content"


class Marker:
    """A sequence of token ids, at least one, and how much of it the last tokens spell, overlaps included."""

    __slots__ = ("_shorter", "ids")

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(ids)
        self._shorter = [0] * len(self.ids)
        for position in range(1, len(self.ids)):
            self._shorter[position] = self.advance(self._shorter[position - 1], self.ids[position])

    def __len__(self) -> int:
        return len(self.ids)

    def advance(self, matched: int, token: int) -> int:
        """How many ids are spelled after one more token, if ``matched`` (not all) were before."""
        while matched and self.ids[matched] != token:
            matched = self._shorter[matched - 1]
        return matched + (self.ids[matched] == token)


@dataclass(frozen=True, slots=True)
class _State:
    """``matched``: ids spelled of the start marker (IDLE) or of each end marker (THINKING, TRANSITIONING).

    ``pending`` generated tokens at the end are part of that; ``used`` were reasoning. ``outside`` are no content.
    ``plan`` is what is still forced, ``owed`` how many bytes an unfinished character lacks, ``late`` how many
    tokens it has taken beyond the budget. ``since`` is the length at which content began, before which ``pads``
    tokens of framing may still come.
    """

    phase: Phase
    matched: tuple[int, ...] = ()
    pending: int = 0
    used: int = 0
    outside: int = 0
    plan: tuple[int, ...] = ()
    owed: int = 0
    late: int = 0
    since: int = 0
    pads: int = 0


class BoundaryTracker:
    """Follows one generation from the reasoning into the content.

    ``start`` and ``end`` are the markers, as ids; with an empty ``start`` only ``opened`` says that there is
    reasoning. ``more_ends`` are other end markers, ``implicit_ends`` single ids that end reasoning and are
    content themselves, such as the opener of a call. ``budget`` bounds the reasoning tokens of the whole
    response, markers excluded; when it is used up the end marker is forced, after ``closing`` (the ids of a last
    sentence) unless the model has begun the marker itself.

    The first phase is read off ``prompt``, the ids before the generation, behind the last of ``turn_openers``
    (without them the whole prompt counts as one turn); ``opened`` says instead whether it leaves reasoning open.
    ``required``: reasoning has to come, so the start marker is forced. ``reopens``: reasoning may come again
    after content, on the same budget; then the start marker must be one token. ``layout`` are ids that may stand
    before the start marker, ``after`` are ids of which two may follow the end marker, without being content.
    With ``piece``, the bytes of a token, reasoning is never cut inside a character.

    Raises ``ValueError`` for markers that can't be followed. No token raises.
    """

    def __init__(
        self,
        start: Iterable[int],
        end: Iterable[int],
        *,
        budget: int | None = None,
        more_ends: Iterable[Iterable[int]] = (),
        implicit_ends: Iterable[int] = (),
        closing: Iterable[int] = (),
        prompt: Sequence[int] = (),
        turn_openers: Iterable[Sequence[int]] = (),
        opened: bool | None = None,
        required: bool = False,
        reopens: bool = False,
        layout: Iterable[int] = (),
        after: Iterable[int] = (),
        piece: Callable[[int], bytes] | None = None,
    ) -> None:
        start = _ids(start, "start")
        self.start = Marker(start) if start else None
        self.ends = (Marker(_some(end, "end")), *map(Marker, _several(more_ends, "more_ends")))
        self.implicit_ends = frozenset(_ids(implicit_ends, "implicit_ends"))
        self.closing = _ids(closing, "closing")
        self.layout = frozenset(_ids(layout, "layout"))
        self.after = frozenset(_ids(after, "after"))
        self.required = required
        self.reopens = reopens
        self.budget = budget
        self._piece = piece
        if budget is not None and (not isinstance(budget, int) or budget < 0):
            raise ValueError(f"A budget is a number of tokens, not {budget!r}.")
        if reopens and (self.start is None or len(self.start) > 1):
            raise ValueError("Reasoning can open again only with a start marker of one token.")
        if required and self.start is None:
            raise ValueError("Reasoning can't be required without a start marker.")
        self._check_ends()
        self._length = 0
        self._states = [self._first(prompt, _several(turn_openers, "turn_openers"), opened)]

    @property
    def phase(self) -> Phase:
        """What the model is writing now."""
        return self._states[-1].phase

    @property
    def markers(self) -> tuple[Marker, ...]:
        """The markers of reasoning that content must not have."""
        return (*self.ends, *([self.start] if self.start is not None else []))

    @property
    def thinking_tokens(self) -> int:
        """Reasoning tokens that the model chose, markers excluded, over all blocks."""
        state = self._states[-1]
        return state.used + (state.pending if state.phase is Phase.THINKING else 0)

    @property
    def length(self) -> int:
        """How many tokens were accepted and not rolled back."""
        return self._length

    @property
    def content_length(self) -> int:
        """How many of them are content; those that may still begin a start marker are not."""
        return self._length - self._states[-1].outside

    @property
    def content_run(self) -> int:
        """How many tokens of content stand at the very end, behind all reasoning; 0 outside of content."""
        state = self._states[-1]
        return self._length - state.since if state.phase is Phase.CONTENT else 0

    @property
    def pending(self) -> int:
        """How many of the last tokens may begin a start marker, or else be content."""
        state = self._states[-1]
        return state.pending if state.phase is Phase.IDLE else 0

    @property
    def padding(self) -> frozenset[int]:
        """The ids that may come here without being content: before the start marker, or behind the end marker."""
        state = self._states[-1]
        if state.phase is Phase.IDLE:
            return self.layout if not any(state.matched) else frozenset()
        return self.after if state.pads else frozenset()

    @property
    def opener(self) -> int | None:
        """The id that goes on with the start marker, where one may come."""
        state = self._states[-1]
        if self.start is None:
            return None
        if state.phase is Phase.IDLE:
            return self.start.ids[state.matched[0]]
        return self.start.ids[0] if self.reopens and state.phase is Phase.CONTENT else None

    @property
    def forced(self) -> int | None:
        """The only id that may come next, if there is one."""
        state = self._states[-1]
        if state.phase is Phase.TRANSITIONING:
            return state.plan[0]
        return self.opener if self.required and state.phase is Phase.IDLE else None

    def accept(self, token: int) -> None:
        """Takes the next generated token, whatever it is."""
        state = self._states[-1]
        self._length += 1
        if state.phase is not Phase.CONTENT:
            self._states.append(self._step(state, token))
        elif state.pads or self.reopens:
            self._states.append(self._go_on(state, token))

    def rollback(self, count: int) -> None:
        """Undoes the last ``count`` tokens. Raises ``ValueError`` if there were fewer."""
        if not 0 <= count <= self._length:
            raise ValueError(f"There are {self._length} tokens to roll back, not {count}.")
        self._length -= count
        del self._states[self._length + 1 :]

    def _check_ends(self) -> None:
        """Raises ``ValueError`` if what is forced would not be forced to its end."""
        if not self.implicit_ends.isdisjoint(token for marker in self.ends for token in marker.ids):
            raise ValueError("An end marker must not contain an implicit end.")
        if not self.implicit_ends.isdisjoint(self.closing):
            raise ValueError("The closing text must not contain an implicit end.")
        forced = (*self.closing, *self.ends[0].ids[:-1])
        for marker in self.ends:
            if any(forced[n : n + len(marker)] == marker.ids for n in range(len(self.closing))):
                raise ValueError(
                    "The closing text must not contain an end marker, nor begin one that the end marker completes."
                )

    def _first(self, prompt: Sequence[int], openers: list[tuple[int, ...]], opened: bool | None) -> _State:
        if opened is None:
            opened, started, ended = self._read(_last_turn(prompt, openers))
        else:
            started, ended = 0, (0,) * len(self.ends)
            opened = opened or (None if self.start is not None else False)
        if opened:
            return self._spent(_State(Phase.THINKING, ended))
        return _State(Phase.CONTENT) if opened is False else _State(Phase.IDLE, (started,))

    def _read(self, turn: Sequence[int]) -> tuple[bool | None, int, tuple[int, ...]]:
        """Whether a prompt's last turn leaves reasoning open (``None``: it has none), and markers half written."""
        opened: bool | None = None if self.start is not None else False
        started, ended = 0, (0,) * len(self.ends)
        for token in turn:
            if opened:
                ended = self._advance(self.ends, ended, token)
                if token in self.implicit_ends or any(map(_is_whole, self.ends, ended)):
                    opened, started = False, 0
            elif self.start is not None:
                (started,) = self._advance((self.start,), (started,), token)
                if started == len(self.start):
                    opened, ended = True, (0,) * len(self.ends)
        return opened, started, ended

    def _open(self, state: _State) -> _State:
        """The state behind the start marker, whose last id is the token at hand."""
        opened = _State(
            Phase.THINKING, (0,) * len(self.ends), used=state.used, outside=state.outside + 1, since=self._length
        )
        return self._spent(opened)

    def _spent(self, state: _State) -> _State:
        """The state, or the forced end if nothing is left of the budget: then there is nothing to say either."""
        if self.budget is None or state.used < self.budget:
            return state
        return replace(state, phase=Phase.TRANSITIONING, plan=self._rest(state.matched))

    def _go_on(self, state: _State, token: int) -> _State:
        """In content that framing may come before, or reasoning after."""
        if self.reopens and self.start is not None and token == self.start.ids[0]:
            return self._open(state)
        if not state.pads:
            return state
        if token in self.after:
            return replace(state, outside=state.outside + 1, since=self._length, pads=state.pads - 1)
        return replace(state, pads=0)

    def _step(self, state: _State, token: int) -> _State:
        if state.phase is Phase.IDLE:
            return self._wait(state, token)
        if token in self.implicit_ends:
            used = state.used + (state.pending if state.phase is Phase.THINKING else 0)
            return _State(Phase.CONTENT, used=used, outside=state.outside, since=self._length - 1)
        matched = self._advance(self.ends, state.matched, token)
        whole = [len(marker) for marker, count in zip(self.ends, matched, strict=True) if count == len(marker)]
        if state.phase is Phase.TRANSITIONING:
            if whole:
                return self._content(state, state.used)
            plan = state.plan[1:] if token == state.plan[0] else self._rest(matched)
            return replace(state, matched=matched, outside=state.outside + 1, plan=plan)
        if whole:
            return self._content(state, state.used + max(0, state.pending + 1 - max(whole)))
        return self._think(state, token, matched)

    def _wait(self, state: _State, token: int) -> _State:
        """Before the start marker: it has to come at once, or the first token that isn't its own is content."""
        if self.start is None:
            return state
        (before,) = state.matched
        (matched,) = self._advance((self.start,), state.matched, token)
        if matched == len(self.start):
            return self._open(state)
        if matched > before or self.required or (not before and token in self.layout):
            pending = state.pending + 1 if matched > before else min(matched, state.pending)
            return replace(state, matched=(matched,), pending=pending, outside=state.outside + 1)
        outside = state.outside - state.pending
        return _State(Phase.CONTENT, outside=outside, since=self._length - 1 - state.pending)

    def _think(self, state: _State, token: int, matched: tuple[int, ...]) -> _State:
        pending = min(max(matched), state.pending + 1)
        used = state.used + state.pending + 1 - pending
        owed = _owed(state.owed, self._piece(token)) if self._piece is not None else 0
        after = _State(Phase.THINKING, matched, pending, used, state.outside + 1, owed=owed, late=state.late)
        if self.budget is None or used + pending < self.budget:
            return after
        if owed and state.late < _LATEST:
            return replace(after, late=state.late + 1)
        plan = self._rest(matched) if pending else self.closing + self._rest((0,) * len(self.ends))
        return replace(after, phase=Phase.TRANSITIONING, plan=plan)

    def _content(self, state: _State, used: int) -> _State:
        pads = _MOST_PADS if self.after else 0
        return _State(Phase.CONTENT, used=used, outside=state.outside + 1, since=self._length, pads=pads)

    def _advance(self, markers: Sequence[Marker], matched: Sequence[int], token: int) -> tuple[int, ...]:
        """How much of each marker is spelled after one more token."""
        return tuple(marker.advance(count, token) for marker, count in zip(markers, matched, strict=True))

    def _rest(self, matched: tuple[int, ...]) -> tuple[int, ...]:
        """What is missing of the end marker of which most is there."""
        best = max(range(len(matched)), key=lambda number: matched[number])
        return self.ends[best].ids[matched[best] :]


def _is_whole(marker: Marker, matched: int) -> bool:
    return matched == len(marker)


def _ids(ids: Iterable[int], name: str) -> tuple[int, ...]:
    """Some token ids. Raises ``ValueError``, which names the parameter, if they are something else."""
    try:
        found = tuple(map(index, ids))
    except TypeError:
        found = (-1,)
    if min(found, default=0) < 0:
        raise ValueError(f"{name} must be a sequence of token ids, which are integers from 0 on, not {ids!r}.")
    return found


def _some(ids: Iterable[int], name: str) -> tuple[int, ...]:
    """At least one token id."""
    found = _ids(ids, name)
    if not found:
        raise ValueError(f"{name} needs at least one token id.")
    return found


def _several(lists: Iterable[Iterable[int]], name: str) -> list[tuple[int, ...]]:
    """Some sequences of token ids, none of them empty."""
    if not isinstance(lists, Iterable):
        raise ValueError(f"{name} must be several sequences of token ids, not {lists!r}.")
    return [_some(ids, f"{name}[{number}]") for number, ids in enumerate(lists)]


def _last_turn(prompt: Sequence[int], openers: list[tuple[int, ...]]) -> Sequence[int]:
    """What follows the last opener of a turn; all of the prompt if there is none."""
    last = {opener[-1] for opener in openers}
    for end in range(len(prompt), 0, -1):
        if prompt[end - 1] in last:
            for opener in openers:
                if tuple(prompt[max(0, end - len(opener)) : end]) == opener:
                    return prompt[end:]
    return prompt


def _owed(owed: int, data: bytes) -> int:
    """How many bytes the last character of some UTF-8 still lacks, if ``owed`` were lacking before it."""
    for byte in data:
        continues = 0x80 <= byte < 0xC0
        owed = max(0, owed - 1) if continues else (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
    return owed
