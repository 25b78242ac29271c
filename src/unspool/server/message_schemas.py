"""What messages of requests may be, as JSON Schemas, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, TypeAlias

from unspool.surfaces.chat_messages import TEXT_PARTS

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}


def said(kind: str, description: str = "", **more: Any) -> Schema:
    """A field of this type, or ``null``, which counts as absent."""
    return {"type": [kind, "null"], **({"description": description} if description else {}), **more}


def an_object(required: list[str], **properties: Schema) -> Schema:
    """An object with these fields, of which some are required."""
    return {"type": "object", "required": required, "properties": properties}


def _typed(kind: str, *required: str, **more: Schema) -> Schema:
    """An object whose ``type`` says what it is, with texts that it must have."""
    return an_object(["type", *required], type={"const": kind}, **dict.fromkeys(required, TEXT), **more)


def _content(parts: list[Schema], **more: Any) -> Schema:
    """A string, or a list of these parts."""
    return {"anyOf": [TEXT, {"type": "array", "items": {"anyOf": parts}, **more}]}


_PARTS = [TEXT, *(_typed(kind, field) for kind, field in TEXT_PARTS.items()), _typed("thinking", "thinking")]
_CALL = an_object(
    ["function"],
    id=said("string"),
    type={"enum": ["function", None]},
    function=an_object(
        ["name"], name={"type": "string", "minLength": 1}, arguments={"type": ["string", "object", "null"]}
    ),
)
_NULL: Schema = {"type": "null"}
ITEM_CONTENT: Schema = {"type": ["string", "array", "null"], "items": an_object(["type"], type=TEXT, text=TEXT)}
"""What an item of a response has as its content, if it is a message."""

CHAT_MESSAGE: Schema = {
    "anyOf": [
        an_object(
            ["role", "content"],
            role={"enum": ["system", "developer", "user"]},
            content=_content([TEXT, *(_typed(kind, field) for kind, field in TEXT_PARTS.items())], minItems=1),
            name=said("string"),
        ),
        an_object(
            ["role"],
            role={"enum": ["assistant"]},
            content={"anyOf": [*_content(_PARTS)["anyOf"], _NULL]},
            name=said("string"),
            refusal=said("string"),
            tool_calls=said("array", items=_CALL),
            reasoning_content=said("string", "Reasoning of an earlier turn."),
            reasoning=said("string", "The same by its other name."),
        ),
        an_object(
            ["role"],
            role={"enum": ["tool", "function"]},
            content={"anyOf": [*_content(_PARTS)["anyOf"], _NULL]},
            name=said("string"),
            tool_call_id=said("string"),
        ),
    ]
}
"""A message of a chat completion."""

_TEXT_BLOCK = _typed("text", "text")
TEXT_BLOCKS = _content([_TEXT_BLOCK])
"""What the Messages API has for a system prompt."""

_RESULT = an_object(
    ["type", "tool_use_id"],
    type={"const": "tool_result"},
    tool_use_id={"type": "string", "minLength": 1},
    content={"anyOf": [*TEXT_BLOCKS["anyOf"], _NULL]},
    is_error=said("boolean"),
)
_USE = an_object(
    ["type", "id", "name"],
    type={"const": "tool_use"},
    id={"type": "string", "minLength": 1},
    name={"type": "string", "minLength": 1},
    input=said("object"),
)
_SAID = [_TEXT_BLOCK, _typed("thinking", "thinking"), _typed("redacted_thinking"), _USE]


def _message(role: str, content: Schema) -> Schema:
    return an_object(["role", "content"], role={"const": role}, content=content)


MESSAGES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            _message("user", _content([_TEXT_BLOCK, _RESULT], minItems=1)),
            _message("assistant", _content(_SAID)),
            _message("system", TEXT_BLOCKS),
        ]
    },
    "contains": an_object(["role"], role={"enum": ["user", "assistant"]}),
}
"""The messages of the Messages API."""
