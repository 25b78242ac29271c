"""What a turn may be, as a tree of texts and holes, before any notation or tokenizer is known.

:mod:`~unspool.constrained.turns.calls` and :mod:`~unspool.constrained.turns.turn` make such trees of a format's
declaration, :mod:`~unspool.constrained.turns.lark` and :mod:`~unspool.constrained.turns.gbnf` write them down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly this text; the markers in it that are special tokens come by id."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """Exactly this text, by itself: something else may come in its place that begins alike."""

    text: str


@dataclass(frozen=True, slots=True)
class Seq:
    """One after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One of these."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """The same again, ``separator`` between two: at least ``least`` times, at most ``most`` (``None``: any)."""

    node: Node
    separator: Node
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Free:
    """Any text without ``without``, up to what must follow: the end, or ``closer``, which is part of it.

    ``pad`` is layout that readers drop before the closer; it is written only where the text must match: ``body``
    are regular expressions for the whole of it (without pad and closer), ``but`` those that it may not match.
    ``may_be_ended``: a notation that can may end a text that grows too long.
    """

    without: tuple[str, ...] = ()
    pad: str = ""
    closer: str = ""
    body: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    may_be_ended: bool = False


@dataclass(frozen=True, slots=True)
class Regex:
    """Text that matches all of these regular expressions as a whole, and none of ``but``.

    ``closer``: the first expression ends with exactly this, before which a text that grows too long may be ended.
    """

    patterns: tuple[str, ...]
    but: tuple[str, ...] = ()
    closer: str = ""


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text that a schema allows, as JSON text itself so that equal ones are one rule."""

    schema: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A rule by its name, which may stand for a tree that holds this very reference."""

    name: str


@dataclass(frozen=True, slots=True)
class Response:
    """What the content is held to: a whole grammar of its own."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a set of them: a parameter with its value."""

    node: Node
    required: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """Each of these at most once, in any order, the required ones always; ``extra`` any number of times."""

    members: tuple[Member, ...]
    separator: Node
    extra: Node | None = None


Node: TypeAlias = Text | Word | Seq | Alt | Many | Free | Regex | Json | Ref | Response | Members

EMPTY = Text("")


@dataclass(frozen=True, slots=True)
class Tree:
    """A turn and the rules that it refers to by name."""

    root: Node
    rules: Mapping[str, Node]


def seq(*parts: Node | str) -> Node:
    """One after another, flat, each text as long as can be.

    A text goes into the beginnings of the alternatives that follow it. Lexers take the longest match and never go
    back, so where one text may come, or another that begins alike, both have to be whole.
    """
    flat: list[Node] = []
    for part in parts:
        node = Text(part) if isinstance(part, str) else part
        for each in node.parts if isinstance(node, Seq) else (node,):
            if each == EMPTY:
                continue
            joined = _prefixed(flat[-1].text, each) if flat and isinstance(flat[-1], Text) else None
            if joined is None:
                flat.append(each)
            else:
                flat.pop()
                flat += joined.parts if isinstance(joined, Seq) else (joined,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat)) if flat else EMPTY


def _prefixed(text: str, node: Node) -> Node | None:
    """A tree with a text in front, inside of it; ``None`` if it does not begin with a text."""
    match node:
        case Text(own):
            return Text(text + own)
        case Alt(options):
            return alt(_prefixed(text, option) or Seq((Text(text), option)) for option in options)
        case Seq((first, *rest)):
            begun = _prefixed(text, first)
            return None if begun is None else seq(begun, *rest)
        case Many(inner, separator, least, most) if least:
            begun = _prefixed(text, inner)
            if begun is None:
                return None
            rest_of_it = Many(seq(separator, inner), EMPTY, least - 1, None if most is None else most - 1)
            return seq(begun, rest_of_it)
    return None


def alt(options: Iterable[Node]) -> Node:
    """One of these, each once; those that are JSON are one, since readers of schemas follow one at a time."""
    flat: list[Node] = []
    for option in options:
        flat += option.options if isinstance(option, Alt) else (option,)
    flat = list(dict.fromkeys(flat))
    schemas = [option.schema for option in flat if isinstance(option, Json)]
    if len(schemas) > 1:
        flat = [*(option for option in flat if not isinstance(option, Json)), Json(_any_of(schemas))]
    return flat[0] if len(flat) == 1 else Alt(tuple(flat))


def _any_of(schemas: Sequence[str]) -> str:
    """One schema for the values of several, which are parts of the same document."""
    parsed = [json.loads(schema) for schema in schemas]
    shared: dict[str, Any] = {}
    for schema in parsed:
        for keyword in ("$defs", "x-guidance"):
            if keyword in schema:
                shared[keyword] = schema.pop(keyword)
    return json.dumps({"anyOf": parsed, **shared}, ensure_ascii=False)


def maybe(node: Node) -> Node:
    """This or nothing."""
    return alt((node, EMPTY))


def behind(node: Node, begun: str) -> Node | None:
    """What is left of a tree after a text that it begins with; ``None`` if it can't begin so."""
    match node:
        case Text(text):
            return Text(text.removeprefix(begun)) if text.startswith(begun) else None
        case Free(without, _, closer, body, but):
            ends = any(mark in begun for mark in (*without, closer) if mark)
            return None if ends or body or but else node
        case Seq((Text(text), *rest)):
            if text.startswith(begun):
                return seq(text.removeprefix(begun), *rest)
            return behind(seq(*rest), begun.removeprefix(text)) if begun.startswith(text) else None
        case Seq((Free(without, _, closer), *rest)) if closer and closer in begun:
            told, _, more = begun.partition(closer)
            ends = any(mark in told for mark in without if mark)
            return None if ends else behind(seq(*rest), more)
        case Seq((first, *rest)):
            left = behind(first, begun)
            return None if left is None else seq(left, *rest)
        case Alt(options):
            lefts = [left for option in options if (left := behind(option, begun)) is not None]
            return alt(lefts) if lefts else None
        case Many(inner, separator, least, most):
            left = behind(inner, begun)
            fewer = Many(seq(separator, inner), EMPTY, max(least - 1, 0), None if most is None else most - 1)
            return None if left is None else seq(left, fewer)
    return None


def stoppable(node: Node, stops: Sequence[str]) -> Node:
    """The tree of a turn that may also end before a text that stops a generation.

    A server takes such a token for the end, wherever the grammar allows one, and for no text.
    """
    match node:
        case Text(text):
            stop = next((stop for stop in stops if stop and text.endswith(stop)), "")
            return seq(text.removesuffix(stop), maybe(Text(stop))) if stop else node
        case Free(closer=closer) if closer and closer in stops:
            return alt((replace(node, closer=""), node))
        case Seq((*first, last)):
            return seq(*first, stoppable(last, stops))
        case Alt(options):
            return alt(stoppable(option, stops) for option in options)
    return node


def constants(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values, each once, in order; they may be of kinds that can't be hashed."""
    found: list[Any] = []
    for value in values:
        if not any(type(value) is type(other) and value == other for other in found):
            found.append(value)
    return tuple(found)
