"""Messages whose header routes them (Harmony): reasoning, content, or the arguments of a call.

A turn is a row of messages: header, ``message`` marker, body, end marker. The header's channel and recipient
decide what the body is. A header that never reaches its body is skipped up to the next message, so one garbled
message costs nothing but itself. Bodies of built-in tools (recipients that are no function) are framing: the
server that has such tools reads them from the raw text.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import Literal, TypeAlias

from unspool.parsing.codecs.json import finish_arguments, json_object
from unspool.parsing.declaration import ChannelCalls
from unspool.parsing.reader import (
    HEADER,
    HOLD,
    NotACall,
    Reader,
    Steps,
    content_sink,
    no_space,
    reasoning_sink,
    stop,
)
from unspool.parsing.scanner import Watch, pattern

_RECIPIENT = pattern(r"(?:^|\s)to=(\S+)")

Route: TypeAlias = Literal["reasoning", "content", "call", "drop"]


@lru_cache(maxsize=64)
def _header_watch(shape: ChannelCalls) -> Watch:
    """Group 1 begins the body, group 2 ends the message before it had one, group 3 starts another message."""
    return Watch(("", (shape.message,)), ("", shape.ends), ("", (shape.start,)))


@lru_cache(maxsize=64)
def _body_watch(shape: ChannelCalls) -> Watch:
    """Group 1 ends a body, group 2 starts the next message without an end."""
    return Watch(("", shape.ends), ("", (shape.start,)))


def channels(r: Reader, shape: ChannelCalls, *, offered: bool) -> Steps[None]:
    """Reads all messages of a turn; the prompt has already named the role."""
    while True:
        yield from _start(r, shape)
        if r.final and r.pos == len(r.text):
            return
        begins = yield from r.at((shape.channel, shape.constrain, shape.message, " to=", "to=", *shape.ends))
        if not begins:
            # Plain text where a header should be: the model does not speak the format.
            yield from _text(r, shape, "content")
            continue
        r.begin_call()
        header = yield from _header(r, shape)
        if header is None:
            r.end_call()
            continue
        yield from _message(r, shape, header, offered)


def _start(r: Reader, shape: ChannelCalls) -> Steps[None]:
    """Skips the opening of a message: start marker and role."""
    while True:
        ahead = r.space_end(r.pos) - r.pos
        if ahead <= HOLD:
            if r.pos + ahead == len(r.text) and not r.final:
                r.wait(no_space)
                yield
                continue
            if (r.pos + ahead == len(r.text) and r.spoke) or (yield from r.at((shape.start,), ahead)):
                r.take(r.pos + ahead, "framing", "layout between messages")
        if not (yield from r.at((shape.start,))):
            return
        r.take(r.pos + len(shape.start), "framing", "starts a message")
        if (yield from r.at((shape.role,))):
            r.take(r.pos + len(shape.role), "framing", "role")


def _header(r: Reader, shape: ChannelCalls) -> Steps[str | None]:
    """Reads a header; ``None`` if no body follows it."""
    watch = _header_watch(shape)
    parts: list[str] = []
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        parts.append(r.take(end, "framing", "header"))
        if found and found.lastindex:
            if found.lastindex < 3:
                r.take(found.end(), "framing", "end of the header")
            return "".join(parts) if found.lastindex == 1 else None
        if r.final:
            return None
        if sum(map(len, parts)) > HEADER:
            parts = ["".join(parts)[:HEADER]]
        if found is None:
            r.wait(watch.stop)
        else:
            r.wait_for(watch)
        yield


def _route(shape: ChannelCalls, header: str, tools: Container[str]) -> tuple[Route, str]:
    """What a body is, by its header, and the function it calls.

    Of several channel parts the last one counts; the role's recipient then belongs to a garbled beginning.
    """
    role, *parts = header.split(shape.channel)
    named = parts[-1].split(shape.constrain)[0] if parts else ""
    words = named.split()
    channel = words[0] if words else ""
    found = _RECIPIENT.search(named)
    if found is None and len(parts) < 2:
        found = _RECIPIENT.search(role.split(shape.constrain)[0])
    recipient = found.group(1) if found else ""
    if recipient.startswith(shape.functions):
        return "call", recipient.removeprefix(shape.functions)
    if recipient and recipient in tools:
        return "call", recipient
    if recipient and recipient not in (shape.role, "user", "all"):
        return "drop", ""
    return ("reasoning" if channel in shape.reasoning_channels else "content"), ""


def _message(r: Reader, shape: ChannelCalls, header: str, offered: bool) -> Steps[None]:
    r.settle()
    route, name = _route(shape, header, r.tools)
    if route == "call" and offered:
        yield from _call(r, shape, name)
    elif route == "call":
        r.reject_call(NotACall("no tools were offered"))
        yield from _text(r, shape, "content")
    else:
        r.end_call()
        yield from _text(r, shape, route)


def _call(r: Reader, shape: ChannelCalls, name: str) -> Steps[None]:
    try:
        if not name:
            raise NotACall("the call has no name")
        r.start_call(name)
        yield from r.space()
        if (yield from r.at(shape.ends)):
            raise NotACall("the message is empty")
        if not (yield from r.at(("{",))):
            stop(r, "the arguments are no object")
        yield from json_object(r, r.arguments, streams=True)
        finish_arguments(r)
    except NotACall as why:
        r.reject_call(why)
        yield from _text(r, shape, "content")
        return
    r.end_call()
    yield from _text(r, shape, "drop")


def _text(r: Reader, shape: ChannelCalls, route: Route) -> Steps[None]:
    """Reads a body of text through the end of its message."""
    r.spoke = True
    watch = _body_watch(shape)
    while True:
        found = watch.find(r.text, r.pos, r.final)
        end = found.start() if found else len(r.text)
        if route == "content":
            r.content(end)
        elif route == "reasoning":
            r.reasoning(end)
        else:
            r.take(end, "framing", "no text for the user")
        if found and found.lastindex:
            if found.lastindex == 1:
                r.take(found.end(), "framing", "ends the message")
            return
        if r.final:
            return
        if found:
            r.wait_for(watch)
        elif route == "drop":
            r.wait(watch.stop)
        else:
            r.flow(watch.stop, content_sink if route == "content" else reasoning_sink)
        yield
