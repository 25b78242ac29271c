"""A format as a grammar: what a model may write in one turn, in its own syntax."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from unspool.constrained.base import GrammarError, SchemaError
from unspool.constrained.grammars import Grammar
from unspool.constrained.schema import MAX_STRING, spelled
from unspool.constrained.turns.calls import HeldTool, Making
from unspool.constrained.turns.lark import RESPONSE, to_lark
from unspool.constrained.turns.schemas import Walk
from unspool.constrained.turns.turn import ReasoningChoice, Turn
from unspool.constrained.vocabulary import Vocabulary, vocabulary_of
from unspool.formats.registry import get_format
from unspool.formats.writer import WriteError, write
from unspool.message import Message, ToolCall
from unspool.parsing.binding import bound
from unspool.parsing.declaration import Format
from unspool.parsing.parser import ToolChoice, turn_tail
from unspool.parsing.schema import function_of

__all__ = ["ConstrainedTools", "TurnGrammar", "turn_grammar", "turn_of"]

ConstrainedTools: TypeAlias = Literal["strict", "envelope", "schema"]
"""What calls are held to that may come but need not: those of strict tools alone to their schema, every call to
its form, or every call to its tool's schema."""

MAX_TEXT = MAX_STRING // 4
"""Tokens that a text among a call's arguments may have if its schema does not say how long it may be."""

_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class TurnGrammar(Grammar):
    """The grammar of a turn. ``arguments`` are the schemas of tools that it could not hold in full, by name."""

    arguments: Mapping[str, str] = field(default_factory=dict)

    def call_problems(self, name: str, arguments: str) -> list[str]:
        """What is wrong with the arguments of a finished call that the grammar could not prevent."""
        if name not in self.arguments:
            return []
        from unspool.constrained.validation import problems

        return problems(arguments, [json.loads(self.arguments[name])])


def turn_grammar(
    format: str | Format,
    tokenizer: Any,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    constrain: ConstrainedTools = "strict",
    reasoning: ReasoningChoice = "auto",
    response: Grammar | None = None,
    prompt: str | None = None,
    max_text: int | None = MAX_TEXT,
    max_string: int | None = MAX_STRING,
) -> TurnGrammar | None:
    """What a model may write after ``prompt``, as a grammar for this tokenizer; ``None`` if that is anything.

    Without a tokenizer (``None``) markers are letters.

    ``tools`` (OpenAI function tools), ``tool_choice`` and ``parallel_tool_calls`` are those of the request. A call
    that must come is held to its tool's schema; one that may come is if its tool is ``strict``, otherwise
    ``constrain`` says what it is held to. A named tool is called once. ``reasoning`` says whether the turn may
    begin with reasoning, has to, or can't. ``response`` is what content is held to; without a tool that must be
    called it comes instead of calls. Free text is kept from spelling what a parser would take for markers.
    ``max_text`` (tokens) and ``max_string`` (characters, for JSON) bound the texts among a call's arguments whose
    schema does not say how long they may be, so that a model can't go on forever in one.

    Raises :class:`~unspool.constrained.base.SchemaError` for a strict tool whose schema can't be enforced,
    :class:`~unspool.constrained.base.GrammarError` for what the format can't write, ``ValueError`` for a choice
    that names no tool. Where a tool is not strict, what can't be enforced is left out, and ``warnings`` say so.
    """
    vocabulary = None if tokenizer is None else vocabulary_of(tokenizer)
    fmt = bound(get_format(format), vocabulary=vocabulary.flagged if vocabulary else (), prompt=prompt)

    def make() -> TurnGrammar | None:
        turn = turn_of(
            fmt,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
            constrain=constrain,
            reasoning=reasoning,
            answers=response is not None,
            max_string=max_string,
        )
        return None if turn is None else _written(turn, prompt, vocabulary, response, max_text)

    if vocabulary is None:
        return make()
    asked = spelled((tools, tool_choice, parallel_tool_calls, constrain, reasoning, max_text, max_string))
    content = response and (response.text, response.warnings, response.schemas)
    found: TurnGrammar | None = vocabulary.turns.get((fmt, turn_tail(fmt, prompt), asked, content), make)
    return found


def _written(
    turn: Turn,
    prompt: str | None,
    vocabulary: Vocabulary | None,
    response: Grammar | None,
    max_text: int | None,
) -> TurnGrammar:
    tree = turn.tree(prompt)
    ids = vocabulary.markers if vocabulary else {}
    text = to_lark(tree, ids, ids.keys() - vocabulary.flagged if vocabulary else (), max_text)
    grammars: list[Any] = [{"name": "turn", "lark_grammar": text}]
    if response is not None:
        first, *others = response.parts
        grammars += [{**first, "name": RESPONSE}, *others]
    return TurnGrammar(
        text=json.dumps({"grammars": grammars}, ensure_ascii=False),
        warnings=tuple(dict.fromkeys((*turn.making.warnings, *(response.warnings if response else ())))),
        schemas=response.schemas if response else (),
        arguments={tool.name: json.dumps(tool.schema) for tool in turn.tools} if turn.making.warnings else {},
    )


def turn_of(
    fmt: Format,
    *,
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: ToolChoice,
    parallel_tool_calls: bool,
    constrain: ConstrainedTools,
    reasoning: ReasoningChoice,
    answers: bool,
    walks: type[Walk] = Walk,
    max_string: int | None = MAX_STRING,
) -> Turn | None:
    """What a request holds a turn to; ``None`` if that is nothing.

    ``answers``: content is held to something. ``walks`` makes trees of schemas, for the notation that the turn
    will be written in, ``max_string`` bounds strings of JSON in them.
    """
    declared = [function_of(tool, place) for place, tool in enumerate(tools or ())]
    mode, names = _choice(tool_choice, [function["name"] for function in declared])
    demanded = mode == "required"
    making = Making(walks=walks, max_string=max_string)
    held = [
        _held(function, demanded or constrain == "schema", making)
        for function in declared
        if names is None or function["name"] in names
    ]
    if mode == "auto" and not answers and constrain == "strict" and not any(tool.strict for tool in held):
        return None
    if fmt.calls is None and demanded:
        raise GrammarError(f"The format {fmt.name!r} has no calls, so none can be demanded; let it answer freely.")
    if mode == "none" or not held or fmt.calls is None:
        if not answers:
            return None
        mode, held = "none", []
    for tool in held:
        _check_carried(fmt, tool)
    return Turn(
        fmt,
        tools=held,
        calls=mode,
        parallel=parallel_tool_calls and not _is_named(tool_choice),
        reasoning=reasoning,
        answers=answers and not demanded,
        making=making,
    )


def _held(function: Mapping[str, Any], by_schema: bool, making: Making) -> HeldTool:
    strict = function.get("strict") is True
    schema = function.get("parameters", function.get("input_schema"))
    if not isinstance(schema, Mapping) or not (strict or by_schema):
        return HeldTool(function["name"], _OBJECT, strict)
    # Arguments are an object, whatever else the schema leaves open.
    types = schema.get("type", "object")
    if "object" not in (types if isinstance(types, list) else [types]):
        problem = f"'type' at the root of the schema of tool {function['name']!r} can't be enforced"
        if strict:
            raise SchemaError(f"{problem}: arguments are an object, not {types!r}.", "type")
        making.warnings.append(f"{problem}: arguments are an object, not {types!r}.")
    return HeldTool(function["name"], {**schema, "type": "object"}, strict)


def _check_carried(fmt: Format, tool: HeldTool) -> None:
    """Raises :class:`GrammarError` for a tool whose name, or a parameter's, no call of the format can have."""
    properties = tool.schema.get("properties")
    keys = properties if isinstance(properties, Mapping) else ()
    call = ToolCall("", tool.name, json.dumps(dict.fromkeys(keys, "x")))
    try:
        write(fmt, Message(tool_calls=(call,)))
    except WriteError as error:
        reason = str(error).removeprefix("tool_calls[0]").removeprefix(": ")
        raise GrammarError(f"The tool {tool.name!r} can't be called: {reason}.") from error


def _is_named(choice: ToolChoice) -> bool:
    """Whether one tool is named, which means exactly one call."""
    if isinstance(choice, Mapping):
        return choice.get("type") not in ("auto", "none", "any", "required", "allowed_tools")
    return choice not in ("auto", "none", "any", "required", None)


def _named(choice: Mapping[str, Any]) -> Any:
    """The name in a tool or a choice, whether it is wrapped or not."""
    function = choice.get("function", choice)
    return function.get("name") if isinstance(function, Mapping) else function


def _allowed(allowed: Any) -> tuple[str, tuple[str, ...]]:
    """Mode and names of a choice among some tools."""
    if isinstance(allowed, Mapping):
        mode = allowed.get("mode", "auto")
        listed = [_named(tool) if isinstance(tool, Mapping) else tool for tool in allowed.get("tools") or ()]
        names = tuple(name for name in listed if isinstance(name, str))
        if mode in ("auto", "required") and names and len(names) == len(listed):
            return mode, names
    raise ValueError(
        f"tool_choice must allow some tools by name, with the mode 'auto' or 'required', not {allowed!r}"
    )


def _choice(
    choice: ToolChoice, offered: Sequence[str]
) -> tuple[Literal["none", "auto", "required"], tuple[str, ...] | None]:
    """Whether calls may or must come, and to which tools (``None``: all). Raises ``ValueError``."""
    mode: Any = choice
    names: tuple[str, ...] | None = None
    if isinstance(choice, Mapping):
        mode = choice.get("type")
        if mode == "allowed_tools":
            mode, names = _allowed(choice.get("allowed_tools", choice))
        elif mode is None:
            raise ValueError(f"tool_choice must have a type, not {choice!r}")
        elif mode not in ("auto", "none", "any", "required"):
            mode, names = "required", (str(_named(choice)),)
    elif _is_named(choice):
        mode, names = "required", (str(choice),)
    for name in names or ():
        if name not in offered:
            raise ValueError(f"tool_choice names {name!r}, which is not among the tools ({', '.join(offered)})")
    if mode in ("any", "required"):
        if not offered:
            raise ValueError("tool_choice demands a call, but there are no tools to call")
        return "required", names
    return "none" if mode == "none" else "auto", names
