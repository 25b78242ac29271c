"""Names to parsers: what somebody registered, and every format that unspool knows.

A name means, in this order: a registered class, a lazily registered one, a format (by any of its names, those of
engines' parsers included), and ``auto``, which reads the chat template of the tokenizer it is given.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.formats import UnknownFormatError, formats, get_format
from unspool.parsing.declaration import Format

C = TypeVar("C", bound=type)

AUTO = "auto"
plugin_modules: list[ModuleType] = []
"""The modules of loaded plugin files, oldest first: where lazily registered classes may live."""


class _Manager:
    """What both managers share; ``_kind`` names what they hold."""

    _base: ClassVar[type]
    _kind: ClassVar[str]
    _eager: ClassVar[dict[str, type]]
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]]

    @classmethod
    def register_module(
        cls,
        name: str | list[str] | None = None,
        force: bool | type = True,
        module: type | bool | None = None,
    ) -> Any:
        """Registers a class under one or more names (default: its own); also as a decorator.

        ``force=False`` keeps what a name already has. The second and third argument may come in either order.
        Raises ``TypeError`` for what is no parser class and ``KeyError`` for a name that is taken.
        """
        if isinstance(force, type) or isinstance(module, bool):
            force, module = (True if module is None else module), force
        if not isinstance(force, bool):
            raise TypeError(f"force must be true or false, not {force!r}")
        keep = not force

        def register(parser: C) -> C:
            cls._register(parser, name, keep)
            return parser

        return register if module is None else register(module)  # type: ignore[type-var]

    @classmethod
    def _register(cls, parser: Any, name: str | list[str] | None, keep: bool) -> None:
        if not isinstance(parser, type) or not issubclass(parser, cls._base):
            raise TypeError(f"a {cls._kind} must be a subclass of {cls._base.__name__}; {parser!r} is not")
        names = [parser.__name__] if name is None else [name] if isinstance(name, str) else name
        if not isinstance(names, list | tuple) or not all(isinstance(text, str) for text in names):
            raise TypeError(f"a {cls._kind} is registered under a name or a list of names, not {name!r}")
        for text in names:
            if keep and (text in cls._eager or text in cls.lazy_parsers):
                raise KeyError(f"the {cls._kind} name {text!r} is taken")
            cls._eager[text] = parser

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        """Registers a class that is imported when it is first asked for."""
        cls.lazy_parsers[name] = (module_path, class_name)
        cls._eager.pop(name, None)

    @classmethod
    def list_registered(cls) -> list[str]:
        """Every name: registered ones, formats with all their names, and ``auto``."""
        names = {AUTO, *cls._eager, *cls.lazy_parsers}
        for fmt in formats():
            names.update((fmt.name, *fmt.aliases), *fmt.engine_names.values())
        return sorted(names)

    @classmethod
    def is_plugin(cls, name: str) -> bool:
        """Whether somebody registered this name, so that it is not simply a format."""
        return name in cls._eager or name in cls.lazy_parsers

    @classmethod
    def _get(cls, name: str, of_format: Callable[[Format | None], type]) -> Any:
        if name in cls._eager:
            return cls._eager[name]
        if name in cls.lazy_parsers:
            cls._eager[name] = cls._load(name)
            return cls._eager[name]
        if name == AUTO:
            return of_format(None)
        try:
            return of_format(get_format(name))
        except (UnknownFormatError, ValueError):
            known = cls.list_registered()
            near = get_close_matches(name, known, n=3, cutoff=0.6)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise KeyError(
                f"There is no {cls._kind} {name!r}.{hint} Registered names: {', '.join(known)}"
            ) from None

    @classmethod
    def _load(cls, name: str) -> type:
        path, class_name = cls.lazy_parsers[name]
        try:
            found: Any = getattr(importlib.import_module(path), class_name)
        except (ImportError, AttributeError) as error:
            # A plugin file may name the module that it would be in its engine.
            own = [vars(module).get(class_name) for module in reversed(plugin_modules)]
            names = {module.__name__ for module in plugin_modules}
            found = next((kind for kind in own if getattr(kind, "__module__", None) in names), None)
            if found is None:
                raise ImportError(
                    f"the {cls._kind} {name!r} was registered as {class_name} of {path}: {error}"
                ) from error
        if not isinstance(found, type) or not issubclass(found, cls._base):
            raise TypeError(f"the {cls._kind} {name!r} ({path}.{class_name}) is no {cls._base.__name__}")
        return found


def _import_plugin(plugin_path: str) -> None:
    """Loads a plugin file, which registers its parsers. Raises :class:`PluginError`."""
    from unspool.compat.plugins import load_plugin

    load_plugin(plugin_path)


class ToolParserManager(_Manager):
    """Tool parsers by name."""

    tool_parsers: ClassVar[dict[str, type]] = {}
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]] = {}
    _eager = tool_parsers
    _base = ToolParser
    _kind = "tool parser"

    @classmethod
    def get_tool_parser(cls, name: str) -> type[ToolParser]:
        """The class of this name. ``KeyError`` lists the names there are, nearest first."""
        from unspool.compat.tools import tool_parser_of

        found: type[ToolParser] = cls._get(name, tool_parser_of)
        return found

    import_tool_parser = staticmethod(_import_plugin)


class ReasoningParserManager(_Manager):
    """Reasoning parsers by name."""

    reasoning_parsers: ClassVar[dict[str, type]] = {}
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]] = {}
    _eager = reasoning_parsers
    _base = ReasoningParser
    _kind = "reasoning parser"

    @classmethod
    def get_reasoning_parser(cls, name: str) -> type[ReasoningParser]:
        """The class of this name. ``KeyError`` lists the names there are, nearest first."""
        from unspool.compat.reasoning import reasoning_parser_of

        found: type[ReasoningParser] = cls._get(name, reasoning_parser_of)
        return found

    import_reasoning_parser = staticmethod(_import_plugin)


def get_tool_parser(name: str) -> type[ToolParser]:
    """The tool parser class of this name; see :class:`ToolParserManager`."""
    return ToolParserManager.get_tool_parser(name)


def get_parser_stop_tokens(parser_name: str | None, user_stops: list[str] | None = None) -> list[str]:
    """The texts at which generation for this tool parser ends, those that the user asked for first."""
    extra = get_tool_parser(parser_name).extra_stop_tokens if parser_name else []
    return list(dict.fromkeys([*(user_stops or ()), *extra]))


def get_reasoning_parser(name: str) -> type[ReasoningParser]:
    """The reasoning parser class of this name; see :class:`ReasoningParserManager`."""
    return ReasoningParserManager.get_reasoning_parser(name)
