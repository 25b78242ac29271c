"""What servers write, read as far as it can be: the SDK refuses a whole message, or a whole list of tools, for one
wrong character or tool in it.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import mcp_types as types
from mcp_types import INTERNAL_ERROR, JSONRPCMessage, jsonrpc_message_adapter, methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION

log = logging.getLogger(__name__)

_USED = ("name", "description", "inputSchema", "annotations")
"""What is read of a tool; what else stands there can't be wrong."""
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*'
_ID = rb'"id"\s*:\s*([0-9]{1,18})\s*'
_SAID = rb'"(?:result|error)"\s*:'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb")?" + _ID + rb",\s*" + _SAID)
"""The beginning of an answer that tells its id first, as the SDK for Python writes it."""
_LAST = re.compile(rb",\s*" + _VERSION + _ID + rb"\}\s*\Z")
"""The end of one that tells it last, as the SDK for TypeScript does, and in how many bytes it stands."""
_LAST_BYTES = 100
_KIND_CHARACTERS = 50
_PARTS = 1000
"""How many parts of a result are looked at one by one."""


def message_of(line: bytes) -> JSONRPCMessage:
    """The message of a line. Raises ``ValueError`` for what is none.

    Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD. An answer that is none is an error under
    its id, so that nobody waits for it.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        value = _lenient(line)
    except ValueError:
        # It is no JSON, or more of it than can be read: nested too deeply, or with too long a number.
        known = _FIRST.match(line)
        if known is None and re.match(rb"\s*\{\s*" + _SAID, line):
            known = _LAST.search(line[-_LAST_BYTES:])
        if known is None:
            raise
        return _no_answer(int(known[1]))
    try:
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        answers = isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value)
        if not answers or type(value.get("id")) not in (int, str):
            raise
    return _no_answer(value["id"])


def _no_answer(to: int | str) -> types.JSONRPCError:
    error = types.ErrorData(code=INTERNAL_ERROR, message="its answer is none of JSON-RPC")
    return types.JSONRPCError(jsonrpc="2.0", id=to, error=error)


def _lenient(line: bytes) -> Any:
    """The JSON of a line without what is no text. Raises ``ValueError``."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def read_tools(result: dict[str, Any], server: str) -> None:
    """Takes out of a list of tools what would make it unreadable; any other result stays as it is.

    A tool without a schema takes any object. One that can't be read even so is left out.
    """
    said = result.get("tools")
    if not isinstance(said, list) or "content" in result:
        return
    result["tools"] = tools = []
    wrong = None
    for number, each in enumerate(said):
        tool = _readable(each)
        try:
            types.Tool.model_validate(tool, by_name=False)
            methods.validate_server_result("tools/list", LATEST_HANDSHAKE_VERSION, {"tools": [tool]})
        except ValueError as error:
            wrong = wrong or f"tools[{number}], {_why(error)}"
        else:
            tools.append(tool)
    if wrong is not None:
        missing = len(said) - len(tools)
        log.warning("MCP server %s: %d of its tools can't be read and are left out: %s", server, missing, wrong)


def read_content(result: dict[str, Any]) -> None:
    """Puts notes in place of those parts of a tool's result that would make it unreadable."""
    if "structuredContent" in result:
        result.setdefault("content", [])
    said = result.get("content")
    if isinstance(said, list) and not _is_content(said):
        result["content"] = [block if _is_content([block]) else _note(block) for block in said[:_PARTS]]
        if len(said) > _PARTS:
            result["content"].append({"type": "text", "text": f"[{len(said) - _PARTS} more parts omitted]"})


def _is_content(blocks: list[Any]) -> bool:
    try:
        methods.validate_server_result("tools/call", LATEST_HANDSHAKE_VERSION, {"content": blocks})
    except ValueError:
        return False
    return True


def _note(block: Any) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    kind = kind[:_KIND_CHARACTERS] if isinstance(kind, str) else "something"
    return {"type": "text", "text": f"[{kind} omitted]"}


def _readable(said: Any) -> Any:
    if not isinstance(said, dict):
        return said
    tool = {key: said[key] for key in _USED if said.get(key) is not None}
    schema = tool.setdefault("inputSchema", {})
    if isinstance(schema, dict):
        tool["inputSchema"] = schema = {"type": "object", **schema}
        if not isinstance(schema.get("$schema"), str):
            schema.pop("$schema", None)
        required, properties = schema.get("required"), schema.get("properties")
        if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
            schema.pop("required", None)
        if not isinstance(properties, dict) or not all(
            isinstance(one, dict | bool) for one in properties.values()
        ):
            schema.pop("properties", None)
    return tool


def _why(error: ValueError) -> str:
    """What is wrong with a tool and where, without what stands there: the second and third line of pydantic's."""
    _, place, what, *_ = [*str(error).split("\n"), "", ""]
    return f"{place}: {what.partition('[type=')[0].strip()}"
