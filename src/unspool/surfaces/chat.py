"""Chat Completions: a request body becomes a :class:`ChatRequest`.

Everything is checked here, before a token is generated. The rule for what can't be done: a demand (log
probabilities, forbidden words) is refused by name; a convenience is left out with a line in the log;
fields that every client sends by habit are left out silently. The other half of this surface is
``chat_writer``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unspool.engines.base import Sampling
from unspool.surfaces.chat_messages import decode_messages
from unspool.surfaces.conversation import ChoiceMode, Conversation, ToolChoice
from unspool.surfaces.errors import InvalidRequestError, unsupported
from unspool.surfaces.fields import Fields, show
from unspool.surfaces.mcp_plan import McpPlan, Offer, ServerEntry, make_plan, read_entry, with_paths, with_plan
from unspool.surfaces.output_format import OutputFormat, decode_output_format
from unspool.surfaces.reasoning import decode_reasoning

log = logging.getLogger(__name__)

MAX_CHOICES = 16
MAX_STOP_STRINGS = 16
MAX_TOKEN_ID_DIGITS = 20
_INT64 = 2**63 - 1

# Clients send these by default, and nothing is lost without them.
IGNORED = frozenset(
    {
        "metadata",
        "moderation",
        "modalities",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
        "web_search_options",
    }
)
# Each of these constrains or reports something; leaving one out would break a promise.
REFUSED = {
    "bad_words": "forbidding words",
    "stop_token_ids": "stopping at token ids",
    "ignore_eos": "going on after the end of the turn",
    "min_tokens": "a minimum length",
    "use_beam_search": "beam search",
    "audio": "audio output",
    "functions": "the deprecated `functions` list (use `tools`)",
    "function_call": "the deprecated `function_call` choice (use `tool_choice`)",
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request.

    ``model`` is ``None`` when the client left it out. ``output`` is what the content is held to, and
    ``reasoning_budget`` the most reasoning tokens (``None``: any number). ``n`` is the number of choices.
    ``replay`` names the recording that must answer (``metadata.replay``; only the replay engine reads it). ``mcp``
    are the tools that the server itself runs.
    """

    model: str | None
    conversation: Conversation
    sampling: Sampling
    output: OutputFormat | None = None
    reasoning_budget: int | None = None
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    include_reasoning: bool = True
    replay: str | None = None
    mcp: McpPlan | None = None


def decode(body: object, offer: Offer | None = None) -> ChatRequest:
    """Reads a request body; raises :class:`InvalidRequestError` naming the field that is wrong.

    ``offer`` are the tools of MCP servers that there are for requests.
    """
    fields = Fields(body)
    turns = decode_messages(fields)
    choices = fields.integer("n", 1, MAX_CHOICES) or 1
    output = decode_output_format(fields)
    tools, paths, plan = _tools(fields, offer, choices, output)
    reasoning = decode_reasoning(fields)
    continue_final, add_generation_prompt = _continuation(fields)
    if continue_final and turns[-1].role != "assistant":
        raise InvalidRequestError(
            "`continue_final_message` continues an assistant message, but the last message's role is "
            f"{turns[-1].role!r}.",
            "continue_final_message",
        )
    stream = fields.boolean("stream") or False
    request = ChatRequest(
        model=fields.string("model") or None,
        conversation=Conversation(
            turns=turns,
            tools=tools,
            tool_choice=decode_tool_choice(fields, [tool["function"]["name"] for tool in tools], plan=plan),
            parallel_tool_calls=fields.boolean("parallel_tool_calls") is not False,
            template_kwargs=reasoning.template_kwargs,
            continue_final=continue_final,
            add_generation_prompt=add_generation_prompt,
            schema_paths=paths,
        ),
        sampling=decode_sampling(fields),
        output=output,
        reasoning_budget=reasoning.budget,
        n=choices,
        stream=stream,
        include_usage=stream and _include_usage(fields),
        include_reasoning=reasoning.shown,
        replay=decode_replay(fields),
        mcp=plan,
    )
    _refuse(fields)
    fields.report_unread(IGNORED)
    return request


def _refuse(fields: Fields) -> None:
    fields.refuse(REFUSED)
    if fields.boolean("separate_reasoning") is False:
        raise unsupported("separate_reasoning", "leaving reasoning inside the content")
    if fields.string("reasoning_format") == "none":
        raise unsupported("reasoning_format", "leaving reasoning inside the content")
    if fields.boolean("logprobs"):
        raise unsupported("logprobs", "returning log probabilities")
    if fields.integer("top_logprobs", 0, 20):
        raise InvalidRequestError("`top_logprobs` needs `logprobs` to be true.", "top_logprobs")


def _include_usage(fields: Fields) -> bool:
    options = fields.fields("stream_options")
    return options is not None and options.boolean("include_usage") is True


def decode_replay(fields: Fields) -> str | None:
    """The recording that is asked for among the notes, which may say anything else."""
    name = (fields.mapping("metadata") or {}).get("replay")
    return name if isinstance(name, str) and name else None


def _continuation(fields: Fields) -> tuple[bool, bool]:
    continue_final = fields.boolean("continue_final_message") or False
    add_generation_prompt = fields.boolean("add_generation_prompt")
    if continue_final and add_generation_prompt:
        raise InvalidRequestError(
            "`continue_final_message` and `add_generation_prompt` can't both be true: "
            "the first continues the last message, the second opens a new one.",
            "continue_final_message",
        )
    return continue_final, (not continue_final if add_generation_prompt is None else add_generation_prompt)


def decode_sampling(fields: Fields, limits: Sequence[str] = ("max_completion_tokens", "max_tokens")) -> Sampling:
    """How to choose tokens. ``limits`` are the names of the token limit; the first that is set wins."""
    defaults = Sampling()

    def number(name: str, low: float, high: float, default: float) -> float:
        value = fields.number(name, low, high)
        return default if value is None else value

    top_k = fields.integer("top_k", -1, _INT64)
    penalty = fields.number("repetition_penalty", 0.0, 10.0)
    if penalty == 0:
        raise fields.wrong("repetition_penalty", "greater than 0")
    return Sampling(
        max_tokens=_max_tokens(fields, limits),
        temperature=number("temperature", 0.0, 2.0, defaults.temperature),
        top_p=number("top_p", 0.0, 1.0, defaults.top_p),
        top_k=0 if top_k is None or top_k < 0 else top_k,
        min_p=number("min_p", 0.0, 1.0, defaults.min_p),
        presence_penalty=number("presence_penalty", -2.0, 2.0, defaults.presence_penalty),
        frequency_penalty=number("frequency_penalty", -2.0, 2.0, defaults.frequency_penalty),
        repetition_penalty=defaults.repetition_penalty if penalty is None else penalty,
        seed=fields.integer("seed", -_INT64 - 1, _INT64),
        stop=_stop(fields),
        logit_bias=_logit_bias(fields),
    )


def _max_tokens(fields: Fields, names: Sequence[str]) -> int | None:
    """The token limit; -1 is how several clients spell "no limit"."""
    for name in names:
        value = fields.integer(name, -1, _INT64)
        if value == 0:
            raise fields.wrong(name, "at least 1")
        if value is not None:
            # Read the others too, so that they aren't reported as unknown.
            for other in names:
                fields.get(other)
            return None if value < 0 else value
    return None


def _stop(fields: Fields) -> tuple[str, ...]:
    stop = fields.get("stop")
    if stop is None:
        return ()
    strings = [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list) or not all(isinstance(text, str) and text for text in strings):
        raise fields.wrong("stop", "a string or a list of strings, none of them empty")
    if len(strings) > MAX_STOP_STRINGS:
        raise InvalidRequestError(
            f"`stop` may have up to {MAX_STOP_STRINGS} strings; it has {len(strings)}.", "stop"
        )
    return tuple(strings)


def _logit_bias(fields: Fields) -> dict[int, float]:
    bias: dict[int, float] = {}
    for token, value in (fields.mapping("logit_bias") or {}).items():
        if not (token.isascii() and token.isdecimal() and len(token) < MAX_TOKEN_ID_DIGITS):
            raise fields.wrong("logit_bias", "an object whose names are token ids")
        if isinstance(value, bool) or not isinstance(value, int | float) or not -100 <= value <= 100:
            raise InvalidRequestError(
                f"`logit_bias.{token}` must be a number from -100 to 100; it is {show(value)}.",
                f"logit_bias.{token}",
            )
        bias[int(token)] = float(value)
    return bias


def _tools(
    fields: Fields, offer: Offer | None, choices: int, output: OutputFormat | None
) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...], McpPlan | None]:
    """The tools of a conversation, where their parameters are, and those that the server itself runs."""
    tools: list[Mapping[str, Any]] = []
    paths: list[str] = []
    entries: list[ServerEntry] = []
    for i, entry in enumerate(fields.items("tools") or []):
        tool = Fields(entry, f"tools[{i}]")
        if tool.get("type") == "mcp":
            entries.append(read_entry(tool, offer, otherwise="allow"))
        else:
            tools.append(_tool(tool, entry))
            paths.append(f"{tool.path}.function.parameters")
    if choices > 1:
        if entries:
            raise InvalidRequestError("`n` must be 1 where the server calls tools of MCP servers.", "n")
        offer = None
    taken = {tool["function"]["name"] for tool in tools}
    plan = make_plan(entries, unasked(fields, offer, entries, output), taken)
    return with_plan(tools, plan), with_paths(paths, plan), plan


def unasked(
    fields: Fields, offer: Offer | None, entries: Sequence[ServerEntry], output: OutputFormat | None
) -> Offer | None:
    """The offer, unless the request names no server and wants no call: content of some form, say."""
    wants_none = fields.get("tool_choice") == "none" or output is not None
    return None if wants_none and not entries else offer


def _tool(tool: Fields, body: Any) -> Mapping[str, Any]:
    kind = tool.string("type") or "function"
    if kind != "function":
        raise unsupported(tool.path, f"a tool of type {kind!r}")
    function = tool.fields("function")
    if function is None:
        raise tool.missing("function")
    function.required_string("name")
    function.string("description")
    parameters = function.mapping("parameters")
    function.boolean("strict")
    # Templates read these two without asking whether they are there.
    body_function = {**body["function"], "parameters": parameters or {"type": "object", "properties": {}}}
    return {**body, "type": "function", "function": body_function}


def decode_tool_choice(
    fields: Fields, names: Sequence[str], *, flat: bool = False, plan: McpPlan | None = None
) -> ToolChoice:
    """The choice among the tools of these names, of which the server runs those of ``plan``.

    ``flat``: as the younger API spells it, with custom tools.
    """
    choice = fields.get("tool_choice")
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise fields.wrong("tool_choice", "none, auto, required or an object that names a function")
        mode: ChoiceMode = "required" if choice == "required" else "none" if choice == "none" else "auto"
        return _checked(ToolChoice(mode), names)
    shape = Fields(choice, "tool_choice")
    kind = shape.required_string("type")
    if kind == "function" or (kind == "custom" and flat):
        function = shape if flat else shape.fields("function")
        if function is None:
            raise shape.missing("function")
        return _checked(ToolChoice("named", (function.required_string("name"),)), names)
    if kind == "mcp":
        of_server = _of_server(shape, plan)
        mode = "required" if shape.get("name") is None else "named"
        return ToolChoice(mode, tuple(of_server))
    if kind == "allowed_tools":
        return _checked(_allowed_tools(shape, plan), names)
    if kind == "custom":
        raise unsupported("tool_choice", "a custom tool")
    raise shape.wrong("type", "function or allowed_tools")


def _of_server(shape: Fields, plan: McpPlan | None) -> list[str]:
    """The tools of an MCP server, or the one of them, that a choice names."""
    label, name = shape.required_string("server_label"), shape.string("name")
    names = plan.names_of(label, name) if plan else []
    if not names:
        what = f"the MCP server {label!r}" if name is None else f"{name!r} of the MCP server {label!r}"
        raise InvalidRequestError(f"`{shape.path}` names {what}, which has no tool for this request.", shape.path)
    return names


def _allowed_tools(shape: Fields, plan: McpPlan | None) -> ToolChoice:
    # The API nests the list under the type's own name; its younger sibling does not.
    allowed = shape.fields("allowed_tools") or shape
    mode = allowed.string("mode") or "auto"
    if mode not in ("auto", "required"):
        raise allowed.wrong("mode", "auto or required")
    names: list[str] = []
    for i, entry in enumerate(allowed.items("tools") or []):
        tool = Fields(entry, f"{allowed.at('tools')}[{i}]")
        if tool.get("type") == "mcp":
            names += _of_server(tool, plan)
        else:
            names.append((tool.fields("function") or tool).required_string("name"))
    if not names:
        raise allowed.wrong("tools", "a list with at least one tool")
    return ToolChoice("required" if mode == "required" else "auto", tuple(names))


def _checked(choice: ToolChoice, names: Sequence[str]) -> ToolChoice:
    """The choice, if the tools that it needs are there."""
    missing = [name for name in choice.names or () if name not in names]
    if missing:
        given = ", ".join(names) or "none given"
        raise InvalidRequestError(
            f"`tool_choice` names {missing[0]!r}, which is not in `tools` ({given}).",
            "tool_choice",
        )
    if choice.mode == "required" and not names:
        raise InvalidRequestError("`tool_choice` is 'required', but there are no `tools` to call.", "tool_choice")
    return choice
