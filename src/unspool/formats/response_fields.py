"""The parts of a response template, checked: fields, delimiters, content parsers, transforms, anchors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from unspool.parsing.contents import PLACEHOLDER
from unspool.parsing.declaration import RegionContent
from unspool.parsing.expressions import (
    Expression,
    ExpressionError,
    Look,
    Opaque,
    Repeat,
    Text,
    anything,
    check_streams,
    literals,
    names,
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
_PARSERS = ("text", "int", "float", "bool", "json", "xml-inline", "kv-lines", "python-call-list")
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "json": ("unquoted_keys", "string_delims", "allow_non_json", "strip"),
    "xml-inline": ("tag_pattern", "value_parser", "merge_duplicates"),
    "kv-lines": ("line_sep", "kv_sep", "value_parser", "strip"),
    "python-call-list": (),
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


def _one_of(where: str, spec: Mapping[str, Any], literal: str, regular: str) -> tuple[str, Any]:
    if literal in spec and regular in spec:
        raise ResponseTemplateError(f"{where} has both {literal} and {regular}; give one of them")
    key = literal if literal in spec else regular
    return key, spec.get(key)


def _texts(where: str, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ResponseTemplateError(
            f"{where} must be a text or a list of texts, none of them empty, not {value!r}"
        )
    return texts


def _expression(where: str, source: Any) -> Expression:
    if not isinstance(source, str):
        raise ResponseTemplateError(f"{where} must be a regular expression, not {source!r}")
    try:
        return parse(source)
    except ExpressionError as why:
        raise ResponseTemplateError(f"{where}: {why}") from None


def region_expression(where: str, field: Mapping[str, Any], end: Literal["open", "close"]) -> Expression:
    """What opens or closes a region; empty if nothing is given, or only the end of the text."""
    key, value = _one_of(where, field, end, f"{end}_pattern")
    if key not in field:
        return ()
    where = f"{where}.{key}"
    if key == end:
        return literals(_texts(where, value))
    expression = without_edges(_expression(where, value))
    try:
        check_streams(expression)
    except ExpressionError as why:
        raise ResponseTemplateError(f"{where}: {value!r}: {why}") from None
    looks = any(isinstance(node, Look) and not node.negated for node in walk(expression))
    alone = end == "close" and not ({"open", "open_pattern"} & field.keys())
    if (end == "open" or expression) and not width(expression)[0] and (not looks or alone):
        raise ResponseTemplateError(f"{where}: {value!r} may match no text at all; make it begin with some")
    return expression


def _whole_expression(where: str, source: Any) -> Expression:
    """An expression for use on whole texts only, which may be any that Python understands."""
    if not isinstance(source, str):
        raise ResponseTemplateError(f"{where} must be a regular expression, not {source!r}")
    try:
        return parse_or_keep(source)
    except ExpressionError as why:
        raise ResponseTemplateError(f"{where}: {why}") from None


def look_ahead(source: Any) -> str:
    """The text that an opener looks for, however far ahead, without any text of its own; ``""`` for others."""
    try:
        expression = parse(source) if isinstance(source, str) else ()
    except ExpressionError:
        return ""
    match expression:
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
        return tuple(_texts(where, value)), ()
    return (), _whole_expression(where, value)


def content_of(where: str, kind: Kind, field: Mapping[str, Any]) -> RegionContent:
    """How the text of a field is read."""
    parser = field.get("content", "text")
    if kind != "calls" and parser != "text":
        raise ResponseTemplateError(
            f"{where}.content is {parser!r}; {kind} is text that streams, so only 'text' is understood here"
        )
    return _content(f"{where}.content", f"{where}.content_args", parser, field.get("content_args", {}))


def _content(where: str, where_args: str, parser: Any, args: Any) -> RegionContent:
    if parser not in _PARSERS:
        raise ResponseTemplateError(f"{where}: there is no content parser {parser!r}, only {', '.join(_PARSERS)}")
    if not isinstance(args, Mapping):
        raise ResponseTemplateError(f"{where_args} must be an object, not {type(args).__name__}")
    check_keys(where_args, args, _ARGUMENTS.get(parser, ("strip",)))
    for key in ("strip", "unquoted_keys", "allow_non_json", "merge_duplicates"):
        if not isinstance(args.get(key, False), bool):
            raise ResponseTemplateError(f"{where_args}.{key} must be true or false, not {args[key]!r}")
    for key in ("line_sep", "kv_sep"):
        if key in args:
            _texts(f"{where_args}.{key}", args[key])
    return RegionContent(
        parser=parser,
        strip=args.get("strip", True),
        unquoted_keys=args.get("unquoted_keys", False),
        string_delims=_delimiters(f"{where_args}.string_delims", args.get("string_delims", [])),
        allow_non_json=args.get("allow_non_json", False),
        tag=_tag(f"{where_args}.tag_pattern", args.get("tag_pattern")) if parser == "xml-inline" else (),
        merge_duplicates=args.get("merge_duplicates", False),
        line_sep=args.get("line_sep", "\n"),
        kv_sep=args.get("kv_sep", ":"),
        value=_value(f"{where_args}.value_parser", args.get("value_parser")),
    )


def _delimiters(where: str, pairs: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ResponseTemplateError(f"{where} must be a list of pairs of texts, not {pairs!r}")
    return tuple((opening, closing) for opening, closing in (_texts(where, pair) for pair in pairs))


def _tag(where: str, source: Any) -> Expression:
    tag = _whole_expression(where, source)
    has_key = b"(?P<key>" in tag[0].source if tag and isinstance(tag[0], Opaque) else "key" in names(tag)
    if not has_key:
        raise ResponseTemplateError(f"{where}: {source!r} has no group 'key'")
    return tag


def _value(where: str, parser: Any) -> RegionContent | None:
    if parser is None:
        return None
    if not isinstance(parser, Mapping):
        raise ResponseTemplateError(f"{where} must be an object, not {type(parser).__name__}")
    check_keys(where, parser, ("name", "args"))
    if parser.get("name") == "python-call-list":
        raise ResponseTemplateError(f"{where}.name: a list of calls is no value of an argument")
    return _content(f"{where}.name", f"{where}.args", parser.get("name", "text"), parser.get("args", {}))


def transform_of(
    where: str, kind: Kind, field: Mapping[str, Any], opening: Expression, closing: Expression
) -> str:
    """The template of a call as JSON text, ``""`` for none."""
    transform = field.get("transform")
    each = field.get("transform_each", False)
    groups = names(opening) | names(closing)
    where = f"{where}.transform"
    if transform is None:
        if each:
            raise ResponseTemplateError(f"{where}_each needs a transform")
        if groups:
            raise ResponseTemplateError(
                f"{where} is missing: the group {min(groups)!r} reaches nothing without one"
            )
        return ""
    if kind != "calls":
        if transform != "{content}":
            raise ResponseTemplateError(f"{where}: {kind} is text that streams and can't be transformed")
        return ""
    for text in _strings(transform):
        found = PLACEHOLDER.fullmatch(text)
        if found is None and PLACEHOLDER.search(text):
            raise ResponseTemplateError(f"{where}: {text!r} mixes a placeholder with text; use one or the other")
        if found and not each and found.group(1).split(".")[0] not in {"content", *groups}:
            raise ResponseTemplateError(f"{where}: {text!r} is neither the content nor a group of a pattern")
    function = transform.get("function", transform) if isinstance(transform, Mapping) else transform
    if function != "{content}" and not (
        isinstance(function, Mapping) and {"name", "arguments"} <= function.keys()
    ):
        raise ResponseTemplateError(f"{where} makes no call: a call has a function with name and arguments")
    if field.get("content") == "python-call-list" and function != {"name": "{name}", "arguments": "{arguments}"}:
        raise ResponseTemplateError(f"{where}: the calls of a python-call-list are {{name}} and {{arguments}}")
    return json.dumps(transform, ensure_ascii=False)


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
