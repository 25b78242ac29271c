"""The writer: a message as the exact text the model would have written.

It reads the same declarations as the parser, so ``parse(write(message)) == message``. What a format can't carry
(reasoning where it has none, a keyword that is no identifier) is an error that says so, never left out.
"""

from __future__ import annotations

from unspool.formats.carried import check_call
from unspool.formats.registry import get_format
from unspool.formats.written_calls import WriteError, stands_bare, written_bodies, written_calls
from unspool.message import Message, ToolCall
from unspool.parsing.binding import bound
from unspool.parsing.declaration import (
    ChannelCalls,
    Format,
    Reasoning,
    RegionCalls,
)
from unspool.parsing.grammar import openers
from unspool.parsing.parser import open_block, turn_tail

__all__ = ["WriteError", "samples", "stands_bare", "write"]


def write(format: str | Format, message: Message, *, prompt: str | None = None) -> str:
    """What the model would have written after ``prompt`` (default: the format's own start) for this message.

    The terminator of the turn is not included. Raises :class:`WriteError` for what the format can't carry: the
    arguments of a call must be a JSON object, and its name and keys must be read back as they are.
    """
    fmt = bound(get_format(format), prompt=prompt)
    for number, call in enumerate(message.tool_calls):
        check_call(fmt, call, f"tool_calls[{number}]", compose)
    return compose(fmt, message, prompt)


def compose(fmt: Format, message: Message, prompt: str | None = None) -> str:
    """:func:`write` for calls of which nobody has asked whether the format reads them back."""
    fmt = bound(fmt, prompt=prompt)
    tail = turn_tail(fmt, prompt)
    if isinstance(fmt.calls, RegionCalls):
        raise WriteError(
            f"the format {fmt.name!r} was read from a response template, which says how to read an output and not "
            "how one is written; write with the family's own format"
        )
    if isinstance(fmt.calls, ChannelCalls):
        return _channels(fmt, fmt.calls, message).removeprefix(tail)
    if message.content and message.tool_calls and stands_bare(fmt.calls):
        raise WriteError(f"calls of {fmt.name!r} have no markers, so no text can stand before them; leave it out")
    opened = open_block(fmt, tail)
    calls = written_calls(fmt, message.tool_calls) if message.tool_calls else ""
    block = opened or (fmt.reasoning[0] if fmt.reasoning and message.reasoning is not None else None)
    if block is None or not (block.holds_calls and block.writes_inside):
        text = _reasoning(fmt, message.reasoning, opened)
    else:
        text, calls = _reasoning_with_calls(fmt, block, message, calls, opened=opened is not None), ""
    if opened is None and message.reasoning is None:
        text = layout_due(fmt, tail) + text
    text += _answer(fmt, message.content or "", calls, tail) + fmt.turn_end
    return text.removeprefix(begun_with(fmt, tail))


def begun_with(fmt: Format, tail: str) -> str:
    """The beginning of a frame or a call with which the prompt ends."""
    frames = tuple(frame.open for frame in fmt.frames if frame.open != tail)
    begun = tail in openers(fmt) or any(mark.startswith(tail) for mark in frames)
    return tail if begun else ""


def _answer(fmt: Format, content: str, calls: str, tail: str) -> str:
    """Content and calls with the frames around them."""
    frame = next(
        (frame for frame in fmt.frames if frame.written == "always" or (frame.written == "content" and content)),
        None,
    )
    if frame is None:
        before = after = ""
    else:
        before = "" if tail.endswith((frame.open, frame.open + frame.open_pad)) else frame.open + frame.open_pad
        after = frame.close_pad + frame.close + frame.after
    if calls and fmt.calls_first:
        return calls + fmt.calls_end + before + content + after
    if calls:
        layout = fmt.before_call if content else fmt.before_call_alone
        inside = frame is not None and frame.holds_calls
        text = before + content + (layout + calls + after if inside else after + layout + calls)
    else:
        text = before + content + after + (fmt.content_end if content else "")
    return text + (fmt.calls_end if calls else "")


def layout_due(fmt: Format, tail: str) -> str:
    """The layout that is due: at the start of the turn, or behind the closer with which the prompt ends."""
    if not tail:
        return fmt.lead
    for block in fmt.reasoning:
        if tail.endswith(block.close):
            return block.after if block.after_prompt is None else block.after_prompt
    return ""


def _reasoning(fmt: Format, reasoning: str | None, opened: Reasoning | None) -> str:
    if reasoning is None:
        return opened.close_pad + opened.close + opened.after if opened else ""
    if not fmt.reasoning:
        raise WriteError(f"the format {fmt.name!r} has no reasoning; leave the message's reasoning out")
    block = opened or fmt.reasoning[0]
    before = "" if opened else fmt.lead + block.open + block.open_pad
    return before + reasoning + block.close_pad + block.close + block.after


def _reasoning_with_calls(fmt: Format, block: Reasoning, message: Message, calls: str, *, opened: bool) -> str:
    """A block in which the message's calls stand."""
    text = "" if opened else fmt.lead + block.open + block.open_pad
    text += message.reasoning or ""
    if calls:
        text += (fmt.before_call if message.reasoning else fmt.before_call_alone) + calls + fmt.calls_end
        if not block.closes_last and not message.content:
            return text
    after = block.after if message.content or not calls else ""
    return text + block.close_pad + block.close + after


def _channels(fmt: Format, shape: ChannelCalls, message: Message) -> str:
    layout = shape.written
    last = layout.last
    texts = []
    if message.reasoning is not None:
        texts.append((layout.reasoning + message.reasoning, layout.end))
    if message.content is not None:
        header = layout.preamble if message.tool_calls else layout.content
        texts.append((header + message.content, layout.end))
    for name, text in written_bodies(fmt, shape, message.tool_calls):
        texts.append((layout.call.format(name=name) + text, layout.call_end))
        last = layout.last_call
    ends = [end + layout.next for _, end in texts[:-1]] + [last]
    return "".join(text + end for (text, _), end in zip(texts, ends, strict=False))


def samples(fmt: Format) -> list[tuple[str, str, str]]:
    """What the format looks like: for each case its name, the prompt's tail and the raw output."""
    weather = ToolCall("", "get_weather", '{"city": "Paris", "days": 3}')
    time = ToolCall("", "get_time", "{}")
    cases = [("answer", Message(content="Hello."))]
    if fmt.calls is not None:
        cases.append(("one call", Message(tool_calls=(weather,))))
        cases.append(("two calls", Message(content=_before_calls(fmt), tool_calls=(weather, time))))
    if fmt.reasoning or isinstance(fmt.calls, ChannelCalls):
        thought = Message(reasoning="I need the weather.", tool_calls=(weather,) if fmt.calls else ())
        cases.append(("reasoning", thought))
    fmt = bound(fmt)
    return [(name, fmt.start, compose(fmt, message)) for name, message in cases]


def _before_calls(fmt: Format) -> str | None:
    """Text before calls, where the format has room for it."""
    return None if stands_bare(fmt.calls) else "Let me check."
