"""The predecessor of response templates, ``response_schema``, as a template.

Such a schema is a tree over the finished message: each directive (``x-regex`` and its kin) picks a part of the
text that the directive above it picked. That works on whole texts only. Where a tree says the same as regions do,
which is how checkpoints use it, it becomes a template; anything else is a :class:`ResponseTemplateError` that
names the directive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from unspool.formats.response_fields import check_keys, kind_of
from unspool.formats.response_parts import any_text, parsed, parts_of, refused, source_of, with_group
from unspool.parsing.expressions import Expression, Group, Text, names, width

_STANDARD = ("type", "const", "default", "properties", "items", "additionalProperties", "required", "description")
_FUNCTION = r"type: ?'function', ?function: ?"
_WHOLE = re.compile(rf"(?P<list>\[?)\{{ ?{_FUNCTION}@ ?\}}\]?")
_MEMBERS = re.compile(
    rf"(?P<list>\[?|\[\*\]\.)\{{ ?{_FUNCTION}"
    r"\{ ?name: ?(?P<name>\w+), ?arguments: ?(?P<arguments>\w+) ?\} ?\}\]?"
)
_GEMMA_QUOTE = '<|"|>'

Json = dict[str, Any]


def template_of(schema: Any) -> Json:
    """The response template that reads outputs as the schema does."""
    where = "response_schema"
    properties = _properties(where, schema, ("x-regex",))
    fields: dict[str, Json] = {}
    parts = dict(parts_of(f"{where}.x-regex", schema["x-regex"])) if "x-regex" in schema else {}
    for name, inner in properties.items():
        if name == "role":
            continue
        place = f"{where}.properties.{name}"
        kind = kind_of(name, place)
        if not isinstance(inner, Mapping):
            raise refused(place, "it is no object")
        field, inside = _field(place, inner, parts.get(name))
        if kind == "calls":
            if "open_pattern" not in field:
                raise refused(place, "its calls have no opener")
            _add_calls(place, inner, field, inside)
        fields[name] = field
    # Such a schema does not know of prompts.
    return {"start_anchor_pattern": "(?!)", "fields": fields}


def _properties(where: str, schema: Any, directives: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise refused(where, "it has no properties")
    check_keys(where, schema, _STANDARD + directives)
    found: Mapping[str, Any] = schema["properties"]
    return found


def _field(
    where: str, schema: Mapping[str, Any], part: tuple[Expression, Expression, Expression] | None
) -> tuple[Json, Expression]:
    """The field's delimiters, and what its text must be besides."""
    directive = next((key for key in ("x-regex-iterator", "x-regex") if key in schema), None)
    if directive is not None and (part is None or not any_text(part[1])):
        parts = dict(parts_of(f"{where}.{directive}", f"(?:{with_group(schema[directive])})?"))
        own = parts.get("value")
        if own is None:
            raise refused(f"{where}.{directive}", "it has no group for the text")
        part = own
    elif part is None:
        raise refused(where, "nothing says where its text is")
    elif directive is not None and schema[directive] not in ("^(.*)$", "(.*)"):
        raise refused(f"{where}.{directive}", "it picks from a text that a group has picked")
    before, inside, after = part
    field: Json = {"repeats": directive == "x-regex-iterator"}
    if before and not width(before)[0]:
        # The opener may be missing: then only the closer says that the text began in this region.
        field["open_pattern"] = rf"(?=[\s\S]*?{source_of(tuple(n for n in after if isinstance(n, Text)))})"
    elif before:
        field["open_pattern"] = source_of(before)
    if after:
        field["close_pattern"] = source_of(after)
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
        raise refused(where, "nothing says how a call is read")
    where += ".items"
    if "x-parser" in items:
        _json_content(where, items, field)
        return
    function = _properties(where, items, ()).get("function")
    where += ".properties.function"
    members = _properties(where, function, ("x-regex",))
    assert isinstance(function, Mapping)
    field["transform"] = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    if "x-regex" in function:
        _add_header(where, function["x-regex"], members, field)
    else:
        _add_members(where, members, field, r"\s*" if any_text(inside) else "")


def _arguments(where: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = members.get("arguments")
    if not isinstance(arguments, Mapping):
        raise refused(f"{where}.properties.arguments", "it is no object")
    return arguments


def _add_header(where: str, source: Any, members: Mapping[str, Any], field: Json) -> None:
    """One expression picks the name and then the arguments."""
    nodes = parsed(f"{where}.x-regex", source)
    place = next((n for n, node in enumerate(nodes) if isinstance(node, Group) and node.name == "arguments"), None)
    if place is None or "name" not in names(nodes[:place]):
        raise refused(f"{where}.x-regex", "it has no group 'name' before a group 'arguments'")
    field["open_pattern"] += source_of(nodes[:place])
    field["close_pattern"] = source_of(nodes[place + 1 :]) + field.get("close_pattern", "")
    _arguments_parser(f"{where}.properties.arguments", _arguments(where, members), field)


def _add_members(where: str, members: Mapping[str, Any], field: Json, gap: str) -> None:
    """Name and arguments have an expression each; ``gap`` may stand before the name."""
    arguments = _arguments(where, members)
    name = members.get("name")
    if not isinstance(name, Mapping) or not isinstance(name.get("x-regex"), str):
        raise refused(f"{where}.properties.name", "nothing says where the name is")
    named = source_of(parsed(f"{where}.properties.name.x-regex", with_group(name["x-regex"], "name")))
    if "x-regex-key-value" in arguments:
        field["open_pattern"] += gap + named
        field["content"] = "xml-inline"
        field["content_args"] = {"tag_pattern": arguments["x-regex-key-value"]}
        value = arguments.get("additionalProperties")
        if isinstance(value, Mapping) and "x-parser" in value:
            if value["x-parser"] != "json":
                at = f"{where}.properties.arguments.additionalProperties.x-parser"
                raise refused(at, f"{value['x-parser']!r} is not understood; only 'json' is")
            field["content_args"]["value_parser"] = {"name": "json", "args": value.get("x-parser-args", {})}
        return
    where += ".properties.arguments"
    found = dict(parts_of(f"{where}.x-regex", f"(?:{with_group(arguments.get('x-regex', '(.*)'))})?"))
    before, _, _ = found.get("value", ((), (), ()))
    field["open_pattern"] += gap + named + (".*?" if before else "") + source_of(before)
    _arguments_parser(where, arguments, field)


def _arguments_parser(where: str, schema: Mapping[str, Any], field: Json) -> None:
    parser = schema.get("x-parser")
    if parser not in ("json", "gemma4-tool-call"):
        raise refused(f"{where}.x-parser", f"{parser!r} is not understood; only 'json' and 'gemma4-tool-call' are")
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
        raise refused(f"{where}.x-parser-args.transform", f"{json.dumps(transform)} is none of the usual forms")
    field["transform_each"] = each
    field["transform"] = {"type": "function", "function": function}
