"""How the text of a response template's field is read, checked: content parsers and transforms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unspool.formats.response_fields import (
    Kind,
    ResponseTemplateError,
    check_keys,
    expression,
    texts,
    texts_in,
)
from unspool.parsing.contents import PLACEHOLDER
from unspool.parsing.declaration import RegionContent
from unspool.parsing.expressions import Expression, Opaque, names, parse_or_keep

_PARSERS = ("text", "int", "float", "bool", "json", "xml-inline", "kv-lines", "python-call-list")
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "json": ("unquoted_keys", "string_delims", "allow_non_json", "strip"),
    "xml-inline": ("tag_pattern", "value_parser", "merge_duplicates"),
    "kv-lines": ("line_sep", "kv_sep", "value_parser", "strip"),
    "python-call-list": (),
}


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
        if key in args and not (isinstance(args[key], str) and args[key]):
            raise ResponseTemplateError(f"{where_args}.{key} must be a text that is not empty, not {args[key]!r}")
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
    return tuple((opening, closing) for opening, closing in (texts(where, pair) for pair in pairs))


def _tag(where: str, source: Any) -> Expression:
    tag = expression(where, source, parse_or_keep)
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
    for text in texts_in(transform):
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
