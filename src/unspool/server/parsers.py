"""Which parsers read a model when the operator names parsers instead of a format.

A name means what it means to the engines it comes from: a parser that a plugin registered, or a format, by any of
its names. Names of formats alone are a format; only a plugin's parser is run behind the interface of the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import unspool
from unspool.compat import (
    ChatCompletionRequest,
    PluginError,
    PluginParser,
    ReasoningParser,
    ReasoningParserManager,
    ToolParser,
    ToolParserManager,
)
from unspool.compat.managers import AUTO
from unspool.surfaces.conversation import Conversation, Turn


@dataclass(frozen=True, slots=True)
class Plugins:
    """The parsers of a generation, at least one of them a plugin's. ``None``: nothing reads that."""

    tool_parser: type[ToolParser] | None
    reasoning_parser: type[ReasoningParser] | None
    chat_template: str | None = None

    def __str__(self) -> str:
        kinds = [kind.__name__ for kind in (self.reasoning_parser, self.tool_parser) if kind is not None]
        return " + ".join(kinds)

    def parser(
        self, conversation: Conversation, prompt: str | None, tokenizer: Any, *, stream: bool
    ) -> PluginParser:
        """The parser of one generation. Raises :class:`PluginError`."""
        return PluginParser(
            self.tool_parser,
            self.reasoning_parser,
            request=request_of(conversation, stream),
            tokenizer=tokenizer,
            prompt=prompt,
            stream=stream,
            chat_template=self.chat_template,
        )

    def check(self, tokenizer: Any) -> None:
        """Raises :class:`PluginError` now if a parser can't be made."""
        tool = {"type": "function", "function": {"name": "any", "parameters": {}}}
        self.parser(Conversation((), (tool,)), None, tokenizer, stream=True)


def named_format(tools: str | None, reasoning: str | None) -> str | None:
    """The format that two parser names mean, neither of them a plugin's; ``None`` if nothing is named.

    Raises :class:`PluginError` for an unknown name, or for two that don't go together.
    """
    named = [name for name in (_known(reasoning, reasons=True), _known(tools)) if name]
    try:
        formats = list(dict.fromkeys(unspool.get_format(name).name for name in named))
        return unspool.get_format("+".join(formats)).name if formats else None
    except ValueError as error:
        raise PluginError(f"The parsers {reasoning!r} and {tools!r} don't go together: {error}.") from None


def is_plugin(tools: str | None, reasoning: str | None) -> bool:
    """Whether a plugin registered one of the two names."""
    by_plugin = tools is not None and ToolParserManager.is_plugin(tools)
    return by_plugin or (reasoning is not None and ReasoningParserManager.is_plugin(reasoning))


def choose_plugins(
    tools: str | None, reasoning: str | None, form: str | None, detected: str, chat_template: str | None = None
) -> Plugins:
    """The parsers of these names, at least one of which is a plugin's.

    ``form`` is the operator's format, which reads what no parser is named for; without it a tool parser gets all
    of the output, as in vLLM, and after a reasoning parser the ``detected`` format's calls are read. Raises
    :class:`PluginError` for an unknown name.
    """
    if tools is None:
        tools = detected if form is None else form
    reasoning = form if reasoning is None else reasoning
    tools, reasoning = (detected if name == AUTO else name for name in (tools, reasoning))
    try:
        return Plugins(
            ToolParserManager.get_tool_parser(tools) if tools is not None else None,
            ReasoningParserManager.get_reasoning_parser(reasoning) if reasoning is not None else None,
            chat_template,
        )
    except KeyError as error:
        raise PluginError(error.args[0]) from None
    except (ImportError, TypeError) as error:
        raise PluginError(f"{error}.") from None


def _known(name: str | None, *, reasons: bool = False) -> str | None:
    """The name, unless it leaves the choice open. Raises :class:`PluginError` for one that nobody has."""
    if name is None or name == AUTO:
        return None
    try:
        if reasons:
            ReasoningParserManager.get_reasoning_parser(name)
        else:
            ToolParserManager.get_tool_parser(name)
    except KeyError as error:
        raise PluginError(error.args[0]) from None
    return name


def choice_of(conversation: Conversation) -> str | dict[str, Any]:
    """The choice of tools as parsers take it: OpenAI's."""
    choice = conversation.tool_choice
    if choice.mode == "named" and choice.names:
        return {"type": "function", "function": {"name": choice.names[0]}}
    return choice.mode


def request_of(conversation: Conversation, stream: bool) -> ChatCompletionRequest:
    """The request as the engines show it to their parsers."""
    tools = conversation.offered_tools()
    return ChatCompletionRequest(
        messages=[_message(turn) for turn in conversation.turns],
        tools=tools or None,  # type: ignore[arg-type]
        tool_choice=choice_of(conversation),
        parallel_tool_calls=conversation.parallel_tool_calls,
        chat_template_kwargs=dict(conversation.template_kwargs) or None,
        continue_final_message=conversation.continue_final,
        add_generation_prompt=conversation.add_generation_prompt,
        stream=stream,
    )


def _message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.reasoning is not None:
        message["reasoning"] = turn.reasoning
    if turn.tool_call_id is not None:
        message["tool_call_id"] = turn.tool_call_id
    if turn.tool_calls:
        message["tool_calls"] = [call.as_openai() for call in turn.tool_calls]
    return message
