"""Plugin files: loading one, and building the parsers that it registered."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from unspool.compat import standins
from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.compat.managers import ReasoningParserManager, ToolParserManager, plugin_modules
from unspool.compat.reasoning import FormatReasoningParser


class PluginError(Exception):
    """A plugin can't be used; the text names the file or the parser, and says why in one line."""


FAULTS = (Exception, SystemExit)
"""What a plugin's fault may raise: a plugin that exits must not take the server with it."""
_late: set[str] = set()
"""Names of plugin modules that import from their engine inside functions."""


def load_plugin(path: str | Path) -> ModuleType:
    """Runs a plugin file, or imports a module of this name; what it registers, the managers know from then on.

    Modules of an engine that is not installed are stood in for meanwhile (:mod:`unspool.compat.standins`).
    Raises :class:`PluginError`.
    """
    before = _registered()
    with standins.available():
        module = _load_file(Path(path)) if str(path).endswith(".py") else _load_module(str(path))
    plugin_modules.append(module)
    _adopt()
    if _registered() == before:
        raise PluginError(
            f"{path} registers no parser; it needs @ToolParserManager.register_module(NAME) before a class, "
            "or ReasoningParserManager's."
        )
    return module


def _load_file(path: Path) -> ModuleType:
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"The plugin {path} can't be read: {error}.") from None
    except SyntaxError as error:
        # A null byte has no line.
        where = str(path) if error.lineno is None else f"{path}, line {error.lineno}"
        raise PluginError(f"{where}: {error.msg}.") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise PluginError(f"{path}: {_named(error)}.") from None
    name = path.stem
    taken = name in sys.modules and sys.modules[name] not in plugin_modules
    if taken or name in sys.stdlib_module_names:
        # A file json.py must not become everybody's json.
        name = f"plugin_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, pickles and lazy registrations look their module up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FAULTS as error:
        del sys.modules[name]
        raise PluginError(_what_failed(path, error)) from error
    if _imports_late(tree):
        _late.add(name)
    return module


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except FAULTS as error:
        raise PluginError(
            f"The plugin {name!r} can't be imported: {_named(error)}. A file must end in .py."
        ) from error


def _what_failed(path: Path, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    if isinstance(error, ImportError):
        missing = (error.name or "").split(".")[0]
        engine = missing if missing in standins.ENGINES else None
        if engine:
            return f"{where}: {error}. unspool doesn't stand in for that; install {engine.replace('_', '-')}."
        return f"{where}: {error}. Install what the plugin needs."
    return f"{where}: {_named(error)}."


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _imports_late(tree: ast.Module) -> bool:
    """Whether a function of the module imports from an engine."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(name.split(".")[0] in standins.ENGINES for name in names):
                    return True
    return False


def _registered() -> set[tuple[str, int]]:
    eager = (*ToolParserManager.tool_parsers.items(), *ReasoningParserManager.reasoning_parsers.items())
    lazy = (*ToolParserManager.lazy_parsers.items(), *ReasoningParserManager.lazy_parsers.items())
    return {(name, id(value)) for name, value in (*eager, *lazy)}


_MANAGERS = (
    ("vllm.tool_parsers", "ToolParserManager", ToolParserManager, "tool_parsers"),
    ("vllm.reasoning", "ReasoningParserManager", ReasoningParserManager, "reasoning_parsers"),
    ("vllm_mlx.tool_parsers", "ToolParserManager", ToolParserManager, "tool_parsers"),
)


def _adopt() -> None:
    """Where an engine is installed, plugins register with its own managers; ours learn of their classes too."""
    for path, name, ours, held in _MANAGERS:
        manager = getattr(sys.modules.get(path), name, None)
        if manager is None or manager is ours:
            continue
        loaded = {module.__name__ for module in plugin_modules}
        for key, (module, kind) in dict(getattr(manager, "lazy_parsers", {})).items():
            if module in loaded:
                found = next(m for m in plugin_modules if m.__name__ == module)
                getattr(ours, held)[key] = getattr(found, kind)
        for key, kind in dict(getattr(manager, held, {})).items():
            if kind.__module__ in loaded:
                getattr(ours, held)[key] = kind


@contextmanager
def imports_of(kind: type) -> Iterator[None]:
    """Inside, the parser's functions can import what its file could when it was loaded."""
    with standins.available() if kind.__module__ in _late else nullcontext():
        yield


def fitted(function: Callable[..., Any], arguments: tuple[Any, ...], **named: Any) -> Any:
    """Calls a function with as many of the arguments as it takes, and those of the named ones that it knows."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function(*arguments, **named)
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        arguments = arguments[: sum(kind in by_place for kind in kinds)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        taken = {parameter.name for parameter in parameters[len(arguments) :]}
        named = {name: value for name, value in named.items() if name in taken}
    return function(*arguments, **named)


def build_tool_parser(kind: type[ToolParser], tokenizer: Any, tools: list[Any]) -> ToolParser:
    """A tool parser for one generation. Raises :class:`PluginError`."""
    built: ToolParser = _build(kind, (tokenizer, tools))
    return built


def build_reasoning_parser(
    kind: type[ReasoningParser],
    tokenizer: Any,
    tools: list[Any],
    prompt: str | None,
    template_kwargs: dict[str, Any] | None,
) -> ReasoningParser:
    """A reasoning parser for one generation. Raises :class:`PluginError`."""
    named: dict[str, Any] = {"chat_template_kwargs": template_kwargs, "model_config": None}
    if issubclass(kind, FormatReasoningParser):
        named |= {"tools": tools, "prompt": prompt}
    built: ReasoningParser = _build(kind, (tokenizer,), **named)
    return built


def _build(kind: type, arguments: tuple[Any, ...], **named: Any) -> Any:
    try:
        with imports_of(kind):
            return fitted(kind, arguments, **named)
    except FAULTS as error:
        raise PluginError(f"The parser {kind.__name__} can't be made: {_named(error)}.") from error
