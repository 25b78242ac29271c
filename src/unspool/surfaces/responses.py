"""Responses: a request body becomes a :class:`ResponsesRequest`.

As for chat completions, everything is checked here, before a token is generated, and the same rule holds for what
can't be done: a demand is refused by name, a convenience is left out. What the request goes on from (an earlier
response, a conversation) is only named here; whoever keeps it hands its items to
:meth:`ResponsesRequest.conversation`. The other half of this surface is ``responses_writer``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unspool.engines.base import Sampling
from unspool.surfaces import custom_input
from unspool.surfaces.chat import decode_sampling, decode_tool_choice, unasked
from unspool.surfaces.conversation import Conversation, ToolChoice
from unspool.surfaces.custom_grammar import custom_format
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.fields import Fields, show
from unspool.surfaces.mcp_plan import (
    McpPlan,
    Offer,
    ServerEntry,
    exposed_name,
    make_plan,
    read_entry,
    with_paths,
    with_plan,
)
from unspool.surfaces.output_format import OutputFormat, decode_output_format, read_response_format
from unspool.surfaces.reasoning import EFFORTS, decode_reasoning
from unspool.surfaces.responses_items import Item, decode_items, text_item, turns_of, without_old_reasoning
from unspool.surfaces.responses_writer import Style

log = logging.getLogger(__name__)

MAX_METADATA = 16
SUMMARIES = ("auto", "concise", "detailed")
CONTEXTS = ("auto", "current_turn", "all_turns")
REASONING_INCLUDE = "reasoning.encrypted_content"

# Clients send these by default, and nothing is lost without them.
IGNORED = frozenset(
    {
        "client_metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "user",
    }
)
# Each of these does or reports something; leaving one out would break a promise.
REFUSED = {
    "background": "answering in the background",
    "context_management": "compacting the conversation",
    "prompt": "a stored prompt",
    "top_logprobs": "returning log probabilities",
}


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """A checked request.

    ``items`` are the input, ``previous`` and ``conversation_id`` name what comes before it. ``output`` is what the
    text is held to, ``reasoning_budget`` the most reasoning tokens (``None``: any number). ``style`` is how the
    answer is written, ``echo`` the part of the response that repeats the request. ``this_turn_only`` leaves
    reasoning of finished turns out of the prompt; otherwise the chat template decides. ``replay`` names the
    recording that must answer (``metadata.replay``; only the replay engine reads it). ``mcp`` are the tools that
    the server itself runs, as often as ``max_tool_calls`` (``None``: any number).
    """

    model: str | None
    items: tuple[Item, ...]
    instructions: tuple[Item, ...]
    sampling: Sampling
    tools: tuple[Mapping[str, Any], ...]
    schema_paths: tuple[str, ...]
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    template_kwargs: Mapping[str, Any]
    style: Style
    echo: Mapping[str, Any]
    output: OutputFormat | None = None
    reasoning_budget: int | None = None
    previous: str | None = None
    conversation_id: str | None = None
    store: bool = True
    stream: bool = False
    this_turn_only: bool = False
    replay: str | None = None
    mcp: McpPlan | None = None
    max_tool_calls: int | None = None

    def conversation(self, history: Iterable[Item] = ()) -> Conversation:
        """Everything the prompt is made of, once references among the items are resolved.

        Instructions are those of this request: an earlier response's are not carried over.
        """
        catalogue = self.mcp.catalogue if self.mcp else None
        turns = turns_of(
            [*self.instructions, *history, *self.items],
            lambda server, name: exposed_name(catalogue, server, name),
        )
        if not turns:
            raise InvalidRequestError("`input` is empty, and there is nothing before it to answer.", "input")
        return Conversation(
            turns=without_old_reasoning(turns) if self.this_turn_only else turns,
            tools=self.tools,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            template_kwargs=self.template_kwargs,
            schema_paths=self.schema_paths,
        )


@dataclass(frozen=True, slots=True)
class Before:
    """What a request goes on from: an earlier response, a conversation, or nothing."""

    previous: str | None = None
    conversation_id: str | None = None


def decode_before(body: object) -> Before:
    """What a request goes on from, which is looked for before anything else; raises as :func:`decode` does."""
    return Before(*_before(Fields(body)))


def decode(body: object, offer: Offer | None = None) -> ResponsesRequest:
    """Reads a request body; raises :class:`InvalidRequestError` naming the field that is wrong.

    ``offer`` are the tools of MCP servers that there are for requests.
    """
    fields = Fields(body)
    output = _output(fields)
    tools, paths, shown, custom, plan = _tools(fields, offer, output)
    names = [tool["function"]["name"] for tool in tools]
    reasoning = decode_reasoning(fields)
    previous, conversation_id = _before(fields)
    metadata = decode_metadata(fields)
    sampling = decode_sampling(fields, ("max_output_tokens",))
    store = fields.boolean("store") is not False
    request = ResponsesRequest(
        model=fields.string("model") or None,
        items=_input(fields, optional=bool(previous or conversation_id)),
        instructions=_instructions(fields),
        sampling=sampling,
        tools=tools,
        schema_paths=paths,
        tool_choice=decode_tool_choice(fields, names, flat=True, plan=plan),
        parallel_tool_calls=fields.boolean("parallel_tool_calls") is not False,
        template_kwargs=reasoning.template_kwargs,
        style=Style(
            show_reasoning=reasoning.shown,
            summary=_summary(fields) is not None,
            sealed=REASONING_INCLUDE in _include(fields),
            custom_tools=custom,
        ),
        echo=_echo(fields, sampling, shown, metadata, store),
        output=output,
        reasoning_budget=reasoning.budget,
        previous=previous,
        conversation_id=conversation_id,
        store=store,
        stream=fields.boolean("stream") or False,
        this_turn_only=_context(fields) == "current_turn",
        replay=metadata.get("replay") or None,
        mcp=plan,
        max_tool_calls=fields.integer("max_tool_calls", 0, 2**31 - 1),
    )
    _refuse(fields)
    fields.report_unread(IGNORED)
    return request


def _refuse(fields: Fields) -> None:
    fields.refuse(REFUSED)
    truncation = fields.string("truncation")
    if truncation not in (None, "auto", "disabled"):
        raise fields.wrong("truncation", "auto or disabled")
    if truncation == "auto":
        log.warning("truncation 'auto' is taken as 'disabled': a prompt that is too long is an error")


def _output(fields: Fields) -> OutputFormat | None:
    """What the text is held to, by this API's own field or by one of those that other servers have for it."""
    form = _format(fields)
    if form is not None and form.get("type") == "json_schema" and form.get("schema") is None:
        raise form.missing("schema")
    own = None if form is None else read_response_format(form)
    other = decode_output_format(fields)
    if own is not None and other is not None:
        raise InvalidRequestError(
            f"`text.format` and `{other.param}` both say what the text must be; send one of them.", other.param
        )
    return own or other


def _format(fields: Fields) -> Fields | None:
    text = fields.fields("text")
    return text.fields("format") if text else None


def _input(fields: Fields, *, optional: bool) -> tuple[Item, ...]:
    value = fields.get("input")
    if value is None:
        if optional:
            return ()
        raise fields.missing("input")
    if isinstance(value, str):
        return (text_item(value),)
    if not isinstance(value, list):
        raise fields.wrong("input", "a string or a list of items")
    return decode_items(value, "input")


def _instructions(fields: Fields) -> tuple[Item, ...]:
    value = fields.get("instructions")
    if isinstance(value, list):
        return decode_items(value, "instructions")
    text = fields.string("instructions")
    return (text_item(text, "system"),) if text else ()


def _before(fields: Fields) -> tuple[str | None, str | None]:
    """The earlier response, or the conversation, that this request goes on from."""
    previous = fields.string("previous_response_id") or None
    conversation = fields.get("conversation")
    if isinstance(conversation, Mapping):
        conversation = Fields(conversation, "conversation").required_string("id")
    elif conversation is not None and not isinstance(conversation, str):
        raise fields.wrong("conversation", "an id or an object with an `id`")
    if previous and conversation:
        raise InvalidRequestError(
            "`previous_response_id` and `conversation` both say what comes before; send one of them.",
            "conversation",
        )
    return previous, conversation or None


def decode_metadata(fields: Fields) -> dict[str, str]:
    """The notes that clients keep with an object: a few strings."""
    metadata = dict(fields.mapping("metadata") or {})
    if len(metadata) > MAX_METADATA or not all(isinstance(value, str) for value in metadata.values()):
        raise fields.wrong("metadata", f"an object with up to {MAX_METADATA} strings")
    return metadata


def _context(fields: Fields) -> str | None:
    """Which turns' reasoning the model is shown."""
    reasoning = fields.fields("reasoning")
    context = reasoning.string("context") if reasoning else None
    if reasoning is not None and context not in (None, *CONTEXTS):
        raise reasoning.wrong("context", f"one of {', '.join(CONTEXTS)}")
    return context


def _summary(fields: Fields) -> str | None:
    reasoning = fields.fields("reasoning")
    if reasoning is None:
        return None
    name = "summary" if reasoning.get("summary") is not None else "generate_summary"
    summary = reasoning.string(name)
    if summary not in (None, *SUMMARIES):
        raise reasoning.wrong(name, f"one of {', '.join(SUMMARIES)}")
    return summary


def _include(fields: Fields) -> list[str]:
    include = fields.items("include") or []
    for i, value in enumerate(include):
        if not isinstance(value, str):
            raise InvalidRequestError(f"`include[{i}]` must be a string; it is {show(value)}.", f"include[{i}]")
        if value == "message.output_text.logprobs":
            raise unsupported(f"include[{i}]", "returning log probabilities")
    return include


Tools = tuple[
    tuple[Mapping[str, Any], ...], tuple[str, ...], list[Mapping[str, Any]], frozenset[str], McpPlan | None
]


def _tools(fields: Fields, offer: Offer | None, output: OutputFormat | None) -> Tools:
    """The tools as functions, where their parameters are, the tools as the response repeats them, the names of the
    custom ones among them, and those that the server itself runs.
    """
    entries: list[ServerEntry] = []
    functions: list[Mapping[str, Any]] = []
    paths: list[str] = []
    shown: list[Mapping[str, Any]] = []
    custom: set[str] = set()
    for i, entry in enumerate(fields.items("tools") or []):
        tool = Fields(entry, f"tools[{i}]")
        kind = tool.required_string("type")
        if kind == "function":
            function, repeated = _function(tool)
        elif kind == "custom":
            function, repeated = _custom(tool)
            custom.add(repeated["name"])
        elif kind == "mcp":
            # Whoever says nothing about approval is asked, in this API.
            entries.append(read_entry(tool, offer, otherwise="ask"))
            shown.append(entries[-1].echo)
            continue
        else:
            # Some clients always send the tools of their vendor's servers, and go on without them.
            log.warning("%s is left out: tools of type %r don't run here", tool.path, kind)
            continue
        functions.append(function)
        paths.append(tool.at("format" if kind == "custom" else "parameters"))
        shown.append(repeated)
    taken = {function["function"]["name"] for function in functions}
    plan = make_plan(entries, unasked(fields, offer, entries, output), taken, on_failure="report")
    return with_plan(functions, plan), with_paths(paths, plan), shown, frozenset(custom), plan


def _function(tool: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    name, description = tool.required_string("name"), tool.string("description")
    parameters, strict = tool.mapping("parameters"), tool.boolean("strict")
    # Templates read the parameters without asking whether they are there.
    function: dict[str, Any] = {"name": name, "parameters": parameters or {"type": "object", "properties": {}}}
    if description is not None:
        function["description"] = description
    if strict is not None:
        function["strict"] = strict
    repeated = {"name": name, "description": description, "parameters": parameters, "strict": strict or False}
    return {"type": "function", "function": function}, {"type": "function", **repeated}


def _custom(tool: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
    name, description = tool.required_string("name"), tool.string("description")
    form = tool.fields("format")
    expression = None if form is None else custom_format(form)
    shown = tool.mapping("format") or {"type": "text"}
    repeated = {"type": "custom", "name": name, "description": description, "format": shown}
    return custom_input.as_function(name, description, expression), repeated


def _echo(
    fields: Fields,
    sampling: Sampling,
    tools: list[Mapping[str, Any]],
    metadata: Mapping[str, str],
    store: bool,
) -> dict[str, Any]:
    """What the response repeats of the request, with the defaults that were used."""
    effort = (fields.mapping("reasoning") or {}).get("effort")
    text = fields.fields("text")
    verbosity = text.string("verbosity") if text else None
    if text is not None and verbosity not in (None, "low", "medium", "high"):
        raise text.wrong("verbosity", "one of low, medium, high")
    user = fields.string("user")
    return {
        "background": False,
        "frequency_penalty": sampling.frequency_penalty,
        "instructions": fields.get("instructions"),
        "max_output_tokens": sampling.max_tokens,
        "max_tool_calls": fields.integer("max_tool_calls", 0, 2**31 - 1),
        "metadata": metadata,
        "parallel_tool_calls": fields.boolean("parallel_tool_calls") is not False,
        "presence_penalty": sampling.presence_penalty,
        "prompt_cache_key": fields.string("prompt_cache_key"),
        "reasoning": {"effort": effort if effort in EFFORTS else None, "summary": _summary(fields)},
        "safety_identifier": fields.string("safety_identifier"),
        "service_tier": "default",
        "store": store,
        "temperature": sampling.temperature,
        "text": {"format": _shown_format(fields), "verbosity": verbosity or "medium"},
        "tool_choice": fields.get("tool_choice") or "auto",
        "tools": tools,
        "top_logprobs": 0,
        "top_p": sampling.top_p,
        "truncation": "disabled",
        # Unlike all others this one is never null.
        **({} if user is None else {"user": user}),
    }


def _shown_format(fields: Fields) -> dict[str, Any]:
    form = _format(fields)
    if form is None or form.get("type") != "json_schema":
        return {"type": "text" if form is None else form.required_string("type")}
    repeated = {name: form.get(name) for name in ("name", "schema", "strict", "description")}
    return {"type": "json_schema", **repeated, "name": form.string("name") or "response"}
