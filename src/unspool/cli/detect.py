"""``unspool detect``: which format a checkpoint writes, and why."""

from __future__ import annotations

from pathlib import Path

import click

import unspool
from unspool.cli.options import json_fault
from unspool.cli.output import is_for_people, json_option, print_json, terminal, visible


@click.command()
@click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))
@json_option
def detect(path: Path, as_json: bool) -> None:
    """Name the format that a checkpoint writes, and why.

    PATH is a model's directory, its tokenizer_config.json, a chat template (.jinja), or a .gguf file. A
    response_template decides before the chat template, and that before the special tokens. Exit status 1: no
    known format fits, or several do; the message names them.
    """
    try:
        found = unspool.detect(path)
    except (unspool.AmbiguousFormatError, unspool.UndetectedFormatError) as error:
        raise click.ClickException(str(error)) from None
    except unspool.CheckpointError as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"{click.format_filename(path)}: {json_fault(error)}") from None
    if is_for_people(as_json):
        from rich.text import Text

        name = (found.format.name, "bold cyan")
        terminal().print(Text.assemble(name, f"  {found.format.summary}\n", (visible(found.reason), "dim")))
        return
    print_json(
        {
            "format": found.format.name,
            "where": found.where,
            "evidence": found.evidence,
            "shows_calls": found.shows_calls,
            "reason": found.reason,
        }
    )
