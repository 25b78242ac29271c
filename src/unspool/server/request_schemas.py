"""What requests may say, as JSON Schemas, for the OpenAPI document.

They describe; the decoders of ``surfaces`` decide. A field that a decoder reads is here, and none that it refuses.
"""

from __future__ import annotations

from unspool.server.message_schemas import CHAT_MESSAGE as _CHAT_MESSAGE
from unspool.server.message_schemas import ITEM_CONTENT, TEXT_BLOCKS, Schema
from unspool.server.message_schemas import MESSAGES as _MESSAGES
from unspool.server.message_schemas import an_object as _object
from unspool.server.message_schemas import said as _said


def _number(low: float, high: float, description: str = "") -> Schema:
    return _said("number", description, minimum=low, maximum=high)


def _tokens(description: str, low: int = -1) -> Schema:
    return _said("integer", description, minimum=low)


_JSON_SCHEMA: Schema = {"type": ["object", "boolean", "string", "null"]}
_FUNCTION = _object(
    ["name"],
    name={"type": "string", "minLength": 1},
    description=_said("string"),
    parameters=_said("object", "A JSON Schema of the arguments."),
    strict=_said("boolean", "Hold calls to the schema."),
)
_FUNCTION_TOOL = _object(["function"], type={"enum": ["function", None]}, function=_FUNCTION)
_MCP_TOOL = _object(
    ["type", "server_label"],
    type={"const": "mcp"},
    server_label={"type": "string", "description": "A server of the operator's.", "minLength": 1},
    allowed_tools={"type": ["array", "object", "null"]},
    require_approval={"type": ["string", "object", "null"]},
)
_MODEL = _said("string", "The model, an alias or a recording; left out, the first one.")
_STREAM = _said("boolean", "Answer with server-sent events.")
_KWARGS = _said("object", "Passed on to the chat template.")
_METADATA = _said("object", "`replay` names the recording that answers; the rest is left out.")
_SEED = _said("integer")
_TOP_K = _said("integer", minimum=-1)
_REGEX = _said("string", "A regular expression for the content.")
_CHOICE = _said("array", "Texts, one of which the content is.", items={"type": "string", "minLength": 1})
_GRAMMAR = _said("string", "A grammar for the content, in EBNF (with `::=`) or Lark.")

_TOOL_CHOICE: Schema = {
    "anyOf": [{"enum": ["none", "auto", "required", None]}, _object(["type"], type={"type": "string"})],
    "description": "`none`, `auto`, `required`, a function, or `allowed_tools`.",
}
_RESPONSE_FORMAT: Schema = {
    "type": ["object", "null"],
    "required": ["type"],
    "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
}
_OUTPUT: dict[str, Schema] = {
    "structured_outputs": _said("object", "`json`, `regex`, `choice`, `grammar` or `json_object`."),
    "guided_json": _JSON_SCHEMA,
    "guided_regex": _REGEX,
    "guided_choice": _CHOICE,
    "guided_grammar": _GRAMMAR,
    "json_schema": _JSON_SCHEMA,
    "regex": _REGEX,
    "grammar": _GRAMMAR,
    "ebnf": _GRAMMAR,
}
_SAMPLING: dict[str, Schema] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _TOP_K,
    "min_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repetition_penalty": _said("number", exclusiveMinimum=0, maximum=10),
    "seed": _SEED,
    "logit_bias": _said("object", additionalProperties={"type": "number", "minimum": -100, "maximum": 100}),
    "stop": {
        "type": ["string", "array", "null"],
        "items": {"type": "string", "minLength": 1},
        "maxItems": 16,
    },
}
_REASONING: dict[str, Schema] = {
    "reasoning_effort": _said("string", "`none` to `max`."),
    "thinking": _said("object", "`type`, `budget_tokens`."),
    "enable_thinking": _said("boolean"),
    "include_reasoning": _said("boolean", "`false`: the client is not told the reasoning."),
    "thinking_token_budget": _tokens("The most reasoning tokens; -1 is no limit."),
    "reasoning_budget": _tokens("The same."),
    "chat_template_kwargs": _KWARGS,
}
_PARALLEL = _said("boolean", "`false`: at most one call.")

CHAT: Schema = {
    **_object(
        ["messages"],
        model=_MODEL,
        messages={"type": "array", "minItems": 1, "items": _CHAT_MESSAGE},
        tools=_said("array", items={"anyOf": [_FUNCTION_TOOL, _MCP_TOOL]}),
        tool_choice=_TOOL_CHOICE,
        parallel_tool_calls=_PARALLEL,
        response_format=_RESPONSE_FORMAT,
        **_OUTPUT,
        max_completion_tokens=_tokens("The most tokens, reasoning included; -1 is no limit."),
        max_tokens=_tokens("The older name of the same."),
        **_SAMPLING,
        n=_said("integer", "Choices.", minimum=1, maximum=16),
        stream=_STREAM,
        stream_options=_said("object", properties={"include_usage": _said("boolean")}),
        **_REASONING,
        reasoning=_said("object", "`effort`, `enabled`, `exclude`, `max_tokens`."),
        continue_final_message=_said("boolean", "Continue the last message."),
        add_generation_prompt=_said("boolean"),
        metadata=_METADATA,
    ),
    "examples": [{"messages": [{"role": "user", "content": "What is the capital of France?"}], "stream": True}],
}

_ITEMS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "type": _said("string", "`message` if it is left out."),
            "id": _said("string"),
            "role": {"enum": ["system", "developer", "user", "assistant", None]},
            "content": ITEM_CONTENT,
        },
    },
}
_KEPT_METADATA = _said(
    "object", "Up to 16 strings that are kept with it.", maxProperties=16, additionalProperties={"type": "string"}
)
RESPONSES: Schema = {
    **_object(
        [],
        model=_MODEL,
        input={
            "type": ["string", "array", "null"],
            "items": _ITEMS["items"],
            "description": "A text or items; may only be left out where there is something to go on from.",
        },
        instructions={"type": ["string", "array", "null"], "items": _ITEMS["items"]},
        previous_response_id=_said("string", "The stored response to go on from."),
        conversation={
            "type": ["string", "object", "null"],
            "required": ["id"],
            "description": "The conversation to go on from and to add to.",
        },
        store=_said("boolean", "`false`: nothing is kept of it."),
        tools=_said("array", items=_object(["type"], type={"type": "string"}, name=_said("string"))),
        tool_choice=_TOOL_CHOICE,
        parallel_tool_calls=_PARALLEL,
        max_tool_calls=_said("integer", "How many calls the server may run.", minimum=0),
        text=_said("object", "`format`, and `verbosity`, which is repeated in the response."),
        response_format=_RESPONSE_FORMAT,
        **_OUTPUT,
        max_output_tokens=_tokens("The most tokens, reasoning included; -1 is no limit."),
        **_SAMPLING,
        stream=_STREAM,
        **_REASONING,
        reasoning=_said("object", "`effort`, `summary`, `enabled`, `exclude`, `max_tokens`."),
        include=_said("array", "`reasoning.encrypted_content`.", items={"type": "string"}),
        truncation={"enum": ["auto", "disabled", None]},
        metadata=_KEPT_METADATA,
        prompt_cache_key=_said("string", "Repeated in the response, as are the two below."),
        safety_identifier=_said("string"),
        user=_said("string"),
    ),
    "examples": [{"input": "What is the capital of France?", "stream": True}],
}
CONVERSATION = _object([], items={**_ITEMS, "type": ["array", "null"], "maxItems": 20}, metadata=_KEPT_METADATA)
NEW_ITEMS = _object(["items"], items={**_ITEMS, "minItems": 1, "maxItems": 20})

_CUSTOM_TOOL = _object(
    ["name", "input_schema"],
    name={"type": "string", "minLength": 1},
    description=_said("string"),
    input_schema={"type": "object"},
    strict=_said("boolean", "Hold calls to the schema."),
)
_TOOLSET = _object(
    ["type", "mcp_server_name"],
    type={"const": "mcp_toolset"},
    mcp_server_name={"type": "string", "description": "A server of the operator's.", "minLength": 1},
    default_config=_said("object", "`enabled`."),
    configs=_said("object", "The same for single tools, by their names."),
)
_COUNTED: dict[str, Schema] = {
    "model": _MODEL,
    "messages": _MESSAGES,
    "system": {"anyOf": [*TEXT_BLOCKS["anyOf"], {"type": "null"}]},
    "tools": _said(
        "array",
        items={"anyOf": [_CUSTOM_TOOL, _TOOLSET]},
    ),
    "mcp_servers": _said("array", "Servers of the operator's, by `name`.", items=_object(["name"])),
    "tool_choice": _said(
        "object", required=["type"], properties={"type": {"enum": ["auto", "any", "tool", "none"]}}
    ),
    "thinking": _said("object", "`type`, `budget_tokens`, `display`."),
    "output_config": _said("object", "`effort`, and `format` with a JSON Schema."),
    "output_format": _said("object", "The older place of `output_config.format`."),
    "chat_template_kwargs": _KWARGS,
}
COUNT = _object(["messages"], **_COUNTED)
MESSAGES: Schema = {
    **_object(
        ["messages", "max_tokens"],
        **_COUNTED,
        max_tokens={"type": "integer", "description": "The most tokens, thinking included.", "minimum": 1},
        temperature=_number(0, 2),
        top_p=_number(0, 1),
        top_k=_TOP_K,
        seed=_SEED,
        stop_sequences=_said("array", items={"type": "string", "minLength": 1}, maxItems=16),
        stream=_STREAM,
        metadata=_METADATA,
    ),
    "examples": [{"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 200}],
}

EXECUTE = _object(
    ["name"],
    name={"type": "string", "description": "The tool, as `GET /v1/mcp/tools` names it.", "minLength": 1},
    server=_said("string", "Its server; `name` may be the server's own name of the tool then."),
    arguments={"type": ["object", "string", "null"]},
    approved=_said("boolean", "`true`: a user has agreed to this call."),
)

BODIES = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": COUNT,
    "/v1/mcp/execute": EXECUTE,
    "/v1/responses": RESPONSES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/conversations": CONVERSATION,
    "/v1/conversations/{conversation_id}/items": NEW_ITEMS,
}
"""The schema of each path that takes a body."""
