"""What differs in vllm-mlx: parsers get no token ids, requests and results are dicts, reasoning never "ends"."""

from __future__ import annotations

from typing import Any

from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.compat.managers import ReasoningParserManager
from unspool.compat.thinking import BaseThinkingReasoningParser


class MlxToolParser(ToolParser):
    """The base class of vllm-mlx's tool parsers."""


class MlxReasoningParser(ReasoningParser):
    """The base class of vllm-mlx's reasoning parsers."""


class MlxThinkingReasoningParser(BaseThinkingReasoningParser, MlxReasoningParser):
    """The base class of vllm-mlx's parsers of two markers."""

    starts_inside = True


def register_parser(name: str, parser_class: type[ReasoningParser]) -> None:
    """Registers a reasoning parser, as vllm-mlx does."""
    ReasoningParserManager.register_module(name, module=parser_class)


def get_parser(name: str) -> type[ReasoningParser]:
    """The reasoning parser of this name; ``KeyError`` lists the names."""
    return ReasoningParserManager.get_reasoning_parser(name)


def list_parsers() -> list[str]:
    """The names of all reasoning parsers."""
    return ReasoningParserManager.list_registered()


def is_mlx(parser: Any) -> bool:
    """Whether a parser was written against vllm-mlx."""
    modules = {kind.__module__ for kind in type(parser).__mro__}
    return __name__ in modules or any(module.split(".")[0] == "vllm_mlx" for module in modules)
