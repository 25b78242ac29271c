"""Tools of MCP servers: the flags of ``unspool serve`` that are about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from unspool.cli.mcp import load

if TYPE_CHECKING:
    from unspool.mcp.manager import Manager
    from unspool.mcp.outside import Origin
    from unspool.mcp.tools import ToolRunner


def mcp_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags; :func:`mcp_settings` and :func:`tool_runner` read them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--mcp-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of MCP servers whose tools the server runs for its clients, with `mcpServers` as other "
        "products write it. Nothing else can start one.",
    ),
    click.option(
        "--mcp-max-turns",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="In how many turns of an answer such tools may run; the next has none.",
    ),
    click.option(
        "--mcp-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=600.0,
        help="Seconds that a call of such a tool may take, whatever the file allows its server. [default: 600]",
    ),
    click.option(
        "--mcp-offer",
        type=click.Choice(["always", "asked"]),
        default="always",
        show_default=True,
        help="Offer allowed tools to every request, unless the file says otherwise, or only to those that name "
        "their server.",
    ),
    click.option(
        "--mcp-allow-request-servers",
        multiple=True,
        metavar="ORIGIN",
        help="Where requests may bring MCP servers from: https://host, https://host:port or https://*.host. "
        "[default: nowhere]",
    ),
)


def mcp_settings(context: click.Context) -> dict[str, Any]:
    """The flags as fields of :class:`unspool.server.service.Settings`.

    Raises :class:`click.UsageError` for one that means nothing without a file.
    """
    options = context.params
    origins = tuple(map(_origin, options["mcp_allow_request_servers"]))
    if options["mcp_config"] is None and not origins:
        for name in ("mcp_max_turns", "mcp_timeout", "mcp_offer"):
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --mcp-config FILE.")
    if origins:
        _manager()
    flags = {name: options[name] for name in ("mcp_max_turns", "mcp_timeout", "mcp_offer")}
    return {**flags, "mcp_request_origins": origins}


def _origin(text: str) -> Origin:
    from unspool.mcp.outside import OutsideError, read_origin

    try:
        return read_origin(text)
    except OutsideError as error:
        raise click.UsageError(f"--mcp-allow-request-servers {text}: {error}.") from None


def tool_runner(path: Path | None) -> ToolRunner | None:
    """What runs the tools of a file's servers; none is started. Raises :class:`click.ClickException`."""
    return None if path is None else _manager()(load(path))


def _manager() -> type[Manager]:
    """The class of managers. Raises :class:`click.ClickException` if the extra is not there."""
    try:
        from unspool.mcp.manager import Manager
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("unspool"):
            raise
        raise click.ClickException(f'MCP needs {error.name}; run: pip install "unspool[mcp]"') from None
    return Manager
