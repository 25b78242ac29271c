"""The conversations that a chat template is tried with: what people's programs send, one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unspool.message import ToolCall
from unspool.surfaces.conversation import Conversation, Turn

_CITY = {"type": "string", "description": "The name of a city."}


def _tool(name: str, description: str, **properties: Any) -> Mapping[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


_WEATHER = _tool("get_weather", "The weather of the next days.", city=_CITY, days={"type": "integer"})
_TIME = _tool("get_time", "What time it is.")
_SEARCH = _tool(
    "search_flights",
    "Flights that meet some conditions.",
    route={
        "type": "object",
        "properties": {"from": _CITY, "via": {"type": "array", "items": _CITY}, "direct": {"type": "boolean"}},
    },
    limits={"type": "array", "items": {"type": "number"}},
    comment={"type": "string", "description": "Anything else."},
)
TOOLS = (_WEATHER, _TIME, _SEARCH)

QUESTION = Turn("user", ("What will the weather be in Paris?",))
ANSWER = "It will be sunny in Paris."
THOUGHT = "The user asks about Paris, so I look it up."
RESULT = "Sunny, 22 degrees."
REMARK = "Let me look that up."


def _call(number: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call0000{number}", name, json.dumps(arguments, ensure_ascii=False))


ONE = _call(1, "get_weather", city="Paris", days=3)
NOTHING = _call(2, "get_time")
NESTED = _call(
    3,
    "search_flights",
    route={"from": "São Paulo", "via": ["Zürich", "東京"], "direct": False},
    limits=[1, 2.5, -3],
    comment='Say "hello",\nthen 3 < 4 & {stop}.',
)


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try: what was said before, and what the model says then.

    ``thinks``: the template is asked to let the model reason, as far as it has a switch for that.
    """

    name: str
    said: Turn
    before: tuple[Turn, ...] = (QUESTION,)
    thinks: bool = False
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def conversation(self, *, answered: bool) -> Conversation:
        """Everything up to the model's turn, which is to be opened; or with what it says."""
        switches = {"enable_thinking": True, "thinking": True} if self.thinks else {}
        return Conversation(
            (*self.before, self.said) if answered else self.before,
            TOOLS if self.needs_tools else (),
            template_kwargs={**switches, **self.template_kwargs},
            add_generation_prompt=not answered,
        )

    @property
    def needs_tools(self) -> bool:
        """Whether it is about calls."""
        return any(turn.tool_calls for turn in (*self.before, self.said))


def _says(*calls: ToolCall, content: str | None = None, reasoning: str | None = None) -> Turn:
    return Turn("assistant", (content,) if content else (), reasoning, calls)


def cases() -> Iterator[Case]:
    """Everything that is tried, from the simple to the rich."""
    yield Case("answer", _says(content=ANSWER))
    yield Case("reasoning", _says(content=ANSWER, reasoning=THOUGHT), thinks=True)
    yield Case("one call", _says(ONE))
    yield Case("text and a call", _says(ONE, content=REMARK))
    yield Case("reasoning and a call", _says(ONE, reasoning=THOUGHT), thinks=True)
    yield Case("parallel calls", _says(ONE, NOTHING))
    yield Case("nested arguments", _says(NESTED))
    yield Case("no arguments", _says(NOTHING))
    result = Turn("tool", (RESULT,), tool_call_id=ONE.id, name=ONE.name)
    yield Case("answer to a result", _says(content=ANSWER), before=(QUESTION, _says(ONE), result))
    yield Case(
        "follow-up",
        _says(content=ANSWER),
        before=(QUESTION, _says(content=REMARK, reasoning=THOUGHT), Turn("user", ("And in Lyon?",))),
    )
