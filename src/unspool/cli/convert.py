"""``unspool convert``: chat datasets from one family's way of writing to another's, row by row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import click

import unspool
from unspool.cli.options import complete_format, json_fault, load_tools
from unspool.cli.output import json_line, replacing, visible
from unspool.convert import OPENAI, Converter, RowError
from unspool.convert.converter import Dialect


def _dialect(ctx: click.Context, _param: click.Parameter, name: str) -> Dialect:
    if name == OPENAI:
        return OPENAI
    try:
        return unspool.get_format(name)
    except (unspool.UnknownFormatError, ValueError) as error:
        raise click.UsageError(f"{error} 'openai' stands for structured messages.", ctx) from None


def _dialect_option(flag: str, name: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        flag,
        name,
        required=True,
        callback=_dialect,
        shell_complete=complete_format,
        metavar="NAME",
        help=f"{what}: a format from 'unspool formats', or openai for structured messages.",
    )


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@_dialect_option("--from", "source", "How the model's words stand in the rows")
@_dialect_option("--to", "target", "How they shall stand")
@click.option("--field", metavar="NAME", help="The field with the text that the model wrote.")
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False),
    metavar="JSON",
    help="File with the offered tools, for rows that have none of their own.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="PATH", help="Where to.")
@click.option("--strict", is_flag=True, help="Exit with 1 if anything was lost.")
@click.pass_context
def convert(
    ctx: click.Context,
    file: str,
    source: Dialect,
    target: Dialect,
    field: str | None,
    tools: str | None,
    output: Path | None,
    strict: bool,
) -> None:
    """Rewrite a chat dataset from one family's format to another's.

    FILE has a JSON object a line; - or nothing is standard input. What the model said is found in lists of
    messages (messages, prompt, completion, chosen, rejected), in ShareGPT conversations, or as text in completion,
    response or text. It is text in the source's format, or OpenAI's fields. All else stays as it is.

    What the target can't carry is told on standard error, with the line and the reason; a row that can't be
    written at all is left out.
    """
    if target != OPENAI and target.start.strip():
        click.echo(f"Note: the text goes on after {target.start!r}, with which prompts of {target} end.", err=True)
    converter = Converter(source, target, field=field, tools=None if tools is None else load_tools(tools))
    count: Counter[str] = Counter()
    with click.open_file(file, "rb") as lines, replacing(output) as out:
        for number, row in _rows(lines, click.format_filename(file)):
            count["rows"] += 1
            try:
                converted = converter.convert(row)
                line = None if converted.row is None else json_line(converted.row)
            except RowError as error:
                raise click.UsageError(f"line {number}: {error}") from None
            except RecursionError:
                raise click.UsageError(f"line {number}: nested too deeply") from None
            for loss in converted.losses:
                click.echo(f"line {number}: {visible(loss)}", err=True)
            count["lossy"] += bool(converted.losses)
            if line is None:
                count["left out"] += 1
            else:
                out.write(line + "\n")
    click.echo(
        f"{count['rows']} rows: {count['rows'] - count['lossy']} without loss, "
        f"{count['lossy'] - count['left out']} with losses, {count['left out']} left out",
        err=True,
    )
    ctx.exit(1 if strict and count["lossy"] else 0)


def _rows(lines: IO[bytes], file: str) -> Iterator[tuple[int, Any]]:
    """Each row with the number of its line; empty lines are none."""
    number = 0
    try:
        for number, line in enumerate(lines, 1):
            # Editors on Windows put a byte order mark before the first row.
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if text.strip():
                yield number, json.loads(text)
    except OSError as error:
        raise click.UsageError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise click.UsageError(f"line {number}: byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise click.UsageError(f"line {number}, column {error.colno}: {json_fault(error)}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"line {number}: {json_fault(error)}") from None
