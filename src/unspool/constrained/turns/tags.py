"""Turns as xgrammar's structural tags: free text in which what opens a call has to become one.

They fit formats whose calls are a marker, a JSON value and a marker, where calls may come and need not. All else
is said by a grammar. What xgrammar would pass over in a schema is left to the grammar, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from unspool.constrained.schema import ANNOTATIONS
from unspool.constrained.subschemas import Path, subschemas
from unspool.constrained.turns.calls import HeldTool, Making, calls_node
from unspool.constrained.turns.nodes import Json, Node, Seq, Text
from unspool.constrained.turns.schemas import Walk
from unspool.constrained.turns.turn import ReasoningChoice
from unspool.formats.writer import open_block
from unspool.parsing.declaration import Format, JsonCalls, Reasoning
from unspool.parsing.parser import turn_tail

_HELD = ANNOTATIONS | {
    *("type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const"),
    *("anyOf", "$ref", "$defs", "definitions", "minLength", "maxLength", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum"),
}
"""Keywords that xgrammar 0.2 holds to by itself, whatever stands beside them."""


class _Whole(Walk):
    """A walk that leaves JSON to whoever knows schemas."""

    def json(self, schema: Any, path: Path = ()) -> Node:
        return Json(json.dumps(schema))


def structural_tag(
    fmt: Format, tools: Sequence[HeldTool], *, parallel: bool, reasoning: ReasoningChoice, prompt: str | None
) -> dict[str, Any] | None:
    """A turn in which calls may come, as a structural tag; ``None`` if it can't be said so."""
    shape = fmt.calls
    if not isinstance(shape, JsonCalls) or not shape.open or shape.bare or shape.written_list:
        return None
    if fmt.frames or fmt.calls_first or (fmt.reasoning and fmt.reasoning[0].holds_calls):
        return None
    if not all(_held(tool.schema) for tool in tools):
        return None
    tags = [_tag(calls_node(fmt, [tool], Making(walks=_Whole), parallel=False)) for tool in tools]
    tail = turn_tail(fmt, prompt)
    opened = open_block(fmt, tail)
    if None in tags or (tail and opened is None):
        return None
    block = opened or (fmt.reasoning[0] if fmt.reasoning else None)
    content = {
        "type": "triggered_tags",
        "triggers": [shape.open[0]],
        "tags": tags,
        "stop_after_first": not parallel,
        "excludes": [block.open, block.close] if block else [],
    }
    if block is None:
        return None if reasoning == "required" else _whole(content)
    if opened is not None:
        return None if reasoning == "off" else _whole(_reasoned("", block, content))
    options = [] if reasoning == "off" else [_reasoned(fmt.lead + block.open, block, content)]
    options += [] if reasoning == "required" else [content]
    return _whole(options[0] if len(options) == 1 else {"type": "or", "elements": options})


def _whole(turn: dict[str, Any]) -> dict[str, Any]:
    return {"type": "structural_tag", "format": turn}


def _reasoned(begin: str, block: Reasoning, content: dict[str, Any]) -> dict[str, Any]:
    thought = {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": block.close}
    return {"type": "sequence", "elements": [thought, content]}


def _tag(call: Node) -> dict[str, Any] | None:
    match call:
        case Seq((Text(begin), Json(schema), Text(end))):
            value = {"type": "json_schema", "json_schema": json.loads(schema)}
            return {"type": "tag", "begin": begin, "content": value, "end": end}
    return None


def _held(schema: Any) -> bool:
    nodes: Iterable[dict[str, Any]] = (node for _, node in subschemas(schema))
    return all(_HELD.issuperset(node) for node in nodes)
