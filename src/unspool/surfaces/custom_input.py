"""Custom tools: free text for the client, an object with one string for the model.

No open-weight family writes calls without an argument object, so a custom tool is offered as a function with one
parameter, and its text is taken out of the arguments again, while they stream.
"""

from __future__ import annotations

import json
import re
from typing import Any

PARAMETER = "input"
"""The one parameter of the function that stands for a custom tool."""

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
# Whole characters of a JSON string: a cut escape has to wait, and so does half of a surrogate pair.
_CHARACTERS = re.compile(
    r'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[0-9a-fA-F]{4}|(?=[^\\]|\\[^u])))*"
)


def as_function(name: str, description: str | None, expression: str | None = None) -> dict[str, Any]:
    """The OpenAI function tool that stands for a custom tool; ``expression`` is what its whole text must match."""
    text = {"type": "string"} if expression is None else {"type": "string", "pattern": f"^(?:{expression})$"}
    function: dict[str, Any] = {
        "name": name,
        "parameters": {"type": "object", "properties": {PARAMETER: text}, "required": [PARAMETER]},
    }
    if expression is not None:
        function["parameters"]["additionalProperties"] = False
        function["strict"] = True
    if description is not None:
        function["description"] = description
    return {"type": "function", "function": function}


def wrap(text: str) -> str:
    """A custom tool's text as the arguments of its function."""
    return json.dumps({PARAMETER: text}, ensure_ascii=False)


def unwrap(arguments: str) -> str:
    """The text in complete arguments; other arguments than the one expected are passed on as they are."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
    text = value.get(PARAMETER) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


class CustomInput:
    """Takes the text out of arguments that arrive in pieces."""

    def __init__(self) -> None:
        self.text = ""
        self._waiting = ""
        self._inside = False
        self._arguments: list[str] = []

    def feed(self, piece: str) -> str:
        """The text that this piece completes."""
        self._arguments.append(piece)
        self._waiting += piece
        if not self._inside:
            opening = _OPENING.match(self._waiting)
            if opening is None:
                return ""
            self._inside = True
            self._waiting = self._waiting[opening.end() :]
        found = _CHARACTERS.match(self._waiting)
        raw = found[0] if found else ""
        self._waiting = self._waiting[len(raw) :]
        text = _unescaped(raw)
        self.text += text
        return text

    def finish(self) -> str:
        """What is missing once the arguments are complete."""
        whole = unwrap("".join(self._arguments))
        # Text that was sent is never taken back, whatever else the model wrote around it.
        rest = whole[len(self.text) :] if whole.startswith(self.text) else ""
        self.text += rest
        return rest


def _unescaped(raw: str) -> str:
    try:
        text: str = json.loads(f'"{raw}"', strict=False)
    except ValueError:
        # No JSON has such an escape; what a call that never becomes whole said is shown as it is.
        return raw
    return text
