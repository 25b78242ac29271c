"""A server's definition of a tool as it can be shown to a model.

The schema has no references abroad, texts have no hidden characters, and both are of bounded size.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from unspool.constrained.subschemas import subschemas
from unspool.mcp.tools import digest_of

_DESCRIPTION_CHARACTERS = 8192
_SCHEMA_BYTES = 64 * 1024
_SCHEMA_DEPTH = 64
_HIDDEN = ("Cc", "Cf", "Cs", "Co")
_TEXTS = ("description", "title", "$comment")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), dict),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems", "enum"), list),
    **dict.fromkeys(("description", "title"), str),
}
"""What the values of keywords must be that chat templates read."""


class UnusableToolError(ValueError):
    """A tool can't be offered; the text says why."""


def digest(tool: types.Tool) -> str:
    """The digest of what the server says of a tool, before anything is made of it."""
    return digest_of(tool.name, tool.description or "", tool.input_schema, claims(tool))


def claims(tool: types.Tool) -> dict[str, Any]:
    """What the server claims of a tool, by the names of the protocol."""
    said = tool.annotations
    return {} if said is None else said.model_dump(by_alias=True, exclude_none=True, mode="json")


def description(tool: types.Tool) -> str:
    """What the model reads of a tool."""
    return visible(tool.description or "")[:_DESCRIPTION_CHARACTERS]


def schema(tool: types.Tool) -> dict[str, Any]:
    """The schema of a tool's arguments. Raises :class:`UnusableToolError`."""
    said: Mapping[str, Any] = tool.input_schema or {}
    if said.get("type", "object") != "object":
        raise UnusableToolError("its inputSchema is not one of an object")
    shown = _shown({key: value for key, value in said.items() if key != "$schema"}, _SCHEMA_DEPTH)
    for _, node in subschemas(shown):
        _mend(node)
    size = len(json.dumps(shown))
    if size > _SCHEMA_BYTES:
        raise UnusableToolError(f"its inputSchema has {size} bytes, more than {_SCHEMA_BYTES}")
    return {"type": "object", "properties": {}, **shown}


def _shown(said: Any, depth: int) -> Any:
    """A part of a schema, its texts without hidden characters."""
    if depth == 0:
        raise UnusableToolError(f"its inputSchema is more than {_SCHEMA_DEPTH} levels deep")
    if isinstance(said, list):
        return [_shown(each, depth - 1) for each in said]
    if not isinstance(said, dict):
        return said
    for key in ("$ref", "$dynamicRef"):
        if isinstance(target := said.get(key), str) and not target.startswith("#"):
            raise UnusableToolError(f"its inputSchema refers to {target!r}, and nothing is fetched")
    return {
        key: visible(value) if key in _TEXTS and isinstance(value, str) else _shown(value, depth - 1)
        for key, value in said.items()
    }


def _mend(node: dict[str, Any]) -> None:
    """Takes out of a subschema what is none: chat templates read it for every request, and break on it.

    A member that is only ``true`` or ``false`` becomes an object of the same meaning.
    """
    for key in [key for key, kind in _KINDS.items() if key in node and not isinstance(node[key], kind)]:
        del node[key]
    if "required" in node and not _is_texts(node["required"]):
        del node["required"]
    if "type" in node:
        said = node["type"] if isinstance(node["type"], list) else [node["type"]]
        if not said or not all(isinstance(each, str) and each in _TYPES for each in said):
            del node["type"]
    for name, member in node.get("properties", {}).items():
        node["properties"][name] = _object(member)
    if isinstance(node.get("items"), bool):
        node["items"] = _object(node["items"])


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _object(member: Any) -> Any:
    if isinstance(member, dict):
        return member
    return {"not": {}} if member is False else {}


def visible(text: str) -> str:
    """A text without the characters that a person doesn't see: controls, formats, tags, private ones."""
    return "".join(each for each in text if each in "\n\t" or not _is_hidden(each))


def _is_hidden(character: str) -> bool:
    # The supplementary variation selectors can spell a text behind any character.
    return unicodedata.category(character) in _HIDDEN or "\U000e0100" <= character <= "\U000e01ef"
