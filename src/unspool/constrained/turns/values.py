"""How each codec spells values: the syntaxes that a :class:`~unspool.constrained.turns.schemas.Walk` speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from unspool.constrained.subschemas import Path
from unspool.constrained.turns.nodes import EMPTY, Free, Json, Many, Node, Ref, Regex, Text, Word, alt, maybe, seq
from unspool.constrained.turns.patterns import ANY, NUMBER, containing, length_alone, literal, one_of
from unspool.constrained.turns.schemas import Syntax, Walk
from unspool.formats.written_calls import KINDS, attribute
from unspool.formats.written_values import element, python_literal, python_repr
from unspool.parsing.codecs.elements import ITEM
from unspool.parsing.codecs.json import dump, load_spelled
from unspool.parsing.declaration import ElementCalls, PythonCalls, TaggedCalls

LOOKS: Mapping[str, str] = {
    **dict.fromkeys(("integer", "number"), rf"\s*{NUMBER}\s*"),
    **dict.fromkeys(("boolean", "null"), r"\s*(?i:true|false|null|none)\s*"),
    "array": r"\s*\[(?s:.*)",
    "object": r"\s*\{(?s:.*)",
}
"""Text that a reader may take for a value of a type other than string."""

_SPACE = maybe(Regex((r"[ \t\r\n]{1,32}",)))
_ESCAPES = r"\\[nrtbf\\]|\\u00[0-9a-f]{2}"
_MARKER_LIKE = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")
_JSON_ESCAPES = (
    r'\\["\\/bfnrt]|\\u(?:[0-9a-cefA-CEF][0-9a-fA-F]|[dD][0-7])[0-9a-fA-F]{2}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)  # each of them one character
_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"


def _spelled(value: Any) -> Any:
    """A value as the writer has it, which keeps the spelling of numbers."""
    return load_spelled(json.dumps(value))


def _any_name(names: tuple[str, ...]) -> Node:
    """A key that is none of those that are declared."""
    return Regex((_NAME,), (one_of(names),) if names else ())


def _literally(text: str) -> Node:
    """A value's text, of which nothing is a marker even if it spells one."""
    return Word(text) if _MARKER_LIKE.search(text) else Text(text)


class JsonSyntax:
    """JSON whose strings spell no marker, for where one would be taken for itself: in the text of an element."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self.marks = marks

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value."""
        return Word(dump(_spelled(value)))

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """A string in quotes, which nothing takes for anything else."""
        plain = r'[^"\\\x00-\x1f\x7f]'
        length = length_alone(bodies)
        if length is not None:
            return Regex((rf'"(?:{plain}|{_JSON_ESCAPES}){length}"',), _spelling(self.marks))
        if bodies:
            # Escapes would be matched as they are spelled, so there are none.
            return seq('"', Regex((*bodies, f"{plain}*"), _spelling(self.marks)), '"')
        return Regex((rf'"(?:{plain}|\\["\\/bfnrt]|\\u[0-9a-fA-F]{{4}})*"',), _spelling(self.marks), '"')

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number."""
        return Json(json.dumps(schema))

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """An array or an object."""
        comma = seq(_SPACE, ",", _SPACE)
        if kind == "array":
            return seq("[", _SPACE, walk.entries(schema, self, path, comma), _SPACE, "]")
        return seq("{", _SPACE, walk.members(schema, self, path, comma), _SPACE, "}")

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A key in quotes and its value."""
        name = _quoted_name('"', names) if key is None else self.constant(key)
        return seq(name, _SPACE, ":", _SPACE, value)

    def anything(self, walk: Walk) -> Node:
        """A value of any kind."""
        name = f"json_value_{len(self.marks)}"
        return any_value(self, walk, name)


def _spelling(marks: tuple[str, ...]) -> tuple[str, ...]:
    """What a text may not match so that it spells none of these."""
    return (containing(marks),) if marks else ()


def any_value(syntax: Syntax, walk: Walk, name: str) -> Node:
    """A value of any kind, as a rule of this name, since it may hold such values."""
    if name not in walk.rules:
        walk.rules[name] = EMPTY  # refers to itself
        walk.rules[name] = alt(
            (
                syntax.string((), frozenset()),
                Json('{"type": "number"}'),
                *map(syntax.constant, (True, False, None)),
                syntax.container(walk, "array", {"items": True}, ()),
                syntax.container(walk, "object", {}, ()),
            )
        )
    return Ref(name)


def _quoted_name(quote: str, names: tuple[str, ...]) -> Node:
    """A key in quotes that is none of those that are declared."""
    but = (one_of(f"{quote}{name}{quote}" for name in names),) if names else ()
    return Regex((f"{quote}{_NAME}{quote}",), but)


class PythonSyntax:
    """Python literals. Without a shape they are as Python shows them (``repr``), in quotes of either kind.

    No string spells one of ``marks``.
    """

    def __init__(self, shape: PythonCalls | None = None, marks: tuple[str, ...] = ()) -> None:
        self._shape = shape
        self.marks = marks
        self._quotes = ("'", '"') if shape is None else (shape.quote,)
        self._json = shape is not None and shape.json_containers

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value."""
        return Text(self._spell(value))

    def _spell(self, value: Any) -> str:
        value = _spelled(value)
        return python_repr(value) if self._shape is None else python_literal(self._shape, value)

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """A string in quotes, which nothing takes for anything else."""
        return alt(self._string(quote, bodies) for quote in self._quotes)

    def _string(self, quote: str, bodies: tuple[str, ...]) -> Node:
        plain = rf"[^{quote}\\\x00-\x1f\x7f]"
        length = length_alone(bodies)
        if bodies and length is None:
            # Escapes would be matched as they are spelled, so there are none.
            return seq(quote, Regex((*bodies, f"{plain}*"), _spelling(self.marks)), quote)
        loose = self._shape is not None and self._shape.loose_quotes
        # There a quote ends the string wherever the call can go on behind it.
        but = (rf"{ANY}\\{quote}\s*[,)\]}}:]{ANY}",) if loose else ()
        # With a length only the short escapes come: the others would make the automaton of a server too large.
        chars = rf"{plain}|{_ESCAPES}|\\{quote}" if length is None else rf"{plain}|\\[nrtbf\\{quote}]"
        pattern = f"{quote}(?:{chars}){length or '*'}{quote}"
        return Regex((pattern,), (*but, *_spelling(self.marks)), "" if length else quote)

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number, spelled as in JSON."""
        return Json(json.dumps(schema))

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """A list or a dict."""
        if self._json:
            return walk.json({**schema, "type": kind}, path)
        if kind == "array":
            return seq("[", walk.entries(schema, self, path, Text(", ")), "]")
        return seq("{", walk.members(schema, self, path, Text(", ")), "}")

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A key of a dict and its value."""
        if key is None:
            return seq(_quoted_name(self._quotes[0], names), ": ", value)
        return seq(Word(self._spell(key)), ": ", value)

    def keyword(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A keyword argument."""
        return seq(_any_name(names) if key is None else Word(key), "=", value)

    def anything(self, walk: Walk) -> Node:
        """A literal of any kind."""
        if self._json:
            others = walk.json({"type": ["number", "array", "object"]})
            return alt((self.string((), frozenset()), *map(self.constant, (True, False, None)), others))
        return any_value(self, walk, "python_value")


class RelaxedSyntax:
    """Objects with bare keys, and strings between two markers."""

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self.marks: tuple[str, ...] = (quote,)

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value."""
        return _relaxed(_spelled(value), self._quote)

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """A string between markers, which nothing takes for anything else."""
        return seq(self._quote, Free((self._quote,), closer=self._quote, body=bodies, may_be_ended=not bodies))

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number, spelled as in JSON."""
        return Json(json.dumps(schema))

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """A list or an object."""
        if kind == "array":
            return seq("[", walk.entries(schema, self, path, Text(",")), "]")
        return seq("{", walk.members(schema, self, path, Text(",")), "}")

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A bare key and its value."""
        return seq(_any_name(names) if key is None else Word(key), ":", value)

    def anything(self, walk: Walk) -> Node:
        """A value of any kind."""
        return any_value(self, walk, "relaxed_value")


def _relaxed(value: Any, quote: str) -> Node:
    """A constant as the writer has it, its strings between markers and otherwise literal."""
    if isinstance(value, str):
        return seq(quote, _literally(value), quote)
    if isinstance(value, Mapping):
        members = [seq(Word(key), ":", _relaxed(item, quote)) for key, item in value.items()]
        return seq("{", *_joined(members), "}")
    if isinstance(value, list):
        return seq("[", *_joined([_relaxed(item, quote) for item in value]), "]")
    return Text(dump(value))


def _joined(nodes: Sequence[Node]) -> list[Node | str]:
    return [part for place, node in enumerate(nodes) for part in ((",", node) if place else (node,))]


class ElementSyntax:
    """Elements named after their members, nested as the values are.

    A value here comes with the beginning of the tag that closes it, and a member with the rest of that.
    """

    def __init__(self, shape: ElementCalls, marks: tuple[str, ...]) -> None:
        self._shape = shape
        self._close = shape.element_close
        calls = (shape.call_open, shape.call_close, shape.section_open, shape.section_close)
        self.marks = (shape.element_close, shape.element_open, *calls, *marks)
        self._json = JsonSyntax(self.marks)

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value, as text or as elements."""
        said = _spelled(value)
        text = said if isinstance(said, str) else dump(said)
        if in_text and not isinstance(said, list | Mapping):
            return Free(closer=self._close, body=(literal(text),))
        forms = [seq(_literally(text), self._close)]
        if isinstance(said, list | Mapping):
            tag = f"{self._shape.element_open}x>"
            for layout in ("", self._shape.layout):
                forms.append(Text(element(self._shape, "x", said, layout).removeprefix(tag).removesuffix("x>")))
        return alt(forms)

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """Text up to the closing tag."""
        return Free(self.marks, "", self._close, bodies, _looks(but), not (bodies or but))

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number, spelled as in JSON."""
        if in_text:
            return Free(closer=self._close, body=(walk.number_pattern(schema, path),))
        return seq(Json(json.dumps(schema)), self._close)

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """A list or an object as elements, or as JSON, which templates write for what elements can't carry."""
        options = [seq(self._json.container(walk, kind, schema, path), self._close)]
        for layout in dict.fromkeys((self._shape.layout, "")):
            options.append(seq(self._elements(walk, kind, schema, path, layout), layout, self._close))
        return alt(options)

    def _elements(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path, layout: str) -> Node:
        """What is in a list or an object, with layout before each of it."""

        def spell(key: str | None, value: Node, names: tuple[str, ...]) -> Node:
            return seq(layout, self.member(key, value, names))

        if kind == "object":
            return walk.members(schema, self, path, EMPTY, spell)
        entry = walk.value(schema.get("items", True), self, (*path, "items"))
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return EMPTY
        return Many(spell(ITEM, entry, ()), EMPTY, max(int(least), 1), None if most is None else int(most))

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """An element; one that is not declared may be closed by any name, as readers take it."""
        name = _any_name(names) if key is None else Word(key)
        return seq(self._shape.element_open, name, ">", value, name, ">")

    def anything(self, walk: Walk) -> Node:
        """Text, which is JSON if it can be read as that, or elements."""
        name = "element_value"
        if name not in walk.rules:
            walk.rules[name] = EMPTY  # refers to itself
            containers = [
                self.container(walk, kind, schema, ())
                for kind, schema in (("array", {"items": True}), ("object", {}))
            ]
            walk.rules[name] = alt((self.string((), frozenset()), *containers))
        return Ref(name)


class TaggedSyntax:
    """Text values of elements; each comes with what stands before and behind it in its element."""

    def __init__(self, shape: TaggedCalls, marks: tuple[str, ...]) -> None:
        self._shape = shape
        self._closer = shape.value_close[0]
        own = (*shape.value_close, *shape.param_open, *shape.call_close, *shape.call_open)
        self.marks = (*own, *shape.section_open, *shape.section_close, *marks)
        self._python = PythonSyntax(None, self.marks) if shape.python_values else None
        self._json = JsonSyntax(self.marks)

    def _around(self, kind: str, value: Node, *, padded: bool = True) -> Node:
        shape, types = self._shape, self._shape.written.types
        said = {"": "", "string": "true" if kind == "string" else "false", "kind": kind}[types]
        head = f' {shape.type_attribute}="{said}"' if types else ""
        head += shape.key_end[0] + shape.written.between_key_value + shape.value_open + shape.value_pad
        return seq(head, value, shape.value_pad + self._closer if padded else "")

    def constant(self, value: Any, *, in_text: bool = False) -> Node:
        """Exactly this value."""
        said = _spelled(value)
        text = said if isinstance(said, str) else (python_repr if self._python else dump)(said)
        if in_text and not self._shape.written.types:
            return self._lettered(KINDS[type(said)], literal(text))
        return self._around(KINDS[type(said)], _literally(text))

    def string(self, bodies: tuple[str, ...], but: frozenset[str]) -> Node:
        """Text up to the closer."""
        if self._shape.written.types:
            but = frozenset()  # the element says that it is text
        verbatim = self._shape.verbatim
        marks = self.marks + ((verbatim[0],) if verbatim else ())
        free = not (bodies or but)  # ended in the middle, another text might not be what is demanded
        plain = Free(marks, self._shape.value_pad, self._closer, bodies, _looks(but), free)
        options = [self._around("string", plain, padded=False)]
        if verbatim:
            inside = Free((verbatim[1],), "", verbatim[1], bodies, _looks(but), free)
            options.append(self._around("string", seq(verbatim[0], inside)))
        return alt(options)

    def number(self, walk: Walk, schema: Mapping[str, Any], path: Path, *, in_text: bool) -> Node:
        """A number, spelled as in JSON."""
        if in_text and not self._shape.written.types:
            return self._lettered("number", walk.number_pattern(schema, path))
        return self._around("number", Json(json.dumps(schema)))

    def _lettered(self, kind: str, pattern: str) -> Node:
        """A value whose text is one piece with the closer, as any text in its place would be."""
        text = Free((), self._shape.value_pad, self._closer, (pattern,))
        return self._around(kind, text, padded=False)

    def container(self, walk: Walk, kind: str, schema: Mapping[str, Any], path: Path) -> Node:
        """A list or an object as JSON, or as a Python literal."""
        options = [self._json.container(walk, kind, schema, path)]
        if self._python:
            options.append(self._python.container(walk, kind, schema, path))
        return self._around(kind, alt(options))

    def member(self, key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        """A parameter's element."""
        before, _, after = self._shape.written.key.partition("{key}")
        name = _any_name(names) if key is None else Word(attribute(self._shape, key))
        return seq(self._shape.param_open[0] + before, name, after, value, self._shape.written.after_param)

    def anything(self, walk: Walk) -> Node:
        """Text, which is JSON if it can be read as that, or what the element says."""
        text = self.string((), frozenset())
        if not self._shape.written.types:
            return text
        others = [self._around("number", Json('{"type": "number"}')), *map(self.constant, (True, False, None))]
        containers = [self.container(walk, "array", {"items": True}, ()), self.container(walk, "object", {}, ())]
        return alt((text, *others, *containers))


def _looks(types: frozenset[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(LOOKS[kind] for kind in sorted(types)))
