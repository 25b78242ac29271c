"""What requests may say, as JSON Schemas, for the OpenAPI document.

They describe; the decoders of ``surfaces`` decide. A field that a decoder reads is here, and none that it refuses.
"""

from __future__ import annotations

from unspool.server.message_schemas import CHAT_MESSAGE as _CHAT_MESSAGE
from unspool.server.message_schemas import MESSAGES as _MESSAGES
from unspool.server.message_schemas import TEXT_BLOCKS, Schema
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
_MODEL = _said("string", "The model, an alias or a recording; left out, the first one.")
_STREAM = _said("boolean", "Answer with server-sent events.")
_KWARGS = _said("object", "Passed on to the chat template.")
_METADATA = _said("object", "`replay` names the recording that answers; the rest is left out.")
_SEED = _said("integer")
_TOP_K = _said("integer", minimum=-1)
_REGEX = _said("string", "A regular expression for the content.")
_CHOICE = _said("array", "Texts, one of which the content is.", items={"type": "string", "minLength": 1})
_GRAMMAR = _said("string", "A grammar for the content, in EBNF (with `::=`) or Lark.")

CHAT: Schema = {
    **_object(
        ["messages"],
        model=_MODEL,
        messages={"type": "array", "minItems": 1, "items": _CHAT_MESSAGE},
        tools=_said("array", items=_object(["function"], type={"enum": ["function", None]}, function=_FUNCTION)),
        tool_choice={
            "anyOf": [{"enum": ["none", "auto", "required", None]}, _object(["type"], type={"type": "string"})],
            "description": "`none`, `auto`, `required`, a function, or `allowed_tools`.",
        },
        parallel_tool_calls=_said("boolean", "`false`: at most one call."),
        response_format={
            "type": ["object", "null"],
            "required": ["type"],
            "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
        },
        structured_outputs=_said("object", "`json`, `regex`, `choice`, `grammar` or `json_object`."),
        guided_json=_JSON_SCHEMA,
        guided_regex=_REGEX,
        guided_choice=_CHOICE,
        guided_grammar=_GRAMMAR,
        json_schema=_JSON_SCHEMA,
        regex=_REGEX,
        grammar=_GRAMMAR,
        ebnf=_GRAMMAR,
        max_completion_tokens=_tokens("The most tokens, reasoning included; -1 is no limit."),
        max_tokens=_tokens("The older name of the same."),
        temperature=_number(0, 2),
        top_p=_number(0, 1),
        top_k=_TOP_K,
        min_p=_number(0, 1),
        presence_penalty=_number(-2, 2),
        frequency_penalty=_number(-2, 2),
        repetition_penalty=_said("number", exclusiveMinimum=0, maximum=10),
        seed=_SEED,
        logit_bias=_said("object", additionalProperties={"type": "number", "minimum": -100, "maximum": 100}),
        stop={"type": ["string", "array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": 16},
        n=_said("integer", "Choices.", minimum=1, maximum=16),
        stream=_STREAM,
        stream_options=_said("object", properties={"include_usage": _said("boolean")}),
        reasoning_effort=_said("string", "`none` to `max`."),
        reasoning=_said("object", "`effort`, `enabled`, `exclude`, `max_tokens`."),
        thinking=_said("object", "`type`, `budget_tokens`."),
        enable_thinking=_said("boolean"),
        include_reasoning=_said("boolean", "`false`: the client is not told the reasoning."),
        thinking_token_budget=_tokens("The most reasoning tokens; -1 is no limit."),
        reasoning_budget=_tokens("The same."),
        chat_template_kwargs=_KWARGS,
        continue_final_message=_said("boolean", "Continue the last message."),
        add_generation_prompt=_said("boolean"),
        metadata=_METADATA,
    ),
    "examples": [{"messages": [{"role": "user", "content": "What is the capital of France?"}], "stream": True}],
}

_COUNTED: dict[str, Schema] = {
    "model": _MODEL,
    "messages": _MESSAGES,
    "system": {"anyOf": [*TEXT_BLOCKS["anyOf"], {"type": "null"}]},
    "tools": _said(
        "array",
        items=_object(
            ["name", "input_schema"],
            name={"type": "string", "minLength": 1},
            description=_said("string"),
            input_schema={"type": "object"},
            strict=_said("boolean", "Hold calls to the schema."),
        ),
    ),
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

BODIES = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/messages/count_tokens": COUNT}
"""The schema of each path that takes a body and has one."""
