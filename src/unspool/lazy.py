"""Packages that load their modules when a name in them is first asked for, so that importing them stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attributes(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``homes`` are its modules, by their names within it, with what they give.

    What was found once is an ordinary attribute. Any other name is an ``AttributeError``.
    """
    modules = {name: f"{package}.{home}" for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
