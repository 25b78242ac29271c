"""The Messages API: a request body becomes a :class:`MessagesRequest`.

Everything is checked here, before a token is generated, by the rule of the other surfaces: a demand that can't be
met is refused by name, a convenience is left out. ``messages_turns`` reads the conversation; the other half of
this surface is ``messages_writer``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unspool.engines.base import Sampling
from unspool.surfaces.chat import decode_replay
from unspool.surfaces.conversation import Conversation, ToolChoice
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.fields import Fields
from unspool.surfaces.mcp_plan import McpPlan, Offer, ServerEntry, exposed_name, make_plan, with_paths, with_plan
from unspool.surfaces.messages_mcp import decode_servers, read_toolset
from unspool.surfaces.messages_turns import decode_turns
from unspool.surfaces.output_format import OutputFormat, read_response_format
from unspool.surfaces.reasoning import ReasoningOptions, decode_reasoning

log = logging.getLogger(__name__)

MAX_STOP_SEQUENCES = 16
_INT64 = 2**63 - 1

# Clients send these by default, and nothing is lost without them.
IGNORED = frozenset(
    {
        "betas",
        "cache_control",
        "context_management",
        "diagnostics",
        "inference_geo",
        "metadata",
        "service_tier",
        "speed",
        "user_profile_id",
        "workspace_id",
    }
)
# What is run by the API's own servers; leaving it out would break a promise.
REFUSED = {
    "container": "code execution in a container",
}


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A checked request.

    ``model`` is ``None`` when the client left it out. ``output`` is what the text is held to, and
    ``reasoning_budget`` the most tokens of thinking (``None``: any number). ``show_thinking`` false keeps the text
    of thinking blocks back. ``replay`` names the recording that must answer (``metadata.replay``; only the replay
    engine reads it). ``mcp`` are the tools that the server itself runs.
    """

    model: str | None
    conversation: Conversation
    sampling: Sampling
    output: OutputFormat | None = None
    reasoning_budget: int | None = None
    stream: bool = False
    show_thinking: bool = True
    replay: str | None = None
    mcp: McpPlan | None = None


@dataclass(frozen=True, slots=True)
class CountRequest:
    """A checked request for the length of a prompt."""

    model: str | None
    conversation: Conversation


def decode(body: object, offer: Offer | None = None) -> MessagesRequest:
    """Reads a request body; raises :class:`InvalidRequestError` naming the field that is wrong.

    ``offer`` are the tools of MCP servers that there are for requests.
    """
    fields = Fields(body)
    reasoning = _reasoning(fields)
    output = _output(fields)
    conversation, plan = _conversation(fields, reasoning, offer, output)
    request = MessagesRequest(
        model=fields.string("model") or None,
        conversation=conversation,
        sampling=_sampling(fields),
        output=output,
        reasoning_budget=reasoning.budget,
        stream=fields.boolean("stream") or False,
        show_thinking=reasoning.shown,
        replay=decode_replay(fields),
        mcp=plan,
    )
    _check_rest(fields)
    return request


def decode_count(body: object, offer: Offer | None = None) -> CountRequest:
    """Reads the body of a request that only asks how long its prompt is; raises as :func:`decode` does."""
    fields = Fields(body)
    conversation, _ = _conversation(fields, _reasoning(fields), offer, _output(fields))
    request = CountRequest(fields.string("model") or None, conversation)
    _check_rest(fields)
    return request


def _check_rest(fields: Fields) -> None:
    fields.refuse(REFUSED)
    fields.report_unread(IGNORED)


def _conversation(
    fields: Fields, reasoning: ReasoningOptions, offer: Offer | None, output: OutputFormat | None
) -> tuple[Conversation, McpPlan | None]:
    """The conversation, and those of its tools that the server itself runs."""
    catalogue = offer.catalogue if offer else None
    turns = decode_turns(fields, lambda server, name: exposed_name(catalogue, server, name))
    tools, paths, plan = _tools(fields, offer, output)
    choice, parallel = _tool_choice(fields, [tool["function"]["name"] for tool in tools])
    # A last message of the assistant is the beginning of the answer.
    continue_final = turns[-1].role == "assistant" and not turns[-1].tool_calls
    conversation = Conversation(
        turns=turns,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        template_kwargs=reasoning.template_kwargs,
        continue_final=continue_final,
        add_generation_prompt=not continue_final,
        schema_paths=paths,
    )
    return conversation, plan


def _tools(
    fields: Fields, offer: Offer | None, output: OutputFormat | None
) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...], McpPlan | None]:
    """The tools of a conversation, where their schemas are, and those that the server itself runs."""
    paths: list[str] = []
    servers = decode_servers(fields, offer)
    toolsets: list[ServerEntry] = []
    tools: list[Mapping[str, Any]] = []
    for i, entry in enumerate(fields.items("tools") or []):
        tool = Fields(entry, f"tools[{i}]")
        if tool.get("type") == "mcp_toolset":
            toolsets.append(read_toolset(tool, servers))
        else:
            tools.append(_tool(tool))
            paths.append(tool.at("input_schema"))
    labels = {toolset.label for toolset in toolsets}
    entries = [*(server for server in servers if server.label not in labels), *toolsets]
    choice = fields.fields("tool_choice")
    wants_none = output is not None or (choice is not None and choice.get("type") == "none")
    plan = make_plan(
        entries, None if wants_none and not entries else offer, {tool["function"]["name"] for tool in tools}
    )
    return with_plan(tools, plan), with_paths(paths, plan), plan


def _sampling(fields: Fields) -> Sampling:
    defaults = Sampling()
    max_tokens = fields.integer("max_tokens", 1, _INT64)
    if max_tokens is None:
        raise fields.missing("max_tokens")
    temperature = fields.number("temperature", 0.0, 2.0)
    top_p = fields.number("top_p", 0.0, 1.0)
    top_k = fields.integer("top_k", -1, _INT64)
    return Sampling(
        max_tokens=max_tokens,
        temperature=defaults.temperature if temperature is None else temperature,
        top_p=defaults.top_p if top_p is None else top_p,
        top_k=max(top_k or 0, 0),
        seed=fields.integer("seed", -_INT64 - 1, _INT64),
        stop=_stop(fields),
    )


def _stop(fields: Fields) -> tuple[str, ...]:
    strings = fields.items("stop_sequences") or []
    if not all(isinstance(text, str) and text for text in strings):
        raise fields.wrong("stop_sequences", "a list of strings, none of them empty")
    if len(strings) > MAX_STOP_SEQUENCES:
        raise InvalidRequestError(
            f"`stop_sequences` may have up to {MAX_STOP_SEQUENCES} strings; it has {len(strings)}.",
            "stop_sequences",
        )
    return tuple(strings)


def _tool(tool: Fields) -> Mapping[str, Any]:
    """A tool as the conversation has it."""
    kind = tool.string("type") or "custom"
    if kind == "function":
        raise InvalidRequestError(
            f"`{tool.path}.type` is 'function', which is how OpenAI's APIs spell a tool. Here it has `name` and "
            "`input_schema`, and no `type`.",
            f"{tool.path}.type",
        )
    if kind != "custom":
        raise unsupported(tool.path, f"a tool of type {kind!r}")
    function: dict[str, Any] = {"name": tool.required_string("name")}
    description = tool.string("description")
    if description is not None:
        function["description"] = description
    schema = tool.mapping("input_schema")
    if schema is None:
        raise tool.missing("input_schema")
    function["parameters"] = schema or {"type": "object", "properties": {}}
    if tool.boolean("strict"):
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(fields: Fields, names: Sequence[str]) -> tuple[ToolChoice, bool]:
    """The choice, and whether several calls may be made at once."""
    shape = fields.fields("tool_choice")
    if shape is None:
        return ToolChoice(), True
    kind = shape.required_string("type")
    parallel = not shape.boolean("disable_parallel_tool_use")
    if kind in ("auto", "none"):
        return ToolChoice("auto" if kind == "auto" else "none"), parallel
    if kind == "any":
        choice = ToolChoice("required")
    elif kind == "tool":
        choice = ToolChoice("named", (shape.required_string("name"),))
    else:
        raise shape.wrong("type", "auto, any, tool or none")
    missing = [name for name in choice.names or () if name not in names]
    if missing:
        given = ", ".join(names) or "none given"
        raise InvalidRequestError(
            f"`tool_choice.name` is {missing[0]!r}, which is not in `tools` ({given}).", "tool_choice.name"
        )
    if not names:
        raise InvalidRequestError("`tool_choice` is 'any', but there are no `tools` to call.", "tool_choice")
    return choice, parallel


def _reasoning(fields: Fields) -> ReasoningOptions:
    """What is said of thinking, by the names that the other surfaces have for it."""
    thinking = fields.fields("thinking")
    config = fields.fields("output_config")
    spelled: dict[str, Any] = {
        "chat_template_kwargs": fields.mapping("chat_template_kwargs"),
        "reasoning_effort": None if config is None else config.string("effort"),
    }
    if thinking is None:
        return decode_reasoning(Fields(spelled))
    between_tools = thinking.required_string("type") == "between_tools"
    spelled["thinking"] = {**thinking.body, "type": "adaptive"} if between_tools else thinking.body
    shown = thinking.string("display") != "omitted"
    return replace(decode_reasoning(Fields(spelled)), shown=shown)


def _output(fields: Fields) -> OutputFormat | None:
    """What the text is held to; the API's older place for it is the request itself."""
    config = fields.fields("output_config")
    new, old = (None if config is None else config.fields("format")), fields.fields("output_format")
    if new is not None and old is not None:
        raise InvalidRequestError(
            f"`{new.path}` and `{old.path}` both say what the text must be; send one of them.", old.path
        )
    shape = old if new is None else new
    if shape is None:
        return None
    if shape.required_string("type") != "json_schema":
        raise shape.wrong("type", "json_schema")
    if shape.get("schema") is None:
        raise shape.missing("schema")
    return read_response_format(shape)
