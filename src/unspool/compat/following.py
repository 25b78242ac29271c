"""From what an engine shows a parser (the growing text, the growing list of ids) to what is new in it.

Engines call with three views of the same stream: before, now, and the difference. Only what is new may be fed to
a :class:`~unspool.Parser`, so the difference is taken against what was fed, not against what the caller believes:
calls may be skipped or repeated, and the same object may be used for the next stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from unspool.formats import get_format
from unspool.formats.checkpoint import CheckpointError
from unspool.formats.detection import AmbiguousFormatError, UndetectedFormatError, detect
from unspool.parsing.declaration import ChannelCalls, Format, Reasoning
from unspool.parsing.parser import Parser
from unspool.parsing.schema import AnyTool
from unspool.parsing.tokens import Detokenizer

_TAIL = 64
"""How many characters of the text are compared, to notice that it is another text."""
DEFAULT_FORMAT = "hermes"
"""The format of templates that show none: what most small models were taught, and what the server's built-in tool
prompt asks for."""


class Following:
    """What was already fed of one stream. ``by_ids`` is settled by the first step that brings something."""

    def __init__(self, reads_ids: bool) -> None:
        self._reads_ids = reads_ids
        self.by_ids: bool | None = None
        self.text = 0
        self._ids = 0
        self._tail = ""

    def begins_anew(self, previous_text: str, current_text: str, current_ids: Sequence[int]) -> bool:
        """Whether this step belongs to another stream than the steps before it."""
        if not self.text:
            return False
        if not previous_text or len(current_text) < self.text or (self.by_ids and len(current_ids) < self._ids):
            return True
        return current_text[max(0, self.text - len(self._tail)) : self.text] != self._tail

    def new(self, current_text: str, current_ids: Sequence[int]) -> tuple[str, list[int]]:
        """The text, or else the ids, that were not fed yet; from here on they count as fed."""
        text, ids = current_text[self.text :], list(current_ids[self._ids :])
        self.text += len(text)
        self._ids += len(ids)
        self._tail = (self._tail + text)[-_TAIL:]
        if self.by_ids is None and (text or ids):
            self.by_ids = self._reads_ids and bool(ids)
        return ("", ids) if self.by_ids and ids else (text, [])


def readable(tokenizer: Any) -> bool:
    """Whether token ids can be read with this tokenizer."""
    if tokenizer is None:
        return False
    try:
        Detokenizer(tokenizer)
        exact = isinstance(getattr(tokenizer, "special", None), Mapping) and hasattr(tokenizer, "piece")
        return exact or isinstance(tokenizer.decode([]), str)
    except Exception:
        # Engines hand over tokenizers of many kinds, and stand-ins for them in tests; text serves all of them.
        return False


def vocabulary(tokenizer: Any) -> Iterable[str]:
    """The special tokens of a tokenizer; none if it can't be read."""
    return Detokenizer(tokenizer).special.values() if readable(tokenizer) else ()


def spelled_out(tokenizer: Any, ids: Iterable[int]) -> str:
    """The text of tokens, special ones included."""
    detokenizer = Detokenizer(tokenizer)
    text = ""
    for token in ids:
        special = detokenizer.special.get(token)
        text += detokenizer.text(token) if special is None else detokenizer.flush() + special
    return text + detokenizer.flush()


def parser_of(
    fmt: Format,
    tools: Iterable[Any] | None,
    request: Any,
    *,
    prompt: str | None,
    tokenizer: Any = None,
    trace: bool = False,
) -> Parser:
    """The parser for a request, which may be a record, a dict, or any object with such attributes.

    Without tools in the request and without ``tools``, every call counts, as in the engines: they ask their
    parsers only when there are tools.
    """
    asked = plain(request) or {}
    offered = [tool for tool in map(plain, asked.get("tools") or tools or ()) if _names_a_function(tool)]
    choice = asked.get("tool_choice") or "auto"
    several = asked.get("parallel_tool_calls") is not False
    if not offered:
        return Parser(fmt, tools=AnyTool(), prompt=prompt, tokenizer=tokenizer, trace=trace)
    options: dict[str, Any] = {
        "prompt": prompt,
        "tokenizer": tokenizer,
        "parallel_tool_calls": several,
        "trace": trace,
    }
    try:
        return Parser(fmt, tools=offered, tool_choice=choice, **options)
    except ValueError:
        # A choice that no server would have let through.
        return Parser(fmt, tools=offered, **options)


def _names_a_function(tool: Any) -> bool:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str)


def plain(value: Any) -> Any:
    """A record, a pydantic model or a simple object as a dict; anything else as it is."""
    dump: Callable[[], Any] | None = getattr(value, "model_dump", None)
    if isinstance(value, Mapping) or value is None:
        return value
    if callable(dump):
        return dump()
    return dict(vars(value)) if hasattr(value, "__dict__") else value


def format_shown_by(tokenizer: Any) -> Format:
    """The format whose markers the tokenizer's chat template has; hermes if it shows none, which is logged."""
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = "\n".join(text for text in template.values() if isinstance(text, str))
    try:
        if isinstance(template, str):
            return detect(template).format
    except (UndetectedFormatError, AmbiguousFormatError, CheckpointError) as error:
        why = str(error)
    else:
        why = "the tokenizer has no chat template"
    # Logging takes a while to import, which a known template need not wait for.
    from logging import getLogger

    getLogger(__name__).warning("%s: reading %s", why, DEFAULT_FORMAT)
    return get_format(DEFAULT_FORMAT)


def class_name(fmt: Format | None, kind: str) -> str:
    """The name of a format's parser class of this kind; ``None``: of the one that a chat template shows."""
    words = (fmt.name if fmt else "auto").replace("+", "_").split("_")
    return "".join(word.capitalize() for word in words) + kind


def closed_block(block: Reasoning) -> str:
    """The shortest closed block, with all layout that may follow it."""
    return block.open + block.close + block.after


def reasons(fmt: Format) -> bool:
    """Whether the format has reasoning."""
    return bool(fmt.reasoning) or isinstance(fmt.calls, ChannelCalls)
