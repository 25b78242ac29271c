"""What a check of a chat template found: values, and nothing about how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from unspool.parsing.declaration import Format

Outcome: TypeAlias = Literal["holds", "differs", "refused", "fails", "skipped"]
"""``holds``: what was written is read back. ``differs``: it isn't. ``refused``: the template says itself that it
doesn't take this. ``fails``: the template breaks. ``skipped``: the template has no such thing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not read back as it was given.

    ``start`` and ``end`` are where it is in the text of the case (in characters), ``became`` what that place
    became, in the words of ``unspool explain``; ``None`` where the text has no such place.
    """

    what: str
    expected: str
    got: str
    start: int | None = None
    end: int | None = None
    became: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One case: its outcome, the text that the template wrote for the model's turn, and what is to be said."""

    case: str
    outcome: Outcome
    text: str = ""
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All of a check. ``notes`` are about the template and its format as a whole."""

    format: Format
    results: Sequence[Result]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every round trip that the template takes part in holds, and there is one."""
        outcomes = {result.outcome for result in self.results}
        return "holds" in outcomes and not outcomes & {"differs", "fails"}
