"""An explained text as one HTML page that needs nothing else: no script, no font, no request.

The raw text is model output, hence untrusted: every piece of it is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

import unspool
from unspool.cli.output import visible
from unspool.cli.pieces import KINDS, shown, summary

_PAGE = Template(
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2126; --line: #d5dade; --soft: #5b656e; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.25rem; }
pre, td.text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .875rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem; border: 1px solid var(--line);
      border-radius: .5rem; line-height: 1.65; }
pre span, .legend span, td.kind span { border-radius: .2rem; padding: .1em 0; }
.legend span, td.kind span { padding: .1em .45em; }
.legend { display: flex; flex-wrap: wrap; gap: .35rem 1.25rem; margin: 0; padding: 0; list-style: none;
          color: var(--soft); }
.hint { border-left: .25rem solid #c62828; padding: .5rem .75rem; }
table { border-collapse: collapse; width: 100%; margin-top: 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;
         border-bottom: 1px solid var(--line); }
td.at { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.kind { white-space: nowrap; }
td.text { overflow-wrap: anywhere; }
a { color: inherit; }
pre span:target { outline: 2px solid #e65100; }
$light
@media (prefers-color-scheme: dark) {
:root { --page: #14171a; --ink: #e4e8eb; --line: #353b41; --soft: #9aa4ad; }
$dark
}
</style>
</head>
<body>
<main>
<h1>$title</h1>
<ul class="legend">
$legend
</ul>
<pre>
$text</pre>
$hint
<table>
<thead><tr><th>characters</th><th>became</th><th>text</th><th>why</th></tr></thead>
<tbody>
$rows
</tbody>
</table>
</main>
</body>
</html>
"""
)


def render(format_name: str, raw: str, pieces: Sequence[unspool.Span], hint: str | None) -> str:
    """The page for one text; ``hint`` is the sentence about a lost call, if there is one."""
    return _PAGE.substitute(
        title=escape(f"unspool explain -f {format_name}"),
        light="\n".join(f".{name} {{ {kind.light} }}" for name, kind in KINDS.items()),
        dark="\n".join(f".{name} {{ {kind.dark} }}" for name, kind in KINDS.items()),
        legend="\n".join(
            f'<li><span class="{name}">{kind.label}</span> {kind.meaning}</li>' for name, kind in KINDS.items()
        ),
        # The parser of HTML drops one newline right after <pre>, hence the one in the template.
        text="".join(_piece(number, raw, piece) for number, piece in enumerate(pieces)),
        hint="" if hint is None else f'<p class="hint">{escape(visible(hint))}</p>',
        rows="\n".join(_row(number, raw, piece) for number, piece in enumerate(pieces)),
    )


def _piece(number: int, raw: str, piece: unspool.Span) -> str:
    text = escape(shown(raw[piece.start : piece.end], piece.kind))
    note = escape(visible(f"{KINDS[piece.kind].label}: {piece.note}"))
    return f'<span id="p{number}" class="{piece.kind}" title="{note}">{text}</span>'


def _row(number: int, raw: str, piece: unspool.Span) -> str:
    label = KINDS[piece.kind].label
    text = escape(summary(raw[piece.start : piece.end]))
    return (
        f'<tr><td class="at"><a href="#p{number}">{piece.start}-{piece.end}</a></td>'
        f'<td class="kind"><span class="{piece.kind}">{label}</span></td>'
        f'<td class="text">{text}</td><td>{escape(visible(piece.note))}</td></tr>'
    )
