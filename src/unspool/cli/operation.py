"""How a server is operated: the flags of ``unspool serve`` that are about its clients, not about its model."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import click


class Seconds(click.FloatRange):
    """A time that a clock can wait for."""

    _MOST = 1e8

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises :class:`click.BadParameter` for one that is none, negative, or years."""
        seconds = click.FLOAT.convert(value, param, ctx)
        if not 0 <= seconds <= self._MOST:
            self.fail(f"{value} is not a number of seconds from 0 to {self._MOST:,.0f}.", param, ctx)
        return float(seconds)


class Filled(click.types.StringParamType):
    """Text that is there: an empty shell variable is no way to say that a flag does not matter."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is. Raises :class:`click.BadParameter` if it is empty."""
        if not value.strip():
            self.fail("it is empty; leave the flag out, or say something.", param, ctx)
        return value


class Secret(Filled):
    """Such text as a header may carry."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is. Raises :class:`click.BadParameter`, which does not show it."""
        text = super().convert(value, param, ctx)
        if text != text.strip():
            self.fail("it begins or ends with whitespace, which clients can't send.", param, ctx)
        return text


def operation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags; :func:`operation_settings` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--allow-origin",
        "allow_origins",
        multiple=True,
        type=Filled(),
        metavar="ORIGIN",
        help="Let web pages of this origin call the server ('*': any).",
    ),
    click.option(
        "--allow-host",
        "allow_hosts",
        multiple=True,
        type=Filled(),
        metavar="NAME",
        help="A name that clients may call the server by, besides addresses ('*': any). [default: names of this "
        "machine if --host is, else any]",
    ),
    click.option(
        "--max-waiting",
        type=click.IntRange(min=1),
        default=128,
        show_default=True,
        help="How many requests may wait for their first token; more get a 503.",
    ),
    click.option(
        "--time-limit",
        type=Seconds(),
        default=0.0,
        help="Seconds that a request may take, waiting included; 0 is no limit. [default: 0]",
    ),
    click.option(
        "--idle-timeout",
        type=Seconds(),
        default=60.0,
        help="Seconds after which a client that neither sends its request nor takes its answer is given up; 0 is "
        "no limit. [default: 60]",
    ),
    click.option(
        "--shutdown-timeout",
        type=Seconds(),
        default=10.0,
        help="Seconds that running answers may go on after an interrupt; then they are ended as failed. "
        "[default: 10]",
    ),
    click.option(
        "--heartbeat",
        type=Seconds(),
        default=15.0,
        help="Seconds of silence in a stream after which a sign of life is sent; 0 sends none. [default: 15]",
    ),
)


def operation_settings(options: dict[str, Any], host: str) -> dict[str, Any]:
    """The flags as fields of :class:`unspool.server.service.Settings`, for a server that listens on ``host``."""
    return {
        "allow_origins": options["allow_origins"],
        "allow_hosts": options["allow_hosts"] or (("localhost",) if _is_loopback(host) else ()),
        "max_waiting": options["max_waiting"],
        "time_limit": options["time_limit"] or None,
        "idle_timeout": options["idle_timeout"] or None,
        "shutdown_timeout": options["shutdown_timeout"],
        "heartbeat": options["heartbeat"] or None,
    }


def _is_loopback(host: str) -> bool:
    """Whether only this machine can connect, so that a name from elsewhere is a page's trick."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
