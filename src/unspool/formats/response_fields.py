"""The parts of a response template, checked: members, fields, delimiters, anchors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from unspool.parsing.expressions import (
    Expression,
    ExpressionError,
    Look,
    Repeat,
    Text,
    anything,
    check_streams,
    literals,
    parse,
    parse_or_keep,
    walk,
    width,
    without_edges,
)

Kind = Literal["reasoning", "content", "calls"]

_KINDS: dict[str, Kind] = {
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_content": "reasoning",
    "content": "content",
    "tool_calls": "calls",
}


class ResponseTemplateError(ValueError):
    """A response template can't be used; the text names the member, the reason and what to do."""


def check_keys(where: str, found: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises for members that mean nothing."""
    unknown = sorted(set(map(str, found)) - set(known))
    if unknown:
        raise ResponseTemplateError(f"{where} has no {unknown[0]!r}; it may have {', '.join(known)}")


def check_defaults(defaults: Any) -> None:
    """Defaults can't say more than that the message is the assistant's, or that something is absent."""
    if not isinstance(defaults, Mapping):
        raise ResponseTemplateError(f"response_template.defaults must be an object, not {type(defaults).__name__}")
    for key, value in defaults.items():
        if key != "role" and not (key in _KINDS and value in (None, "", [])):
            raise ResponseTemplateError(
                f"response_template.defaults.{key}: a message has no such default; remove it from the template"
            )


def kind_of(name: str, where: str) -> Kind:
    """What a field of that name is."""
    kind = _KINDS.get(name)
    if kind is None:
        raise ResponseTemplateError(
            f"{where}: a message has no {name!r}, so its text would be lost; fields are {', '.join(_KINDS)}. "
            "Rename or remove it, or name the format instead"
        )
    return kind


def texts_in(value: object) -> Iterator[str]:
    """Every text among the values of a JSON object, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def _one_of(where: str, spec: Mapping[str, Any], literal: str, regular: str) -> tuple[str, Any]:
    if literal in spec and regular in spec:
        raise ResponseTemplateError(f"{where} has both {literal} and {regular}; give one of them")
    key = literal if literal in spec else regular
    return key, spec.get(key)


def texts(where: str, value: Any) -> list[str]:
    """A text, or a list of texts, as a list."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(text, str) and text for text in found):
        raise ResponseTemplateError(
            f"{where} must be a text or a list of texts, none of them empty, not {value!r}"
        )
    return found


def expression(where: str, source: Any, read: Callable[[str], Expression] = parse) -> Expression:
    """A regular expression; with ``parse_or_keep`` any that Python understands, for use on whole texts only."""
    if not isinstance(source, str):
        raise ResponseTemplateError(f"{where} must be a regular expression, not {source!r}")
    try:
        return read(source)
    except ExpressionError as why:
        raise ResponseTemplateError(f"{where}: {why}") from None


def region_expression(where: str, field: Mapping[str, Any], end: Literal["open", "close"]) -> Expression:
    """What opens or closes a region; empty if nothing is given, or only the end of the text."""
    key, value = _one_of(where, field, end, f"{end}_pattern")
    if key not in field:
        return ()
    where = f"{where}.{key}"
    if key == end:
        return literals(texts(where, value))
    found = without_edges(expression(where, value))
    try:
        check_streams(found)
    except ExpressionError as why:
        raise ResponseTemplateError(f"{where}: {value!r}: {why}") from None
    looks = any(isinstance(node, Look) and not node.negated for node in walk(found))
    alone = end == "close" and not ({"open", "open_pattern"} & field.keys())
    if (end == "open" or found) and not width(found)[0] and (not looks or alone):
        raise ResponseTemplateError(f"{where}: {value!r} may match no text at all; make it begin with some")
    return found


def look_ahead(source: Any) -> str:
    """The text that an opener looks for, however far ahead, without any text of its own; ``""`` for others."""
    try:
        found = parse(source) if isinstance(source, str) else ()
    except ExpressionError:
        return ""
    match found:
        case (Look((Repeat() as ahead, Text(text)), False),) if anything(ahead) and ahead.least < 2:
            return text
    return ""


def opener_of(closer: str) -> Expression:
    """What opens the block that an XML-like text closes; empty if it is none."""
    return (Text(closer.replace("/", "", 1)),) if "/" in closer else ()


def anchors(template: Mapping[str, Any]) -> tuple[tuple[str, ...], Expression]:
    """What opens the model's turn in a prompt: texts, or an expression."""
    key, value = _one_of("response_template", template, "start_anchor", "start_anchor_pattern")
    if key not in template:
        raise ResponseTemplateError(
            "response_template has neither start_anchor nor start_anchor_pattern: give the text that opens the "
            "assistant's turn in a prompt"
        )
    where = f"response_template.{key}"
    if key == "start_anchor":
        return tuple(texts(where, value)), ()
    return (), expression(where, value, parse_or_keep)
