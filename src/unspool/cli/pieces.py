"""What an explained text consists of: the kinds of piece, their colours, and how whitespace is shown.

The terminal, the SVG and the HTML page are drawn from this one table, so they cannot tell different stories.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import unspool
from unspool.cli.output import visible


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of piece is named and drawn.

    ``style`` is a rich style. ``light`` and ``dark`` are the page's CSS declarations per colour scheme.
    """

    label: str
    meaning: str
    style: str
    light: str
    dark: str


KINDS = {
    "reasoning": Kind(
        "reasoning",
        "what the model thought",
        "italic magenta",
        "background: #efe6fd; color: #4b2a86",
        "background: #33264f; color: #d9c8fb",
    ),
    "content": Kind(
        "content",
        "the answer",
        "green",
        "background: #e3f4e6; color: #14532a",
        "background: #18361f; color: #bfe8c9",
    ),
    "name": Kind(
        "call name",
        "the tool that is called",
        "bold cyan reverse",
        "background: #0b6fa4; color: #ffffff; font-weight: 600",
        "background: #4db8e8; color: #07202e; font-weight: 600",
    ),
    "arguments": Kind(
        "arguments",
        "what it is called with",
        "yellow",
        "background: #fdf0c4; color: #5c4300",
        "background: #40340c; color: #f4dd8f",
    ),
    "framing": Kind(
        "framing",
        "markup, part of nothing",
        "dim",
        "background: #eceef0; color: #66707a",
        "background: #2b2f33; color: #8f99a3",
    ),
    "cut": Kind(
        "cut",
        "a call the end cut off: dropped",
        "red strike",
        "background: #fde0de; color: #96140d; text-decoration: line-through",
        "background: #4a1a17; color: #ffb4ae; text-decoration: line-through",
    ),
}


def merged(spans: Iterable[unspool.Span]) -> list[unspool.Span]:
    """The spans with each run of framing as one piece, whose note is the notes of its parts.

    Framing is explained marker by marker, quote by quote; people look for the pieces between it.
    """
    pieces: list[unspool.Span] = []
    for framing, run in groupby(spans, key=lambda span: span.kind == "framing"):
        parts = list(run)
        if framing:
            note = ", ".join(dict.fromkeys(part.note for part in parts))
            parts = [unspool.Span(parts[0].start, parts[-1].end, "framing", note)]
        pieces += parts
    return pieces


def shown(text: str, kind: str) -> str:
    """A piece as it is drawn: control characters as pictures; in framing, newlines and tabs as well.

    A drawn newline or tab is followed by the real one, so the layout stays that of the raw text.
    """
    text = visible(text)
    if kind != "framing":
        return text
    return text.replace("\n", "⏎\n").replace("\t", "→\t")


def summary(text: str, limit: int = 48) -> str:
    """A piece on one line of at most ``limit`` characters, its middle left out if it is longer.

    Newlines and tabs are drawn, and so are the spaces at both ends.
    """
    line = visible(text).replace("\n", "⏎").replace("\t", "→")
    inner = line.strip(" ")
    if not inner:
        line = "␣" * len(line)
    else:
        before, _, after = line.partition(inner)
        line = f"{'␣' * len(before)}{inner}{'␣' * len(after)}"
    if len(line) <= limit:
        return line
    head = limit * 2 // 3
    return f"{line[:head]}…{line[head - limit + 1 :]}"
