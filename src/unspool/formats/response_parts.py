"""What a regular expression of a response schema picks: named groups, and the markers around each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unspool.formats.response_fields import ResponseTemplateError
from unspool.parsing.expressions import (
    Choice,
    Class,
    Edge,
    Expression,
    ExpressionError,
    Group,
    Look,
    Repeat,
    Text,
    ended,
    names,
    parse,
    single,
)

_GROUP = re.compile(r"(?<!\\)\((?!\?)")


def refused(where: str, why: str) -> ResponseTemplateError:
    """The complaint about a directive that regions can't say."""
    return ResponseTemplateError(
        f"{where}: {why}, so this response_schema can't be read while the text still comes. Ask for a checkpoint "
        "with a response_template, or name the format instead ('unspool formats' lists them)"
    )


def parsed(where: str, source: Any) -> Expression:
    """A directive's regular expression."""
    if not isinstance(source, str):
        raise refused(where, f"{source!r} is no regular expression")
    try:
        # At the start of its text: what matches there or after an opener has an opener that may be missing.
        return parse(source.removeprefix("^").replace("(?:^|", "(?:|"))
    except ExpressionError as why:
        raise refused(where, str(why)) from None


def source_of(expression: Expression) -> str:
    """The regular expression again."""
    return ended(expression, bounded=False)


def with_group(source: Any, name: str = "value") -> Any:
    """The first unnamed group under a name."""
    return _GROUP.sub(f"(?P<{name}>", source, count=1) if isinstance(source, str) else source


def any_text(expression: Expression) -> bool:
    """Whether it is any text, at most without some markers in it."""
    match expression:
        case (Repeat((*looks, Class(".")), _, None),):
            return all(isinstance(look, Look) and look.negated for look in looks)
        case (Repeat((Class(),) as item, _, None),):
            return single(Repeat(item, 0, None)) in (r"[\s\S]", r"[\S\s]")
    return False


def parts_of(where: str, source: Any) -> Iterator[tuple[str, tuple[Expression, Expression, Expression]]]:
    """For each named group: what stands before it, what it is, what stands behind it.

    A group with markers of its own stands in an option; one without takes what the others leave.
    """
    nodes = parsed(where, source)
    for number, node in enumerate(nodes):
        match node:
            case Group(item, name) | Repeat((Group(item, name),), 0, 1) if name:
                yield name, ((), item, _ends(nodes[number + 1 :]))
            case Repeat(item, 0, 1) if names(item):
                place = next((n for n, inner in enumerate(item) if isinstance(inner, Group) and inner.name), None)
                if place is None:
                    raise refused(where, f"the group {min(names(item))!r} is nested too deeply")
                group = item[place]
                assert isinstance(group, Group)
                yield group.name, (item[:place], group.item, item[place + 1 :])


def _ends(nodes: Expression) -> Expression:
    """The markers that may stand behind the last text."""
    found: list[Expression] = []
    for node in nodes:
        match node:
            case Choice(options):
                found += [option for option in options if not any(isinstance(inner, Edge) for inner in option)]
            case Repeat(item, 0, 1) if not names(item):
                found.append(item)
            case Text():
                found.append((node,))
    return () if not found else found[0] if len(found) == 1 else (Choice(tuple(found)),)
