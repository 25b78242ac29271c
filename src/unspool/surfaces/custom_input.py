"""Custom tools: free text for the client, an object with one string for the model.

No open-weight family writes calls without an argument object, so a custom tool is offered as a function with one
parameter, and its text is taken out of the arguments again, while they stream.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

PARAMETER = "input"
"""The one parameter of the function that stands for a custom tool."""

_OPENING = ("{", f'"{PARAMETER}"', ":", '"')
"""What comes before the text; whitespace may stand before each."""
_LONGEST_ESCAPE = len(r"\ud83d\ude00")
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
    """Takes the text out of arguments that arrive in pieces. Work is proportional to each piece."""

    def __init__(self) -> None:
        self._arguments: list[str] = []
        self._text: list[str] = []
        self._opening = 0, 0
        self._cut = ""
        self._state: Literal["before", "inside", "over"] = "before"

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._text)

    def feed(self, piece: str) -> str:
        """The text that this piece completes."""
        self._arguments.append(piece)
        if self._state == "before":
            piece = self._open(piece)
        if self._state != "inside":
            return ""
        piece = self._cut + piece
        found = _CHARACTERS.match(piece)
        raw = found[0] if found else ""
        self._cut = piece[len(raw) :]
        # What is left is the end of the text, an escape that was cut, or one that is none.
        if self._cut.startswith('"') or len(self._cut) >= _LONGEST_ESCAPE:
            self._state = "over"
        text = _unescaped(raw)
        self._text.append(text)
        return text

    def _open(self, piece: str) -> str:
        """Reads on in what comes before the text; what is behind it."""
        token, place = self._opening
        for number, char in enumerate(piece):
            if place == 0 and char.isspace():
                continue
            if char != _OPENING[token][place]:
                self._state = "over"
                return ""
            place += 1
            if place == len(_OPENING[token]):
                token, place = token + 1, 0
                if token == len(_OPENING):
                    self._state = "inside"
                    return piece[number + 1 :]
        self._opening = token, place
        return ""

    def finish(self) -> str:
        """What is missing once the arguments are complete."""
        whole, text = unwrap("".join(self._arguments)), self.text
        # Text that was sent is never taken back, whatever else the model wrote around it.
        rest = whole[len(text) :] if whole.startswith(text) else ""
        self._text.append(rest)
        return rest


def _unescaped(raw: str) -> str:
    if "\\" not in raw:
        return raw
    try:
        text: str = json.loads(f'"{raw}"', strict=False)
    except ValueError:
        # No JSON has such an escape; what a call that never becomes whole said is shown as it is.
        return raw
    return text
