"""The ``unspool`` command: a table of subcommands, each imported only when it runs.

``unspool --help`` must stay instant, so this module imports click and nothing else from outside the standard
library. Every failure a user can cause is one line on standard error, never a traceback or a usage dump.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

import unspool

_PACKAGE = Path(unspool.__file__).parent


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Where a subcommand lives (``module:attribute``) and its line in ``unspool --help``."""

    target: str
    summary: str


SUBCOMMANDS = {
    "parse": Subcommand("unspool.cli.parse:parse", "Print the message that raw model output spells out."),
    "explain": Subcommand(
        "unspool.cli.explain:explain", "Show what each character of raw model output became, and why."
    ),
    "formats": Subcommand("unspool.cli.formats:formats", "List the formats that unspool reads, or show one."),
    "detect": Subcommand("unspool.cli.detect:detect", "Name the format that a checkpoint writes, and why."),
    "lint": Subcommand("unspool.cli.lint:lint", "Try a checkpoint's chat template in round trips."),
    "convert": Subcommand(
        "unspool.cli.convert:convert", "Rewrite a chat dataset from one family's format to another's."
    ),
    "grammar": Subcommand(
        "unspool.cli.grammar:grammar",
        "Print what a turn may be, as a grammar or for a server.",
    ),
    "mcp": Subcommand("unspool.cli.mcp:mcp", "Check the MCP servers of a file, list their tools, or call one."),
    "serve": Subcommand("unspool.cli.serve:serve", "Serve MODEL over the OpenAI and Anthropic APIs."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported by name, and whose errors are one line each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands, in the order in which people need them."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports one subcommand; ``None`` if there is no such command."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, attribute = SUBCOMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command to run, or says which one was probably meant."""
        name = args[0]
        if name not in SUBCOMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, SUBCOMMANDS, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SUBCOMMANDS)}."
            raise click.UsageError(f"No such command {name!r}; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in SUBCOMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, *positional: Any, **options: Any) -> NoReturn:
        """Runs the command line and exits: 0 on success, 2 for bad input, 1 for what fails.

        Each failure is one line on standard error.
        """
        options["standalone_mode"] = False
        options.setdefault("prog_name", "unspool")
        try:
            result = super().main(args, *positional, **options)
        except click.ClickException as error:
            click.echo(f"Error: {' '.join(error.format_message().split())}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(130)
        except OSError as error:
            named = f"{error.filename}: " if error.filename else "Writing failed: "
            click.echo(f"Error: {named}{error.strerror or error}", err=True)
            _give_up_output()
            sys.exit(1)
        # Without standalone mode click returns the code of --help, --version and ctx.exit().
        sys.exit(result if isinstance(result, int) else 0)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Writes a warning to standard error; one of this package without its place in the code."""
    if Path(filename).is_relative_to(_PACKAGE):
        click.echo(f"Warning: {' '.join(str(message).split())}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _give_up_output() -> None:
    """Sends what standard output still holds nowhere, so that the end of the process doesn't try it again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


@click.command(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(unspool.__version__, prog_name="unspool", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Turn what a language model writes into reasoning, content and tool calls.

    Output is rich text on a terminal and JSON when it is piped. --json forces JSON; a non-empty FORCE_COLOR
    in the environment forces rich text; NO_COLOR takes the colour away.
    """
    warnings.showwarning = _show_warning
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
