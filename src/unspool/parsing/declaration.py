"""What a format is made of: frozen data, no behaviour.

A :class:`Format` says how one model family writes reasoning and calls. Its call syntax is one of seven
shapes; a reader for each lives in this package, and nothing else knows a family's markers. Framing whitespace is a
*pad*: at most that many characters out of that set, so ``"\\n\\n"`` is up to two newlines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from unspool.parsing.expressions import Expression


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A reasoning block: ``open`` text ``close``; ``closes_too`` are other closers that models write.

    ``open_pad`` follows the opener, ``close_pad`` precedes the closer, ``after`` follows it: framing, not text.
    ``after_accepts`` widens ``after`` for what models do; ``after_prompt`` is written instead of ``after`` when
    the prompt holds the closer. ``recurs``: another block may open after content or calls; otherwise only at the
    start of the turn. ``ends_at``: markers that end an unclosed block at once. ``ends_at_call``: a valid opener
    of a call to an offered tool ends an unclosed block, if no closer follows it. ``holds_calls``: such a call
    stands inside the block, which goes on behind it; ``closes_last``: with content or without, the closer is
    written behind those calls. Without ``writes_inside`` the writer puts them behind the block. ``dropped``:
    markers inside the block that are framing, such as those of notes on a budget; what stands between them is
    reasoning.
    """

    open: str
    close: str
    closes_too: tuple[str, ...] = ()
    open_pad: str = ""
    close_pad: str = ""
    after: str = ""
    after_accepts: str = ""
    after_prompt: str | None = None
    recurs: bool = False
    ends_at: tuple[str, ...] = ()
    ends_at_call: bool = False
    holds_calls: bool = False
    closes_last: bool = True
    writes_inside: bool = True
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """Markers around content, dropped: ``open`` content ``close``; either may be missing in an output.

    The pads are as in :class:`Reasoning`. ``written`` says when a template writes the frame: around any content,
    around no content as well, or never. ``holds_calls``: the calls of the message stand inside, too.
    """

    open: str
    close: str = ""
    open_pad: str = ""
    close_pad: str = ""
    after: str = ""
    written: Literal["content", "always", "never"] = "content"
    holds_calls: bool = False


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """Calls as JSON objects that hold name and arguments: one, a list, or several one after another.

    ``bare``: the JSON also stands without ``open`` at the start of the content; then only an offered name makes a
    call, as with ``offered_only``. ``separators`` are the characters that may stand between bare objects.
    ``name_is_key``: an object's only key is the name, its value the arguments. ``id_key`` is a member with the
    call's number.
    ``written_list`` is what is written before, between and after the calls of a message that share their
    markers; without it each has its own. ``body_pad`` and ``body_end`` are written inside the markers.
    ``compact``: written without a space.
    ``close[0]`` is what is written, the rest is accepted as well; it is ``""`` where no closer is written.
    """

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    bare: bool = False
    offered_only: bool = False
    body_pad: str = ""
    body_end: str = ""
    written_list: tuple[str, str, str] | None = None
    separators: str = ""
    name_is_key: bool = False
    id_key: str = ""
    compact: bool = False
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
class RawArguments:
    """A JSON object, or else any text up to the closer, which is then the value of the argument ``member``.

    The call's name is the first word of the body if that is an offered tool, otherwise the header; the header is
    a label that models fill with either.
    """

    member: str
    written_after: str = ""


@dataclass(frozen=True, slots=True)
class NamedCalls:
    """A header with the name, then the arguments as one value.

    ``open`` header ``header_end`` value ``close``; a header also ends before one of ``header_stops``. All calls
    may stand in a section. ``prefixes`` are dropped from the header's start. ``id_header``: the header is a
    call id such as ``functions.NAME:3``. ``type_header``: the header may be a type, the name follows it on a
    line of its own, and the value may stand in a code fence. ``list_body``: instead of a header a JSON list of
    calls may follow. ``header_notes``: markers after which header text is not the name. ``header_ids``: markers
    before which it is the call's id, ``id_size`` lower-case letters and digits. ``offered_only``: the header must
    be an offered name, and only while it can still become one is anything held; without ``open`` such a call
    stands bare at the start of a stretch of content.
    """

    open: str = ""
    header_end: tuple[str, ...] = ()
    header_stops: tuple[str, ...] = ()
    header_notes: tuple[str, ...] = ()
    header_ids: tuple[str, ...] = ()
    id_size: int = 0
    close: str = ""
    section_open: str = ""
    section_close: str = ""
    arguments: JsonArguments | RelaxedArguments | RawArguments = field(default_factory=JsonArguments)
    prefixes: tuple[str, ...] = ()
    written_header: str = "{name}"
    id_header: bool = False
    type_header: bool = False
    list_body: bool = False
    offered_only: bool = False


@dataclass(frozen=True, slots=True)
class TaggedCalls:
    """Arguments as elements, one a parameter, with text values whose type the schema or the element gives.

    ``call_open`` header ``header_end``, then ``param_open`` key ``key_end`` [``value_open``] value
    ``value_close`` for each parameter, then ``call_close``. With ``name_attribute`` (``key_attribute``) the
    name (key) is that attribute of the header, otherwise the header is the name. ``type_attribute`` says whether
    a value is text or JSON. ``value_pad`` is the newline the template puts on both sides of a value.
    ``header_stops`` end a header without being part of it. ``loose`` are those markers that are text inside a
    value whose own opener is none of them. ``call_open[0]`` is what is written, the rest is accepted as well; so
    with every tuple here. ``qualified``: a name may be written twice (``f.f``), or with a namespace that the
    offered tool lacks, or without the one it has. ``verbatim`` are two markers between which a value may stand, so
    that closers in it are letters. ``type_element`` are two markers that may hold a value's type, between key and
    value; the schema goes before it. ``json_body``: behind ``call_open`` a JSON object or list of calls may
    follow. ``python_values``: values other than strings are Python literals. ``drops_keys_alone``: a key without
    ``value_open`` behind it is no parameter. ``open_ends``: an opener with an offered tool's name behind it ends
    a value, and the call, that have no closer.
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
    qualified: bool = False
    value_pad: str = ""
    whole_open: str = ""
    whole_close: str = ""
    loose: tuple[str, ...] = ()
    verbatim: tuple[str, str] | None = None
    type_element: tuple[str, str] | None = None
    json_body: bool = False
    python_values: bool = False
    drops_keys_alone: bool = False
    open_ends: bool = False
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
class ElementCalls:
    """Arguments as elements named after their parameters, nested as the values are.

    ``call_open`` header ``>``, then for each parameter ``element_open`` name ``>`` value ``element_close`` name
    ``>``, then ``call_close``; all calls stand in a section. The header names the tool in ``name_attribute``.
    ``layout`` is written between tags, but not between those of nested values.
    """

    section_open: str
    section_close: str
    call_open: str
    call_close: str
    element_open: str
    element_close: str
    name_attribute: str = "name"
    layout: str = ""


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Calls as a Python list of keyword calls, ``[f(a=1), g()]``, between ``open`` and ``close``.

    ``bare``: the list is written without markers, and then only offered names make calls. ``statements``: the
    calls are statements, one a line, instead of a list; ``fence`` is the language of a code fence around them.
    ``quote`` is what strings are written with; ``json_containers``: lists and dicts are written as JSON.
    ``loose_quotes``: a quote ends a string only where the call can go on behind it, since models do not escape.
    """

    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    bare: bool = False
    statements: bool = False
    fence: str = ""
    quote: Literal["'", '"'] = '"'
    json_containers: bool = False
    loose_quotes: bool = False


@dataclass(frozen=True, slots=True)
class ChannelLayout:
    """What a template writes around the messages of a turn.

    ``reasoning``, ``content``, ``preamble`` (content before calls) and ``call`` are headers through the marker
    that ends them; ``{name}`` is the tool's. ``next`` opens every message but the first. ``end`` closes a message
    that another one follows, ``call_end`` such a call; ``last`` and ``last_call`` close the last one. ``shared``:
    all calls stand in one message.
    """

    reasoning: str
    content: str
    call: str
    next: str
    end: str
    preamble: str = ""
    call_end: str = ""
    last: str = ""
    last_call: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ChannelCalls:
    """Messages whose header routes them: to reasoning, to content, to a tool, or to nobody.

    ``start`` role header ``message`` body, ended by one of ``ends``. ``routed_by`` says what decides. The
    ``"channel"``: the header is [``channel`` name] [``constrain`` type], and a recipient (``to=functions.NAME``)
    in its role or channel part beats the channel. The ``"recipient"`` alone. Or the ``"marker"`` that ends the
    header in place of ``message``; ``named``: a word may stand before it.

    ``reasoning``, ``content``, ``calls`` and ``dropped`` are the channels, recipients or markers that lead there,
    ``unnamed`` is where a header without any leads. ``functions`` stands before a tool's name in a recipient;
    without it every recipient that is not listed is a tool. ``spaced``: a space may follow each marker.

    ``body`` is what a call's body holds: arguments alone (JSON, or :class:`TaggedCalls` without ``call_open``),
    their tool named by the header; or calls that name their tools themselves. ``calls_in_content``: content that
    is nothing but calls to offered tools is calls.
    """

    start: str
    ends: tuple[str, ...]
    written: ChannelLayout
    message: str = ""
    role: str = "assistant"
    routed_by: Literal["channel", "recipient", "marker"] = "channel"
    channel: str = ""
    constrain: str = ""
    named: bool = False
    reasoning: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unnamed: Literal["reasoning", "content"] = "content"
    functions: str = ""
    spaced: bool = False
    body: JsonArguments | JsonCalls | NamedCalls | TaggedCalls = field(default_factory=JsonArguments)
    calls_in_content: bool = False


@dataclass(frozen=True, slots=True)
class RegionContent:
    """How the text of a region of a response template is read; the names are those of the template.

    ``tag`` is the expression of one element, with groups ``key`` and ``value``; ``value`` reads a value's text.
    """

    parser: Literal["text", "int", "float", "bool", "json", "xml-inline", "kv-lines", "python-call-list"] = "text"
    strip: bool = True
    unquoted_keys: bool = False
    string_delims: tuple[tuple[str, str], ...] = ()
    allow_non_json: bool = False
    tag: Expression = ()
    merge_duplicates: bool = False
    line_sep: str = "\n"
    kv_sep: str = ":"
    value: RegionContent | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of an output between two expressions: reasoning, content, or a call; ``name`` is the field's.

    Without ``open`` and ``ahead`` it is everything outside the others; without ``close`` only the end of the text
    closes it. ``transform`` is the JSON text of the template from which a call is built (``each``: one for every
    item of a list). ``join`` stands between the texts of several such regions. ``ahead``: the text that, somewhere
    ahead, shows that the output starts inside this region. ``ends_at_call``: if no closer follows, a call to an
    offered tool ends it.
    """

    name: str
    kind: Literal["reasoning", "content", "calls"]
    open: Expression = ()
    close: Expression = ()
    content: RegionContent = field(default_factory=RegionContent)
    transform: str = ""
    each: bool = False
    join: str | None = None
    ahead: str = ""
    ends_at_call: bool = False


@dataclass(frozen=True, slots=True)
class RegionCalls:
    """A whole turn as regions, as a checkpoint's response template declares it: not only its calls.

    ``anchor`` is the expression that opens the model's turn in a prompt, where ``turns`` of the format can't.
    """

    regions: tuple[Region, ...]
    anchor: Expression = ()


Calls: TypeAlias = JsonCalls | NamedCalls | TaggedCalls | ElementCalls | PythonCalls | ChannelCalls | RegionCalls

_NOT_WRITTEN = {"of_the_output": False}

SUFFIX = "{suffix}"
"""In the markers of a format: what each checkpoint has of its own; :func:`bound` puts it in."""


@dataclass(frozen=True, slots=True)
class Format:
    """How one model family writes reasoning and calls.

    ``turns`` are the texts with which a prompt opens the model's turn; ``start`` is what the checkpoint's
    default template leaves after it, and decides the state when no prompt is given. ``stops`` end a turn;
    as text alone they do so only before the end, a marker, or one of ``next_turns``, with which somebody's next
    turn opens. ``frames`` are markers around content, dropped. ``also`` are other call syntaxes that an output may
    have; where two open alike, JSON behind the opener decides. ``before_call`` is the pad between
    content and a call; ``before_call_accepts`` widens it for what models do, ``before_call_alone`` is what is
    written before a call without content. ``lead`` is the pad at the start of a turn, ``lead_accepts`` widens it
    for what models do. ``content_end`` (a pad)
    follows content that ends the turn, ``calls_end`` (a pad) the calls, ``turn_end`` closes the turn.
    ``calls_first``: the template writes calls before content, ``calls_end`` between them. ``evidence`` are texts
    that each chat template of the family has, all of them; without any, the openers of its calls are
    (:mod:`unspool.formats.evidence`). ``by_name_only``: no template tells the family from others, or none was
    seen, so detection never finds it. ``suffix`` is what stands for ``{suffix}`` in the markers when neither
    vocabulary nor prompt says. ``text_filter`` names a class of ``parsing/filters.py`` that mends content and
    reasoning. For readers of the docs: ``quirks`` are what models and templates of the family do that the samples
    don't show, ``disagreements`` what other engines make of it.
    """

    name: str
    summary: str = field(metadata=_NOT_WRITTEN)
    aliases: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()
    calls: Calls | None = None
    turns: tuple[str, ...] = ()
    start: str = ""
    stops: tuple[str, ...] = ()
    next_turns: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    also: tuple[Calls, ...] = ()
    before_call: str = ""
    before_call_accepts: str = ""
    before_call_alone: str = ""
    calls_first: bool = False
    content_end: str = ""
    calls_end: str = ""
    turn_end: str = ""
    between_calls: str = ""
    lead: str = ""
    lead_accepts: str = ""
    suffix: str | None = None
    text_filter: Literal["", "escapes"] = ""
    evidence: tuple[str, ...] = field(default=(), metadata=_NOT_WRITTEN)
    by_name_only: bool = False
    engine_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    source: str = field(default="", metadata=_NOT_WRITTEN)
    quirks: tuple[str, ...] = field(default=(), metadata=_NOT_WRITTEN)
    disagreements: tuple[str, ...] = field(default=(), metadata=_NOT_WRITTEN)

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
    """Every text in a declaration, the markers among them; not what only chat templates and readers know."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for item in value for text in strings(item)]
    if is_dataclass(value) and not isinstance(value, type):
        said = [f for f in fields(value) if f.metadata.get("of_the_output", True)]
        return [text for f in said for text in strings(getattr(value, f.name))]
    return []
