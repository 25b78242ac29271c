"""What a request holds the content to, under every spelling that clients have for it.

Each field demands the same few things: a JSON object, a schema, a regular expression, one of some texts, a
grammar. Two of them at once contradict each other, so that is an error which names both.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.fields import Fields

log = logging.getLogger(__name__)

Kind: TypeAlias = Literal["json_object", "json_schema", "regex", "choice", "lark", "ebnf"]


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """What the content is held to.

    ``value`` is the schema, the pattern, the texts to choose from or the grammar. ``param`` is the dotted path of
    the field that says so. ``strict`` false offers a schema: what of it can't be enforced is left out.
    """

    kind: Kind
    param: str
    value: Any = None
    strict: bool = True


def decode_output_format(body: Fields) -> OutputFormat | None:
    """The format that a chat completion asks for; ``None`` if any text will do.

    Raises :class:`InvalidRequestError` for a wrong field, and for two that hold the content to something.
    """
    found: list[tuple[str, OutputFormat]] = []
    response_format = body.fields("response_format")
    if response_format is not None and (format_ := read_response_format(response_format)) is not None:
        found.append(("response_format", format_))
    if body.get("structural_tag"):
        raise _structural_tag("structural_tag")
    outputs = body.fields("structured_outputs")
    if outputs is not None and outputs.body:
        found.append(("structured_outputs", _structured_outputs(outputs)))
    for name, read in _FIELDS.items():
        value = body.get(name)
        # 0 is no false.
        if not any(value == empty and type(value) is type(empty) for empty in (None, *_EMPTY[read])):
            found.append((name, read(body, name)))
    if len(found) > 1:
        raise _twice(found[0][0], found[1][0])
    return found[0][1] if found else None


def read_response_format(shape: Fields) -> OutputFormat | None:
    """An object with a ``type``: ``text``, ``json_object``, or ``json_schema`` with the schema below or beside it.

    Chat Completions nests the schema under the type's own name; its younger siblings do not.
    """
    kind = shape.required_string("type")
    if kind == "text":
        return None
    if kind == "json_object":
        # llama.cpp's spelling of a schema.
        return _schema(shape, "schema") if shape.get("schema") else OutputFormat("json_object", shape.path)
    if kind == "structural_tag":
        raise _structural_tag(shape.path)
    if kind != "json_schema":
        raise shape.wrong("type", "one of text, json_object, json_schema")
    holder = shape.fields("json_schema") or shape
    holder.string("name")
    if holder.get("schema") is None:
        raise (holder if holder is not shape else Fields({}, shape.at("json_schema"))).missing("schema")
    return _schema(holder, "schema", strict=holder.boolean("strict") is not False)


def _schema(fields: Fields, name: str, *, strict: bool = True) -> OutputFormat:
    """A schema: an object, a truth value, or either as JSON text."""
    value = fields.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise fields.wrong(name, "a JSON Schema, as an object or as JSON text") from None
    if not isinstance(value, Mapping | bool):
        raise fields.wrong(name, "a JSON Schema, as an object or as JSON text")
    return OutputFormat("json_schema", fields.at(name), value, strict)


def _regex(fields: Fields, name: str) -> OutputFormat:
    return OutputFormat("regex", fields.at(name), fields.required_string(name))


def _choice(fields: Fields, name: str) -> OutputFormat:
    options = fields.items(name) or []
    if not options or not all(isinstance(option, str) and option for option in options):
        raise fields.wrong(name, "a list of texts, none of them empty")
    return OutputFormat("choice", fields.at(name), tuple(options))


def _grammar(fields: Fields, name: str) -> OutputFormat:
    """A grammar in either notation; only EBNF defines its rules with ``::=``."""
    text = fields.required_string(name)
    return OutputFormat("ebnf" if "::=" in text else "lark", fields.at(name), text)


_FIELDS: Mapping[str, Callable[[Fields, str], OutputFormat]] = {
    "guided_json": _schema,
    "guided_regex": _regex,
    "guided_choice": _choice,
    "guided_grammar": _grammar,
    "json_schema": _schema,
    "regex": _regex,
    "ebnf": _grammar,
    "grammar": _grammar,
}
"""Fields of the request itself: vLLM's older ones, then those of SGLang and llama.cpp."""

_EMPTY: Mapping[Callable[[Fields, str], OutputFormat], tuple[object, ...]] = {
    _schema: ("", {}, False),
    _regex: ("",),
    _choice: ([],),
    _grammar: ("",),
}
"""How clients spell that there is none."""

_STRUCTURED: Mapping[str, Callable[[Fields, str], OutputFormat]] = {
    "json": _schema,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
}


def _structured_outputs(outputs: Fields) -> OutputFormat:
    if outputs.get("structural_tag") is not None:
        raise _structural_tag(outputs.at("structural_tag"))
    found = [read(outputs, name) for name, read in _STRUCTURED.items() if outputs.get(name) is not None]
    if outputs.boolean("json_object"):
        found.append(OutputFormat("json_object", outputs.at("json_object")))
    if len(found) > 1:
        raise _twice(found[0].param, found[1].param)
    if not found:
        known = ", ".join((*_STRUCTURED, "json_object"))
        raise InvalidRequestError(f"`{outputs.path}` needs one of {known}.", outputs.path)
    outputs.report_unread(())
    return found[0]


def _structural_tag(path: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"`{path}`: a structural tag spells one model's markers, which this server knows itself. "
        "Say what it is for with `tools` and `tool_choice`, or with a schema in `response_format`.",
        path,
        code="unsupported_parameter",
    )


def _twice(one: str, other: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"`{one}` and `{other}` both say what the content must be; send one of them.", other
    )
