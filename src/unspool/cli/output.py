"""How commands print: rich text for people, JSON for programs.

Model output is untrusted, so nothing here lets a control character reach a terminal. rich is imported only
when somebody is there to read it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Set
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

# C0 controls but newline and tab have pictures of their own in Unicode; DEL has one too; C1 have none.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# Halves of surrogate pairs, which UTF-8 can't carry.
_PICTURES |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
# What JSON may hold as it is, but no terminal should get.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0xD800, 0xE000))}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON even on a terminal.")


def is_for_people(as_json: bool) -> bool:
    """Whether to print rich text: standard output is a terminal, or colour is forced, and not ``--json``."""
    return not as_json and (sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR")))


def terminal() -> Console:
    """A rich console on standard output that takes text literally: no markup, no emoji, no guessing."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def json_line(value: object) -> str:
    """A JSON value on one line; controls, and what UTF-8 can't carry, are escaped."""
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)


def print_json(value: object) -> None:
    """Writes one value as one line of JSON and flushes it."""
    click.echo(json_line(plain(value)))


def print_note(note: str | None) -> None:
    """Writes a remark to standard error, away from the JSON on standard output."""
    if note is not None:
        click.echo(f"Note: {visible(note)}", err=True)


def write_file(path: Path | None, text: str) -> None:
    """Writes a whole document to ``path``, or to standard output if there is none.

    Raises :class:`click.UsageError` naming the path when it cannot be written.
    """
    if path is None:
        click.echo(text)
        return
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise click.UsageError(f"cannot write {click.format_filename(path)}: {error.strerror or error}") from error


@contextlib.contextmanager
def replacing(path: Path | None) -> Iterator[IO[str]]:
    """Where to write text: standard output, or a file that takes the place of ``path`` once it is complete.

    Until then, and if anything goes wrong, ``path`` stays as it is, so it may be what is being read. Raises
    :class:`click.UsageError` naming the path when it cannot be written.
    """
    if path is None:
        with click.open_file("-", "w", encoding="utf-8") as out:
            yield out
            out.flush()
        return
    target = path.resolve()
    # A device or a pipe has no place to take.
    direct = target.exists() and not target.is_file()
    written = target if direct else target.with_name(f"{target.name}.{os.urandom(4).hex()}.part")
    try:
        with written.open("w" if direct else "x", encoding="utf-8", newline="\n") as out:
            yield out
        if not direct:
            if target.exists():
                shutil.copymode(target, written)
            written.replace(target)
    except OSError as error:
        raise click.UsageError(f"cannot write {click.format_filename(path)}: {error.strerror or error}") from error
    finally:
        if not direct:
            written.unlink(missing_ok=True)


def visible(text: str) -> str:
    """The text with pictures for control characters other than newline and tab.

    What UTF-8 can't carry becomes U+FFFD.
    """
    return text.translate(_PICTURES)


def quoted(text: str) -> str:
    """The text on one line, as a JSON string without ASCII escapes."""
    return visible(json.dumps(text, ensure_ascii=False))


def plain(value: object) -> object:
    """The value as ``json.dumps`` takes it; a dataclass becomes an object of its fields.

    What JSON has no form for (a pattern, a function, a class) is given by name or source.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, re.Pattern):
        return plain(value.pattern)
    return getattr(value, "__qualname__", None) or str(value)


_JSON_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"?|[^\s"{}\[\],:]+|[{}\[\],:]', re.DOTALL)


def indent_json(text: str) -> str:
    """JSON text over several lines, every string and number spelled exactly as it was.

    Works on any text, complete or not: it moves whitespace between tokens and changes nothing else.
    """
    out: list[str] = []
    depth = 0
    pieces = _JSON_PIECE.findall(text)
    for piece, following in zip_longest(pieces, pieces[1:], fillvalue=""):
        empty = piece + following in ("{}", "[]")
        if piece in ("{", "["):
            depth += 1
            out.append(piece if empty else f"{piece}\n{'  ' * depth}")
        elif piece in ("}", "]"):
            depth = max(depth - 1, 0)
            closes_empty = bool(out) and out[-1] in ("{", "[")
            out.append(piece if closes_empty else f"\n{'  ' * depth}{piece}")
        elif piece == ",":
            out.append(f",\n{'  ' * depth}")
        elif piece == ":":
            out.append(": ")
        else:
            out.append(piece)
    return "".join(out)
