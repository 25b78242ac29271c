"""mlx-lm's tool parsers: whole calls only, cut out by their markers as its server does.

Reasoning and content are not theirs to read, so the case with such text is left out.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from benchmarks.peers import Outcome
from benchmarks.timing import Stream
from benchmarks.workloads import TOOLS, Workload

_MODULES = {
    "hermes": "json_tools",
    "qwen3_coder": "qwen3_coder",
    "qwen3_5": "qwen3_coder",
    "pythonic": "pythonic",
    "mistral": "mistral",
    "mistral_v3": "mistral",
    "glm45": "glm47",
    "glm47": "glm47",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "gemma4": "gemma4",
}


class _MlxLm:
    def __init__(self, folder: Path) -> None:
        self.name = f"mlx-lm {version('mlx-lm')}"
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    def stream(self, work: Workload) -> Callable[[], Stream] | None:
        return None

    def read(self, work: Workload, outputs: Iterable[object]) -> Outcome:
        raise NotImplementedError("mlx-lm's parsers take whole calls only")

    def whole(self, work: Workload) -> Callable[[], object] | None:
        if work.family not in _MODULES or work.message.content or work.message.reasoning:
            return None
        module = self._module(_MODULES[work.family])
        opener, closer, parse = module.tool_call_start, module.tool_call_end, module.parse_tool_call

        def run() -> list[Any]:
            calls: list[Any] = []
            for part in work.raw.split(opener)[1:] or [work.raw]:
                got = parse(part.split(closer)[0] if closer else part, TOOLS)
                calls += got if isinstance(got, list) else [got]
            return calls

        return run

    def read_whole(self, work: Workload, output: object) -> Outcome:
        calls = cast(list[dict[str, Any]], output)
        return Outcome("", "", tuple((call["name"], json.dumps(call["arguments"])) for call in calls))

    def _module(self, name: str) -> ModuleType:
        """The parser's own file: importing the package would need mlx, which its parsers do not."""
        if name not in self._modules:
            spec = importlib.util.spec_from_file_location(f"_mlx_lm_{name}", self._folder / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._modules[name] = module
        return self._modules[name]


def contestant() -> _MlxLm:
    """mlx-lm's parsers, if it is installed, with or without mlx."""
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("no package mlx_lm")
    return _MlxLm(Path(spec.submodule_search_locations[0]) / "tool_parsers")
