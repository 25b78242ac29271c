"""SGLang's detectors, from the package llm-router-utils, put together as SGLang's server does.

Text goes through the reasoning parser first; what that calls normal text goes through the tool parser.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, cast

from benchmarks.peers import Outcome
from benchmarks.timing import Stream
from benchmarks.workloads import TOOLS, Workload

_PACKAGE = "llm_router_utils.sglang.srt"
_NAMES: dict[str, tuple[str, str | None]] = {
    "hermes": ("hermes", "qwen3"),
    "qwen3_coder": ("qwen3_coder", None),
    "qwen3_5": ("qwen3_coder", "qwen3"),
    "llama3_json": ("llama3", None),
    "pythonic": ("pythonic", None),
    "mistral": ("mistral", "mistral"),
    "mistral_v3": ("mistral", None),
    "deepseek_v3": ("deepseekv3", "deepseek-v3"),
    "deepseek_v31": ("deepseekv31", "deepseek-v3"),
    "deepseek_v32": ("deepseekv32", "deepseek-v3"),
    "glm45": ("glm45", "glm45"),
    "glm47": ("glm47", "glm45"),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "gpt_oss": ("gpt-oss", "gpt-oss"),
    "gemma4": ("gemma4", "gemma4"),
}
"""Family to SGLang's tool parser and reasoning parser."""

_Delta = tuple[str, str, list[Any]]


class _SGLang:
    def __init__(self) -> None:
        self.name = f"SGLang (llm-router-utils {version('llm-router-utils')})"
        self._tools = importlib.import_module(f"{_PACKAGE}.function_call.function_call_parser").FunctionCallParser
        self._reasoning = importlib.import_module(f"{_PACKAGE}.parser.reasoning_parser").ReasoningParser
        tool = importlib.import_module(f"{_PACKAGE}.entrypoints.openai.protocol").Tool
        self._offered = [tool(**offered) for offered in TOOLS]

    def _parsers(self, work: Workload) -> tuple[Any, Any]:
        calls, thoughts = _NAMES[work.family]
        tool_parser = self._tools(self._offered, calls)
        if thoughts is None:
            return tool_parser, None
        options = {"force_reasoning": True} if work.starts_in_reasoning else {}
        return tool_parser, self._reasoning(thoughts, tool_call_parser_active=True, **options)

    def stream(self, work: Workload) -> Callable[[], Stream] | None:
        if work.family not in _NAMES:
            return None

        def new() -> Stream:
            tool_parser, reasoning_parser = self._parsers(work)
            read_calls = tool_parser.parse_stream_chunk
            if reasoning_parser is None:
                return Stream(
                    lambda piece: ("", *read_calls(piece)), lambda: ("", *tool_parser.parse_stream_end())
                )
            split = reasoning_parser.parse_stream_chunk

            def feed(piece: str) -> _Delta:
                thought, rest = split(piece)
                return (thought, *read_calls(rest)) if rest else (thought, "", [])

            def finish() -> _Delta:
                thought, rest = reasoning_parser.parse_stream_end()
                text, calls = read_calls(rest) if rest else ("", [])
                last, more = tool_parser.parse_stream_end()
                return thought or "", (text or "") + last, [*calls, *more]

            return Stream(feed, finish)

        return new

    def read(self, work: Workload, outputs: Iterable[object]) -> Outcome:
        reasoning: list[str] = []
        content: list[str] = []
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        argued = 0
        for thought, text, calls in cast(Iterable[_Delta], outputs):
            reasoning.append(thought or "")
            content.append(text or "")
            argued += any(call.parameters for call in calls)
            for call in calls:
                names[call.tool_index] = names.get(call.tool_index, "") + (call.name or "")
                arguments[call.tool_index] = arguments.get(call.tool_index, "") + (call.parameters or "")
        found = tuple((names[index], arguments[index]) for index in sorted(names))
        return Outcome("".join(reasoning), "".join(content), found, argued)

    def whole(self, work: Workload) -> Callable[[], object] | None:
        if work.family not in _NAMES:
            return None

        def run() -> _Delta:
            tool_parser, reasoning_parser = self._parsers(work)
            thought, text = reasoning_parser.parse_non_stream(work.raw) if reasoning_parser else ("", work.raw)
            rest, calls = tool_parser.parse_non_stream(text)
            return thought or "", rest, calls

        return run

    def read_whole(self, work: Workload, output: object) -> Outcome:
        thought, text, calls = cast(_Delta, output)
        return Outcome(thought, text or "", tuple((call.name or "", call.parameters) for call in calls))


def contestant() -> _SGLang:
    """SGLang's detectors, if llm-router-utils is installed."""
    return _SGLang()
