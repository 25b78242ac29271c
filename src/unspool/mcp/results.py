"""Results of tools as a model reads them: text, within a size, with a note for what is no text.

A failure is said as one: its text goes before whatever data came beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import mcp_types as types

from unspool.mcp.tools import ToolResult

_NOTHING = "(no output)"
_FAILED = "The tool failed and did not say why."


def converted(result: types.CallToolResult, limit: int) -> ToolResult:
    """What a server answered, as at most ``limit`` bytes of UTF-8."""
    text = "\n".join(_parts(result.content)).strip("\n")
    if result.is_error:
        text = text or _FAILED
        shown = cut(text if text.lower().startswith("error") else f"Error: {text}", limit)
        content = [{"type": "text", "text": cut(text, limit)}]
        return ToolResult(shown, True, {"type": "mcp_tool_execution_error", "content": content})
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return ToolResult(cut(text or _NOTHING, limit))


def failed(message: str, kind: str, **more: Any) -> ToolResult:
    """A result that says what kept a tool from answering."""
    return ToolResult(f"Error: {message}", True, {"type": kind, "message": message, **more})


def unknown_tool(name: str) -> ToolResult:
    """The result of a call to a tool that isn't there. No other tool is run in its place."""
    return failed(f"There is no tool named {name!r}. Nothing was run.", "unknown_tool")


def cut(text: str, limit: int) -> str:
    """The beginning of a text within so many bytes, with a note if something is missing."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    note = f"\n[cut: the whole has {len(raw)} bytes]"
    return raw[: max(0, limit - len(note))].decode("utf-8", "ignore") + note


def _parts(content: list[types.ContentBlock]) -> Iterator[str]:
    for block in content:
        if isinstance(block, types.TextContent):
            yield block.text
        elif isinstance(block, (types.ImageContent, types.AudioContent)):
            yield f"[{block.type} {block.mime_type} {_size(block.data)} omitted]"
        elif isinstance(block, types.ResourceLink):
            yield f"{block.name} ({block.uri})"
        elif isinstance(block.resource, types.TextResourceContents):
            yield block.resource.text
        else:
            kind = block.resource.mime_type or "of an unknown type"
            yield f"[resource {block.resource.uri} {kind} {_size(block.resource.blob)} omitted]"


def _size(base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB"
