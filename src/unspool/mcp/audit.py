"""A line in the log ``unspool.mcp.audit`` for each call of a tool: who, what, how large and long, what came of it.

Arguments and results are not in it, only the arguments' hash.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal[
    "ok", "error", "timeout", "cancelled", "refused", "invalid", "unknown", "lost", "fault"
]
"""``error`` is the tool's, ``fault`` the server's; ``refused``, ``invalid`` and ``unknown`` ran nothing."""

log = logging.getLogger(__name__)

_NAME_CHARACTERS = 200
"""Of names that a model or a client wrote, which there may be no tool of."""


@dataclass(slots=True)
class Record:
    """What is said of one call, once it is over."""

    request_id: str
    server: str
    tool: str
    arguments: str
    _began: float = field(default_factory=time.monotonic)

    def write(self, outcome: Outcome, result: str = "") -> None:
        """Writes the line."""
        raw = self.arguments.encode("utf-8", "surrogatepass")
        fields: dict[str, object] = {
            "request": self.request_id,
            "server": self.server[:_NAME_CHARACTERS],
            "tool": self.tool[:_NAME_CHARACTERS],
            "arguments_sha256": hashlib.sha256(raw).hexdigest(),
            "arguments_bytes": len(raw),
            "result_bytes": len(result.encode("utf-8", "replace")),
            "seconds": round(time.monotonic() - self._began, 3),
            "outcome": outcome,
        }
        log.info("%s", " ".join(f"{name}={value!r}" for name, value in fields.items()), extra={"fields": fields})
