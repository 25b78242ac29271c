"""Regular expressions that can be read while the text still comes.

The standard library has no partial matching, so an expression is taken apart into data and written anew in two
ways. :func:`ended` is for text that has ended. :func:`going_on` is for text that goes on: every place where the
expression needs a character also accepts the end of the text and remembers that in a group without a name. The
first way through such a pattern that a backtracking matcher finds is the one that counts: without an unnamed
group the match is final, whatever follows; with one, more text has to decide.

What would need unbounded text, or text that was let go, can't be written like that (:class:`ExpressionError`).
A repetition without an end is given one, so that what waits is bounded: :data:`HOLD` characters of layout,
:data:`HEADER` of anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from unspool.parsing.scanner import pattern
from unspool.parsing.signals import HEADER, HOLD


@dataclass(frozen=True, slots=True)
class Text:
    """These characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Class:
    """One character of a set; ``source`` is its regular expression."""

    source: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """``item`` so many times (``None``: no limit); ``how``: lazily with ``?``, possessively with ``+``."""

    item: Expression
    least: int
    most: int | None
    how: Literal["", "?", "+"] = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several expressions, the first that fits."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """An expression whose text is kept under a name; without one it is atomic."""

    item: Expression
    name: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """What must, or must not, follow; consumes nothing."""

    item: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """The end of the text."""

    source: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that was not taken apart; in bytes (UTF-8), since its text is no text of an output."""

    source: bytes


Node: TypeAlias = Text | Class | Repeat | Choice | Group | Look | Edge | Opaque
Expression: TypeAlias = tuple[Node, ...]

_LAYOUT = frozenset({r"\s", r"[\s]", "[ ]", "[ \\t]", "[ \\n]", "[\\n]"})
_ANY = frozenset({".", r"[\s\S]", r"[\S\s]", r"[\d\D]", r"[\D\d]", r"[\w\W]", r"[\W\w]"})
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_QUANTIFIER = pattern(r"(?:[*+?]|\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\})[?+]?")
_OCTAL = pattern("[0-7]{0,2}")
_GROUP = pattern(r"\((?:\?(?:P<(\w+)>|([:=!>])|s(:|\))|#[^)]*(\)))|(?!\?))")


class ExpressionError(ValueError):
    """The expression is none, or can't be read while the text still comes; the text says why."""


def literals(texts: Iterable[str]) -> Expression:
    """One of these texts, the longest that fits."""
    options = tuple((Text(text),) for text in sorted(dict.fromkeys(texts), key=len, reverse=True))
    return options[0] if len(options) == 1 else (Choice(options),)


def parse(source: str) -> Expression:
    """Takes a regular expression (Python's, with the dot for any character) apart; :class:`ExpressionError`."""
    _check(source)
    return _Source(source).choice()


def parse_or_keep(source: str) -> Expression:
    """Like :func:`parse`, for use on whole texts only: what can't be taken apart is kept as it is."""
    _check(source)
    try:
        return _Source(source).choice()
    except ExpressionError:
        return (Opaque(source.encode("utf-8", "surrogatepass")),)


def _check(source: str) -> None:
    try:
        pattern(source)
    except (re.error, OverflowError, RecursionError) as why:
        raise ExpressionError(f"{source!r} is no regular expression: {why}") from None


class _Source:
    """A valid regular expression, read from left to right."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.pos = 0

    def choice(self) -> Expression:
        options = [self.sequence()]
        while self.source.startswith("|", self.pos):
            self.pos += 1
            options.append(self.sequence())
        return options[0] if len(options) == 1 else (Choice(tuple(options)),)

    def sequence(self) -> Expression:
        items: list[Node] = []
        while self.pos < len(self.source) and self.source[self.pos] not in "|)":
            atom = self.atom()
            counted = _QUANTIFIER.match(self.source, self.pos)
            if counted:
                self.pos = counted.end()
                items.append(_repeated(atom, counted.group()))
            elif len(atom) == 1 and isinstance(atom[0], Text) and items and isinstance(items[-1], Text):
                items[-1] = Text(items[-1].text + atom[0].text)
            else:
                items += atom
        return tuple(items)

    def atom(self) -> Expression:
        char = self.source[self.pos]
        if char == "(":
            return self.group()
        if char == "[":
            return (Class(self.bracket()),)
        if char == "\\":
            return (self.escape(),)
        self.pos += 1
        if char == ".":
            return (Class("."),)
        if char == "$":
            return (Edge("$"),)
        if char == "^":
            raise self.refuse("the start of the text or of a line ('^')")
        return (Text(char),)

    def group(self) -> Expression:
        begun = _GROUP.match(self.source, self.pos)
        if begun is None:
            raise self.refuse("a lookbehind, a backreference, a condition or a flag other than 's'")
        name, kind, flag, comment = begun.groups()
        self.pos = begun.end()
        if comment or flag == ")":
            return ()
        item = self.choice()
        self.pos += 1
        if name:
            return (Group(item, name),)
        if kind == ">":
            return (Group(item),)
        if kind in ("=", "!"):
            return (Look(item, kind == "!"),)
        return item

    def bracket(self) -> str:
        start = self.pos
        self.pos += 2 if self.source.startswith("[^", start) else 1
        self.pos += self.source.startswith("]", self.pos)
        while self.source[self.pos] != "]":
            self.pos += 2 if self.source[self.pos] == "\\" else 1
        self.pos += 1
        return self.source[start : self.pos]

    def escape(self) -> Node:
        char = self.source[self.pos + 1]
        if char in "dDsSwW":
            self.pos += 2
            return Class("\\" + char)
        if char in "Zz":
            self.pos += 2
            return Edge(r"\Z")
        if char in "AbB123456789N":
            raise self.refuse(f"'\\{char}'")
        size = {"x": 2, "u": 4, "U": 8}.get(char, 0)
        start = self.pos + 2
        self.pos = start + size
        if char == "0":
            octal = _OCTAL.match(self.source, start)
            assert octal is not None
            self.pos = octal.end()
            return Text(chr(int("0" + octal.group(), 8)))
        return Text(chr(int(self.source[start : self.pos], 16)) if size else _ESCAPES.get(char, char))

    def refuse(self, what: str) -> ExpressionError:
        return ExpressionError(
            f"{self.source!r} has {what} at character {self.pos}, which can't be told while text still comes; "
            "write it without"
        )


def _repeated(atom: Expression, counted: str) -> Repeat:
    sign = counted[0]
    if sign == "{":
        inside, _, rest = counted[1:].partition("}")
        first, comma, second = inside.partition(",")
        least = int(first or 0)
        most = (int(second) if second else None) if comma else least
    else:
        rest = counted[1:]
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    return Repeat(atom, least, most, "?" if rest == "?" else "+" if rest == "+" else "")


def single(node: Node) -> str:
    """The source of an expression for one character that a repetition repeats; ``""`` if it repeats more."""
    if not isinstance(node, Repeat) or len(node.item) != 1:
        return ""
    item = node.item[0]
    if isinstance(item, Text) and len(item.text) == 1:
        return re.escape(item.text)
    return item.source if isinstance(item, Class) else ""


def limit(node: Repeat) -> int:
    """How often a repetition repeats at most."""
    source = single(node)
    layout = source in _LAYOUT or (source and not source.lstrip("\\").strip())
    most = HOLD if layout else HEADER
    return max(node.least, most) if node.most is None else node.most


def ended(expression: Expression, *, bounded: bool = True) -> str:
    """The expression's source, for text that has ended."""
    return "".join(_ended(node, bounded) for node in expression)


def _ended(node: Node, bounded: bool) -> str:
    match node:
        case Text(text):
            return re.escape(text)
        case Class(source) | Edge(source):
            return source
        case Opaque(encoded):
            return encoded.decode("utf-8", "surrogatepass")
        case Repeat(item, least, most, how):
            top = limit(node) if bounded else most
            return f"(?:{ended(item, bounded=bounded)}){{{least},{'' if top is None else top}}}{how}"
        case Choice(options):
            return f"(?:{'|'.join(ended(option, bounded=bounded) for option in options)})"
        case Group(item, name):
            return f"({f'?P<{name}>' if name else '?>'}{ended(item, bounded=bounded)})"
    return f"(?{'!' if node.negated else '='}{ended(node.item, bounded=bounded)})"


def going_on(expression: Expression) -> str:
    """The expression's source, for text that goes on: an unnamed group matched where the text ran out."""
    return "".join(map(_going_on, expression))


def _going_on(node: Node) -> str:
    match node:
        case Text(text):
            begun = ""
            for char in reversed(text[:-1]):
                begun = f"(?:{re.escape(char)}{begun})?"
            return rf"(?:{re.escape(text)}|({begun}\Z))"
        case Repeat(item, least, _, how):
            return f"(?:{going_on(item)}){{{least},{limit(node)}}}{how}"
        case Choice(options):
            return f"(?:{'|'.join(map(going_on, options))})"
        case Group(item, name):
            return f"({f'?P<{name}>' if name else '?>'}{going_on(item)})"
        case Look(item, False):
            return f"(?={going_on(item)})"
        case Look(item):
            return f"(?!{ended(item)})(?:(?={going_on(item)})|)"
    assert isinstance(node, Class), "what can't stream was refused"
    return rf"(?:{node.source}|(\Z))"


def width(expression: Expression) -> tuple[int, int]:
    """How many characters the expression consumes at least and at most."""
    least = most = 0
    for node in expression:
        low, high = _width(node)
        least += low
        most += high
    return least, most


def _width(node: Node) -> tuple[int, int]:
    match node:
        case Text(text):
            return len(text), len(text)
        case Class():
            return 1, 1
        case Repeat(item, least, _):
            low, high = width(item)
            return low * least, high * limit(node)
        case Choice(options):
            widths = [width(option) for option in options]
            return min(low for low, _ in widths), max(high for _, high in widths)
        case Group(item):
            return width(item)
        case _:
            return 0, 0


def first(expression: Expression) -> tuple[str, ...]:
    """What a match begins with: sources of one character each. Nothing, if a match may be empty."""
    found, nullable = _first(expression)
    return () if nullable else tuple(dict.fromkeys(found))


def _first(expression: Expression) -> tuple[list[str], bool]:
    found: list[str] = []
    for node in expression:
        more, nullable = _first_of(node)
        found += more
        if not nullable:
            return found, False
    return found, True


def _first_of(node: Node) -> tuple[list[str], bool]:
    match node:
        case Text(text):
            return [re.escape(text[0])], False
        case Class(source):
            return [source], False
        case Repeat(item, least):
            found, nullable = _first(item)
            return found, nullable or not least
        case Choice(options):
            both = [_first(option) for option in options]
            return [source for found, _ in both for source in found], any(empty for _, empty in both)
        case Group(item) | Look(item, False):
            return _first(item)
        case _:
            return [], True


def names(expression: Expression) -> frozenset[str]:
    """The names of the groups."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Group) and node.name)


def texts(expression: Expression) -> list[str]:
    """The literal texts, in order."""
    return [node.text for node in walk(expression) if isinstance(node, Text)]


def walk(expression: Expression) -> Iterable[Node]:
    """Every node, outer ones first."""
    for node in expression:
        yield node
        match node:
            case Repeat(item) | Group(item) | Look(item):
                yield from walk(item)
            case Choice(options):
                for option in options:
                    yield from walk(option)


def without_edges(expression: Expression) -> Expression:
    """The expression without alternatives that are only the end of the text: that ends everything anyway."""
    match expression:
        case (Choice(options),):
            kept = tuple(
                option for option in options if not option or not all(isinstance(n, Edge) for n in option)
            )
            return kept[0] if len(kept) == 1 else (Choice(kept),) if kept else ()
        case (Edge(),):
            return ()
    return expression


def check_streams(expression: Expression) -> None:
    """Raises :class:`ExpressionError` for what can't be decided with a bounded look at what comes."""
    for node in walk(expression):
        if isinstance(node, Edge):
            raise ExpressionError(
                "the end of the text is only understood as an alternative of its own, as in 'x|$'"
            )
        if isinstance(node, Repeat) and (node.most is None or node.most > 1) and _endless(node.item):
            raise ExpressionError(
                "a repetition inside a repetition takes more than bounded work; write one of them"
            )
        if isinstance(node, Look) and any(isinstance(n, Repeat) and anything(n) for n in walk(node.item)):
            raise ExpressionError(
                "it looks ahead without a limit; only '(?=[\\s\\S]*?CLOSER)' as a whole opener is understood"
            )


def anything(node: Repeat) -> bool:
    """Whether it is any text, however long."""
    return node.most is None and single(node) in _ANY


def _endless(expression: Expression) -> bool:
    return any(isinstance(node, Repeat) and node.most is None for node in walk(expression))
