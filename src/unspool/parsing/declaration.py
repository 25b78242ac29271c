"""What a format is made of: frozen data, no behaviour.

A :class:`Format` says how one model family writes reasoning and calls. Its call syntax is one of five shapes;
a reader for each lives in this package, and nothing else knows a family's markers. Framing whitespace is a
*pad*: at most that many characters out of that set, so ``"\\n\\n"`` is up to two newlines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reasoning block: ``open`` text ``close``.

    ``open_pad`` follows the opener, ``close_pad`` precedes the closer, ``after`` follows it: framing, not text.
    ``recurs``: another block may open after content or calls; otherwise only at the start of the turn.
    ``ends_at``: markers that end an unclosed block at once. ``ends_at_call``: a valid opener of a call to an
    offered tool ends an unclosed block, if no closer follows it.
    """

    open: str
    close: str
    open_pad: str = ""
    close_pad: str = ""
    after: str = ""
    recurs: bool = False
    ends_at: tuple[str, ...] = ()
    ends_at_call: bool = False


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Calls as JSON objects that hold name and arguments: one, a list, or several one after another.

    Without ``open`` the JSON stands bare at the start of the content; then only an offered name makes a call.
    ``separators`` are the characters that may stand between bare objects.
    """

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    bare: bool = False
    body_pad: str = ""
    written_open: str | None = None
    written_list: bool = False
    separators: str = ""
    name_keys: tuple[str, ...] = ("name",)
    arguments_keys: tuple[str, ...] = ("arguments", "parameters", "args", "input")


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """Arguments as one JSON object, passed through verbatim."""

    written_before: str = ""
    written_after: str = ""


@dataclass(frozen=True, slots=True)
class RelaxedArguments:
    """Arguments as an object with bare keys and strings between two ``quote`` markers, unescaped."""

    quote: str


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """A header with the name, then the arguments as one value.

    ``open`` header ``header_end`` value ``close``; a header also ends before one of ``header_stops``. All calls
    may stand in a section. ``prefixes`` are dropped from the header's start. ``id_header``: the header is a
    call id such as ``functions.NAME:3``. ``type_header``: the header may be a type, the name follows it on a
    line of its own, and the value may stand in a code fence. ``list_body``: instead of a header a JSON list of
    calls may follow. ``header_notes``: markers after which header text is not the name.
    """

    open: str
    header_end: tuple[str, ...] = ()
    header_stops: tuple[str, ...] = ()
    header_notes: tuple[str, ...] = ()
    close: str = ""
    section_open: str = ""
    section_close: str = ""
    arguments: JsonArguments | RelaxedArguments = field(default_factory=JsonArguments)
    prefixes: tuple[str, ...] = ()
    written_header: str = "{name}"
    id_header: bool = False
    type_header: bool = False
    list_body: bool = False


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """Arguments as elements, one a parameter, with text values whose type the schema or the element gives.

    ``call_open`` header ``header_end``, then ``param_open`` key ``key_end`` [``value_open``] value
    ``value_close`` for each parameter, then ``call_close``. With ``name_attribute`` (``key_attribute``) the
    name (key) is that attribute of the header, otherwise the header is the name. ``type_attribute`` says whether
    a value is text or JSON. ``value_pad`` is the newline the template puts on both sides of a value.
    ``header_stops`` end a header without being part of it. ``call_open[0]`` is what is written, the rest is
    accepted as well; so with every tuple here.
    """

    call_open: tuple[str, ...]
    header_end: tuple[str, ...]
    param_open: tuple[str, ...]
    key_end: tuple[str, ...]
    value_close: tuple[str, ...]
    call_close: tuple[str, ...]
    header_stops: tuple[str, ...] = ()
    value_open: str = ""
    section_open: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    section_per_call: bool = False
    name_attribute: str = ""
    key_attribute: str = ""
    type_attribute: str = ""
    attribute_entities: bool = False
    value_pad: str = ""
    whole_open: str = ""
    whole_close: str = ""
    written: TaggedLayout = field(default_factory=lambda: TaggedLayout())


@dataclass(frozen=True, slots=True)
class TaggedLayout:
    """The whitespace and attributes a template writes between the elements of a tagged call."""

    section_pad: str = ""
    after_header: str = ""
    between_key_value: str = ""
    after_param: str = ""
    empty: str = ""
    name: str = "{name}"
    key: str = "{key}"
    types: Literal["", "string", "kind"] = ""


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Calls as a Python list of keyword calls, ``[f(a=1), g()]``, bare or between ``open`` and ``close``."""

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelCalls:
    """Messages whose header routes them: to reasoning, to content, or to a tool.

    ``start`` role [``channel`` name] [``constrain`` type] ``message`` body, ended by one of ``ends``. A header
    may name a recipient (``to=functions.NAME``) in its role or channel part.
    """

    start: str
    channel: str
    constrain: str
    message: str
    ends: tuple[str, ...]
    reasoning_channels: tuple[str, ...]
    role: str = "assistant"
    functions: str = "functions."


Calls: TypeAlias = JsonCalls | NamedCalls | TaggedCalls | PythonCalls | ChannelCalls


@dataclass(frozen=True, slots=True)
class Format:
    """How one model family writes reasoning and calls.

    ``turns`` are the texts with which a prompt opens the model's turn; ``start`` is what the checkpoint's
    default template leaves after it, and decides the state when no prompt is given. ``stops`` end a turn and
    are never content. ``content_frame`` are markers around content, dropped. ``before_call`` is the pad between
    content and a call; ``before_call_accepts`` widens it for what models do, ``before_call_alone`` is what is
    written before a call without content. ``lead`` is the pad at the start of a turn, ``turn_end`` closes one.
    ``calls_first``: the template writes calls before content. ``evidence`` are texts that each chat template of
    the family has, all of them; without any, the openers of its calls are (:mod:`unspool.formats.evidence`).
    """

    name: str
    summary: str
    aliases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    calls: Calls | None = None
    turns: tuple[str, ...] = ()
    start: str = ""
    stops: tuple[str, ...] = ()
    content_frame: tuple[tuple[str, str], ...] = ()
    before_call: str = ""
    before_call_accepts: str = ""
    before_call_alone: str = ""
    calls_first: bool = False
    turn_end: str = ""
    between_calls: str = ""
    lead: str = ""
    evidence: tuple[str, ...] = field(default=(), metadata={"of_the_output": False})
    engine_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    source: str = ""

    def __str__(self) -> str:
        return self.name


_T = TypeVar("_T")


def map_strings(value: _T, change: Mapping[str, str]) -> _T:
    """The same declaration with each occurrence of a key of ``change`` in its texts replaced."""

    def walk(item: Any) -> Any:
        if isinstance(item, str):
            for old, new in change.items():
                item = item.replace(old, new)
            return item
        if isinstance(item, tuple):
            return tuple(map(walk, item))
        if is_dataclass(item) and not isinstance(item, type):
            return replace(item, **{f.name: walk(getattr(item, f.name)) for f in fields(item)})
        return item

    mapped: _T = walk(value)
    return mapped


def strings(value: object) -> list[str]:
    """Every text in a declaration, the markers among them; not what only a chat template has."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for item in value for text in strings(item)]
    if is_dataclass(value) and not isinstance(value, type):
        said = [f for f in fields(value) if f.metadata.get("of_the_output", True)]
        return [text for f in said for text in strings(getattr(value, f.name))]
    return []
