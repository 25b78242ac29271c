"""Plugins of one test are unknown to the next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from unspool.compat import ReasoningParserManager, ToolParserManager, load_plugin
from unspool.compat.managers import plugin_modules

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
Load = Callable[[str], ModuleType]


@pytest.fixture(autouse=True)
def fresh_registries() -> Iterator[None]:
    """Undoes what a test registers."""
    held: list[dict[str, Any]] = [
        ToolParserManager.tool_parsers,
        ToolParserManager.lazy_parsers,
        ReasoningParserManager.reasoning_parsers,
        ReasoningParserManager.lazy_parsers,
    ]
    before = [dict(registry) for registry in held]
    loaded = list(plugin_modules)
    yield
    for registry, was in zip(held, before, strict=True):
        registry.clear()
        registry.update(was)
    for module in plugin_modules[len(loaded) :]:
        sys.modules.pop(module.__name__, None)
    plugin_modules[:] = loaded


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a plugin from its source."""

    def write_and_load(source: str) -> ModuleType:
        path = tmp_path / f"plugin_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(dedent(source), encoding="utf-8")
        return load_plugin(path)

    return write_and_load
