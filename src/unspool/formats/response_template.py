"""A checkpoint's own declaration, Hugging Face's ``response_template`` (version 1), as a format like any other.

Such a template stands in a checkpoint's ``tokenizer_config.json``. It says which stretches of an output are
reasoning, content and calls, by literals and regular expressions. Everything that can be wrong with one is found
here, before any text is read: :class:`ResponseTemplateError` names the member and says what to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from unspool.formats.response_contents import content_of, transform_of
from unspool.formats.response_fields import (
    ResponseTemplateError,
    anchors,
    check_defaults,
    check_keys,
    kind_of,
    look_ahead,
    opener_of,
    region_expression,
)
from unspool.parsing.declaration import Format, Region, RegionCalls
from unspool.parsing.expressions import Text

__all__ = ["ResponseTemplateError", "from_response_template", "load_response_template"]

_FILES = ("tokenizer_config.json", "processor_config.json", "response_template.json")
_TEMPLATE_KEYS = ("version", "defaults", "start_anchor", "start_anchor_pattern", "fields")
_FIELD_KEYS = (
    *("open", "open_pattern", "close", "close_pattern", "content", "content_args"),
    *("repeats", "join", "optional", "transform", "transform_each"),
)


def from_response_template(
    template: Mapping[str, Any] | str | os.PathLike[str], *, name: str = "response_template"
) -> Format:
    """The format that a response template declares.

    ``template`` is the template itself, its JSON text, or a path as for :func:`load_response_template`. A
    ``response_schema``, the template's predecessor, is taken where it says the same. Raises
    :class:`ResponseTemplateError`.
    """
    if isinstance(template, str) and template.lstrip().startswith("{"):
        template = _json(template, "the template")
    if not isinstance(template, Mapping):
        found = load_response_template(template, name=name)
        if found is None:
            raise ResponseTemplateError(
                f"{os.fspath(template)!r} has no response_template; name the format instead"
            )
        return found
    declared = _declared(template)
    if declared is None:
        raise ResponseTemplateError("the template has no 'fields'; a response_template is an object that has them")
    return _format(*declared, name)


def load_response_template(path: str | os.PathLike[str], *, name: str | None = None) -> Format | None:
    """The format that a checkpoint declares; ``None`` if it declares none.

    ``path`` is a JSON file (a template, or a ``tokenizer_config.json``) or a folder with such files. ``name`` is
    the format's name, by default that of the folder. Raises :class:`ResponseTemplateError` for a file that can't
    be read and for a template that can't be used.
    """
    place = Path(path)
    files = [place / file for file in _FILES if (place / file).is_file()] if place.is_dir() else [place]
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except OSError as why:
            raise ResponseTemplateError(f"cannot read {str(file)!r}: {why.strerror}") from None
        except UnicodeDecodeError as why:
            raise ResponseTemplateError(f"{str(file)!r}: byte {why.start} is not UTF-8 text") from None
        declared = _declared(_json(text, repr(str(file))))
        if declared is not None:
            try:
                return _format(*declared, name or file.resolve().parent.name or "response_template")
            except ResponseTemplateError as why:
                raise ResponseTemplateError(f"{str(file)!r}: {why}") from None
    return None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as why:
        raise ResponseTemplateError(f"{where}:{why.lineno}:{why.colno}: not JSON: {why.msg}") from None
    except RecursionError:
        raise ResponseTemplateError(f"{where}: nested too deeply") from None


def _declared(config: Any) -> tuple[Literal["template", "schema"], Any] | None:
    """What a JSON object declares: a template or the predecessor, directly or as a configuration's member."""
    if not isinstance(config, Mapping):
        raise ResponseTemplateError(f"a response_template is an object, not {type(config).__name__}")
    if config.get("response_template") is not None:
        return "template", config["response_template"]
    if "fields" in config:
        return "template", config
    if config.get("response_schema") is not None:
        return "schema", config["response_schema"]
    if "properties" in config and ("x-regex" in config or config.get("type") == "object"):
        return "schema", config
    return None


def _format(what: Literal["template", "schema"], declared: Any, name: str) -> Format:
    if what == "schema":
        from unspool.formats.response_schema import template_of

        fmt = _from_template(template_of(declared), name)
        return replace(fmt, summary="declared by the checkpoint's response_schema")
    return _from_template(declared, name)


def _from_template(template: Any, name: str) -> Format:
    if not isinstance(template, Mapping):
        raise ResponseTemplateError(f"response_template must be an object, not {type(template).__name__}")
    check_keys("response_template", template, _TEMPLATE_KEYS)
    if template.get("version", 1) != 1:
        raise ResponseTemplateError(
            f"response_template.version is {template['version']!r}; only version 1 is understood, so name the "
            "format instead"
        )
    check_defaults(template.get("defaults", {}))
    fields = template.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise ResponseTemplateError("response_template.fields must be an object with at least one field")
    found = [_region(str(key), value) for key, value in fields.items()]
    sinks = [region.name for region in found if not (region.open or region.ahead)]
    if len(sinks) > 1:
        raise ResponseTemplateError(
            f"response_template.fields: only one field may have no opener, not {' and '.join(map(repr, sinks))}"
        )
    turns, anchor = anchors(template)
    start = ""
    for number, region in enumerate(found):
        if region.ahead:
            turns, anchor, start, found[number] = _prefilled(region, turns, anchor)
    return Format(
        name=name,
        summary="declared by the checkpoint's response_template",
        calls=RegionCalls(tuple(found), anchor=anchor),
        turns=turns,
        start=start,
        source="response_template",
    )


def _region(name: str, field: Any) -> Region:
    where = f"response_template.fields.{name}"
    kind = kind_of(name, where)
    if not isinstance(field, Mapping):
        raise ResponseTemplateError(f"{where} must be an object, not {type(field).__name__}")
    check_keys(where, field, _FIELD_KEYS)
    for key in ("repeats", "optional", "transform_each"):
        if not isinstance(field.get(key, False), bool):
            raise ResponseTemplateError(f"{where}.{key} must be true or false, not {field[key]!r}")
    join = field.get("join")
    if join is not None and not (isinstance(join, str) and field.get("repeats")):
        raise ResponseTemplateError(f"{where}.join must be a text, and needs '\"repeats\": true'")
    ahead = look_ahead(field.get("open_pattern"))
    opening = opener_of(ahead) if ahead else region_expression(where, field, "open")
    closing = region_expression(where, field, "close")
    if kind == "calls" and not opening:
        raise ResponseTemplateError(f"{where} has no opener, so every text would be calls; give it one")
    if kind == "calls" and ahead:
        raise ResponseTemplateError(
            f"{where}.open_pattern looks ahead without a limit; only reasoning may open so"
        )
    return Region(
        name=name,
        kind=kind,
        open=opening,
        close=closing,
        content=content_of(where, kind, field),
        transform=transform_of(where, kind, field, opening, closing),
        each=field.get("transform_each", False),
        join=join,
        ahead=ahead,
        ends_at_call=bool(ahead),
    )


def _prefilled(
    region: Region, turns: tuple[str, ...], anchor: Sequence[Any]
) -> tuple[tuple[str, ...], tuple[Any, ...], str, Region]:
    """Reasoning whose opener the turn's anchor swallows: the anchor without it, and the opener where it belongs.

    What the prompt has behind the turn's opener then says whether the output starts with reasoning. Otherwise
    only a closer somewhere ahead says so, and all text must wait for it.
    """
    opener = cast(Text, region.open[0]).text if region.open else ""
    if opener and turns and all(opener in turn for turn in turns):
        places = [turn.rfind(opener) for turn in turns]
        starts = {turn[place:] for turn, place in zip(turns, places, strict=True)}
        shorter = tuple(dict.fromkeys(turn[:place] for turn, place in zip(turns, places, strict=True)))
        if len(starts) == 1 and all(shorter):
            return shorter, (), starts.pop(), replace(region, ahead="")
    for number, node in enumerate(anchor):
        if opener and isinstance(node, Text) and opener in node.text:
            before = node.text[: node.text.rfind(opener)]
            shortened = (*anchor[:number], *([Text(before)] if before else []))
            if shortened:
                return turns, shortened, "", region
    return turns, tuple(anchor), "", region
