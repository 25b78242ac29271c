"""The server's log: a line for each request, with its id on whatever is said meanwhile.

Conversations are not in it, but for what a line about a fault quotes.
"""

from __future__ import annotations

import json
import logging
import re
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TypeAlias
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unspool.server.errors import request_id_of
from unspool.server.limits import GENERATING, Ticket
from unspool.server.metrics import Metrics

LogFormat: TypeAlias = Literal["text", "json"]

log = logging.getLogger(__name__)

_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, what separates lines or turns their direction, and what no encoding has."""

_REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
_COUNTED_BY_PATH = GENERATING | {"/v1/messages/count_tokens", "/v1/models", "/health", "/metrics"}


class AccessLog:
    """Logs and counts each request once its answer is over."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        # What has no answer was answered by the last resort.
        status = 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        token = _REQUEST_ID.set(request_id_of(scope))
        try:
            await self.app(scope, receive, send_noting)
        finally:
            self._note(scope, status, time.monotonic() - started)
            _REQUEST_ID.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path: str = scope["path"]
        self.metrics.requests.add(1, path if path in _COUNTED_BY_PATH else "other", str(status))
        method, client = scope["method"], scope.get("client")
        fields: dict[str, object] = {
            "method": method,
            "path": path,
            "status": status,
            "seconds": round(seconds, 3),
            "client": client[0] if client else None,
        }
        ticket: Ticket | None = scope["state"].get("ticket")
        if ticket is not None and ticket.ends:
            fields |= {
                "finish_reasons": ticket.ends,
                "first_token_seconds": round(ticket.first_token, 3) if ticket.first_token is not None else None,
                "prompt_tokens": ticket.prompt_tokens,
                "completion_tokens": ticket.completion_tokens,
            }
        said = f"{method} {quote(path)} {status}, {seconds:.3f} s"
        if "finish_reasons" in fields and ticket is not None:
            said += f", {ticket.prompt_tokens}+{ticket.completion_tokens} tokens, {'/'.join(ticket.ends)}"
        log.info("%s", said, extra={"fields": fields})


class TextFormatter(logging.Formatter):
    """Level, message, and the request's id if there is one; behind it, indented, what was raised.

    What a client wrote can't look like a line of its own, nor move a terminal's cursor.
    """

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the standard library
        """The first line."""
        request_id = _REQUEST_ID.get()
        return _printable(super().formatMessage(record)) + (f" [{request_id}]" if request_id else "")

    def format(self, record: logging.LogRecord) -> str:
        """All lines."""
        return "\n    ".join(_printable(line) for line in super().format(record).split("\n"))


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, ``request_id``, and fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := _REQUEST_ID.get():
            fields["request_id"] = request_id
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def log_to_stderr(level: str, form: LogFormat) -> None:
    """Sets up the process's logging, from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
