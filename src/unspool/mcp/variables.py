"""Variables of the environment in the operator's file: ``${NAME}``, ``${NAME:-default}``, ``${env:NAME}``.

Only what is written so is taken from the environment. A name that isn't set is an error, never an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from unspool.mcp.ownership import objection
from unspool.mcp.settings import McpConfigError

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


def expanded(text: str, environment: Mapping[str, str], place: str) -> str:
    """The text with its variables put in. Raises :class:`McpConfigError` naming the variable and ``place``."""

    def value(match: re.Match[str]) -> str:
        said = match[1]
        if said.startswith("input:"):
            raise McpConfigError(
                f"{place}: {match[0]} asks a person, and nobody can be asked here; "
                "write ${NAME} and set NAME in the environment"
            )
        named = _NAME.fullmatch(said)
        if named is None:
            raise McpConfigError(f"{place}: {match[0]} is not understood; write ${{NAME}} or ${{NAME:-default}}")
        name, default = named[1], named[2]
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            raise McpConfigError(f"{place}: {name} is not set; set it, or write ${{{name}:-default}}")
        return environment[name]

    return _VARIABLE.sub(value, text)


def read_trusted(path: Path, place: str) -> str:
    """The text of a file that nobody else can change. Raises :class:`McpConfigError`."""
    try:
        if said := objection(path, sticky=False):
            raise McpConfigError(f"{place}: others could change it: {said}")
        return path.read_text("utf-8")
    except OSError as error:
        raise McpConfigError(f"{place}: {path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise McpConfigError(f"{place}: {path} is not UTF-8 text") from error


def named_only(text: str) -> str:
    """The text with a variable's name where it has one, without its default: nothing that may be a secret."""

    def name(match: re.Match[str]) -> str:
        return "${" + match[1].partition(":-")[0] + "}"

    return _VARIABLE.sub(name, text)


def read_env_file(path: Path, place: str) -> dict[str, str]:
    """The variables of a file with a line ``NAME=value`` for each. Raises :class:`McpConfigError`."""
    lines = read_trusted(path, place).splitlines()
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise McpConfigError(f"{place}: line {number} of {path} is not NAME=value")
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value.split(" #")[0].rstrip()
