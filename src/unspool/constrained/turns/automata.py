"""Regular expressions with intersection and complement, and the automata that take the same texts.

Notations for grammars have neither, so where they are needed an expression becomes an automaton. It is made of
derivatives (Brzozowski): the derivative of an expression after a character is what may follow it, so every state
is an expression, and equal ones are one state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from unspool.constrained.base import GrammarError

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters as pairs of the first and the last code point of a range, in order, with gaps between them."""

LAST = 0x10FFFF
EVERY: Ranges = ((0, LAST),)
_MOST_STATES = 2000


@dataclass(frozen=True, slots=True)
class State:
    """One state: whether a text may end here, and the state that each character leads to, by its number."""

    accepts: bool
    moves: tuple[tuple[Ranges, int], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """An expression. ``parts`` are the numbers of those it is made of; the rest is for the kinds that have it."""

    kind: str
    parts: tuple[int, ...] = ()
    chars: Ranges = ()
    least: int = 0
    most: int | None = None


class Expressions:
    """Expressions by number; equal ones have the same."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self._derivatives: dict[tuple[int, int], int] = {}
        self._edges: dict[int, frozenset[int]] = {}
        self.never = self._number(Node("chars"))
        self.empty = self._number(Node("empty"))
        self.any = self.repeat(self.chars(EVERY))

    def _number(self, node: Node) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    # ---- making expressions

    def chars(self, ranges: Iterable[tuple[int, int]]) -> int:
        """One of these characters."""
        return self._number(Node("chars", chars=joined(ranges)))

    def text(self, text: str) -> int:
        """Exactly this text."""
        return self.sequence(self.chars([(ord(char), ord(char))]) for char in text)

    def sequence(self, parts: Iterable[int]) -> int:
        """One after another."""
        result = self.empty
        for part in reversed(list(parts)):
            result = self._then(part, result)
        return result

    def _then(self, first: int, second: int) -> int:
        if self.never in (first, second):
            return self.never
        if self.empty in (first, second):
            return second if first == self.empty else first
        node = self.nodes[first]
        if node.kind == "then":
            return self._then(node.parts[0], self._then(node.parts[1], second))
        return self._number(Node("then", (first, second)))

    def either(self, options: Iterable[int]) -> int:
        """One of these."""
        flat = self._flat("either", options)
        chars = [option for option in flat if self.nodes[option].kind == "chars"]
        merged = self.chars(pair for option in chars for pair in self.nodes[option].chars)
        found = (flat - set(chars)) | ({merged} - {self.never})
        if self.any in found:
            return self.any
        if len(found) < 2:
            return next(iter(found), self.never)
        return self._number(Node("either", tuple(sorted(found))))

    def both(self, parts: Iterable[int]) -> int:
        """What matches all of these."""
        found = self._flat("both", parts) - {self.any}
        if self.never in found:
            return self.never
        runs = [part for part in found if self._is_run(part)]
        if len(runs) > 1:
            found = (found - set(runs)) | {self._common(runs)}
        if len(found) < 2:
            return next(iter(found), self.any)
        return self._number(Node("both", tuple(sorted(found))))

    def _flat(self, kind: str, parts: Iterable[int]) -> set[int]:
        found: set[int] = set()
        for part in parts:
            node = self.nodes[part]
            found.update(node.parts if node.kind == kind else (part,))
        return found

    def _is_run(self, number: int) -> bool:
        node = self.nodes[number]
        return node.kind == "repeat" and self.nodes[node.parts[0]].kind == "chars"

    def _common(self, runs: list[int]) -> int:
        """What several runs of characters have in common: a run again."""
        nodes = [self.nodes[run] for run in runs]
        chars = EVERY
        for node in nodes:
            chars = complement(joined((*complement(chars), *complement(self.nodes[node.parts[0]].chars))))
        ends = [node.most for node in nodes if node.most is not None]
        least, most = max(node.least for node in nodes), min(ends, default=None)
        return self.never if most is not None and most < least else self.repeat(self.chars(chars), least, most)

    def without(self, part: int) -> int:
        """Every text that does not match this."""
        node = self.nodes[part]
        if part == self.never:
            return self.any
        if part == self.any:
            return self.never
        return node.parts[0] if node.kind == "without" else self._number(Node("without", (part,)))

    def repeat(self, part: int, least: int = 0, most: int | None = None) -> int:
        """This again and again, at least and at most so many times (``None``: any number)."""
        if self.takes_nothing(part):
            least = 0
        if most == 0 or part == self.empty or (part == self.never and least == 0):
            return self.empty
        if (least, most) == (1, 1) or part == self.never:
            return part
        return self._number(Node("repeat", (part,), least=least, most=most))

    # ---- reading expressions

    def takes_nothing(self, number: int) -> bool:
        """Whether the empty text matches."""
        node = self.nodes[number]
        match node.kind:
            case "chars":
                return False
            case "empty":
                return True
            case "either":
                return any(map(self.takes_nothing, node.parts))
            case "without":
                return not self.takes_nothing(node.parts[0])
            case "repeat":
                return node.least == 0
        return all(map(self.takes_nothing, node.parts))

    def is_plain(self, number: int) -> bool:
        """Whether there is neither intersection nor complement in an expression."""
        node = self.nodes[number]
        return node.kind not in ("both", "without") and all(map(self.is_plain, node.parts))

    def derivative(self, number: int, char: int) -> int:
        """What may follow a character."""
        key = number, char
        if key not in self._derivatives:
            self._derivatives[key] = self._derive(self.nodes[number], char)
        return self._derivatives[key]

    def _derive(self, node: Node, char: int) -> int:
        if node.kind == "chars":
            return self.empty if any(first <= char <= last for first, last in node.chars) else self.never
        if node.kind == "empty":
            return self.never
        after = [self.derivative(part, char) for part in node.parts[: 1 if node.kind == "then" else None]]
        match node.kind:
            case "either":
                return self.either(after)
            case "both":
                return self.both(after)
            case "without":
                return self.without(after[0])
            case "repeat":
                most = None if node.most is None else node.most - 1
                return self._then(after[0], self.repeat(node.parts[0], max(node.least - 1, 0), most))
        first, second = node.parts
        moved = self._then(after[0], second)
        return self.either((moved, self.derivative(second, char))) if self.takes_nothing(first) else moved

    def _edges_of(self, number: int) -> frozenset[int]:
        """Where, among the code points, what may follow can change."""
        if number not in self._edges:
            node = self.nodes[number]
            parts = node.parts
            if node.kind == "then" and not self.takes_nothing(parts[0]):
                parts = parts[:1]
            own = {edge for first, last in node.chars for edge in (first, last + 1)}
            self._edges[number] = frozenset(own).union(*map(self._edges_of, parts))
        return self._edges[number]

    def automaton(self, number: int, *, shortest: bool = False) -> list[State]:
        """The states of an expression, the start first; none if no text matches.

        ``shortest``: a text ends as soon as it may. Raises :class:`GrammarError` if there are too many states.
        """
        places = {number: 0}
        states: list[State] = []
        for state in (order := [number]):
            accepts = self.takes_nothing(state)
            moves: dict[int, list[tuple[int, int]]] = {}
            for pair in [] if shortest and accepts else self._intervals(state):
                target = self.derivative(state, pair[0])
                if target == self.never:
                    continue
                if target not in places:
                    places[target] = len(places)
                    order.append(target)
                moves.setdefault(places[target], []).append(pair)
            states.append(State(accepts, tuple((joined(pairs), target) for target, pairs in moves.items())))
            if len(places) > _MOST_STATES:
                raise GrammarError(
                    f"What is demanded takes an automaton of more than {_MOST_STATES} states; "
                    "demand a simpler pattern or a smaller length."
                )
        return _trimmed(states)

    def _intervals(self, number: int) -> Iterable[tuple[int, int]]:
        edges = sorted({0, LAST + 1} | {edge for edge in self._edges_of(number) if edge <= LAST})
        return ((first, following - 1) for first, following in pairwise(edges))


def _trimmed(states: list[State]) -> list[State]:
    """The states from which some text can end."""
    into: dict[int, list[int]] = {}
    for place, state in enumerate(states):
        for _, target in state.moves:
            into.setdefault(target, []).append(place)
    live = {place for place, state in enumerate(states) if state.accepts}
    pending = list(live)
    while pending:
        for place in into.get(pending.pop(), ()):
            if place not in live:
                live.add(place)
                pending.append(place)
    if 0 not in live:
        return []
    places = {old: new for new, old in enumerate(sorted(live))}
    return [
        State(states[old].accepts, tuple((chars, places[to]) for chars, to in states[old].moves if to in places))
        for old in places
    ]


def joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def complement(ranges: Ranges) -> Ranges:
    """All other characters."""
    found, start = [], 0
    for first, last in ranges:
        if start < first:
            found.append((start, first - 1))
        start = max(start, last + 1)
    return tuple(found) + (((start, LAST),) if start <= LAST else ())
