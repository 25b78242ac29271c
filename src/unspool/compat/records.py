"""The values that parsers of the field take and give: requests, deltas, calls.

A record is a dict whose keys are also attributes, so the same object is right for code that reads
``delta.tool_calls[0].function.name`` and for code that reads ``delta["tool_calls"][0]["function"]["name"]``.
It has exactly the keys that were set; any other field reads as its default. The methods of pydantic models
that parsers use are here too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import field as _field
from typing import Any, ClassVar, TypeVar, dataclass_transform

from unspool.parsing.opencall import new_call_id

__all__ = [
    "ChatCompletionNamedFunction",
    "ChatCompletionNamedToolChoiceParam",
    "ChatCompletionRequest",
    "ChatCompletionToolsParam",
    "DeltaFunctionCall",
    "DeltaMessage",
    "DeltaToolCall",
    "ExtractedToolCallInformation",
    "FunctionCall",
    "FunctionDefinition",
    "ResponsesRequest",
    "ToolCall",
]
"""The names that engines give them; their protocol modules hold these."""

R = TypeVar("R", bound="Record")
_MISSING: Any = object()


class _Attribute:
    """One field of a record: reads the key of this name, or the default."""

    __slots__ = ("default", "factory", "name")

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.factory: Callable[[], Any] | None = getattr(default, "default_factory", None)
        self.default = None if self.factory else default

    def __get__(self, record: dict[str, Any] | None, owner: type | None = None) -> Any:
        if record is None:
            return None if self.default is _MISSING else self.default
        value = dict.get(record, self.name, _MISSING)
        if value is not _MISSING:
            return value
        if self.factory is not None:
            # Kept, since the caller may append to it.
            record[self.name] = self.factory()
            return record[self.name]
        if self.default is _MISSING:
            raise AttributeError(f"{type(record).__name__} has no {self.name}")
        return self.default


@dataclass_transform(kw_only_default=True, field_specifiers=(_field,))
class Record(dict[str, Any]):
    """A dict with attributes. Subclasses declare fields like a dataclass; unknown keys are kept as they are.

    ``PARTS`` says which fields hold a record of their own, or a list of them: dicts given there become one.
    ``TypeError``: a field without a default was not given.
    """

    PARTS: ClassVar[Mapping[str, type[Record]]] = {}
    _attributes: ClassVar[dict[str, _Attribute]] = {}
    _required: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._attributes = dict(cls._attributes)
        for name, kind in inspect.get_annotations(cls).items():
            if not str(kind).startswith("ClassVar"):
                attribute = _Attribute(name, cls.__dict__.get(name, _MISSING))
                cls._attributes[name] = attribute
                setattr(cls, name, attribute)
        cls._required = tuple(name for name, attribute in cls._attributes.items() if attribute.default is _MISSING)

    def __init__(self, /, **values: Any) -> None:
        super().__init__()
        for name, value in values.items():
            setattr(self, name, value)
        for name in self._required:
            if name not in self:
                raise TypeError(f"{type(self).__name__} needs {name}")

    def shaped(self, name: str, value: Any) -> Any:
        """The value as the field ``name`` keeps it: its dicts as records."""
        part = self.PARTS.get(name)
        if part is None:
            return value
        if isinstance(value, list | tuple):
            return [_part(part, item) for item in value]
        return _part(part, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._attributes:
            self[name] = self.shaped(name, value) if name in self.PARTS else value
        elif isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __delattr__(self, name: str) -> None:
        self.pop(name, None)

    def __bool__(self) -> bool:
        # An answer without fields is still an answer, as with pydantic models.
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    @classmethod
    def model_validate(cls: type[R], value: Any, **_: Any) -> R:
        """A record from a mapping; a record of this class is returned as it is."""
        return value if isinstance(value, cls) else cls(**value)

    @classmethod
    def model_validate_json(cls: type[R], text: str | bytes, **_: Any) -> R:
        """A record from a JSON object."""
        return cls(**json.loads(text))

    @property
    def model_fields_set(self) -> set[str]:
        """The names of the fields that were set."""
        return set(self)

    def model_dump(
        self,
        *,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        exclude_none: bool = False,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """Plain dicts and lists, with defaults unless they are excluded."""
        options = {
            "exclude_none": exclude_none,
            "exclude_unset": exclude_unset,
            "exclude_defaults": exclude_defaults,
        }
        names = list(self) if exclude_unset else [*dict.fromkeys([*self._attributes, *self])]
        dumped = {}
        for name in names:
            value = getattr(self, name)
            attribute = self._attributes.get(name)
            default = (attribute.factory() if attribute.factory else attribute.default) if attribute else _MISSING
            unwanted = (exclude_none and value is None) or (exclude_defaults and value == default)
            if not unwanted and name not in (exclude or ()) and (include is None or name in include):
                dumped[name] = _plain(value, options)
        return dumped

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """:meth:`model_dump` as JSON text."""
        separators = None if indent else (",", ":")
        return json.dumps(self.model_dump(**options), ensure_ascii=False, indent=indent, separators=separators)

    def model_copy(self: R, *, update: Mapping[str, Any] | None = None, **_: Any) -> R:
        """A copy with some fields changed."""
        return type(self)(**{**self, **(update or {})})

    dict = model_dump
    json = model_dump_json


def _part(kind: type[Record], value: Any) -> Any:
    return kind(**value) if isinstance(value, Mapping) and not isinstance(value, kind) else value


def _plain(value: Any, options: Mapping[str, Any]) -> Any:
    if isinstance(value, Record):
        return value.model_dump(**options)
    if isinstance(value, list | tuple):
        return [_plain(item, options) for item in value]
    return value


class FunctionCall(Record):
    """A complete call's function: its name and its arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(Record):
    """A complete call. May also be made from, and read as, a flat ``id``, ``name``, ``arguments``."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"function": FunctionCall}

    id: str = ""
    type: str = "function"
    function: FunctionCall

    def __init__(self, /, **values: Any) -> None:
        if "function" not in values and "name" in values:
            arguments = values.pop("arguments", "")
            values["function"] = {"name": values.pop("name"), "arguments": arguments}
        super().__init__(**{"id": new_call_id(), "type": "function", **values})

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.name

    @property
    def arguments(self) -> str:
        """The arguments, as JSON text."""
        return self.function.arguments

    def __missing__(self, key: str) -> Any:
        if key in ("name", "arguments"):
            return getattr(self.function, key)
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, flat ones included."""
        try:
            return self[key]
        except KeyError:
            return default


class DeltaFunctionCall(Record):
    """What is new about a call's function: its name, or the next piece of its arguments."""

    name: str | None = None
    arguments: str | None = None


class DeltaToolCall(Record):
    """What is new about the call number ``index``."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"function": DeltaFunctionCall}

    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall | None = None


class DeltaMessage(Record):
    """What a streamed step adds to the message. ``reasoning_content`` is another name of ``reasoning``."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"tool_calls": DeltaToolCall}

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = _field(default_factory=list)

    @property
    def reasoning_content(self) -> str | None:
        """The older name of ``reasoning``."""
        return self.reasoning

    @reasoning_content.setter
    def reasoning_content(self, value: str | None) -> None:
        self.reasoning = value

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """As for every record, but an empty list of calls is left out."""
        dumped = super().model_dump(**options)
        if not dumped.get("tool_calls", True):
            del dumped["tool_calls"]
        return dumped


class ExtractedToolCallInformation(Record):
    """What a whole output holds. ``reasoning`` is what a format's parser found of that beside the calls."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"tool_calls": ToolCall}

    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None
    reasoning: str | None = None


class FunctionDefinition(Record):
    """An offered function. ``parameters`` is a JSON Schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatCompletionToolsParam(Record):
    """An offered tool."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"function": FunctionDefinition}

    type: str = "function"
    function: FunctionDefinition


class ChatCompletionNamedFunction(Record):
    """The function that must be called."""

    name: str


class ChatCompletionNamedToolChoiceParam(Record):
    """The choice of one tool."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {"function": ChatCompletionNamedFunction}

    type: str = "function"
    function: ChatCompletionNamedFunction


class ChatCompletionRequest(Record):
    """A request, as far as parsers read or change it."""

    PARTS: ClassVar[Mapping[str, type[Record]]] = {
        "tools": ChatCompletionToolsParam,
        "tool_choice": ChatCompletionNamedToolChoiceParam,
    }

    messages: list[Any] = _field(default_factory=list)
    model: str | None = None
    tools: list[ChatCompletionToolsParam] | None = None
    tool_choice: Any = "auto"
    parallel_tool_calls: bool | None = True
    stream: bool | None = False
    n: int | None = 1
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    include_reasoning: bool = True
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    response_format: Any = None
    structured_outputs: Any = None
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    stop: Any = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    logprobs: bool | None = False
    user: str | None = None


class ResponsesRequest(ChatCompletionRequest):
    """A request of the Responses API: the same fields, as far as parsers know them."""
