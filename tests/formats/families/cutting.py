"""One message from an output, whatever way it is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from tests.conformance.replay import ArgumentMode, Generation, Outcome, every_cut, outcomes_by_cut
from unspool.events import FinishReason


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A function tool with these parameters."""
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
TOOLS = [tool("get_weather", city=STRING, days=INTEGER, note={}), tool("get_time")]


def read(
    fmt: str,
    raw: str,
    *,
    prompt: str | None = None,
    tools: Sequence[Mapping[str, Any]] = TOOLS,
    finish: FinishReason = "stop",
) -> Outcome:
    """The message at every cut and in both argument modes; they must all be one."""
    generation = Generation(fmt, raw, tools=tools, prompt=prompt, finish=finish)
    found: dict[Outcome, object] = {}
    for mode in get_args(ArgumentMode):
        found.update(outcomes_by_cut(generation, every_cut(raw), mode))
    [outcome] = found
    return outcome
