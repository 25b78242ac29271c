"""Counts the characters that the parser examines: run as a program, since it must come before the parser.

Every pattern of the parsing core is compiled in one place, through ``re.compile``; here that returns a pattern
that adds up how far each search went: to the end of the text when it found nothing. What a parser step
copies into its buffer is added as well. The output is one JSON object: format, workload, and for each size the
characters fed and the characters examined.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

SIZES = (300, 2400)
"""How many pieces a workload repeats."""

_parser: Any = importlib.import_module("re._parser")
_compile = re.compile
_examined = 0


def _add(count: int) -> None:
    global _examined
    _examined += count


class Counted:
    """A compiled pattern that counts."""

    def __init__(self, compiled: re.Pattern[str]) -> None:
        self._compiled = compiled
        self._width: int = _parser.parse(compiled.pattern, compiled.flags).getwidth()[1]
        self.groups = compiled.groups
        self.groupindex = compiled.groupindex

    def _count(self, found: re.Match[str] | None, text: str, pos: int) -> re.Match[str] | None:
        _add(1 + max((found.end() if found else len(text)) - pos, 0))
        return found

    def match(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        found = self._compiled.match(text, pos, endpos)
        # At one place, no more is examined than the longest match would have.
        end = min(pos + self._width, len(text), endpos) if found is None else found.end()
        _add(1 + max(end - pos, 0))
        return found

    def search(self, text: str, pos: int = 0) -> re.Match[str] | None:
        return self._count(self._compiled.search(text, pos), text, pos)

    def fullmatch(self, text: str, pos: int = 0) -> re.Match[str] | None:
        return self._count(self._compiled.fullmatch(text, pos), text, pos)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        _add(len(text))
        return self._compiled.finditer(text)

    def sub(self, change: Callable[[re.Match[str]], str], text: str) -> str:
        _add(len(text))
        return self._compiled.sub(change, text)


def _counting_compile(source: Any, flags: Any = 0) -> Any:
    compiled = _compile(source, flags)
    caller = sys._getframe(1).f_globals["__name__"]
    return Counted(compiled) if caller == "unspool.parsing.scanner" else compiled


def examine(fmt: Any, pieces: list[str], prompt: str | None) -> tuple[int, int]:
    """The characters fed and examined for an output in these pieces."""
    from tests.laws.strategies import TOOLS
    from unspool import Parser

    parser = Parser(fmt, tools=TOOLS, prompt=prompt)
    before = _examined
    for piece in pieces:
        parser.feed(piece)
    parser.finish("stop")
    return sum(map(len, pieces)), _examined - before


def _count_copies() -> None:
    from unspool.parsing.reader import Reader

    step = Reader.step

    def counted(self: Reader, delta: str) -> list[Any]:
        kept = self.pos if self._keep is None else min(self._keep, self.pos)
        _add(len(self.text) - kept + len(delta))
        return step(self, delta)

    setattr(Reader, step.__name__, counted)


def start() -> None:
    """Counts from here on: before the parser is imported."""
    re.compile = _counting_compile  # type: ignore[assignment]
    _count_copies()


def check() -> None:
    """That anything was counted."""
    assert _examined, "nothing was counted: the parsing core compiles somewhere else"


def main() -> None:
    """Prints the counts of the formats named in the arguments."""
    start()
    from tests.laws.strategies import FORMATS
    from tests.laws.workloads import workloads

    counts = {
        name: {
            workload: [examine(fmt, pieces(size), prompt) for size in SIZES]
            for workload, (prompt, pieces) in workloads(fmt).items()
        }
        for name, fmt in FORMATS.items()
        if name in sys.argv[1:]
    }
    check()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
