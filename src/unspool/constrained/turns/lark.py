"""A tree in llguidance's dialect of Lark, for one tokenizer: special tokens by id, everything else as text.

A marker that is a token of its own comes by its id alone. Where the parser knows it by id, too, its letters are
only letters; otherwise no free text may spell it. Text that a marker made of text ends is one terminal with that
marker, which can't go on once the marker is there, so that no longer match competes with it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from unspool.constrained.grammars import quoted
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
    seq,
)
from unspool.constrained.turns.patterns import ANY, containing

RESPONSE = "response"
"""The grammar that a turn's content is held to, where there is one."""

_MOST_IN_ANY_ORDER = 64  # bits that a rule's parameter has


def to_lark(tree: Tree, ids: Mapping[str, int], letters: Collection[str], most: int | None = None) -> str:
    """The Lark text of a tree.

    ``ids`` are the tokens that stand for no text, by what spells them; ``letters`` those of them that a reader
    knows by their text all the same. ``most`` is how many tokens a text may have that may be ended.
    """
    return _Lark(ids, letters, most).grammar(tree)


class _Lark:
    def __init__(self, ids: Mapping[str, int], letters: Collection[str], most: int | None) -> None:
        self._ids = ids
        self._most = most
        self._letters = frozenset(letters)
        longest = sorted(filter(None, ids), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest)) or r"(?!)")
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        self._written: dict[int, tuple[Node, str]] = {}
        self._rules: dict[str, str] = {}
        self._write: Mapping[type, Callable[..., str]] = {
            Text: self._text,
            Word: lambda node: quoted(node.text),
            Seq: lambda node: " ".join(map(self.expression, node.parts)),
            Alt: lambda node: "(" + " | ".join(map(self.expression, node.options)) + ")",
            Many: self._many,
            Free: self._free,
            Regex: self._regex,
            Json: lambda node: self._named("json", f"%json {node.schema}"),
            Ref: lambda node: node.name,
            Response: lambda node: f"@{RESPONSE}",
            Members: self._members,
        }

    def grammar(self, tree: Tree) -> str:
        """All rules, the start first."""
        start = self.expression(tree.root)
        named = {name: self.expression(node) for name, node in tree.rules.items()}
        rules = {"start": start, **named, **self._rules}
        return "%llguidance {}\n" + "".join(f"{name}: {body}\n" for name, body in rules.items())

    def expression(self, node: Node) -> str:
        """A tree as an expression of Lark."""
        # By identity: most of a turn stands in it several times, and to compare takes as long as to write.
        if id(node) not in self._written:
            self._written[id(node)] = node, self._write[type(node)](node)
        return self._written[id(node)][1]

    def _named(self, kind: str, body: str, attributes: str = "") -> str:
        """A rule of this kind with this body; equal ones are one."""
        key = f"{kind} {body}"
        if key not in self._names:
            self._counts[kind] += 1
            name = f"{kind}_{self._counts[kind]}"
            self._names[key] = name
            self._rules[name + attributes] = body
        return self._names[key]

    def _text(self, node: Text) -> str:
        return " ".join(self._pieces(node.text)) or '""'

    def _pieces(self, text: str) -> Iterable[str]:
        place = 0
        for found in self._special.finditer(text):
            if found.start() > place:
                yield quoted(text[place : found.start()])
            yield f"<[{self._ids[found.group()]}]>"
            place = found.end()
        if place < len(text):
            yield quoted(text[place:])

    def _many(self, node: Many) -> str:
        inner = f"({self.expression(node.node)})"
        least, most = node.least, node.most
        if most == 0:
            return '""'
        if node.separator == EMPTY:
            return inner + _count(least, most)
        again = f"({self.expression(seq(node.separator, node.node))})"
        repeated = inner if most == 1 else f"{inner} {again}{_count(max(least - 1, 0), most and most - 1)}"
        return repeated if least else f"({repeated})?"

    def _free(self, node: Free) -> str:
        first = self._special.search(node.closer)
        told = node.closer if first is None else node.closer[: first.start()]
        barred = self._spellable((*node.without, node.closer))
        terms = [f"/{slashed(each)}/" for each in node.body or (ANY,)]
        terms += [f"~/{slashed(each)}/" for each in node.but]
        if barred:
            terms.append(f"~/{slashed(containing(barred))}/")
        end = (node.pad if node.body else "") + told
        body = " & ".join(terms)
        rest = list(self._pieces(node.closer[len(told) :]))
        # Ends as soon as the marker is there: nothing longer can match.
        lazy = ["lazy"] if first is None and told else []
        whole = f"({body}) {quoted(end)}" if end else body
        if not node.may_be_ended or self._most is None:
            text = self._named("TEXT", whole)
            return " ".join((self._named("until", text, "[lazy]") if lazy else text, *rest))
        return " ".join((self._ended(whole, lazy, body, end), *rest))

    def _ended(self, whole: str, attributes: Sequence[str], begun: str, end: str) -> str:
        """A terminal for a text, or one for its beginning and what ends it once it has as many tokens as it may.

        The whole text is given up one token before, so that the other is the only one left when it is full:
        llguidance then takes it as it stands, also in the middle of a character or of an escape.
        """
        assert self._most is not None
        if not end:
            return self._named("ended", self._named("TEXT", whole), f"[max_tokens={self._most}]")
        limits = ", ".join((*attributes, f"max_tokens={self._most - 1}"))
        text = self._named("limited", self._named("TEXT", whole), f"[{limits}]")
        full = self._named("ended", self._named("TEXT", begun), f"[max_tokens={self._most}]")
        return f"({text} | {full} {quoted(end)})"

    def _spellable(self, texts: Iterable[str]) -> list[str]:
        """Those texts that ordinary tokens can spell so that a reader takes them for markers."""
        return [text for text in dict.fromkeys(texts) if text and self._by_text(text)]

    def _by_text(self, text: str) -> bool:
        return all(found in self._letters for found in self._special.findall(text))

    def _regex(self, node: Regex) -> str:
        but = [f"~/{slashed(each)}/" for each in node.but]
        whole = " & ".join([f"/{slashed(each)}/" for each in node.patterns] + but)
        if not node.closer or self._most is None:
            return self._named("PATTERN", whole)
        begun = " & ".join([f"/{slashed(node.patterns[0].removesuffix(node.closer))}/", *but])
        return self._ended(whole, (), begun, node.closer)

    def _members(self, node: Members) -> str:
        if len(node.members) > _MOST_IN_ANY_ORDER:
            return self._in_order(node)
        needed = [place for place, member in enumerate(node.members) if member.required]
        separator = "" if node.separator == EMPTY else self.expression(node.separator) + " "
        bodies = [self._named("member", self.expression(member.node)) for member in node.members]
        extra = None if node.extra is None else self._named("member", self.expression(node.extra))
        if not bodies and extra is None:
            return '""'
        key = json.dumps([separator, bodies, needed, extra])
        if key not in self._names:
            # A rule of its own, since llguidance takes no rule with a parameter that is reached through itself.
            self._names[key] = self._named("object", f"{self._any_order(separator, bodies, needed, extra)}::0x0")
        return self._names[key]

    def _any_order(self, separator: str, bodies: Sequence[str], needed: Sequence[int], extra: str | None) -> str:
        """The rule for members in any order, whose parameter has a bit for each that was there."""
        self._counts["members"] += 1
        name = f"members_{self._counts['members']}"
        done = [f"bit_set({place})" for place in needed]
        condition = "" if not done else f" %if {done[0]}" if len(done) == 1 else f" %if {_all(done)}"
        more = f"{name}_more" if separator else name
        rest = [f'""{condition}']
        first = [] if needed else ['""']
        for place, body in enumerate(bodies):
            going_on = f"{body} {more}::set_bit({place})"
            rest.append(f"{separator}{going_on} %if bit_clear({place})")
            first.append(going_on)
        if extra is not None:
            rest.append(f"{separator}{extra} {more}::_")
            first.append(f"{extra} {more}::_")
        self._rules[f"{more}::_"] = "\n    | ".join(rest)
        if separator:
            self._rules[f"{name}::_"] = "\n    | ".join(first)
        return name

    def _in_order(self, node: Members) -> str:
        """Members in the order of the schema; required ones first where something stands between them."""
        separator = "" if node.separator == EMPTY else self.expression(node.separator) + " "
        ordered = sorted(node.members, key=lambda member: not member.required) if separator else node.members
        extra = "" if node.extra is None else self._named("member", self.expression(node.extra))
        # What may come behind others, and what may come first, from the last member to the first.
        later = f"({separator}{extra})*" if extra else '""'
        first = f"({extra} {later})?" if extra else '""'
        for member in reversed(ordered):
            body = self._named("member", self.expression(member.node))
            if member.required:
                first, later = f"{body} {later}", f"{separator}{body} {later}"
            else:
                first, later = f"({body} {later} | {first})", f"({separator}{body})? {later}"
            first, later = self._named("first", first), self._named("later", later)
        return first


def _all(conditions: list[str]) -> str:
    """A condition that all of these hold; ``and`` takes two."""
    first, *rest = conditions
    return f"and({first}, {_all(rest)})" if rest else first


def _count(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return "?" if (least, most) == (0, 1) else "" if (least, most) == (1, 1) else f"{{{least},{most}}}"


_SLASHES = re.compile(r"\\.|/|\n", re.DOTALL)


def slashed(pattern: str) -> str:
    """An expression as it stands between slashes; two slashes alone would begin a comment."""
    if not pattern:
        return "(?:)"
    return _SLASHES.sub(lambda found: {"/": r"\/", "\n": r"\n"}.get(found.group(), found.group()), pattern)
