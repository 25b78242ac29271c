"""A format's page in the docs, made from its declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import unspool
from unspool.cli.formats import declaration_lines
from unspool.formats import samples
from unspool.parsing import declaration

_SHAPES: dict[type | None, str] = {
    declaration.JsonCalls: "A JSON object with name and arguments",
    declaration.NamedCalls: "A name, then its arguments as one value",
    declaration.TaggedCalls: "An element a parameter, its value as text",
    declaration.ElementCalls: "Elements nested as the arguments are",
    declaration.PythonCalls: "Python calls",
    declaration.ChannelCalls: "Messages whose header says what they are",
    declaration.RegionCalls: "A checkpoint's response template",
    type(None): "No calls",
}
_VERSIONS = "As of vLLM 0.33 and SGLang 0.5, and of the others at that time."


def page(fmt: unspool.Format) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(fmt)) + "\n"


def index(formats: Iterable[unspool.Format]) -> str:
    """The page that lists all pages by the shape of their calls, as Markdown."""
    formats = list(formats)
    lines = [
        "# Formats",
        "",
        f"One page a format, {len(formats)} in all, made from the declarations by `make docs`. Any name or alias",
        "goes after `-f`, into `unspool.get_format` and into `unspool serve --format`;",
        "[detection](../detection.md) tells which one a checkpoint writes. What holds for all of them is in",
        "[policies](../policies.md).",
    ]
    for shape, title in _SHAPES.items():
        lines += _group(title, [fmt for fmt in formats if type(fmt.calls) is shape])
    return "\n".join(lines) + "\n"


def _group(title: str, formats: list[unspool.Format]) -> Iterator[str]:
    if formats:
        yield from ("", f"## {title}", "", "| format | what it looks like | models |", "|---|---|---|")
    for fmt in formats:
        models = ", ".join(fmt.models[:2]) + (", ..." if len(fmt.models) > 2 else "")
        yield f"| [{fmt.name}]({fmt.name}.md) | {_cell(fmt.summary)} | {models} |"


def _lines(fmt: unspool.Format) -> Iterator[str]:
    yield f"# {fmt.name}"
    yield ""
    yield f"{_text(fmt.summary[:1].upper() + fmt.summary[1:])}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    facts = [
        ("models", ", ".join(fmt.models)),
        ("other names", ", ".join(map(_code, fmt.aliases))),
        ("taken from", _text(fmt.source)),
        ("prompt ends with", _code("".join(fmt.turns[:1]) + fmt.start)),
        ("ends a turn", " ".join(map(_code, fmt.stops))),
        ("reasoning", ", ".join(f"{_code(block.open)} ... {_code(block.close)}" for block in fmt.reasoning)),
    ]
    for name, value in facts:
        if value:
            yield f"| {name} | {_escaped(value)} |"
    for engine, names in sorted(fmt.engine_names.items()):
        yield f"| in {engine} | {', '.join(map(_code, names))} |"
    yield from _list("What to know", fmt.quirks)
    yield from _list("Where engines disagree", fmt.disagreements, _VERSIONS)
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


def _list(title: str, items: Iterable[str], about: str = "") -> Iterator[str]:
    items = list(items)
    if items:
        yield from ("", f"## {title}", "")
        if about:
            yield from (about, "")
        yield from (f"* {_text(item)}" for item in items)


def _fenced(text: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield f"{fence}text"
    yield text
    yield fence


def _code(text: str) -> str:
    """Text as code inside a line: a newline, which can't stand there, is shown escaped."""
    if not text:
        return ""
    fence = "``" if "`" in text else "`"
    return fence + text.replace("\n", "\\n") + fence


def _text(text: str) -> str:
    """Prose in which markup is meant literally."""
    return text.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[")


def _cell(text: str) -> str:
    return _escaped(_text(text))


def _escaped(text: str) -> str:
    """Markdown as a table's cell can hold it."""
    return text.replace("|", "\\|")
