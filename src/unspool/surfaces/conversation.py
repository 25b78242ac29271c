"""The one internal model of a conversation.

Every surface imports its request to these values; the chat template renders a prompt from them. They hold
what was said, never how some API spells it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from unspool.message import ToolCall

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
ChoiceMode: TypeAlias = Literal["none", "auto", "required", "named"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. ``parts`` are its pieces of text in order; empty when it has no text.

    ``tool_call_id`` and ``name`` say which call a ``tool`` turn answers; ``name`` is the speaker's name
    elsewhere.
    """

    role: Role
    parts: tuple[str, ...] = ()
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def text(self) -> str | None:
        """All of its text as one string, a line per part; ``None`` when it has none."""
        return "\n".join(self.parts) if self.parts else None


def as_error(text: str) -> str:
    """The result of a call that failed, marked as such: chat templates have no other place for it."""
    return text if text.lower().startswith("error") else f"Error: {text}".rstrip()


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether calls may or must be made. ``names`` limits them to these tools (``None``: all)."""

    mode: ChoiceMode = "auto"
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Everything a prompt is made of.

    ``tools`` are OpenAI function tools; ``schema_paths`` are where the request has the parameters of each, where
    that is not as in Chat Completions. ``template_kwargs`` are passed to the chat template as they are.
    ``continue_final`` asks for a continuation of the last (assistant) turn instead of a new one.
    """

    turns: tuple[Turn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    continue_final: bool = False
    add_generation_prompt: bool = True
    schema_paths: tuple[str, ...] = field(default=(), compare=False)

    def schema_path(self, tool: Mapping[str, Any]) -> str:
        """The dotted path of the parameters of one of the tools (that very object)."""
        number = next(i for i, each in enumerate(self.tools) if each is tool)
        paths = self.schema_paths
        return paths[number] if number < len(paths) else f"tools[{number}].function.parameters"

    def offered_tools(self) -> list[Mapping[str, Any]]:
        """The tools that may be called in the next turn, in request order."""
        if self.tool_choice.mode == "none":
            return []
        names = self.tool_choice.names
        return [tool for tool in self.tools if names is None or tool["function"]["name"] in names]
