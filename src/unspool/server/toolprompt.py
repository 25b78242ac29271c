"""Tools for models whose chat template knows none: the Hermes convention, written into ordinary messages.

The offered tools go into the system message, calls into the assistant's text, results into a user message.
Small and older checkpoints, and models without any template, can be asked for calls in no other way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from unspool.surfaces.conversation import Turn

_INSTRUCTIONS = """\
You can call functions. Each line between <tools> and </tools> describes one of them as JSON:
<tools>
{tools}
</tools>
To call a function, answer with its name and its arguments as one JSON object inside <tool_call> tags:
<tool_call>
{{"name": "function-name", "arguments": {{"argument-name": "value"}}}}
</tool_call>
Write one <tool_call> block for each call. The results come back inside <tool_response> tags. When no \
function is needed, answer in plain text."""


def spell_out_tools(turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The same conversation in turns that hold nothing but text."""
    spelled: list[Turn] = []
    for is_result, group in groupby(turns, lambda turn: turn.role == "tool"):
        if is_result:
            results = [f"<tool_response>\n{turn.text or ''}\n</tool_response>" for turn in group]
            spelled.append(Turn("user", ("\n".join(results),)))
        else:
            spelled.extend(_with_calls(turn) if turn.tool_calls else turn for turn in group)
    return _with_instructions(spelled, tools) if tools else spelled


def _with_calls(turn: Turn) -> Turn:
    calls = []
    for call in turn.tool_calls:
        name = json.dumps(call.name, ensure_ascii=False)
        calls.append(f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>')
    return replace(turn, parts=("\n".join([*turn.parts, *calls]),), tool_calls=())


def _with_instructions(turns: list[Turn], tools: Sequence[Mapping[str, Any]]) -> list[Turn]:
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    instructions = _INSTRUCTIONS.format(tools=lines)
    if turns and turns[0].role in ("system", "developer"):
        first = replace(turns[0], parts=(f"{turns[0].text}\n\n{instructions}",))
        return [first, *turns[1:]]
    return [Turn("system", (instructions,)), *turns]
