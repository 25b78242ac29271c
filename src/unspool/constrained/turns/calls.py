"""Calls as each shape of the declaration has them: :mod:`unspool.formats.written_calls` with holes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unspool.constrained.base import GrammarError, SchemaError
from unspool.constrained.schema import MAX_STRING
from unspool.constrained.turns.nodes import EMPTY, Many, Members, Node, Regex, Text, alt, seq
from unspool.constrained.turns.schemas import Walk
from unspool.constrained.turns.values import ElementSyntax, PythonSyntax, RelaxedSyntax, TaggedSyntax
from unspool.formats.written_calls import attribute
from unspool.parsing.declaration import (
    Calls,
    ElementCalls,
    Format,
    JsonArguments,
    JsonCalls,
    NamedCalls,
    PythonCalls,
    RelaxedArguments,
    TaggedCalls,
)

_INDEX = Regex(("[0-9]{1,4}",))
_FIELD = re.compile(r"\{(name|index|id|number)\}")


@dataclass(frozen=True, slots=True)
class HeldTool:
    """A tool that may be called: its name, the schema of its arguments, whether all of that must be enforced."""

    name: str
    schema: Mapping[str, Any]
    strict: bool


@dataclass(slots=True)
class Making:
    """What is gathered while a turn's tree is made: rules that refer to themselves, and warnings.

    ``marks`` end a turn or a message of it, wherever they stand. ``walks`` makes trees of schemas, for a notation;
    ``max_string`` bounds the strings of JSON in them, in characters.
    """

    marks: tuple[str, ...] = ()
    walks: type[Walk] = Walk
    max_string: int | None = MAX_STRING
    rules: dict[str, Node] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def walk(self, tool: HeldTool) -> Walk:
        """A walk through the parameters of a tool."""
        return self.walks(
            tool.schema,
            f"tool {tool.name!r}",
            strict=tool.strict,
            rules=self.rules,
            warnings=self.warnings,
            max_string=self.max_string,
        )


def calls_node(fmt: Format, tools: Sequence[HeldTool], making: Making, *, parallel: bool) -> Node:
    """One call, or any number of them, to any of the tools, with all that stands around them.

    Raises :class:`GrammarError` if the format has none, and what a :class:`Walk` raises.
    """
    shape = fmt.calls
    if shape is None:
        raise GrammarError(f"The format {fmt.name!r} has no calls; use one that has.")
    one = alt(_made(shape, tool, making) for tool in tools)
    return around(fmt, shape, one, parallel=parallel)


def around(fmt: Format, shape: Calls, one: Node, *, parallel: bool) -> Node:
    """The calls of a turn, with what their shape has around and between them."""

    def many(node: Node, between: str = fmt.between_calls) -> Node:
        return Many(node, Text(between), 1, None) if parallel else node

    match shape:
        case JsonCalls(written_list=(before, between, after)):
            return _json_frame(shape, seq(before, many(one, between), after))
        case NamedCalls():
            return seq(shape.section_open, many(one), shape.section_close)
        case TaggedCalls(section_per_call=False) if shape.section_open:
            pad = shape.written.section_pad
            return seq(shape.section_open[0], pad, many(one), pad, shape.section_close[0])
        case ElementCalls():
            return seq(shape.section_open, shape.layout, many(one), shape.layout, shape.section_close)
        case PythonCalls(statements=True):
            before, after = (f"```{shape.fence}\n", "\n```") if shape.fence else ("", "")
            return seq(shape.open[0], "\n", before, many(one), after, "\n", shape.close[0])
        case PythonCalls(bare=True):
            return seq("[", many(one), "]")
        case PythonCalls():
            return seq(shape.open[0], "[", many(one), "]", shape.close[0])
    return many(one)


def body_node(body: JsonArguments | JsonCalls | NamedCalls | TaggedCalls, tool: HeldTool, making: Making) -> Node:
    """What a message that is a call to this tool holds."""
    if isinstance(body, JsonArguments):
        return seq(body.written_before, making.walk(tool).json(tool.schema), body.written_after)
    return _made(body, tool, making)


def _made(shape: Calls, tool: HeldTool, making: Making) -> Node:
    try:
        return _MAKERS[type(shape)](shape, tool, making)
    except RecursionError as error:
        raise SchemaError(f"The schema of tool {tool.name!r} is nested too deeply.") from error


def _json_frame(shape: JsonCalls, inside: Node) -> Node:
    if not shape.open or shape.bare:
        return inside
    return seq(shape.open[0], shape.body_pad, inside, shape.body_end, shape.close[0] if shape.close else "")


def _json_call(shape: JsonCalls, tool: HeldTool, making: Making) -> Node:
    arguments = making.walk(tool).json(tool.schema)
    name = json.dumps(tool.name, ensure_ascii=False)
    space = "" if shape.compact else " "
    if shape.name_is_key:
        node = seq(f"{{{name}:{space}", arguments, "}")
    else:
        number = seq(f'"{shape.id_key}":{space}"', _INDEX, f'",{space}') if shape.id_key else EMPTY
        named = f'"{shape.name_keys[0]}":{space}{name},{space}"{shape.arguments_keys[0]}":{space}'
        node = seq("{", number, named, arguments, "}")
    return node if shape.bare or shape.written_list else _json_frame(shape, node)


def _named_call(shape: NamedCalls, tool: HeldTool, making: Making) -> Node:
    walk = making.walk(tool)
    holes: dict[str, Node] = {
        "name": Text(tool.name),
        "index": _INDEX,
        "id": Regex((f"[a-z0-9]{{{shape.id_size}}}",)) if shape.id_size else EMPTY,
    }
    if isinstance(shape.arguments, RelaxedArguments):
        syntax = RelaxedSyntax(shape.arguments.quote)
        value = alt(syntax.container(walk, "object", schema, path) for path, schema in walk.objects())
    else:
        before = shape.arguments.written_before if isinstance(shape.arguments, JsonArguments) else ""
        value = seq(before, walk.json(tool.schema), shape.arguments.written_after)
    return seq(shape.open, _filled(shape.written_header, holes), value, shape.close)


def _filled(pattern: str, holes: Mapping[str, Node]) -> Node:
    """A declaration's text with its fields filled in."""
    parts = _FIELD.split(pattern)
    return seq(*(holes[part] if place % 2 else part for place, part in enumerate(parts)))


def _tagged_call(shape: TaggedCalls, tool: HeldTool, making: Making) -> Node:
    layout, walk = shape.written, making.walk(tool)
    syntax = TaggedSyntax(shape, making.marks)
    node = alt(
        _or_empty(walk.members(schema, syntax, path, EMPTY), layout.empty) for path, schema in walk.objects()
    )
    if shape.call_open:
        header = _filled(layout.name, {"name": Text(attribute(shape, tool.name)), "number": _INDEX})
        end = shape.header_end[0] if shape.header_end else ""
        node = seq(shape.call_open[0], header, end, layout.after_header, node, shape.call_close[0])
    if shape.section_per_call:
        pad = layout.section_pad
        node = seq(shape.section_open[0], pad, node, pad, shape.section_close[0])
    return node


def _or_empty(parameters: Members, empty: str) -> Node:
    """Parameters, and what stands in their place where there are none."""
    if not parameters.members and parameters.extra is None:
        return Text(empty)
    if empty and not any(member.required for member in parameters.members):
        return alt((Text(empty), parameters))
    return parameters


def _element_call(shape: ElementCalls, tool: HeldTool, making: Making) -> Node:
    walk = making.walk(tool)
    syntax = ElementSyntax(shape, making.marks)

    def spell(key: str | None, value: Node, names: tuple[str, ...]) -> Node:
        return seq(syntax.member(key, value, names), shape.layout)

    parameters = alt(walk.members(schema, syntax, path, EMPTY, spell) for path, schema in walk.objects())
    opener = f'{shape.call_open}{shape.name_attribute}="{tool.name}">'
    return seq(opener, shape.layout, parameters, shape.call_close)


def _python_call(shape: PythonCalls, tool: HeldTool, making: Making) -> Node:
    walk = making.walk(tool)
    syntax = PythonSyntax(shape)
    keywords = alt(
        walk.members(schema, syntax, path, Text(", "), syntax.keyword) for path, schema in walk.objects()
    )
    return seq(tool.name, "(", keywords, ")")


_MAKERS: Mapping[type, Callable[[Any, HeldTool, Making], Node]] = {
    JsonCalls: _json_call,
    NamedCalls: _named_call,
    TaggedCalls: _tagged_call,
    ElementCalls: _element_call,
    PythonCalls: _python_call,
}
