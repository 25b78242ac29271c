"""The predecessor of response templates, ``response_schema``, as a template.

Such a schema is a tree over the finished message: each directive (``x-regex`` and its kin) picks a part of the
text that the directive above it picked. That works on whole texts only. Where a tree says the same as regions do,
which is how checkpoints use it, it becomes a template; anything else is a :class:`ResponseTemplateError` that
names the directive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from unspool.formats.response_fields import ResponseTemplateError, check_keys, kind_of
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
    width,
)

_STANDARD = ("type", "const", "default", "properties", "items", "additionalProperties", "required", "description")
_FUNCTION = r"type: ?'function', ?function: ?"
_WHOLE = re.compile(rf"(?P<list>\[?)\{{ ?{_FUNCTION}@ ?\}}\]?")
_MEMBERS = re.compile(
    rf"(?P<list>\[?|\[\*\]\.)\{{ ?{_FUNCTION}"
    r"\{ ?name: ?(?P<name>\w+), ?arguments: ?(?P<arguments>\w+) ?\} ?\}\]?"
)
_GROUP = re.compile(r"(?<!\\)\((?!\?)")
_GEMMA_QUOTE = '<|"|>'

Json = dict[str, Any]


def template_of(schema: Any) -> Json:
    """The response template that reads outputs as the schema does."""
    where = "response_schema"
    properties = _properties(where, schema, ("x-regex",))
    fields: dict[str, Json] = {}
    parts = dict(_parts(f"{where}.x-regex", schema["x-regex"])) if "x-regex" in schema else {}
    for name, inner in properties.items():
        if name == "role":
            continue
        place = f"{where}.properties.{name}"
        kind = kind_of(name, place)
        if not isinstance(inner, Mapping):
            raise _refused(place, "it is no object")
        field, inside = _field(place, inner, parts.get(name))
        if kind == "calls":
            _add_calls(place, inner, field, inside)
        fields[name] = field
    # Such a schema does not know of prompts.
    return {"start_anchor_pattern": "(?!)", "fields": fields}


def _refused(where: str, why: str) -> ResponseTemplateError:
    return ResponseTemplateError(
        f"{where}: {why}, so this response_schema can't be read while the text still comes. Ask for a checkpoint "
        "with a response_template, or name the format instead ('unspool formats' lists them)"
    )


def _properties(where: str, schema: Any, directives: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise _refused(where, "it has no properties")
    check_keys(where, schema, _STANDARD + directives)
    found: Mapping[str, Any] = schema["properties"]
    return found


def _parse(where: str, source: Any) -> Expression:
    if not isinstance(source, str):
        raise _refused(where, f"{source!r} is no regular expression")
    try:
        # At the start of its text: what matches there or after an opener has an opener that may be missing.
        return parse(source.removeprefix("^").replace("(?:^|", "(?:|"))
    except ExpressionError as why:
        raise _refused(where, str(why)) from None


def _source(expression: Expression) -> str:
    return ended(expression, bounded=False)


def _with_group(source: Any, name: str = "value") -> Any:
    """The first unnamed group under a name."""
    return _GROUP.sub(f"(?P<{name}>", source, count=1) if isinstance(source, str) else source


def _any_text(expression: Expression) -> bool:
    """Whether it is any text, at most without some markers in it."""
    match expression:
        case (Repeat((*looks, Class(".")), _, None),):
            return all(isinstance(look, Look) and look.negated for look in looks)
        case (Repeat((Class(),) as item, _, None),):
            return single(Repeat(item, 0, None)) in (r"[\s\S]", r"[\S\s]")
    return False


def _parts(where: str, source: Any) -> Iterator[tuple[str, tuple[Expression, Expression, Expression]]]:
    """For each named group: what stands before it, what it is, what stands behind it.

    A group with markers of its own stands in an option; one without takes what the others leave.
    """
    nodes = _parse(where, source)
    for number, node in enumerate(nodes):
        match node:
            case Group(item, name) | Repeat((Group(item, name),), 0, 1) if name:
                yield name, ((), item, _ends(nodes[number + 1 :]))
            case Repeat(item, 0, 1) if names(item):
                place = next((n for n, inner in enumerate(item) if isinstance(inner, Group) and inner.name), None)
                if place is None:
                    raise _refused(where, f"the group {min(names(item))!r} is nested too deeply")
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


def _field(
    where: str, schema: Mapping[str, Any], part: tuple[Expression, Expression, Expression] | None
) -> tuple[Json, Expression]:
    """The field's delimiters, and what its text must be besides."""
    directive = next((key for key in ("x-regex-iterator", "x-regex") if key in schema), None)
    if directive is not None and (part is None or not _any_text(part[1])):
        parts = dict(_parts(f"{where}.{directive}", f"(?:{_with_group(schema[directive])})?"))
        own = parts.get("value")
        if own is None:
            raise _refused(f"{where}.{directive}", "it has no group for the text")
        part = own
    elif part is None:
        raise _refused(where, "nothing says where its text is")
    elif directive is not None and schema[directive] not in ("^(.*)$", "(.*)"):
        raise _refused(f"{where}.{directive}", "it picks from a text that a group has picked")
    before, inside, after = part
    field: Json = {"repeats": directive == "x-regex-iterator"}
    if before and not width(before)[0]:
        # The opener may be missing: then only the closer says that the text began in this region.
        field["open_pattern"] = rf"(?=[\s\S]*?{_source(tuple(n for n in after if isinstance(n, Text)))})"
    elif before:
        field["open_pattern"] = _source(before)
    if after:
        field["close_pattern"] = _source(after)
    return field, inside


def _add_calls(where: str, schema: Mapping[str, Any], field: Json, inside: Expression) -> None:
    """How the text of the calls' region is read."""
    check_keys(where, schema, (*_STANDARD, "x-regex", "x-regex-iterator", "x-parser", "x-parser-args"))
    field["repeats"] = True
    if "x-parser" in schema:
        _json_content(where, schema, field)
        return
    items = schema.get("items")
    if not isinstance(items, Mapping):
        raise _refused(where, "nothing says how a call is read")
    where += ".items"
    if "x-parser" in items:
        _json_content(where, items, field)
        return
    function = _properties(where, items, ()).get("function")
    where += ".properties.function"
    members = _properties(where, function, ("x-regex",))
    assert isinstance(function, Mapping)
    field["transform"] = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    arguments = members.get("arguments")
    if not isinstance(arguments, Mapping):
        raise _refused(f"{where}.properties.arguments", "it is no object")
    if "x-regex" in function:
        nodes = _parse(f"{where}.x-regex", function["x-regex"])
        place = next(
            (n for n, node in enumerate(nodes) if isinstance(node, Group) and node.name == "arguments"), None
        )
        if place is None or "name" not in names(nodes[:place]):
            raise _refused(f"{where}.x-regex", "it has no group 'name' before a group 'arguments'")
        field["open_pattern"] += _source(nodes[:place])
        field["close_pattern"] = _source(nodes[place + 1 :]) + field.get("close_pattern", "")
        _arguments_parser(f"{where}.properties.arguments", arguments, field)
        return
    name = members.get("name")
    if not isinstance(name, Mapping) or not isinstance(name.get("x-regex"), str):
        raise _refused(f"{where}.properties.name", "nothing says where the name is")
    named = _source(_parse(f"{where}.properties.name.x-regex", _with_group(name["x-regex"], "name")))
    gap = r"\s*" if _any_text(inside) else ""
    if "x-regex-key-value" in arguments:
        field["open_pattern"] += gap + named
        field["content"] = "xml-inline"
        field["content_args"] = {"tag_pattern": arguments["x-regex-key-value"]}
        value = arguments.get("additionalProperties")
        if isinstance(value, Mapping) and "x-parser" in value:
            if value["x-parser"] != "json":
                at = f"{where}.properties.arguments.additionalProperties.x-parser"
                raise _refused(at, f"{value['x-parser']!r} is not understood; only 'json' is")
            lenient = (value.get("x-parser-args") or {}).get("allow_non_json", False)
            field["content_args"]["value_parser"] = {"name": "json", "args": {"allow_non_json": lenient}}
        return
    where += ".properties.arguments"
    found = dict(_parts(f"{where}.x-regex", f"(?:{_with_group(arguments.get('x-regex', '(.*)'))})?"))
    before, _, _ = found.get("value", ((), (), ()))
    field["open_pattern"] += gap + named + (".*?" if before else "") + _source(before)
    _arguments_parser(where, arguments, field)


def _arguments_parser(where: str, schema: Mapping[str, Any], field: Json) -> None:
    parser = schema.get("x-parser")
    if parser not in ("json", "gemma4-tool-call"):
        raise _refused(
            f"{where}.x-parser", f"{parser!r} is not understood; only 'json' and 'gemma4-tool-call' are"
        )
    field["content"] = "json"
    if parser == "gemma4-tool-call":
        field["content_args"] = {"unquoted_keys": True, "string_delims": [[_GEMMA_QUOTE, _GEMMA_QUOTE]]}


def _json_content(where: str, schema: Mapping[str, Any], field: Json) -> None:
    """A region that is JSON, with the call made of it by one of the usual expressions."""
    _arguments_parser(where, schema, field)
    args = schema.get("x-parser-args") or {}
    transform = args.get("transform") if isinstance(args, Mapping) else None
    if transform is None:
        field["transform"] = "{content}"
        return
    text = re.sub(r"\s+", " ", transform.strip()) if isinstance(transform, str) else ""
    if whole := _WHOLE.fullmatch(text):
        function: Any = "{content}"
        each = False
    elif whole := _MEMBERS.fullmatch(text):
        each = whole["list"] == "[*]."
        prefix = "" if each else "content."
        function = {"name": f"{{{prefix}{whole['name']}}}", "arguments": f"{{{prefix}{whole['arguments']}}}"}
    else:
        raise _refused(f"{where}.x-parser-args.transform", f"{json.dumps(transform)} is none of the usual forms")
    field["transform_each"] = each
    field["transform"] = {"type": "function", "function": function}
