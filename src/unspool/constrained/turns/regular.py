"""The texts of the holes in a tree that are regular, as an expression without intersection or as an automaton."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from unspool.constrained.base import GrammarError
from unspool.constrained.turns.automata import Expressions, State
from unspool.constrained.turns.expressions import read_expression
from unspool.constrained.turns.nodes import Alt, Free, Node, Regex, Seq
from unspool.constrained.turns.patterns import containing


@dataclass(frozen=True, slots=True)
class Regular:
    """Texts: those of expression ``number`` among ``expressions``, or of an automaton if there are ``states``."""

    expressions: Expressions
    number: int
    states: tuple[State, ...] = ()


@lru_cache(512)
def regular(node: Free | Regex) -> Regular:
    """What may stand in a hole.

    Raises ``ValueError`` for an expression that can't be read, :class:`GrammarError` if there is no such text or
    the automaton is too large.
    """
    into = Expressions()
    if isinstance(node, Regex):
        number = into.both(_terms(into, node.patterns, node.but))
        end = ""
    else:
        barred = [text for text in dict.fromkeys((*node.without, node.closer)) if text]
        terms = _terms(into, node.body, node.but)
        if barred:
            terms.append(into.without(into.sequence((into.any, into.either(map(into.text, barred)), into.any))))
        end = (node.pad if node.body else "") + node.closer
        number = into.sequence((into.both(terms), into.text(end)))
    if number != into.never and into.is_plain(number) and not end:
        return Regular(into, number)
    states = into.automaton(number, shortest=bool(end))
    if not states:
        raise GrammarError("What is demanded of a text contradicts itself: there is none.")
    return Regular(into, number, tuple(states))


def spelling_none(node: Regex, marks: tuple[str, ...]) -> Regex:
    """The texts of an expression that hold none of these; all of its texts if that takes too many states."""
    held = replace(node, but=(*node.but, containing(marks))) if marks else node
    try:
        regular(held)
    except (GrammarError, ValueError):
        return node
    return held


def _terms(into: Expressions, patterns: tuple[str, ...], but: tuple[str, ...]) -> list[int]:
    return [
        *(read_expression(into, each) for each in patterns),
        *(into.without(read_expression(into, each)) for each in but),
    ]


def holes(node: Node) -> list[Free | Regex]:
    """The regular holes of a value, which repeats nothing."""
    if isinstance(node, Free | Regex):
        return [node]
    inside = node.parts if isinstance(node, Seq) else node.options if isinstance(node, Alt) else ()
    return [hole for part in inside for hole in holes(part)]
