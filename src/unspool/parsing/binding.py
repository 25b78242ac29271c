"""Markers that differ from checkpoint to checkpoint: what each has of its own, found where it can be seen.

Some families end each marker with a suffix that only the tokenizer knows. Such a declaration has ``{suffix}`` in
its markers. It is bound once, when a parser is made or a message is written: to what the vocabulary has, else
to what the rendered prompt has, else to the declared default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from unspool.parsing.declaration import SUFFIX, Format, map_strings, strings
from unspool.parsing.scanner import pattern

_ANY = "(:[0-9A-Za-z_.-]{1,64})"


def bound(fmt: Format, *, vocabulary: Iterable[str] = (), prompt: str | None = None) -> Format:
    """The format with the checkpoint's suffix in its markers; the same format if it has none.

    ``vocabulary`` holds the special tokens' texts. The last marker of the prompt counts. A suffix is a colon with
    at most 64 letters, digits, dots, dashes and underscores behind it, or nothing.
    """
    if fmt.suffix is None:
        return fmt
    marks = [mark for mark in dict.fromkeys(strings(fmt)) if SUFFIX in mark]
    if not marks:
        return fmt
    search = pattern("|".join(re.escape(mark).replace(re.escape(SUFFIX), _ANY) for mark in marks))
    for text in (*vocabulary, prompt or ""):
        if found := list(search.finditer(text)):
            suffix = next(filter(None, found[-1].groups()))
            break
    else:
        suffix = fmt.suffix
    return map_strings(replace(fmt, suffix=None), {SUFFIX: suffix})
