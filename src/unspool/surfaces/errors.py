"""What is wrong with a request, said once for every surface.

A decoder raises :class:`InvalidRequestError`; each surface writes it in its own error shape.
"""

from __future__ import annotations

from typing import Any


class InvalidRequestError(Exception):
    """The client sent something that can't be served; the message says what and how to mend it.

    ``param`` is the dotted path of the offending field, ``code`` a machine-readable reason (or ``None``),
    ``status`` the HTTP status.
    """

    def __init__(
        self, message: str, param: str | None = None, *, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def unsupported(param: str, what: str) -> InvalidRequestError:
    """A demand that is valid for the API but can't be met here: a 400 rather than a silent omission."""
    return InvalidRequestError(
        f"`{param}`: {what} is not supported yet by this engine. Remove the field to go on without it.",
        param,
        code="unsupported_parameter",
    )


def openai_error(
    message: str, kind: str = "invalid_request_error", *, param: str | None = None, code: str | None = None
) -> dict[str, dict[str, str | None]]:
    """The error object of OpenAI's APIs, for a response body or an event."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def messages_error(message: str, kind: str, *, request_id: str | None = None) -> dict[str, Any]:
    """The error object of the Messages API, for a response body or an event."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
