"""``unspool mcp``: what the servers of a file would run, what tools they have, and a call of one.

The same file, rules and limits as for ``unspool serve --mcp-config``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unspool.cli.output import is_for_people, json_option, print_json, print_note, terminal, visible

if TYPE_CHECKING:
    from rich.text import Text

    from unspool.mcp.checking import Check
    from unspool.mcp.manager import Manager
    from unspool.mcp.settings import McpConfig
    from unspool.mcp.tools import Catalogue, McpTool, ToolResult

_T = TypeVar("_T")
_SHOWN_LINES = 20
"""How many of the last lines of a server that does not run are shown."""
_STYLES = {
    "ready": "green",
    "runs": "green",
    "allow": "green",
    "failed": "bold red",
    "refused": "bold red",
    "deny": "bold red",
    "restarting": "yellow",
    "ask": "yellow",
    "disabled": "dim",
    "stopped": "dim",
}

config_option = click.option(
    "--mcp-config",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The file with the servers (mcpServers), as Claude Desktop, Cursor or VS Code write it.",
)


@click.group()
def mcp() -> None:
    """Check the MCP servers of a file, list their tools, or call one."""


@mcp.command()
@config_option
@json_option
@click.pass_context
def check(ctx: click.Context, path: Path, as_json: bool) -> None:
    """Say what each server would run, and what would be refused.

    The program or URL, its exact arguments, and the names of all variables that it gets. Nothing is started, and
    values of variables are not shown. Exit status: 1 if a server would be refused, 2 if
    the file can't be used.
    """
    config = load(path)
    from unspool.mcp.checking import check as check_servers

    checks = check_servers(config)
    if is_for_people(as_json):
        for each in checks:
            _show_check(each)
    else:
        print_json({"servers": checks, "warnings": config.warnings})
    for warning in (*config.warnings, *(warning for each in checks for warning in each.warnings)):
        print_note(warning)
    ctx.exit(1 if any(each.verdict == "refused" for each in checks) else 0)


@mcp.command("list")
@config_option
@json_option
@click.pass_context
def list_tools(ctx: click.Context, path: Path, as_json: bool) -> None:
    """Start the servers of a file and list their tools.

    Each with the name that models see, and its digest, which can be pinned. Exit status: 1 if a server failed, 2
    if the file can't be used.
    """

    async def look(manager: Manager) -> Catalogue:
        return manager.catalogue()

    catalogue = _with_manager(load(path), look)
    if is_for_people(as_json):
        _show_catalogue(catalogue)
    else:
        print_json(catalogue)
    ctx.exit(0 if all(each.state in ("ready", "disabled") for each in catalogue.servers) else 1)


@mcp.command()
@config_option
@click.argument("name", metavar="TOOL")
@click.argument("arguments", required=False, default="{}", metavar="[ARGUMENTS]")
@click.option("--yes", is_flag=True, help="Agree to a tool whose policy is ask.")
@json_option
@click.pass_context
def call(ctx: click.Context, path: Path, name: str, arguments: str, yes: bool, as_json: bool) -> None:
    """Call a tool, within the limits of the file.

    TOOL is the name that models see, ARGUMENTS a JSON object. Exit status: 1 if the call failed, 2 if the file
    can't be used or the tool was not agreed to.
    """

    async def use(manager: Manager) -> ToolResult:
        catalogue = manager.catalogue()
        tool = catalogue.find(name)
        names = [each.exposed for each in catalogue.tools if each.policy != "deny"]
        if tool is None:
            if names:
                print_note(f"TOOL is one of {', '.join(names)}")
            return await manager.call_by_name(name, arguments, request_id="command-line")
        if tool.policy == "ask" and not yes:
            await asyncio.to_thread(_ask, tool, arguments)
        # The tool that was agreed to, which may be another one by now.
        return await manager.call(tool, arguments, request_id="command-line")

    result = _with_manager(load(path), use)
    if is_for_people(as_json):
        terminal().print(visible(result.text), style="bold red" if result.is_error else "")
    else:
        print_json(result)
    ctx.exit(1 if result.is_error else 0)


def load(path: Path) -> McpConfig:
    """The servers of a file. Raises :class:`click.ClickException` with what is wrong."""
    from unspool.mcp.config import load_config
    from unspool.mcp.settings import McpConfigError

    try:
        return load_config(path, os.environ)
    except McpConfigError as error:
        raise click.UsageError(str(error)) from None


def _with_manager(config: McpConfig, use: Callable[[Manager], Awaitable[_T]]) -> _T:
    """What comes of using a manager that runs meanwhile."""
    try:
        from unspool.mcp.manager import Manager
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("unspool"):
            raise
        raise click.ClickException(f'MCP needs {error.name}; run: pip install "unspool[mcp]"') from None

    async def run() -> _T:
        manager = Manager(config)
        with _overheard() as heard:
            try:
                await manager.start()
                result = await use(manager)
                for server in manager.catalogue().servers:
                    if server.state not in ("ready", "disabled"):
                        for line in heard.get(server.name, ())[-_SHOWN_LINES:]:
                            print_note(line)
                return result
            finally:
                await manager.close()

    return asyncio.run(run())


@contextmanager
def _overheard() -> Iterator[dict[str, list[str]]]:
    """What the programs of servers write beside their protocol, as the log has it, by the server's name.

    Meanwhile warnings in the log are notes: what servers say may be in them.
    """
    heard: dict[str, list[str]] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple) and record.args:
                heard.setdefault(str(record.args[0]), []).append(record.getMessage())

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print_note(record.getMessage())

    root, log, listener, notes = logging.getLogger(), logging.getLogger("unspool.mcp.stdio"), Listener(), Notes()
    notes.setLevel(logging.WARNING)
    level = log.level
    root.addHandler(notes)
    log.addHandler(listener)
    log.setLevel(logging.INFO)
    try:
        yield heard
    finally:
        root.removeHandler(notes)
        log.removeHandler(listener)
        log.setLevel(level)


def _ask(tool: McpTool, arguments: str) -> None:
    # Its server's own name for it may hold anything.
    said = f"{tool.exposed} is to be agreed to before it runs"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{said}; give --yes")
    if not click.confirm(visible(f"{said}. Run it with {arguments}?"), err=True):
        raise click.UsageError(f"{tool.exposed} was not agreed to")


def _line(*parts: str | tuple[str, str]) -> Text:
    from rich.text import Text

    return Text.assemble(
        *((visible(part[0]), part[1]) if isinstance(part, tuple) else visible(part) for part in parts)
    )


def _show_check(one: Check) -> None:
    console = terminal()
    console.print(_line((one.name, "bold cyan"), f"  {one.transport}  ", (one.verdict, _STYLES[one.verdict])))
    shown: dict[str, Any] = {
        "refused": one.refused,
        "runs": one.command,
        "which": _behind(one),
        "in": one.cwd,
        "with": " ".join(one.environment),
        "reaches": one.url,
        "sends": " ".join(one.headers),
        "gets": one.auth,
        "tools": " ".join(f"{name}={policy}" for name, policy in (one.tools or {}).items()),
        "pinned": one.pinned,
    }
    for name, value in shown.items():
        if value:
            console.print(_line((f"  {name:<8}", "dim"), str(value)), soft_wrap=True)


def _behind(one: Check) -> str | None:
    """The program's own file, if what is run is a link to it."""
    if one.command is None or one.program is None or shlex.split(one.command)[0] == one.program:
        return None
    return f"is {one.program}"


def _show_catalogue(catalogue: Catalogue) -> None:
    console = terminal()
    for server in catalogue.servers:
        state = (server.state, _STYLES.get(server.state, ""))
        console.print(
            _line((server.name, "bold cyan"), f"  {server.transport}  ", state, f"  {server.error or ''}")
        )
        for tool in catalogue.of(server.name):
            summary = tool.description.strip().split("\n")[0]
            line = _line("  ", (f"{tool.policy:<6}", _STYLES[tool.policy]), (tool.exposed, "bold"), f"  {summary}")
            console.print(line, no_wrap=True, overflow="ellipsis")
