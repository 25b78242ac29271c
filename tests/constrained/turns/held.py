"""Tools and turns for the tests of grammars, and whether a grammar allows a text."""

from __future__ import annotations

from typing import Any

from tests.constrained.turns.walks import TOOLS, refused
from tests.constrained.vocabularies import Letters
from unspool.constrained.turns import TurnGrammar, turn_grammar

PARIS = '{"city": "Paris", "unit": "c"}'
CALL = f'<tool_call>\n{{"name": "get_weather", "arguments": {PARIS}}}\n</tool_call>'
SURE = '<tool_call>\n{"name": "get", "arguments": {"sure": true}}\n</tool_call>'
QWEN = Letters(special=("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>"), end=("<|im_end|>",))
"""As Qwen3's tokenizer: its markers are tokens."""


def tool(schema: Any, name: str = "f", strict: bool = True) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}}


def turn(fmt: str = "hermes", tokenizer: Any = QWEN, *, tools: Any = TOOLS, **options: Any) -> TurnGrammar:
    grammar = turn_grammar(fmt, tokenizer, tools=tools, **options)
    assert grammar is not None
    return grammar


def allows(grammar: TurnGrammar, text: str, tokenizer: Any = QWEN) -> bool:
    return refused(grammar, tokenizer, text) is None
