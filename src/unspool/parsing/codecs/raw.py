"""Arguments as free text: the body of a call, up to its closer, as one string."""

from __future__ import annotations

from functools import lru_cache

from unspool.parsing.codecs.json import escape, quote
from unspool.parsing.reader import Reader
from unspool.parsing.scanner import Watch
from unspool.parsing.signals import Steps, Unfinished


@lru_cache(maxsize=256)
def _closer(pad: str, close: str) -> Watch:
    return Watch((pad, (close,)))


def raw_text(r: Reader, member: str, pad: str, close: str) -> Steps[None]:
    """Says the text up to ``close``, and the layout before that, as ``{member: text}``; the cursor stays there."""
    watch = _closer(pad, close)
    r.arguments("{" + quote(member) + ': "')
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if end > r.pos:
            r.arguments(escape(r.spell(r.take(end, "arguments", "text"))))
        if found and found.lastindex:
            r.arguments('"}')
            return
        if r.final:
            raise Unfinished("the text ends inside the arguments")
        if found:
            r.wait_for(watch)
        else:
            r.flow(watch.stop, r.arguments_sink(escape))
        yield
