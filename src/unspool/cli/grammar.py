"""``unspool grammar``: what a turn may be, as a grammar or as the fields that a server takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import unspool
from unspool.cli.options import (
    format_options,
    load_json,
    needed_format,
    prompt_options,
    tools_options,
)
from unspool.cli.output import indent_json, is_for_people, print_json, print_note

if TYPE_CHECKING:
    from unspool.constrained import Grammar


@click.command()
@format_options(
    "-f",
    "--format",
    help="The format the turn is in: a name or alias from 'unspool formats', REASONING+TOOLS, or a TOML file that "
    "declares one.",
)
@tools_options
@click.option("--no-parallel", is_flag=True, help="At most one call.")
@click.option(
    "--constrain",
    type=click.Choice(["strict", "envelope", "schema"]),
    default="strict",
    show_default=True,
    help="What calls are held to that may come but need not: those of strict tools to their schema, all calls to "
    "their form, or all calls to their schema.",
)
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False),
    metavar="JSON",
    help="File with the JSON Schema that content is held to.",
)
@click.option(
    "--reasoning",
    type=click.Choice(["auto", "required", "off"]),
    default="auto",
    show_default=True,
    help="Whether the turn may begin with reasoning, has to, or can't.",
)
@prompt_options
@click.option(
    "--for",
    "target",
    type=click.Choice(["lark", "gbnf", "vllm", "sglang", "llama-server"]),
    default="lark",
    show_default=True,
    help="Who it is for: llguidance (Lark), llama.cpp (GBNF), or a server, which gets fields of a request.",
)
@click.option(
    "--tokenizer",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A tokenizer.json, or a directory with one, whose special tokens Lark names by id.",
)
@click.option(
    "--max-text",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help="How long a text in a call may be in Lark if no schema says it; 0: any length, for hosts that can't roll "
    "back otherwise. [default: 4096]",
)
def grammar(
    format_: unspool.Format | None,
    no_parallel: bool,
    schema: str | None,
    target: str,
    tokenizer: Path | None,
    max_text: int | None,
    **options: Any,
) -> None:
    """Print what a turn may be, as a grammar or for a server.

    Calls are held to the format's own syntax and to the schemas of their tools, content to --schema. Lark is for
    llguidance; with --schema it is the JSON text of both grammars. Without --tokenizer markers are letters. What
    can't be enforced is an error if the tool is strict, and is told on standard error otherwise.
    """
    from unspool.constrained import ConstraintError, json_schema

    fmt = needed_format(format_)
    if tokenizer is not None and target != "lark":
        raise click.UsageError(f"--tokenizer is for Lark alone: {target} takes markers by what spells them")
    if max_text is not None and target != "lark":
        raise click.UsageError(f"--max-text is for Lark alone: {target} can't count tokens")
    given = {**options, "parallel_tool_calls": not no_parallel}
    try:
        response = None if schema is None else json_schema(json.dumps(load_json(schema)))
        if target == "lark":
            bound = {} if max_text is None else {"max_text": max_text or None}
            _print_lark(fmt, tokenizer, response, given | bound)
        else:
            _print_remote(fmt, target, {**given, "response": response})
    except (ConstraintError, ValueError) as error:
        raise click.UsageError(str(error)) from None


def _print_lark(fmt: unspool.Format, path: Path | None, response: Grammar | None, given: dict[str, Any]) -> None:
    from unspool.constrained.turns import turn_grammar

    made = turn_grammar(fmt, None if path is None else _tokenizer(path), response=response, **given)
    if made is None:
        raise _nothing()
    for warning in made.warnings:
        print_note(warning)
    if response is None:
        click.echo(json.loads(made.text)["grammars"][0]["lark_grammar"], nl=False)
    else:
        _print_fields(json.loads(made.text))


def _print_remote(fmt: unspool.Format, target: str, given: dict[str, Any]) -> None:
    from unspool.constrained import for_llama_server, for_sglang, for_vllm, turn_gbnf

    makers = {"gbnf": turn_gbnf, "vllm": for_vllm, "sglang": for_sglang, "llama-server": for_llama_server}
    made = makers[target](fmt, **given)
    if made is None:
        raise _nothing()
    for warning in made.warnings:
        print_note(warning)
    if target == "gbnf":
        click.echo(made.fields["grammar"], nl=False)
    else:
        _print_fields(dict(made.fields))


def _print_fields(fields: dict[str, Any]) -> None:
    if is_for_people(False):
        click.echo(indent_json(json.dumps(fields, ensure_ascii=False)))
    else:
        print_json(fields)


def _nothing() -> click.ClickException:
    return click.ClickException(
        "nothing is held: no call has to come, no tool is strict, and there is no --schema; "
        "give --tool-choice required or --constrain schema"
    )


def _tokenizer(path: Path) -> Any:
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise click.ClickException("--tokenizer needs tokenizers: pip install tokenizers") from error
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library has no class of its own for this
        raise click.UsageError(f"{click.format_filename(file)}: {error}") from error
