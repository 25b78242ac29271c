"""Turns as xgrammar's structural tags: free text in which what opens a call has to become one.

They fit formats whose calls are a marker, a JSON value and a marker, where calls may come and need not. All else
is said by a grammar. What xgrammar would pass over in a schema is left to the grammar, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unspool.constrained.backends.fragment import schema_grammar
from unspool.constrained.backends.xgrammar import FRAGMENT
from unspool.constrained.base import SchemaError
from unspool.constrained.grammars import Source
from unspool.constrained.subschemas import Path
from unspool.constrained.turns.calls import HeldTool, Making, calls_node
from unspool.constrained.turns.nodes import Json, Node, Seq, Text
from unspool.constrained.turns.schemas import Walk
from unspool.constrained.turns.turn import ReasoningChoice
from unspool.parsing.declaration import Format, JsonCalls, Reasoning
from unspool.parsing.parser import open_block, turn_tail


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
    held = [_held(tool) for tool in tools]
    tags = [tool and _tag(calls_node(fmt, [tool], Making(walks=_Whole), parallel=False)) for tool in held]
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


def _held(tool: HeldTool) -> HeldTool | None:
    """The tool with its schema as xgrammar holds to all of it; ``None`` if it would pass over something."""
    try:
        return replace(
            tool, schema=json.loads(schema_grammar(Source("json_schema", json.dumps(tool.schema)), FRAGMENT).text)
        )
    except SchemaError:
        return None
