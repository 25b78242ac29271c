"""Names to formats.

The built-in families are imported on first use, so that importing the package stays cheap; formats of other
packages (entry points of ``unspool.formats``) and of files that ``UNSPOOL_FORMATS`` lists, when a name is none of
theirs. A name may be any alias or any engine's parser name; ``reasoning+tools`` combines the reasoning of one
format with the calls of another.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from unspool.formats import families

if TYPE_CHECKING:
    # The declarations' classes take a third of the import to make, and are needed only with a family.
    from unspool.parsing.declaration import Format

FILES = "UNSPOOL_FORMATS"
"""The environment variable that lists TOML files with further formats, as PATH lists directories."""

_registered: dict[str, Format] = {}
_names: dict[str, str] = {}
_spelled: dict[str, str] = {}
_loaded = False
_others_loaded = False


class UnknownFormatError(LookupError):
    """No format has this name; the text names the nearest ones."""

    def __init__(self, name: str, near: Iterable[str]) -> None:
        near = list(near)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(f"unknown format {name!r}.{hint} 'unspool formats' lists all of them.")
        self.name = name
        self.near = tuple(near)

    def __str__(self) -> str:
        return str(self.args[0])


def _key(name: str) -> str:
    return re.sub(r"[-_. ]+", "", name.lower())


def register(fmt: Format) -> Format:
    """Makes a format known under its name, its aliases and the parser names engines have for it.

    Raises ``ValueError`` if its own name or an alias belongs to another format.
    """
    _load()
    return _add(fmt)


def _add(fmt: Format) -> Format:
    for name in (fmt.name, *fmt.aliases):
        owner = _names.get(_key(name))
        if owner is not None and owner != fmt.name:
            raise ValueError(f"the name {name!r} belongs to the format {owner!r}")
    _registered[fmt.name] = fmt
    for name in (fmt.name, *fmt.aliases):
        _names[_key(name)] = fmt.name
        _spelled.setdefault(_key(name), name)
    for names in fmt.engine_names.values():
        for name in names:
            _names.setdefault(_key(name), fmt.name)
            _spelled.setdefault(_key(name), name)
    return fmt


def _load() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True
    for family in sorted(module.name for module in pkgutil.iter_modules(families.__path__)):
        module = importlib.import_module(f"{families.__name__}.{family}")
        for fmt in module.FORMATS:
            _add(fmt)


def _load_others() -> None:
    """Formats of other packages and files; what can't be had is a warning, since the rest must work.

    Looking for them takes as long as everything else, so it waits until a name is not a built-in's.
    """
    global _others_loaded
    _load()
    if _others_loaded:
        return
    _others_loaded = True
    from unspool.formats.loading import formats_of, load_format, plugins

    sources = plugins()
    for path in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        sources.append((f"{path} (in {FILES})", partial(load_format, path)))
    for source, load in sources:
        try:
            for fmt in formats_of(load()):
                _add(fmt)
        except Exception as error:
            warnings.warn(f"no format from {source}: {error}", RuntimeWarning, stacklevel=2)


def formats() -> list[Format]:
    """Every registered format, sorted by name."""
    _load_others()
    return [_registered[name] for name in sorted(_registered)]


def get_format(name: str | Format) -> Format:
    """The format of this name: canonical, an alias, an engine's parser name, or ``reasoning+tools``.

    Case, spaces, dashes, dots and underscores make no difference. Raises :class:`UnknownFormatError`, and
    ``ValueError`` for a combination of formats that can't be combined.
    """
    if not isinstance(name, str):
        from unspool.parsing.declaration import Format

        if isinstance(name, Format):
            return name
    if not isinstance(name, str):
        raise TypeError(f"a format is named by text, not by {type(name).__name__}")
    _load()
    if "+" in name:
        return _combined(name)
    if _key(name) not in _names:
        _load_others()
    found = _names.get(_key(name))
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(_key(name), list(_names), n=3, cutoff=0.6)
        raise UnknownFormatError(name, [_spelled[key] for key in near])
    return _registered[found]


def _combined(name: str) -> Format:
    from unspool.parsing.declaration import ChannelCalls, RegionCalls

    first, _, second = name.partition("+")
    reasoning, tools = get_format(first), get_format(second)
    for part in (reasoning, tools):
        if isinstance(part.calls, ChannelCalls | RegionCalls) or "+" in part.name:
            raise ValueError(f"{name!r} can't be combined: {part.name!r} goes only by itself")
    return replace(
        tools,
        name=f"{reasoning.name}+{tools.name}",
        summary=f"reasoning of {reasoning.name}, calls of {tools.name}",
        aliases=(),
        reasoning=reasoning.reasoning,
        turns=tuple(dict.fromkeys(reasoning.turns + tools.turns)),
        start=reasoning.start,
        stops=tuple(dict.fromkeys(reasoning.stops + tools.stops)),
        next_turns=tuple(dict.fromkeys(reasoning.next_turns + tools.next_turns)),
        lead=reasoning.lead or tools.lead,
        lead_accepts=reasoning.lead_accepts or tools.lead_accepts,
        suffix=reasoning.suffix if tools.suffix is None else tools.suffix,
        text_filter=reasoning.text_filter or tools.text_filter,
        engine_names={},
    )
