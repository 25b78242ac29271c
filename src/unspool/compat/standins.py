"""Modules named like those that plugins import, while a plugin is loaded and the engine is not installed.

Only names that parsers use are there, under the module paths of several releases, and they are ours:
``vllm.tool_parsers.abstract_tool_parser.ToolParser`` is :class:`unspool.compat.ToolParser`. Outside of
:func:`available` none of them can be imported, so nobody else takes the engine for installed.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from unspool.compat import helpers, managers, mlx, records, thinking
from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.compat.tools import tool_parser_of
from unspool.formats import get_format
from unspool.parsing.opencall import new_call_id

ENGINES = ("vllm", "vllm_mlx")
_lock = threading.RLock()
_uses = 0

_BUILT_IN = (
    ("hermes_tool_parser", "Hermes2ProToolParser", "hermes"),
    ("qwen3coder_tool_parser", "Qwen3CoderToolParser", "qwen3_coder"),
    ("llama_tool_parser", "Llama3JsonToolParser", "llama3_json"),
    ("mistral_tool_parser", "MistralToolParser", "mistral"),
    ("pythonic_tool_parser", "PythonicToolParser", "pythonic"),
    ("deepseekv3_tool_parser", "DeepSeekV3ToolParser", "deepseek_v3"),
    ("deepseekv31_tool_parser", "DeepSeekV31ToolParser", "deepseek_v31"),
    ("glm4_moe_tool_parser", "Glm4MoeModelToolParser", "glm45"),
    ("kimi_k2_tool_parser", "KimiK2ToolParser", "kimi_k2"),
)
"""Parsers that plugins derive theirs from: module, class, and the format that reads the same."""


class _Logger(logging.LoggerAdapter[logging.Logger]):
    """A logger with the methods that vLLM's has besides."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name), {})
        self._said: set[tuple[int, str]] = set()

    def _once(self, level: int, message: str, *args: Any) -> None:
        if (level, message) not in self._said:
            self._said.add((level, message))
            self.log(level, message, *args)

    def debug_once(self, message: str, *args: Any, **_: Any) -> None:
        """Says this only once."""
        self._once(logging.DEBUG, message, *args)

    def info_once(self, message: str, *args: Any, **_: Any) -> None:
        """Says this only once."""
        self._once(logging.INFO, message, *args)

    def warning_once(self, message: str, *args: Any, **_: Any) -> None:
        """Says this only once."""
        self._once(logging.WARNING, message, *args)


def _call_id(id_type: str = "random", func_name: str | None = None, idx: int | None = None) -> str:
    return f"functions.{func_name}:{idx}" if id_type == "kimi_k2" else new_call_id()


def _environment(name: str) -> str | None:
    if name.startswith("__"):
        raise AttributeError(name)
    return os.environ.get(name)


class _Parameters(records.Record):
    """Parameters that are kept and not read."""


_PROTOCOLS = (
    "entrypoints.openai.protocol",
    "entrypoints.openai.chat_completion.protocol",
    "entrypoints.openai.engine.protocol",
    "entrypoints.openai.responses.protocol",
    "entrypoints.generate.base.protocol",
)


def _vllm() -> dict[str, dict[str, Any]]:
    """Module paths below ``vllm`` and what they hold."""
    protocol = {name: getattr(records, name) for name in records.__all__}
    tools = {"ToolParser": ToolParser, "ToolParserManager": managers.ToolParserManager, "Tool": Any}
    reasoning = {"ReasoningParser": ReasoningParser, "ReasoningParserManager": managers.ReasoningParserManager}
    tokenizers = dict.fromkeys(("AnyTokenizer", "TokenizerLike", "MistralTokenizer"), helpers.AnyTokenizer)
    ids = {"make_tool_call_id": _call_id, "random_tool_call_id": _call_id}
    parameters = dict.fromkeys(("SamplingParams", "StructuredOutputsParams", "GuidedDecodingParams"), _Parameters)
    modules: dict[str, dict[str, Any]] = {
        "tool_parsers": tools,
        "tool_parsers.abstract_tool_parser": tools,
        "tool_parsers.utils": helpers.TOOL_HELPERS,
        "entrypoints.openai.tool_parsers": tools,
        "entrypoints.openai.tool_parsers.abstract_tool_parser": tools,
        "entrypoints.openai.tool_parsers.utils": helpers.TOOL_HELPERS,
        "reasoning": reasoning,
        "reasoning.abs_reasoning_parsers": reasoning,
        "reasoning.basic_parsers": {"BaseThinkingReasoningParser": thinking.BaseThinkingReasoningParser},
        "logger": {"init_logger": cache(_Logger)},
        "envs": {"__getattr__": _environment},
        "sampling_params": parameters,
        "entrypoints.chat_utils": ids,
        "renderers.chat_utils": ids,
        "transformers_utils.tokenizer": tokenizers,
        "tokenizers": tokenizers,
        "config": dict.fromkeys(("ModelConfig", "VllmConfig"), _Parameters),
        "utils": {"random_uuid": lambda: uuid.uuid4().hex},
        "utils.mistral": {"is_mistral_tokenizer": lambda _: False},
        "utils.collection_utils": {"is_list_of": helpers.is_list_of},
        **dict.fromkeys(_PROTOCOLS, protocol),
    }
    for name in ("DeepSeekR1ReasoningParser", "Qwen3ReasoningParser", "IdentityReasoningParser"):
        path = name.removesuffix("ReasoningParser")
        path = {"DeepSeekR1": "deepseek_r1", "Qwen3": "qwen3", "Identity": "identity"}[path]
        modules[f"reasoning.{path}_reasoning_parser"] = {name: getattr(thinking, name)}
    for module, kind, form in _BUILT_IN:
        built_in = {kind: tool_parser_of(get_format(form))}
        modules[f"tool_parsers.{module}"] = built_in
        modules[f"entrypoints.openai.tool_parsers.{module}"] = built_in
    return modules


def _vllm_mlx() -> dict[str, dict[str, Any]]:
    """Module paths below ``vllm_mlx`` and what they hold."""
    tools = {
        "ToolParser": mlx.MlxToolParser,
        "ToolParserManager": managers.ToolParserManager,
        "get_parser_stop_tokens": managers.get_parser_stop_tokens,
        "ExtractedToolCallInformation": records.ExtractedToolCallInformation,
    }
    reasoning = {
        "ReasoningParser": mlx.MlxReasoningParser,
        "DeltaMessage": records.DeltaMessage,
        "BaseThinkingReasoningParser": mlx.MlxThinkingReasoningParser,
        "register_parser": mlx.register_parser,
        "get_parser": mlx.get_parser,
        "list_parsers": mlx.list_parsers,
    }
    return {
        "tool_parsers": tools,
        "tool_parsers.abstract_tool_parser": tools,
        "reasoning": reasoning,
        "reasoning.base": reasoning,
        "reasoning.think_parser": reasoning,
    }


@cache
def modules(engine: str) -> Mapping[str, ModuleType]:
    """The stand-in modules of an engine, by full name, its packages among them."""
    contents = _vllm() if engine == "vllm" else _vllm_mlx()
    found: dict[str, ModuleType] = {}

    def package(name: str) -> ModuleType:
        if name not in found:
            found[name] = ModuleType(name, f"Stands in for {name} while unspool loads a plugin.")
            # A package without a place: what is not here can't be imported from anywhere else.
            found[name].__path__ = []
            above, _, own = name.rpartition(".")
            if above:
                setattr(package(above), own, found[name])
        return found[name]

    package(engine).__dict__["__version__"] = "0.0.0+unspool"
    for path, names in contents.items():
        package(f"{engine}.{path}").__dict__.update(names)
    return found


def installed(engine: str) -> bool:
    """Whether the engine itself can be imported; its own modules are used then."""
    known = sys.modules.get(engine)
    if known is not None:
        return known is not modules(engine)[engine]
    try:
        return importlib.util.find_spec(engine) is not None
    except (ImportError, ValueError):
        return False


@contextmanager
def available() -> Iterator[None]:
    """Inside, stand-ins of the engines that are not installed can be imported; uses may nest and overlap."""
    global _uses
    with _lock:
        if not _uses:
            for engine in ENGINES:
                if not installed(engine):
                    sys.modules.update(modules(engine))
        _uses += 1
    try:
        yield
    finally:
        with _lock:
            _uses -= 1
            if not _uses:
                for engine in ENGINES:
                    for name, module in modules(engine).items():
                        if sys.modules.get(name) is module:
                            del sys.modules[name]
