"""Formats that don't come with the package: from a TOML file, or from what other packages register.

A file says what :mod:`unspool.parsing.declaration` has, under the same names. ``extends`` takes another format
as the beginning. What a file gets wrong is said with the file and the place in it.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from unspool.formats.registry import UnknownFormatError, get_format
from unspool.formats.soundness import faults
from unspool.parsing.declaration import SUFFIX, Format, RegionCalls, strings

_T = TypeVar("_T")

SAMPLES = "samples"
"""The key of a file under which examples of the format stand; the declaration has no such field."""


_PLAIN: dict[type, str] = {str: "text", bool: "true or false", int: "whole number"}


class FormatFileError(ValueError):
    """A file declares no format; the text says where and why."""


def load_format(path: str | os.PathLike[str]) -> Format:
    """The format that a TOML file declares; it is not registered yet.

    Raises :class:`FormatFileError`, and ``OSError`` if the file can't be read.
    """
    return build_format(read_file(path), str(path))


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the file says. Raises :class:`FormatFileError` if it is no TOML."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise FormatFileError(f"{path}: byte {error.start} is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise FormatFileError(f"{path}: {error}") from error


def build_format(said: Mapping[str, Any], origin: str = "the declaration") -> Format:
    """The format that these values declare. Raises :class:`FormatFileError` naming ``origin`` and the key."""
    values = {key: value for key, value in said.items() if key not in (SAMPLES, "extends")}
    base = None
    if "extends" in said:
        try:
            base = get_format(said["extends"])
        except (UnknownFormatError, TypeError, ValueError) as error:
            raise FormatFileError(f"{origin}: extends: {error}") from error
        base = dataclasses.replace(base, aliases=(), models=(), engine_names={})
    for key in ("name", "summary"):
        if key not in values:
            raise FormatFileError(f"{origin}: {key} is missing")
    try:
        fmt = _fill(Format, values, base, "")
    except _WrongError as error:
        raise FormatFileError(f"{origin}: {error}") from error
    if fault := next(_faults(fmt, values), None):
        raise FormatFileError(f"{origin}: {fault}")
    return fmt


def _faults(fmt: Format, said: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a declaration whose values have the right types."""
    for place, name in [("name", fmt.name), *((f"aliases[{n}]", alias) for n, alias in enumerate(fmt.aliases))]:
        if not name or "+" in name or name != name.strip():
            yield f"{place}: {name!r} can't be a format's name"
    if "suffix" in said and not any(SUFFIX in text for text in strings(fmt)):
        yield f"suffix: no marker has {SUFFIX} in it, for which it would stand"
    yield from faults(fmt)


class _WrongError(Exception):
    """A value is wrong; the text begins with its key."""


def _fill(kind: type[_T], said: Mapping[str, Any], base: _T | None, place: str) -> _T:
    """A dataclass from a table; what the table leaves out is the base's, or the default."""
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values = {}
    for key, value in said.items():
        where = f"{place}.{key}" if place else key
        if key not in fields:
            near = get_close_matches(key, fields, n=2, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(fields)}"
            raise _WrongError(f"{where}: {kind.__name__} has no such key{hint}")
        values[key] = _value(hints[key], value, getattr(base, key, None), where)
    if base is not None:
        return dataclasses.replace(base, **values)  # type: ignore[type-var]
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise _WrongError(f"{place or 'the file'}: {name} is missing")
    return kind(**values)


def _value(hint: Any, value: Any, base: Any, where: str) -> Any:
    """The value as the declaration's type has it."""
    origin = get_origin(hint)
    if hint in _PLAIN:
        if type(value) is hint:
            return value
        raise _WrongError(f"{where}: {_said(value)} is no {_PLAIN[hint]}")
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise _WrongError(f"{where}: {_said(value)} is none of {', '.join(map(repr, get_args(hint)))}")
    if origin is tuple:
        return _tuple(get_args(hint), value, where)
    if origin in (Union, types.UnionType):
        return _union(get_args(hint), value, base, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _fill(hint, _table(value, where), base if type(base) is hint else None, where)
    return {key: _tuple((str, ...), names, f"{where}.{key}") for key, names in _table(value, where).items()}


def _tuple(items: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _WrongError(f"{where}: {_said(value)} is no list")
    kinds = [items[0]] * len(value) if items[-1] is ... else list(items)
    if len(kinds) != len(value):
        raise _WrongError(f"{where}: {len(kinds)} items are wanted, {len(value)} are there")
    return tuple(
        _value(kind, item, None, f"{where}[{number}]")
        for number, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _union(kinds: Iterable[Any], value: Any, base: Any, where: str) -> Any:
    """A value of one of several types; a table says which by ``shape``, unless it extends a base's.

    Regions are not among them: only a response template says what they are made of.
    """
    classes = [kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    shapes = {_shape(kind): kind for kind in classes if kind is not RegionCalls}
    if not shapes:
        return _value(next(kind for kind in kinds if kind is not type(None)), value, base, where)
    table = dict(_table(value, where))
    shape = table.pop("shape", _shape(type(base)) if base is not None else None)
    if not isinstance(shape, str) or shape not in shapes:
        said = "is missing" if shape is None else f"{_said(shape)} is unknown"
        raise _WrongError(f"{where}.shape: {said}; there are {', '.join(map(repr, shapes))}")
    return _value(shapes[shape], table, base, where)


def _shape(kind: type) -> str:
    """What a file calls a class: ``json`` is ``JsonCalls``, ``json_arguments`` ``JsonArguments``."""
    return kind.__name__.removesuffix("Calls").replace("Arguments", "_arguments").lower()


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _WrongError(f"{where}: {_said(value)} is no table")
    return value


def _said(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def plugins() -> list[tuple[str, Callable[[], Any]]]:
    """What other packages register: the name and the loader of each entry point of ``unspool.formats``."""
    from importlib.metadata import entry_points

    return [
        (f"{point.value} (entry point {point.name!r})", point.load)
        for point in entry_points(group="unspool.formats")
    ]


def formats_of(loaded: Any) -> list[Format]:
    """The formats of a plugin: one, several, or a function that returns them. Raises ``TypeError``."""
    if callable(loaded):
        loaded = loaded()
    found = [loaded] if isinstance(loaded, Format) else list(loaded)
    for each in found:
        if not isinstance(each, Format):
            raise TypeError(f"{each!r} is no Format")
    return found
