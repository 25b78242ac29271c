"""The flags that commands share: which format, which tools, which prompt, which text.

Everything is checked here, before any text is read, and each complaint names the file and the place in it.
"""

from __future__ import annotations

import codecs
import functools
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import click

import unspool

Tool = dict[str, Any]

_READ_SIZE = 65536
_ESCAPE = re.compile(r"\\(?:([ntr\\])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_TOOL_SHAPE = '{"type": "function", "function": {"name": ...}}'


@dataclass(frozen=True, slots=True)
class Reading:
    """One text to read and everything its parser has to know.

    ``path`` is ``-`` for standard input. ``prompt`` is ``None`` when it was not given, which is not the same
    as an empty one: the format's default start applies.
    """

    path: str
    format: unspool.Format
    tools: list[Tool] | None
    tool_choice: str | Tool
    prompt: str | None
    finish_reason: Literal["stop", "length"]

    def pieces(self) -> Iterator[str]:
        """The text, as it arrives from standard input, or a file in one piece.

        Raises :class:`click.UsageError` naming the byte that is not UTF-8.
        """
        decoder = codecs.getincrementaldecoder("utf-8")()
        consumed = 0
        for data in self._blocks():
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                name = "standard input" if self.path == "-" else click.format_filename(self.path)
                byte = consumed - pending + error.start
                raise click.UsageError(f"{name}: byte {byte} is not UTF-8 text") from error
            consumed += len(data)
            if text:
                yield text

    def _blocks(self) -> Iterator[bytes]:
        """The bytes to read, ended by an empty block."""
        if self.path != "-":
            yield _read_bytes(self.path)
            yield b""
            return
        stdin = cast(io.BufferedReader, sys.stdin.buffer)
        # A plain read() would wait for the block to fill; read1() gives what has arrived.
        while data := stdin.read1(_READ_SIZE):
            yield data
        yield b""


def format_named(name: str) -> unspool.Format:
    """The format of that name, or the one that a file declares, which is registered then.

    The file is TOML, or JSON with a checkpoint's ``response_template``.

    Raises :class:`click.ClickException` with what is wrong.
    """
    try:
        if name.lower().endswith(".toml"):
            return unspool.register(unspool.load_format(name))
        if name.lower().endswith(".json"):
            found = unspool.load_response_template(name)
            if found is None:
                raise click.ClickException(f"{name}: there is neither a response_template nor a response_schema")
            return unspool.register(found)
        return unspool.get_format(name)
    except OSError as error:
        raise click.ClickException(f"{name}: {error.strerror or error}") from error
    except RecursionError as error:
        raise click.ClickException(f"{name}: nested too deeply") from error
    except (unspool.UnknownFormatError, ValueError) as error:
        text = str(error)
        of_file = name.lower().endswith((".toml", ".json"))
        if not of_file and Path(name).is_file():
            text = f"{name}: a file that declares a format ends in .toml, or in .json with a response_template"
        raise click.ClickException(f"{name}: {text}" if of_file and name not in text else text) from error


def read_format(ctx: click.Context, _param: click.Parameter, name: str) -> unspool.Format:
    """The declared format of that name (a click callback); an unknown one is a usage error."""
    return _named(name, ctx)


def _named(name: str, ctx: click.Context | None = None) -> unspool.Format:
    try:
        return format_named(name)
    except click.ClickException as error:
        raise click.UsageError(error.message, ctx) from error


def format_options(*flags: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds flags for a whole format (``flags``, described by ``help``) and for its two halves.

    The command gets ``format_``, the declared format, or ``None`` if no flag was given. Raises
    :class:`click.UsageError` naming the flags that don't go together.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(*flags, "whole", shell_complete=complete_format, metavar="NAME", help=help)
        @click.option(
            "--reasoning-format",
            shell_complete=complete_format,
            metavar="NAME",
            help="The format whose reasoning it is, with --tool-format instead of --format.",
        )
        @click.option(
            "--tool-format",
            shell_complete=complete_format,
            metavar="NAME",
            help="The format whose calls they are, with --reasoning-format.",
        )
        @functools.wraps(command)
        def with_format(
            *, whole: str | None, reasoning_format: str | None, tool_format: str | None, **rest: Any
        ) -> Any:
            return command(format_=_chosen_format(whole, reasoning_format, tool_format), **rest)

        return with_format

    return decorate


def _chosen_format(whole: str | None, reasoning: str | None, tools: str | None) -> unspool.Format | None:
    halves = {"--reasoning-format": reasoning, "--tool-format": tools}
    given = {flag: name for flag, name in halves.items() if name is not None}
    if whole is not None and given:
        raise click.UsageError(
            f"--format and {' and '.join(given)} exclude each other: give --format alone, or only both halves"
        )
    if whole is not None:
        return _named(whole)
    if len(given) == 1:
        [missing] = halves.keys() - given.keys()
        raise click.UsageError(f"{''.join(given)} is half of a format: add {missing}, or give --format alone")
    for flag, name in given.items():
        if "+" in name:
            raise click.UsageError(f"{flag} takes one format, not a combination like {name!r}")
    formats = [_named(name) for name in given.values()]
    return _named("+".join(dict.fromkeys(fmt.name for fmt in formats))) if formats else None


def complete_format(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """For the shell: names and aliases of formats that begin with what was typed."""
    names = (name for each in unspool.formats() for name in (each.name, *each.aliases))
    return [name for name in names if name.startswith(typed)]


def needed_format(format_: unspool.Format | None) -> unspool.Format:
    """The format that was chosen. Raises :class:`click.UsageError` if none was."""
    if format_ is None:
        raise click.UsageError(
            "which format? Give -f NAME, or --reasoning-format and --tool-format; 'unspool formats' lists them"
        )
    return format_


def tools_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds flags for the tools of a request; the command gets ``tools`` and ``tool_choice``, checked."""

    @click.option(
        "--tools",
        type=click.Path(exists=True, dir_okay=False),
        metavar="JSON",
        help='File with the offered tools in OpenAI form: a list, an object with "tools", or one tool. '
        "Without it no tools were offered, and call syntax is ordinary content.",
    )
    @click.option(
        "--tool-choice",
        metavar="auto|none|required|NAME",
        default="auto",
        show_default=True,
        help="The tool_choice of the request.",
    )
    @functools.wraps(command)
    def with_tools(*, tools: str | None, tool_choice: str, **rest: Any) -> None:
        offered = None if tools is None else load_tools(tools)
        command(tools=offered, tool_choice=_tool_choice(tool_choice, offered), **rest)

    return with_tools


def prompt_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds flags for the prompt; the command gets ``prompt``."""

    @click.option("--prompt", metavar="TEXT", help="The rendered prompt, exactly as it is.")
    @click.option(
        "--prompt-tail",
        metavar="TEXT",
        help="The end of the rendered prompt; \\n, \\t, \\r, \\\\, \\xHH and \\uHHHH are understood, "
        "so $'...' is not needed.",
    )
    @click.option(
        "--prompt-file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="PATH",
        help="File with the rendered prompt or its end.",
    )
    @functools.wraps(command)
    def with_prompt(*, prompt: str | None, prompt_tail: str | None, prompt_file: str | None, **rest: Any) -> None:
        command(prompt=_prompt(prompt, prompt_tail, prompt_file), **rest)

    return with_prompt


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the shared flags to a command, which gets them checked and read as one :class:`Reading`."""

    @click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
    @format_options(
        "-f",
        "--format",
        help="The format the text is in: a name or alias from 'unspool formats', REASONING+TOOLS, or a file that "
        "declares one: TOML, or JSON with a response_template.",
    )
    @tools_options
    @prompt_options
    @click.option(
        "--finish-reason",
        type=click.Choice(["stop", "length"]),
        default="stop",
        show_default=True,
        help="Why the text ended; length is the token limit.",
    )
    @functools.wraps(command)
    def with_reading(
        *,
        file: str,
        format_: unspool.Format | None,
        tools: list[Tool] | None,
        tool_choice: str | Tool,
        prompt: str | None,
        finish_reason: Literal["stop", "length"],
        **rest: Any,
    ) -> None:
        reading = Reading(
            path=file,
            format=needed_format(format_),
            tools=tools,
            tool_choice=tool_choice,
            prompt=prompt,
            finish_reason=finish_reason,
        )
        command(reading, **rest)

    return with_reading


def load_tools(path: str) -> list[Tool]:
    """The OpenAI function tools in a file: a list of them, an object with ``tools``, or one tool.

    Raises :class:`click.UsageError` naming line and column of bad JSON, or the member that is wrong.
    """
    shown = click.format_filename(path)
    value = load_json(path)
    if isinstance(value, dict) and "tools" in value:
        prefix, value = "tools", value["tools"]
    elif isinstance(value, dict):
        return [_checked_tool(value, f"{shown}: ")]
    else:
        prefix = ""
    if not isinstance(value, list):
        raise click.UsageError(f"{shown}: {prefix or 'the file'} must be a list of tools, not {_kind(value)}")
    return [_checked_tool(tool, f"{shown}: {prefix}[{i}]") for i, tool in enumerate(value)]


def unescape(text: str) -> str:
    r"""Text with ``\n``, ``\t``, ``\r``, ``\\``, ``\xHH`` and ``\uHHHH`` replaced; other backslashes stay."""

    def character(match: re.Match[str]) -> str:
        letter, two, four = match.groups()
        return _ESCAPED[letter] if letter else chr(int(two or four, 16))

    return _ESCAPE.sub(character, text)


def _checked_tool(tool: object, at: str) -> Tool:
    """The tool, if it is an OpenAI function tool; ``at`` is the file and the path to it, for complaints."""
    join = "" if at.endswith(" ") else "."
    if not isinstance(tool, dict):
        raise click.UsageError(f"{at.rstrip(': ')} is {_kind(tool)}; a tool is {_TOOL_SHAPE}")
    function = tool.get("function")
    if not isinstance(function, dict):
        what = f"is {_kind(function)}" if "function" in tool else "is missing"
        raise click.UsageError(f"{at}{join}function {what}; a tool is {_TOOL_SHAPE}")
    if tool.get("type", "function") != "function":
        raise click.UsageError(f'{at}{join}type is {json.dumps(tool["type"])}; only "function" tools are read')
    name = function.get("name")
    if not isinstance(name, str) or not name:
        what = "is missing" if "name" not in function else f"must be a non-empty string, not {_kind(name)}"
        raise click.UsageError(f"{at}{join}function.name {what}")
    parameters = function.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise click.UsageError(
            f"{at}{join}function.parameters must be a JSON Schema object, not {_kind(parameters)}"
        )
    return tool


def _tool_choice(choice: str, tools: list[Tool] | None) -> str | Tool:
    if choice in ("auto", "none"):
        return choice
    names = [tool["function"]["name"] for tool in tools or ()]
    if not names:
        raise click.UsageError(f"--tool-choice {choice} needs tools to choose from: add --tools")
    if choice == "required":
        return choice
    if choice not in names:
        raise click.UsageError(
            f"--tool-choice {choice} is not an offered tool; "
            f"give auto, none, required, or one of {', '.join(names)}"
        )
    return {"type": "function", "function": {"name": choice}}


def _prompt(prompt: str | None, tail: str | None, path: str | None) -> str | None:
    given = {"--prompt": prompt, "--prompt-tail": tail, "--prompt-file": path}
    flags = [flag for flag, value in given.items() if value is not None]
    if len(flags) > 1:
        raise click.UsageError(f"{' and '.join(flags)} say the same thing: give one of them")
    if path is not None:
        return _read_text(path, "utf-8")
    return unescape(tail) if tail is not None else prompt


def load_json(path: str) -> object:
    """The JSON value in a file. Raises :class:`click.UsageError` naming line and column where it is none."""
    shown = click.format_filename(path)
    try:
        # Editors on Windows put a byte order mark before JSON.
        return json.loads(_read_text(path, "utf-8-sig"))
    except json.JSONDecodeError as error:
        raise click.UsageError(f"{shown}:{error.lineno}:{error.colno}: {json_fault(error)}") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{shown}: {json_fault(error)}") from error


def json_fault(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that ``json.loads`` doesn't take."""
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {error.msg}"
        case RecursionError():
            return "nested too deeply"
    return f"a number has more than {sys.get_int_max_str_digits()} digits"


def _read_text(path: str, encoding: str) -> str:
    try:
        return _read_bytes(path).decode(encoding)
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{click.format_filename(path)}: byte {error.start} is not UTF-8 text") from error


def _read_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {click.format_filename(path)}: {error.strerror}") from error


def _kind(value: object) -> str:
    """What a JSON value is, in a sentence."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names[type(value)] if value != "" else "an empty string"
