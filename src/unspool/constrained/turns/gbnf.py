"""A tree in llama.cpp's GBNF, which is the EBNF of xgrammar, and so of vLLM and SGLang.

Markers are letters here: a server matches a special token by what spells it. There is no complement and nothing
ends early, so free text is an automaton that knows the markers, one rule a state. Members come in the order of
the schema. The text is what llama.cpp, xgrammar and llguidance read alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from string import hexdigits
from typing import Any

from unspool.constrained.base import GrammarError
from unspool.constrained.turns.automata import LAST, Expressions, Ranges, State, complement
from unspool.constrained.turns.nodes import (
    EMPTY,
    Alt,
    Free,
    Json,
    Many,
    Members,
    Node,
    Ref,
    Regex,
    Response,
    Seq,
    Text,
    Tree,
    Word,
)
from unspool.constrained.turns.patterns import number_pattern
from unspool.constrained.turns.regular import regular

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", '"': r"\""}
_IN_CLASS = {**_ESCAPES, '"': '"', "]": r"\]", "[": r"\[", "^": r"\x5E"}
_NUMBER = r"\x"  # of as many digits as there are, for xgrammar
_DASH = ord("-")


def to_gbnf(tree: Tree, response: Node | None = None) -> str:
    """The GBNF text of a tree made by a :class:`~unspool.constrained.turns.portable.PortableWalk`.

    ``response`` is what the content is held to. Raises :class:`GrammarError` for what can't be said.
    """
    return _Gbnf(response).grammar(tree)


class _Gbnf:
    def __init__(self, response: Node | None) -> None:
        self._response = response
        self._names: dict[tuple[str, str], str] = {}
        self._rules: dict[str, str] = {}
        self._write: Mapping[type, Callable[..., str]] = {
            Text: lambda node: quoted(node.text),
            Word: lambda node: quoted(node.text),
            Seq: lambda node: " ".join(map(self.expression, node.parts)) or '""',
            Alt: lambda node: "(" + " | ".join(map(self.expression, node.options)) + ")",
            Many: self._many,
            Free: self._regular,
            Regex: self._regular,
            Json: lambda node: self._number(json.loads(node.schema)),
            Ref: lambda node: _named(node.name),
            Response: self._answer,
            Members: self._members,
        }

    def grammar(self, tree: Tree) -> str:
        """All rules, the root first."""
        root = self.expression(tree.root)
        named = {_named(name): self.expression(node) for name, node in tree.rules.items()}
        rules = {"root": root, **named, **self._rules}
        return "".join(f"{name} ::= {body}\n" for name, body in rules.items())

    def expression(self, node: Node) -> str:
        """A tree as an expression of GBNF."""
        return self._write[type(node)](node)

    def _rule(self, kind: str, body: str) -> str:
        """A rule of this kind with this body; equal ones are one."""
        key = kind, body
        if key not in self._names:
            self._names[key] = self._new(kind)
            self._rules[self._names[key]] = body
        return self._names[key]

    def _new(self, kind: str) -> str:
        return f"{kind}-{sum(each == kind for each, _ in self._names)}"

    def _answer(self, node: Response) -> str:
        if self._response is None:
            raise GrammarError("The turn has an answer, but there is nothing that it is held to.")
        return self._rule("answer", self.expression(self._response))

    def _many(self, node: Many) -> str:
        inner = f"({self.expression(node.node)})"
        least, most = node.least, node.most
        if most == 0:
            return '""'
        if node.separator == EMPTY:
            return inner + _count(least, most)
        again = f"({self.expression(node.separator)} {inner})"
        repeated = inner + " " + again + _count(max(least - 1, 0), None if most is None else most - 1)
        return repeated if least else f"({repeated})?"

    def _members(self, node: Members) -> str:
        """Members in order. Rules say what may come from one on, before any of them and behind one."""
        if not node.members and node.extra is None:
            return '""'
        separator = "" if node.separator == EMPTY else self.expression(node.separator) + " "
        extra = None if node.extra is None else self._rule("member", self.expression(node.extra))
        first = '""' if extra is None else f"({extra} ({separator}{extra})*)?"
        later = '""' if extra is None else f"({separator}{extra})*"
        for member in reversed(node.members):
            body = self._rule("member", self.expression(member.node))
            behind = self._rule("later", later)
            if member.required:
                first, later = f"{body} {behind}", f"{separator}{body} {behind}"
            else:
                first, later = f"({body} {behind} | {first})", f"({separator}{body})? {behind}"
        return first if separator else later

    def _number(self, schema: Mapping[str, Any]) -> str:
        """A number; alternatives of several kinds of them came as one."""
        if "anyOf" in schema:
            return "(" + " | ".join(map(self._number, schema["anyOf"])) + ")"
        return self._regular(Regex((number_pattern(schema),)))

    def _regular(self, node: Free | Regex) -> str:
        try:
            found = regular(node)
        except ValueError as error:
            raise GrammarError(f"A regular expression has no equivalent in GBNF: {error}.") from error
        if found.states:
            return self._automaton("text", found.states)
        return self._rule("pattern", _Plain(found.expressions).written(found.number))

    def _automaton(self, kind: str, states: tuple[State, ...]) -> str:
        key = kind, repr(states)
        if key in self._names:
            return self._names[key]
        name = self._names[key] = self._new(kind)
        places = [name, *(f"{name}-{place}" for place in range(1, len(states)))]
        for place, state in zip(places, states, strict=True):
            options = [
                characters(chars) + (f" {places[target]}" if states[target].moves else "")
                for chars, target in state.moves
            ]
            if state.accepts and (options or place == name):
                options.append('""')
            if options:
                self._rules[place] = " | ".join(options)
        return name


class _Plain:
    """Expressions without intersection and complement, which GBNF has as they are."""

    def __init__(self, expressions: Expressions) -> None:
        self._nodes = expressions.nodes

    def written(self, number: int) -> str:
        """The expression as GBNF."""
        node = self._nodes[number]
        match node.kind:
            case "empty":
                return '""'
            case "chars":
                return characters(node.chars)
            case "either":
                return "(" + " | ".join(map(self.written, node.parts)) + ")"
            case "repeat":
                inner = self.written(node.parts[0])
                atom = inner if self._nodes[node.parts[0]].kind in ("chars", "either") else f"({inner})"
                return atom + _count(node.least, node.most)
        first, second = node.parts
        return f"{self.written(first)} {self.written(second)}"


def _named(name: str) -> str:
    """A rule's name as llama.cpp takes it."""
    return name.replace("_", "-")


def _count(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    if least == most:
        return "" if least == 1 else f"{{{least}}}"
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


def quoted(text: str) -> str:
    """A text as a string of GBNF."""
    strings, numbered = [""], False
    for char in text:
        spelled = _ESCAPES.get(char) or _escaped(char)
        if numbered and char in hexdigits:
            strings.append("")
        strings[-1] += spelled
        numbered = spelled.startswith(_NUMBER)
    return " ".join(f'"{each}"' for each in strings)


def characters(ranges: Ranges) -> str:
    """One of these characters; those that are most of all are said by the others."""
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return quoted(chr(ranges[0][0]))
    if ranges[-1][1] == LAST:
        # A class may not be empty, and every character but NUL is what all notations can say.
        return f"[^{_spelled(complement(ranges)) or _escaped(chr(0))}]"
    return f"[{_spelled(ranges)}]"


def _spelled(ranges: Ranges) -> str:
    """Ranges in an order in which no digit stands behind a number, and a dash at the end, where it is one."""
    dash = any(first <= _DASH <= last for first, last in ranges)
    plain: list[str] = []
    numbered: list[str] = []
    for first, last in ranges:
        for low, high in _without_dash(first, last):
            start, end = _in_class(low), _in_class(high)
            item = start if low == high else f"{start}-{end}"
            (numbered if end.startswith(_NUMBER) else plain).append(item)
    numbered.sort(key=lambda item: item[:1] == "\\")
    return "".join([*plain, *numbered, "-" if dash else ""])


def _without_dash(first: int, last: int) -> list[tuple[int, int]]:
    if not first <= _DASH <= last:
        return [(first, last)]
    return [(low, high) for low, high in ((first, _DASH - 1), (_DASH + 1, last)) if low <= high]


def _in_class(code: int) -> str:
    return _IN_CLASS.get(chr(code)) or _escaped(chr(code))


def _escaped(char: str) -> str:
    """A character as it stands, or its number where it can't be seen and llguidance reads that, too."""
    code = ord(char)
    if char.isprintable() or 0x100 <= code < 0x1000 or code > 0xFFFF:
        return char
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}"
