"""Tool deltas of plugins as events: only legal sequences come out, whatever comes in."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unspool.compat.following import plain
from unspool.events import Event, ToolCallDelta, ToolCallEnd, ToolCallStart
from unspool.message import is_object
from unspool.parsing.opencall import new_call_id

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """A call, or a part of one, as a plugin tells it. ``name`` and ``arguments`` are empty where it says none."""

    index: int | None
    id: str
    name: str
    arguments: str

    @property
    def counts(self) -> bool:
        """Whether this is a call by itself; no arguments are an empty object."""
        return bool(self.name) and is_object(self.arguments or "{}")


def told(call: Any) -> Told:
    """What a record, a dict, or an object with such attributes tells of a call.

    Whatever can raise of a plugin's call raises here: ``TypeError`` for what is none, anything from its objects.
    """
    given = plain(call)
    function = (plain(given.get("function")) or given) if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        raise TypeError(f"a call must be an object with a function, not {call!r}")
    index, call_id, name = given.get("index"), given.get("id"), function.get("name")
    return Told(
        index if isinstance(index, int) else None,
        call_id if isinstance(call_id, str) else "",
        name if isinstance(name, str) else "",
        _argument_text(function.get("arguments")),
    )


def _argument_text(value: Any) -> str:
    """Arguments as JSON text; plugins also give objects, and nothing at all."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False, default=str)


class _Call:
    """One call as far as the plugin has told it; arguments that came before its name are among the pieces."""

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

    def delta(self, delta: Told) -> list[Event]:
        """The events of one tool delta."""
        call = self._call(delta)
        if call is self._dropped:
            return []
        if not call.name:
            call.pieces.append(delta.arguments)
            return self._begin(call, delta) if delta.name else []
        if call.ended:
            if delta.arguments:
                log.warning("%s went on with the call %r after its end; left out", self._owner, call.name)
            return []
        if not delta.arguments:
            return []
        call.pieces.append(delta.arguments)
        return [ToolCallDelta(call.index, delta.arguments)]

    def _call(self, delta: Told) -> _Call:
        index = max(self._by_index, default=0) if delta.index is None else delta.index
        call = self._by_index.get(index)
        again = call is not None and call.name and delta.name and delta.id not in ("", call.id)
        if call is None or (again and (call.ended or is_object(call.arguments))):
            # A number that comes back with another id and a name is another call.
            call = self._by_index[index] = _Call(-1) if self._parallel or not self._by_index else self._dropped
        return call

    def _begin(self, call: _Call, told: Told) -> list[Event]:
        events = self._end_complete()
        call_id = told.id if told.id and told.id not in self._ids else new_call_id()
        self._ids.add(call_id)
        call.index, call.id, call.name = len(self._named), call_id, told.name
        self._named.append(call)
        events.append(ToolCallStart(call.index, call_id, call.name))
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

    def whole(self, number: int, whole: Told) -> list[Event]:
        """The events of a complete call: what is missing if the call ``number`` has begun, else all of it."""
        text = whole.arguments or "{}"
        if not whole.counts:
            log.warning("%s gave a call %r with the arguments %.200r; left out", self._owner, whole.name, text)
            return []
        if number >= len(self._named):
            if self._named and not self._parallel:
                return []
            index = max(self._by_index, default=-1) + 1
            call = self._by_index[index] = _Call(-1)
            call.pieces.append(text)
            return self._begin(call, whole)
        call = self._named[number]
        sent = call.arguments
        if call.ended or call.name != whole.name or not text.startswith(sent) or is_object(sent):
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
