"""Control tokens that a request spells stay text: only the chat template may write the tokens themselves.

A template pastes messages into one text, in which ``<|im_end|>`` of a tool's result looks like the template's own.
So each spelling in the request gets a guard, a character that is nowhere else, behind its first letter; where the
guards come out is where the text is cut before it is encoded, and no piece has the whole spelling. The model still
reads every letter. Templates look into messages, too (for ``</think>``, say), and must not be confused: a prompt
with guards must be the one without them, or those that made a difference are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import count, pairwise
from typing import Any, TypeAlias

from unspool.message import ToolCall
from unspool.surfaces.conversation import Conversation, Turn
from unspool.surfaces.errors import InvalidRequestError

Key: TypeAlias = tuple[str, str]
"""Who says it, and the spelling; ``""`` for the beginnings of spellings at the ends of texts."""

Keys: TypeAlias = tuple[Key, ...]

_FIRST_GUARD = 0x10000  # the first of many letters that are printed as they are and that nobody writes
_BEGINNINGS = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. ``cuts`` are the positions, in characters, over which nothing is one token."""

    text: str
    cuts: tuple[int, ...] = ()


class Controls:
    """The spellings to look for.

    ``flagged`` are those of control tokens. ``markers`` are tokens that a vocabulary has for a format's other
    markers, such as ``<think>``: what an assistant said may have them, since clients send back, or let continue,
    what a model wrote.
    """

    def __init__(self, flagged: Iterable[str] = (), markers: Iterable[str] = ()) -> None:
        # What is one character long can't be cut.
        self.flagged = frozenset(text for text in flagged if len(text) > 1)
        self.spellings = self.flagged | {text for text in markers if len(text) > 1}
        self._lengths: dict[str, set[int]] = {}
        for text in self.spellings:
            self._lengths.setdefault(text[:2], set()).add(len(text))
        starts = "|".join(map(re.escape, sorted(self._lengths)))
        # Without any, what is found nowhere.
        self._starts = re.compile(f"(?={starts})" if starts else "(?!)")
        self._begun = frozenset(text[:end] for text in self.spellings for end in range(1, len(text)))
        self._longest = max(map(len, self._begun), default=0)

    def __bool__(self) -> bool:
        return bool(self.spellings)

    def found(self, text: str) -> Iterator[tuple[int, str]]:
        """Where each spelling in a text begins, overlapping ones included, in order."""
        for place in self._starts.finditer(text):
            start = place.start()
            for length in self._lengths[text[start : start + 2]]:
                if (spelling := text[start : start + length]) in self.spellings:
                    yield start, spelling

    def begins(self, text: str) -> bool:
        """Whether a text ends with the beginning of a spelling, which what follows it could complete."""
        return any(text[-length:] in self._begun for length in range(1, min(len(text), self._longest) + 1))


class Guard:
    """Puts ``char`` into the spellings that are among ``keys``; ``seen`` are all that there were."""

    def __init__(self, controls: Controls, char: str = "", keys: Iterable[Key] = ()) -> None:
        self._controls = controls
        self._char = char
        self._keys = frozenset(keys)
        self.seen: set[Key] = set()

    def text(self, who: str, text: str) -> str:
        """The text with its guards."""
        cuts = set()
        for start, spelling in self._controls.found(text):
            if who != "assistant" or spelling in self._controls.flagged:
                self.seen.add((who, spelling))
                if (who, spelling) in self._keys:
                    cuts.add(start + 1)
        if self._controls.begins(text):
            self.seen.add((who, _BEGINNINGS))
            if (who, _BEGINNINGS) in self._keys:
                cuts.add(len(text))
        bounds = [0, *sorted(cuts), len(text)]
        return self._char.join(text[a:b] for a, b in pairwise(bounds)) if cuts else text

    def tree(self, who: str, value: Any) -> Any:
        """A JSON value with guards in all of its texts, names of members included."""
        if isinstance(value, str):
            return self.text(who, value)
        if isinstance(value, Mapping):
            return {self.tree(who, name): self.tree(who, member) for name, member in value.items()}
        return [self.tree(who, item) for item in value] if isinstance(value, list | tuple) else value

    def conversation(self, conversation: Conversation) -> Conversation:
        """A conversation with guards in everything that the request wrote."""
        return replace(
            conversation,
            turns=tuple(map(self._turn, conversation.turns)),
            tools=tuple(self.tree("tools", tool) for tool in conversation.tools),
            tool_choice=replace(conversation.tool_choice, names=self._names(conversation.tool_choice.names)),
            template_kwargs=self.tree("template", conversation.template_kwargs),
        )

    def _names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(self.text("tools", name) for name in names)

    def _turn(self, turn: Turn) -> Turn:
        def guarded(text: str | None) -> str | None:
            return None if text is None else self.text(turn.role, text)

        return replace(
            turn,
            parts=tuple(self.text(turn.role, part) for part in turn.parts),
            reasoning=guarded(turn.reasoning),
            tool_calls=tuple(
                ToolCall(*(self.text(turn.role, text) for text in (call.id, call.name, call.arguments)))
                for call in turn.tool_calls
            ),
            tool_call_id=guarded(turn.tool_call_id),
            name=guarded(turn.name),
        )


def apart(controls: Controls, conversation: Conversation, render: Callable[[Guard | None], str]) -> Prompt:
    """The prompt that ``render`` makes of a conversation, cut where that spells control tokens.

    ``render`` puts the guards that it is given into the conversation, and raises :class:`InvalidRequestError` if
    that can't be rendered.
    """
    text = render(None)
    if not controls:
        return Prompt(text)
    keys = _spelled(controls, conversation)
    if not keys:
        return Prompt(text)
    written = frozenset(text)
    free = (char for char in map(chr, count(_FIRST_GUARD)) if char not in written)
    char = next(char for char in free if _escaped(char) not in text)

    @cache
    def guarded(keys: tuple[Key, ...]) -> str | None:
        try:
            found = render(Guard(controls, char, keys)).replace(_escaped(char), char)
        except InvalidRequestError:
            return None
        return found if found.replace(char, "") == text else None

    kept = _harmless((), tuple(keys), lambda keys: guarded(keys) is not None)
    return _cut(text, guarded(kept) or text, char, controls)


def _spelled(controls: Controls, conversation: Conversation) -> list[Key]:
    """Everything that a conversation spells, what the escapes of its arguments hide included."""
    looking = Guard(controls)
    hidden = (call.arguments for turn in conversation.turns for call in turn.tool_calls if "\\" in call.arguments)
    try:
        looking.conversation(conversation)
        for arguments in hidden:
            looking.tree("assistant", _decoded(arguments))
    except RecursionError:
        raise InvalidRequestError("The request is nested too deeply.") from None
    return sorted(looking.seen)


def _decoded(arguments: str) -> Any:
    """The value of a call's arguments, ``None`` where they are only text, as in a call that was cut."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def _escaped(char: str) -> str:
    """A guard as some templates have it written."""
    return json.dumps(char)[1:-1]


def _harmless(kept: Keys, tried: Keys, same: Callable[[Keys], bool]) -> Keys:
    """``kept`` and all of ``tried`` that change nothing beside them; few that do are found by halves."""
    if not tried or same(kept + tried):
        return kept + tried
    if len(tried) == 1:
        return kept
    middle = len(tried) // 2
    return _harmless(_harmless(kept, tried[:middle], same), tried[middle:], same)


def _cut(text: str, guarded: str, char: str, controls: Controls) -> Prompt:
    """The prompt cut at those guards that are within a spelling after all."""
    position, guards = 0, set()
    for piece in guarded.split(char)[:-1]:
        position += len(piece)
        guards.add(position)
    inside = {
        cut
        for start, found in controls.found(text)
        for cut in range(start + 1, start + len(found))
        if cut in guards
    }
    return Prompt(text, tuple(sorted(inside)))
