"""The checkpoint's own chat template: a conversation becomes the prompt text.

Templates are Jinja programs that come with a download, so they run in jinja2's immutable sandbox, with the
helpers that Hugging Face gives them. They also differ in what they expect of a message, so the source is
looked through once for that: whether it knows tools, wants content as parts, tests it for ``none``. Whatever
a template objects to is the request's fault (a 400 with the template's words), never a server error.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unspool.server.controls import Controls, Guard, Prompt, apart
from unspool.server.toolprompt import spell_out_tools
from unspool.surfaces.conversation import Conversation, Turn
from unspool.surfaces.errors import InvalidRequestError

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a model that has no template."""

_MARK = "\ue000unspool continues here\ue001"
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


class BadTemplateError(ValueError):
    """The template itself is not valid Jinja; the message says where."""


class ChatTemplate:
    """One compiled template. ``special`` are ``bos_token``, ``eos_token`` and the like."""

    def __init__(self, source: str | None, special: Mapping[str, str] | None = None) -> None:
        """``source`` ``None`` takes :data:`CHATML`. Raises :class:`BadTemplateError`."""
        environment = _environment()
        source = CHATML if source is None else source
        try:
            self.traits = _traits(environment.parse(source), source)
            self._template = environment.from_string(source)
        except TemplateError as error:
            where = f"line {error.lineno}: " if isinstance(error, TemplateSyntaxError) else ""
            raise BadTemplateError(f"The chat template is not valid Jinja: {where}{error.message}") from None
        self.source = source
        self._special = dict(special or {})

    def prompt(self, conversation: Conversation, controls: Controls) -> Prompt:
        """The prompt, in which the control tokens that messages spell are cut; raises as :meth:`render` does."""
        return apart(controls, conversation, lambda guard: self.render(conversation, guard))

    def render(self, conversation: Conversation, guard: Guard | None = None) -> str:
        """The prompt; raises :class:`InvalidRequestError` with whatever the template objects to.

        ``guard`` marks what of the request spells control tokens.
        """
        try:
            prompt = self._rendered(conversation, guard)
        except Exception as error:
            # A template can fail in any way a program can; all of them are about these messages.
            raise InvalidRequestError(
                f"The model's chat template can't render these messages: {error or type(error).__name__}",
                "messages",
                code="chat_template_error",
            ) from error
        if conversation.continue_final:
            prompt = _cut_at_mark(prompt)
        return _encodable(prompt)

    def _rendered(self, conversation: Conversation, guard: Guard | None) -> str:
        variables = self._variables(conversation if guard is None else guard.conversation(conversation), guard)
        try:
            return self._template.render(variables)
        except Exception:
            if not _complete(variables):
                raise
            return self._template.render(variables)

    def _variables(self, conversation: Conversation, guard: Guard | None) -> dict[str, Any]:
        tools = [dict(tool) for tool in conversation.offered_tools()]
        turns: Sequence[Turn] = conversation.turns
        if not self.traits.knows_tools:
            turns = spell_out_tools(turns, tools)
        return {
            **conversation.template_kwargs,
            **self._special,
            "messages": list(_messages(turns, self.traits, guard, continue_final=conversation.continue_final)),
            "tools": tools or None,
            "documents": None,
            "add_generation_prompt": conversation.add_generation_prompt,
        }


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's words for training; here they are just rendered."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as an instance variable

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it: not escaped for HTML, unlike jinja2's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a template expects of the messages."""

    knows_tools: bool
    knows_developer: bool
    wants_parts: bool
    tests_none: bool
    reads_thinking: bool
    nine_letter_ids: bool


def _traits(tree: nodes.Template, source: str) -> Traits:
    tested = {(test.name, _field(test.node)) for test in tree.find_all(nodes.Test)}
    loops = {_field(loop.iter) for loop in tree.find_all(nodes.For)}
    names = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "load"}
    constants = {const.value for const in tree.find_all(nodes.Const) if isinstance(const.value, str)}
    fields = {field.attr for field in tree.find_all(nodes.Getattr)} | constants
    return Traits(
        knows_tools="tools" in names,
        knows_developer="developer" in constants,
        wants_parts="content" in loops and ("string", "content") not in tested,
        tests_none=("none", "content") in tested,
        reads_thinking="thinking" in fields and "thinking" not in names,
        nine_letter_ids=re.search(r"length\s*!=\s*9\b", source) is not None,
    )


def _field(node: nodes.Node | None) -> str | None:
    """The field that an expression is about: ``content`` for ``message["content"] | trim``."""
    while isinstance(node, nodes.Filter):
        node = node.node
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return node.name if isinstance(node, nodes.Name) else None


class _Arguments(dict[str, Any]):
    """A call's arguments for templates that walk through them and for those that paste them as text."""

    def __init__(self, text: str, value: Mapping[str, Any]) -> None:
        super().__init__(value)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __add__(self, other: str) -> str:
        return self._text + other

    def __radd__(self, other: str) -> str:
        return other + self._text


def _arguments(text: str, guard: Guard | None) -> _Arguments | str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # A call that was cut in an earlier turn; the model may as well see what it wrote.
        return text
    if not isinstance(value, dict):
        return text
    # Escapes may have hidden something in the text.
    return _Arguments(text, value if guard is None else guard.tree("assistant", value))


def _messages(
    turns: Sequence[Turn], traits: Traits, guard: Guard | None, *, continue_final: bool
) -> Iterator[dict[str, Any]]:
    called: dict[str, str] = {}
    for i, turn in enumerate(turns):
        called.update({call.id: call.name for call in turn.tool_calls})
        mark = _MARK if continue_final and i == len(turns) - 1 else ""
        role = "system" if turn.role == "developer" and not traits.knows_developer else turn.role
        message: dict[str, Any] = {"role": role, "content": _content(turn, traits, mark)}
        if turn.role == "tool":
            name = turn.name or called.get(turn.tool_call_id or "")
            if turn.tool_call_id:
                message["tool_call_id"] = _call_id(turn.tool_call_id, traits)
        else:
            name = turn.name
        if name:
            message["name"] = name
        if turn.reasoning is not None:
            message["reasoning_content"] = message["reasoning"] = turn.reasoning
            # The one family that reads this name (gpt-oss) rejects it beside content and calls together.
            if traits.reads_thinking and not (turn.parts and turn.tool_calls):
                message["thinking"] = turn.reasoning
        if turn.tool_calls:
            message["tool_calls"] = [
                {
                    "id": _call_id(call.id, traits),
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call.arguments, guard)},
                }
                for call in turn.tool_calls
            ]
        yield message


def _complete(variables: Mapping[str, Any]) -> bool:
    """Puts in what some templates use without a look; whether anything was missing.

    Some test one message's content for none and search another's. Some walk through arguments that are no object
    (a call that was cut in an earlier turn), which are then one argument. Some (gpt-oss) want tools described.
    """
    missing = False
    for message in variables["messages"]:
        if message["content"] is None:
            message["content"], missing = "", True
        for call in message.get("tool_calls", ()):
            text = call["function"]["arguments"]
            if not isinstance(text, _Arguments):
                call["function"]["arguments"], missing = _Arguments(text, {"arguments": text}), True
    for tool in variables["tools"] or ():
        if tool["function"].get("description") is None:
            tool["function"], missing = {**tool["function"], "description": ""}, True
    return missing


def _content(turn: Turn, traits: Traits, mark: str) -> str | list[dict[str, str]] | None:
    if traits.wants_parts:
        parts = list(turn.parts)
        if mark:
            parts = [*parts[:-1], (parts[-1] if parts else "") + mark]
        return [{"type": "text", "text": part} for part in parts]
    if not turn.parts and not mark and turn.tool_calls and traits.tests_none:
        return None
    return (turn.text or "") + mark


def _call_id(call_id: str, traits: Traits) -> str:
    """Mistral's templates take ids of nine letters and digits only; the API's own ids are longer."""
    if not traits.nine_letter_ids or _NINE.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _cut_at_mark(prompt: str) -> str:
    end = prompt.rfind(_MARK)
    if end < 0:
        raise InvalidRequestError(
            "`continue_final_message`: the model's chat template leaves the last message out.",
            "continue_final_message",
        )
    return prompt[:end]


def _encodable(prompt: str) -> str:
    """The prompt with halves of surrogate pairs joined or replaced, as no tokenizer takes them."""
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        return prompt.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return prompt
