"""What the benchmarks parse: outputs of every family, cut into token-like pieces.

A workload starts as a message and is spelled by the family's own writer, so its right reading is known. Prose
comes from Python's reference manual and source code from its library, both of which every interpreter brings
along. The pieces follow the rules by which byte-pair tokenizers cut text first: a word takes the space before
it, special tokens stand alone, and a backslash goes with the punctuation before it or with the letters behind
it. So JSON escapes are cut where real models cut them: `:\\` and `n` at the end of a line of code, but `\\n` in
one piece behind a word. Cut this way, recorded outputs of nine families make between 0.93 and 1.13 times as
many pieces as their own tokenizers made of them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pydoc_data.topics
import re
import tarfile
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import unspool
from unspool.formats import write
from unspool.parsing.declaration import ChannelCalls, JsonCalls, PythonCalls

CASES = {
    "a": "long reasoning and content, one call",
    "b": "one call with a source file as argument",
    "c": "50 parallel calls",
}
FAMILIES = (
    "hermes",
    "qwen3_coder",
    "qwen3_5",
    "llama3_json",
    "pythonic",
    "mistral",
    "mistral_v3",
    "deepseek_v3",
    "deepseek_v31",
    "deepseek_v32",
    "glm45",
    "glm47",
    "kimi_k2",
    "kimi_k3",
    "gpt_oss",
    "gemma4",
)
"""The shapes of the nine families: every wire format that differs in more than its name or its start."""

PARALLEL = 50

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Writes a file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of the next days.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    },
]

MARKER = (
    r"<[|｜][^\s<>|｜]*[|｜]?>|｜DSML｜|<[a-z_]+\|>|\[/?[A-Z_]{3,}\]|</?(?:think|tool_call|arg_key|arg_value)>"
)
"""What is one token in the vocabularies of these families."""

_MARKERS = re.compile(f"({MARKER})")
_PIECE = re.compile(
    r"""
      \\[^\W\d_]                                     # an escape behind a word or at the start
    | \ ?[^\W\d_]{1,10}                              # a word, with the space before it
    | \d{1,3}
    | \ ?(?:[^\s\w\\]|_){1,2}(?:\\(?:\\|"|(?=\w)))?  # punctuation, with the backslash behind it
    | \\[\\"](?:\\(?=\w))?
    | \s*[\r\n]+ | \s+(?=\s\S) | .
    """,
    re.VERBOSE | re.DOTALL,
)


def pieces(text: str) -> list[str]:
    """The text as a model's tokens would bring it, about four characters a piece."""
    found: list[str] = []
    for part in _MARKERS.split(text):
        found += [part] if _MARKERS.fullmatch(part) else _PIECE.findall(part)
    return found


@dataclass(frozen=True, slots=True)
class Workload:
    """One output to parse: ``raw`` in ``pieces`` after ``prompt`` (the end of it), and the message it spells.

    ``size`` is what was asked for, in pieces or characters.
    """

    family: str
    case: str
    size: int
    prompt: str
    raw: str
    pieces: tuple[str, ...]
    message: unspool.Message

    @property
    def format(self) -> unspool.Format:
        """The family's declaration."""
        return unspool.get_format(self.family)

    @property
    def starts_in_reasoning(self) -> bool:
        """Whether the prompt leaves a reasoning block open."""
        return any(block.open in self.prompt and block.close not in self.prompt for block in self.format.reasoning)


@lru_cache(maxsize=1)
def prose() -> str:
    """Half a megabyte of English with code in it: the reference manual of Python."""
    return "\n\n".join(text.strip() for _, text in sorted(pydoc_data.topics.topics.items()))


@lru_cache(maxsize=1)
def source_code() -> str:
    """Half a megabyte of source code: modules of the standard library."""
    return "".join(
        Path(inspect.getfile(module)).read_text("utf-8") for module in (argparse, inspect, typing, tarfile)
    )


def _slice(text: str, start: int, length: int) -> str:
    """That many characters from a start that wraps around, without whitespace at either end."""
    while len(text) < start + length:
        text += text
    return text[start : start + length].strip() or "x"


def _call(name: str, **arguments: Any) -> unspool.ToolCall:
    return unspool.ToolCall("", name, json.dumps(arguments, ensure_ascii=False))


def _message(family: str, case: str, length: int) -> unspool.Message:
    """The message of a case with about ``length`` characters of text."""
    if case == "a":
        fmt = unspool.get_format(family)
        reasons = bool(fmt.reasoning) or isinstance(fmt.calls, ChannelCalls)
        return unspool.Message(
            reasoning=_slice(prose(), 0, length // 2) if reasons else None,
            content=_slice(prose(), 50_000, length - length // 2 if reasons else length),
            tool_calls=(_call("get_weather", city="São Paulo", days=3),),
        )
    if case == "b":
        return unspool.Message(
            tool_calls=(_call("write_file", path="src/main.py", content=_slice(source_code(), 0, length)),)
        )
    each = max(length // PARALLEL, 1)
    return unspool.Message(
        tool_calls=tuple(
            _call("write_file", path=f"src/part{n}.py", content=_slice(source_code(), n * 997, each))
            for n in range(PARALLEL)
        )
    )


def _prompt(family: str, message: unspool.Message) -> str:
    """The end of the prompt: the family's own, with reasoning switched on where the message has any."""
    fmt = unspool.get_format(family)
    off = message.reasoning and any(block.close in fmt.start for block in fmt.reasoning)
    return fmt.turns[0] + (fmt.reasoning[0].open if off else fmt.start)


def _spell(family: str, message: unspool.Message, prompt: str) -> str:
    """The raw output; calls that are bare only at the start of a turn get their marker behind content."""
    fmt = unspool.get_format(family)
    calls = fmt.calls
    if message.content and (isinstance(calls, PythonCalls) or (isinstance(calls, JsonCalls) and calls.bare)):
        text = write(fmt, unspool.Message(content=message.content), prompt=prompt)
        bare = write(fmt, unspool.Message(tool_calls=message.tool_calls), prompt=prompt)
        return text + calls.open[0] + bare + (calls.close[0] if calls.close else "")
    return write(fmt, message, prompt=prompt)


def _fitted(family: str, case: str, size: int, cut: Callable[[str], list[str]]) -> Workload:
    """The workload of about ``size`` pieces; framing alone may be more than that."""
    length = size * 4
    for _ in range(5):
        message = _message(family, case, length)
        prompt = _prompt(family, message)
        raw = _spell(family, message, prompt)
        found = tuple(cut(raw))
        if abs(size - len(found)) <= size // 100:
            break
        length = max(length + (size - len(found)) * length // len(found), 1)
    return Workload(family, case, size, prompt, raw, found, message)


@lru_cache(maxsize=8)
def workload(family: str, case: str, size: int) -> Workload:
    """The output of a family for one case, in about ``size`` pieces."""
    return _fitted(family, case, size, pieces)


@lru_cache(maxsize=2)
def whole(family: str, case: str, characters: int) -> Workload:
    """The output of a family for one case, about ``characters`` long, its pieces single characters."""
    return _fitted(family, case, characters, list)
