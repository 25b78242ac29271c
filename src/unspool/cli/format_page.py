"""A format's page in the docs, made from its declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import unspool
from unspool.cli.formats import declaration_lines
from unspool.formats import samples


def page(fmt: unspool.Format) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(fmt)) + "\n"


def index(formats: Iterable[unspool.Format]) -> str:
    """The page that lists all pages, as Markdown."""
    lines = [
        "# Formats",
        "",
        "One page a format, made from its declaration by `make docs`. Any name or alias goes after `-f`, into",
        "`unspool.get_format` and into `unspool serve --format`.",
        "",
        "| format | what it looks like | models |",
        "|---|---|---|",
    ]
    for fmt in formats:
        models = ", ".join(fmt.models[:2]) + (", ..." if len(fmt.models) > 2 else "")
        lines.append(f"| [{fmt.name}]({fmt.name}.md) | {_cell(fmt.summary)} | {models} |")
    return "\n".join(lines) + "\n"


def _lines(fmt: unspool.Format) -> Iterator[str]:
    yield f"# {fmt.name}"
    yield ""
    yield f"{_text(fmt.summary[:1].upper() + fmt.summary[1:])}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    facts = [
        ("models", ", ".join(fmt.models)),
        ("other names", ", ".join(f"`{alias}`" for alias in fmt.aliases)),
        ("taken from", fmt.source),
        ("prompt ends with", _code("".join(fmt.turns[:1]) + fmt.start)),
        ("ends a turn", " ".join(map(_code, fmt.stops))),
        ("reasoning", ", ".join(f"{_code(block.open)} ... {_code(block.close)}" for block in fmt.reasoning)),
    ]
    for name, value in facts:
        if value:
            yield f"| {name} | {value} |"
    for engine, names in sorted(fmt.engine_names.items()):
        yield f"| in {engine} | {', '.join(f'`{name}`' for name in names)} |"
    yield from _list("What to know", fmt.quirks)
    yield from _list("Where engines disagree", fmt.disagreements)
    yield from _samples(fmt)
    yield ""
    yield "## Declaration"
    yield ""
    yield from _fenced("\n".join(declaration_lines(fmt)))


def _samples(fmt: unspool.Format) -> Iterator[str]:
    yield ""
    yield "## Samples"
    for case, tail, raw in samples(fmt):
        yield ""
        yield f"{case[:1].upper()}{case[1:]}" + (f", after {_code(tail)}:" if tail else ":")
        yield ""
        yield from _fenced(raw)


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    items = list(items)
    if items:
        yield ""
        yield f"## {title}"
        yield ""
        yield from (f"* {_text(item)}" for item in items)


def _fenced(text: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield f"{fence}text"
    yield text
    yield fence


def _code(text: str) -> str:
    """Text as code inside a line or a table: what can't stand there is shown escaped."""
    if not text:
        return ""
    text = text.replace("\n", "\\n").replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _text(text: str) -> str:
    """Prose in which markup is meant literally."""
    return text.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")
