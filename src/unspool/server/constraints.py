"""What a request demands of the output, as constraints for the engine.

Everything that makes a demand impossible is found here, before the answer begins, and named by its field. This
takes a moment (a tokenizer's tables, a grammar, its first mask), so it runs in a thread of its own; the caches
behind it make the same demand free the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unspool.message import Message
from unspool.parsing.declaration import Format
from unspool.server.parsers import choice_of
from unspool.surfaces.conversation import Conversation
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.output_format import OutputFormat

if TYPE_CHECKING:
    from unspool.constrained import Constraint, Grammar
    from unspool.constrained.turns import TurnGrammar

log = logging.getLogger(__name__)

_LEAST_LIMIT = 64  # tokens; in fewer no call with a text is finished anyway

ConstrainedTools: TypeAlias = Literal["strict", "envelope", "schema"]


@dataclass(frozen=True, slots=True)
class Demands:
    """What a request demands, and how.

    ``conversation`` has the tools and the choice among them; ``output`` is what content is held to and ``budget``
    the most reasoning tokens. ``scope`` is the operator's choice of the calls that are held where they may come.
    ``limit`` is the most tokens that the answer can have.
    """

    conversation: Conversation
    output: OutputFormat | None = None
    budget: int | None = None
    scope: ConstrainedTools = "strict"
    limit: int | None = None

    @property
    def max_text(self) -> int:
        """The most tokens of a text that no schema bounds: what fits, so that the call around it is finished.

        Rounded, since each number makes a grammar of its own.
        """
        from unspool.constrained.turns import MAX_TEXT

        if self.limit is None or self.limit < _LEAST_LIMIT:
            return MAX_TEXT
        room = self.limit * 7 // 8
        step = 1 << max(room.bit_length() - 4, 0)
        return room // step * step

    @property
    def max_string(self) -> int:
        """The most characters of a string of JSON that no schema bounds: four for each token that fits."""
        return 4 * self.max_text

    @property
    def anything(self) -> bool:
        """Whether anything is demanded at all."""
        if self.output is not None or self.budget is not None:
            return True
        tools = self.conversation.offered_tools()
        strict = any(tool["function"].get("strict") is True for tool in tools)
        return bool(tools) and (self._call_must_come or self.scope != "strict" or strict)

    @property
    def param(self) -> str:
        """The field that demands most of the turn as a whole."""
        if self._call_must_come:
            return "tool_choice"
        return "tools" if self.output is None else self.output.param

    @property
    def _call_must_come(self) -> bool:
        return self.conversation.tool_choice.mode in ("required", "named")


@dataclass(frozen=True, slots=True)
class Held:
    """A request's constraints, one for each of its choices (``None``: nothing is held), and its grammar."""

    constraints: Sequence[Constraint | None]
    grammar: TurnGrammar | None = None

    @property
    def checks(self) -> bool:
        """Whether there is something that only a finished message shows."""
        return self.grammar is not None and bool(self.grammar.warnings)

    def check(self, message: Message) -> None:
        """Says in the log what a finished message has that the grammar could not prevent."""
        if self.grammar is None or message.finish_reason == "length":
            return
        if message.content is not None and not message.tool_calls:
            for problem in self.grammar.problems(message.content):
                log.warning("The answer does not hold to its schema: %s", problem)
        for call in message.tool_calls:
            for problem in self.grammar.call_problems(call.name, call.arguments):
                log.warning("A call of %r does not hold to its tool's schema: %s", call.name, problem)


def hold(form: Format, tokenizer: Any, prompt: str | None, demands: Demands, choices: int) -> Held:
    """The constraints that hold ``choices`` generations to what is demanded.

    ``prompt`` is the rendered prompt that is answered. Raises :class:`InvalidRequestError` for what can't be held.
    """
    from unspool.constrained import ConstraintError, GrammarError, reasoning_tracker

    response = _response(demands)
    tools = demands.conversation.offered_tools()
    try:
        grammar = _turn(form, tokenizer, prompt, demands, tools, response)
        constraints = [_constraint(form, tokenizer, prompt, demands.budget, grammar) for _ in range(choices)]
    except GrammarError as error:
        raise _blamed_tool(form, tokenizer, prompt, demands) or _refusal(error, demands.param) from error
    except ConstraintError as error:
        raise InvalidRequestError(
            f"This server can't constrain its output: {error}", code="unsupported_parameter", status=501
        ) from error
    if demands.budget and reasoning_tracker(form, tokenizer, prompt=prompt) is None:
        log.warning("The budget for reasoning is ignored: the format %r has no reasoning to count", form.name)
    for warning in grammar.warnings if grammar else ():
        log.warning("%s", warning)
    return Held(constraints, grammar)


def _turn(
    form: Format,
    tokenizer: Any,
    prompt: str | None,
    demands: Demands,
    tools: Sequence[Mapping[str, Any]],
    response: Grammar | None,
) -> TurnGrammar | None:
    """The grammar of the whole turn; ``None`` if it may be anything."""
    from unspool.constrained.turns import turn_grammar

    return turn_grammar(
        form,
        tokenizer,
        tools=tools,
        tool_choice=choice_of(demands.conversation),
        parallel_tool_calls=demands.conversation.parallel_tool_calls,
        constrain=demands.scope,
        reasoning="off" if demands.budget == 0 else "auto",
        response=response,
        prompt=prompt,
        max_text=demands.max_text,
        max_string=demands.max_string,
    )


def _blamed_tool(form: Format, tokenizer: Any, prompt: str | None, demands: Demands) -> InvalidRequestError | None:
    """The refusal of the first tool whose parameters can't be held even if there is nothing else to hold."""
    from unspool.constrained import GrammarError, LLGuidanceConstraint, SchemaError

    for tool in demands.conversation.offered_tools():
        param = demands.conversation.schema_path(tool)
        try:
            grammar = _turn(form, tokenizer, prompt, demands, [tool], None)
        except SchemaError as error:
            return _refusal(error, param)
        except GrammarError:
            return None  # whatever the parameters are
        try:
            if grammar is not None:
                LLGuidanceConstraint(grammar, tokenizer)
        except GrammarError as error:
            return _refusal(error, param)
    return None


def _response(demands: Demands) -> Grammar | None:
    """What the content is held to, whatever the tokenizer."""
    from unspool.constrained import GrammarError, choice, ebnf, json_object, json_schema, lark, regex

    output = demands.output
    if output is None:
        return None
    try:
        match output.kind:
            case "json_object":
                return json_object(max_string=demands.max_string)
            case "json_schema":
                return json_schema(output.value, strict=output.strict, max_string=demands.max_string)
            case "regex":
                return regex(output.value)
            case "choice":
                return choice(output.value)
            case "lark":
                return lark(output.value)
            case "ebnf":
                return ebnf(output.value)
    except GrammarError as error:
        raise _refusal(error, output.param) from error


def _constraint(
    form: Format, tokenizer: Any, prompt: str | None, budget: int | None, grammar: Grammar | None
) -> Constraint | None:
    from unspool.constrained import (
        ConstraintError,
        GrammarError,
        LLGuidanceConstraint,
        ThinkingConstraint,
        new_mask,
        reasoning_tracker,
    )
    from unspool.constrained.vocabulary import vocabulary_of

    inner = None if grammar is None else LLGuidanceConstraint(grammar, tokenizer)
    found = None if budget is None else reasoning_tracker(form, tokenizer, budget=budget, prompt=prompt)
    constraint: Constraint | None = inner
    if found is not None:
        tracker, covers = found
        vocabulary = vocabulary_of(tokenizer)
        constraint = ThinkingConstraint(
            tracker,
            inner,
            vocab_size=vocabulary.spare,
            end_tokens=vocabulary.end_tokens,
            covers="turn" if inner is not None else covers,
        )
    if constraint is not None:
        try:
            # The first mask is the slowest; whoever generates beside this one must not wait for it.
            constraint.mask(new_mask(constraint.vocab_size))
        except ConstraintError as error:
            raise GrammarError(str(error)) from error
    return constraint


def _refusal(error: Exception, param: str) -> InvalidRequestError:
    from unspool.constrained import SchemaError

    code = "invalid_json_schema" if isinstance(error, SchemaError) else "invalid_grammar"
    if param.startswith("tools[") and param.endswith(".format"):
        # A custom tool has no schema that its client would know of.
        code = "unsupported_value"
    return InvalidRequestError(f"`{param}`: {error}", param, code=code)
