"""Tool deltas of plugins as events: only legal sequences come out, whatever comes in."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from unspool.compat.following import plain
from unspool.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.parsing.opencall import new_call_id

log = logging.getLogger(__name__)


def argument_text(value: Any) -> str:
    """Arguments as JSON text; plugins also give objects, and nothing at all."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, default=str)


def is_object(text: str) -> bool:
    """Whether a text is one whole JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class _Call:
    """One call as far as the plugin has told it. ``waiting`` are arguments that came before the name."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.ended = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class CallLog:
    """The calls of one generation, in the order in which they were named.

    ``parallel`` false lets only the first through. ``owner`` names the plugin in log lines.
    """

    def __init__(self, owner: str, *, parallel: bool = True) -> None:
        self._owner = owner
        self._parallel = parallel
        self._by_index: dict[int, _Call] = {}
        self._named: list[_Call] = []
        self._ids: set[str] = set()
        self._dropped = _Call(-1)

    @property
    def count(self) -> int:
        """How many calls have begun."""
        return len(self._named)

    @property
    def complete(self) -> int:
        """How many calls are complete."""
        return sum(call.ended for call in self._named)

    def delta(self, delta: Any) -> list[Event]:
        """The events of one tool delta: a record, a dict, or an object with such attributes."""
        told = plain(delta)
        if not isinstance(told, Mapping):
            raise TypeError(f"a tool call delta must be an object, not {delta!r}")
        function = plain(told.get("function")) or told
        name = function.get("name")
        arguments = argument_text(function.get("arguments"))
        call = self._call(told.get("index"), name, told.get("id"))
        if call is self._dropped:
            return []
        if not call.name:
            call.pieces.append(arguments)
            if not isinstance(name, str) or not name:
                return []
            return self._begin(call, name, told.get("id"))
        if call.ended:
            if arguments:
                log.warning("%s went on with the call %r after its end; left out", self._owner, call.name)
            return []
        if not arguments:
            return []
        call.pieces.append(arguments)
        return [ToolCallDelta(call.index, arguments)]

    def _call(self, index: Any, name: Any, call_id: Any) -> _Call:
        if not isinstance(index, int):
            index = max(self._by_index, default=0)
        call = self._by_index.get(index)
        again = call is not None and call.name and name and (call_id not in (None, call.id))
        if call is None or (again and (call.ended or is_object(call.arguments))):
            # A number that comes back with another id and a name is another call.
            call = self._by_index[index] = _Call(-1) if self._parallel or not self._by_index else self._dropped
        return call

    def _begin(self, call: _Call, name: str, call_id: Any) -> list[Event]:
        events = self._end_complete()
        if not isinstance(call_id, str) or not call_id or call_id in self._ids:
            call_id = new_call_id()
        self._ids.add(call_id)
        call.index, call.id, call.name = len(self._named), call_id, name
        self._named.append(call)
        events.append(ToolCallStart(call.index, call_id, name))
        if call.arguments:
            events.append(ToolCallDelta(call.index, call.arguments))
        return events

    def _end_complete(self) -> list[Event]:
        events: list[Event] = []
        for call in self._named:
            if not call.ended and is_object(call.arguments):
                call.ended = True
                events.append(ToolCallEnd(call.index))
        return events

    def whole(self, number: int, name: Any, arguments: Any, call_id: Any = None) -> list[Event]:
        """The events of a complete call: what is missing if the call ``number`` has begun, else all of it."""
        text = argument_text(arguments) or "{}"
        if not isinstance(name, str) or not name or not is_object(text):
            log.warning("%s gave a call %r with the arguments %.200r; left out", self._owner, name, text)
            return []
        if number >= len(self._named):
            if self._named and not self._parallel:
                return []
            index = max(self._by_index, default=-1) + 1
            call = self._by_index[index] = _Call(-1)
            call.pieces.append(text)
            return self._begin(call, name, call_id)
        call = self._named[number]
        sent = call.arguments
        if call.ended or call.name != name or not text.startswith(sent) or is_object(sent):
            return []
        call.pieces.append(text[len(sent) :])
        return [ToolCallDelta(call.index, text[len(sent) :])]

    def rest(self, arguments: str) -> list[Event]:
        """More arguments of the last call, if they make it complete."""
        if not self._named or not arguments:
            return []
        call = self._named[-1]
        if call.ended or is_object(call.arguments) or not is_object(call.arguments + arguments):
            return []
        call.pieces.append(arguments)
        return [ToolCallDelta(call.index, arguments)]

    def finish(self, *, cut: bool) -> list[Event]:
        """Ends what is complete; says what is not, unless the generation was ``cut``."""
        events = self._end_complete()
        if not cut:
            for call in self._named:
                if not call.ended:
                    log.warning(
                        "%s never completed the arguments of the call %r (%.200r); it does not count",
                        self._owner,
                        call.name,
                        call.arguments,
                    )
            if any(not call.name for call in self._by_index.values() if call is not self._dropped):
                log.warning("%s gave arguments of a call without a name; left out", self._owner)
        return events
