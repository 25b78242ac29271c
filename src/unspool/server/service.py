"""What is served: one engine, its template, its format; a conversation goes in, a generation comes out.

Every surface meets here, so that none of them knows engines or parsers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import unspool
from unspool.compat.following import DEFAULT_FORMAT
from unspool.engines.base import CountsTokens, EncodesPrompts, Engine, ModelInfo, Sampling
from unspool.mcp.outside import Origin
from unspool.mcp.tools import ToolRunner
from unspool.parsing.declaration import strings
from unspool.server.constraints import ConstrainedTools, Demands, Held, hold
from unspool.server.controls import Controls, Prompt
from unspool.server.generation import ChunkReader, Generation, ParserLike
from unspool.server.limits import Traffic
from unspool.server.parsers import Plugins, choice_of, choose_plugins
from unspool.server.streams import EventStream, Frames
from unspool.server.template import ChatTemplate
from unspool.surfaces.chat_writer import REASONING_FIELDS
from unspool.surfaces.conversation import Conversation, ToolChoice
from unspool.surfaces.errors import InvalidRequestError
from unspool.surfaces.mcp_plan import Offer
from unspool.surfaces.output_format import OutputFormat

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's choices.

    ``format`` and ``chat_template`` (Jinja source) override what the model brings. ``aliases`` are further names
    of the model. ``arguments`` is how a call's arguments stream. ``max_body`` is in bytes. ``allow_hosts`` are the
    names that the server is called by; without one, by any. ``max_waiting`` is how many requests may wait for
    their first token; ``time_limit`` is in seconds from a request's arrival to its last token, ``idle_timeout`` in
    seconds without a sign of the client, ``shutdown_timeout`` in seconds that running answers may go on when the
    server ends, ``heartbeat`` in seconds of silence in a stream after which a sign of life is sent.
    ``constrain_tools`` says which calls are held to what where calls may come and need not: those of strict tools
    alone to their schema, every call to its form, or every call to its schema. ``tool_parser`` and
    ``reasoning_parser`` name parsers, at least one of them a plugin's, which then read instead of the format.
    ``mcp_max_turns`` is in how many turns of an answer tools of MCP servers may run, ``mcp_timeout`` how many
    seconds a call may take, and ``mcp_time_limit`` the seconds after which an answer gets no other turn with
    tools. ``mcp_offer`` says whether allowed tools are offered to requests that name no server.
    ``mcp_request_origins`` is where MCP servers may be that requests bring themselves.
    """

    format: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: str | None = None
    aliases: tuple[str, ...] = ()
    api_key: str | None = None
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    reasoning_fields: tuple[str, ...] = REASONING_FIELDS
    arguments: Literal["incremental", "atomic"] = "incremental"
    constrain_tools: ConstrainedTools = "strict"
    max_body: int = 32 * 1024 * 1024
    max_waiting: int = 128
    time_limit: float | None = None
    idle_timeout: float | None = 60.0
    shutdown_timeout: float = 10.0
    heartbeat: float | None = 15.0
    mcp_max_turns: int = 10
    mcp_timeout: float = 600.0
    mcp_time_limit: float | None = 600.0
    mcp_offer: Literal["always", "asked"] = "always"
    mcp_request_origins: tuple[Origin, ...] = ()


@runtime_checkable
class PicksByRequest(Protocol):
    """An engine that is several: each request is answered by the one that it picks."""

    @property
    def names(self) -> Collection[str]:
        """The models that requests may name."""
        ...

    def pick(self, prompt: str, name: str | None = None) -> Engine:
        """The engine that answers.

        Its ``model`` may name its format and, in ``details``, the ``prompt_tail`` that it really answers:
        the rendered prompt says nothing about where its output starts.
        """
        ...


class Service:
    """One engine behind every surface. The engine must have been started.

    ``runner`` runs tools of MCP servers, if there are any.
    """

    def __init__(self, engine: Engine, settings: Settings, runner: ToolRunner | None = None) -> None:
        """Raises, before anything is served, ``unspool.UnknownFormatError``, ``unspool.AmbiguousFormatError``,
        :class:`BadTemplateError` and :class:`PluginError`.
        """
        self.engine = engine
        self.settings = settings
        self.runner = runner
        self.traffic = Traffic(settings.max_waiting, settings.time_limit)
        model = engine.model
        self.template = ChatTemplate(template_source(settings, model), model.special)
        self.format = unspool.get_format(choose_format(settings, model))
        self.controls = _controls(engine.tokenizer, self.template.source, self.format)
        self.plugins = self._chosen_plugins()
        further = engine.names if isinstance(engine, PicksByRequest) else ()
        self.names = list(dict.fromkeys((model.id, *settings.aliases, *further)))

    def _chosen_plugins(self) -> Plugins | None:
        settings = self.settings
        if settings.tool_parser is None and settings.reasoning_parser is None:
            return None
        source = template_source(settings, self.engine.model)
        plugins = choose_plugins(
            settings.tool_parser, settings.reasoning_parser, settings.format, self.format.name, source
        )
        plugins.check(self.engine.tokenizer)
        return plugins

    def offer(self) -> Offer | None:
        """The tools of MCP servers that there are for a request that arrives now."""
        if self.runner is None:
            return None
        return Offer(self.runner.catalogue(), self.settings.mcp_offer == "always")

    @property
    def reads(self) -> str:
        """What reads the output, in a few words."""
        return f"{self.format.name} format" if self.plugins is None else f"read by {self.plugins}"

    def resolve(self, name: str | None) -> str:
        """The model that a request means; an unknown one is a 404 that lists what there is.

        No name, or ``default`` unless a model has that name, is the first one.
        """
        if name is None or (name == "default" and name not in self.names):
            return self.names[0]
        if name not in self.names:
            shown = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise InvalidRequestError(
                f"The model {name!r} is not served here; there is {shown}.",
                "model",
                code="model_not_found",
                status=404,
            )
        return name

    async def generate(
        self,
        conversation: Conversation,
        sampling: Sampling,
        *,
        output: OutputFormat | None = None,
        reasoning_budget: int | None = None,
        name: str | None = None,
        choices: int = 1,
        stream: bool = True,
    ) -> Generation:
        """Renders the prompt and prepares ``choices`` generations; nothing runs until it is started.

        ``output`` is what the content is held to, ``reasoning_budget`` the most reasoning tokens; what of these
        demands, or of the tools', can't be held raises :class:`InvalidRequestError`. ``name`` is the model or
        recording that the request asked for. ``stream`` false lets parsers that read whole outputs better than
        pieces wait for the end.
        """
        rendered = self.template.prompt(conversation, self.controls)
        prompt = rendered.text
        engine, form = self.engine, self.format
        answered: str | None = prompt
        if isinstance(engine, PicksByRequest):
            engine = engine.pick(prompt, name)
            if engine.model.format:
                form = unspool.get_format(engine.model.format)
            answered = engine.model.details.get("prompt_tail")
        tokenizer = engine.tokenizer
        held = Held([None] * choices)
        demands = self._demands(engine, conversation, sampling, output, reasoning_budget)
        if engine.constrains and demands.anything:
            held = await asyncio.to_thread(hold, form, tokenizer, answered, demands, choices)
        readers = [
            ChunkReader(
                self._parser(form, conversation, answered, tokenizer, stream), by_tokens=tokenizer is not None
            )
            for _ in range(choices)
        ]
        encoded = await _encoded(rendered, tokenizer)
        streams = [engine.stream(encoded, sampling, constraint) for constraint in held.constraints]
        generation = Generation(streams, readers, held.check if held.checks else None)
        generation.steps = self.traffic.follow(generation)
        return generation

    async def check(
        self,
        conversation: Conversation,
        sampling: Sampling,
        *,
        output: OutputFormat | None = None,
        reasoning_budget: int | None = None,
        **_: Any,
    ) -> None:
        """Raises what :meth:`generate` would, as far as it shows before the conversation is complete."""
        prompt = self.template.prompt(conversation, self.controls)
        engine = self.engine
        demands = self._demands(engine, conversation, sampling, output, reasoning_budget)
        if engine.constrains and demands.anything:
            await asyncio.to_thread(hold, self.format, engine.tokenizer, prompt.text, demands, 1)

    def _demands(
        self,
        engine: Engine,
        conversation: Conversation,
        sampling: Sampling,
        output: OutputFormat | None,
        reasoning_budget: int | None,
    ) -> Demands:
        return Demands(
            self._held_tools(conversation),
            output,
            reasoning_budget,
            self.settings.constrain_tools,
            sampling.max_tokens or engine.model.context_length,
        )

    def stream(self, frames: Frames[Any], first: asyncio.Task[Any], heartbeat: Callable[[], bytes]) -> EventStream:
        """An answer that begins with the step ``first``, as patient as the operator wants it."""
        settings = self.settings
        return EventStream(
            frames, first=first, heartbeat=heartbeat, pause=settings.heartbeat, patience=settings.idle_timeout
        )

    def _held_tools(self, conversation: Conversation) -> Conversation:
        """The conversation with the tools whose calls can be held: how a plugin's are written is not known."""
        if self.plugins is None or not conversation.offered_tools():
            return conversation
        if conversation.tool_choice.mode in ("required", "named"):
            log.warning("tool_choice is not enforced: %s reads the calls, not a format", self.plugins)
        return replace(conversation, tools=(), tool_choice=ToolChoice())

    async def count_tokens(self, conversation: Conversation) -> int:
        """How many tokens the prompt of a conversation has; an engine that can't say it is a 501."""
        prompt = self.template.prompt(conversation, self.controls)
        if not isinstance(self.engine, CountsTokens):
            raise InvalidRequestError("This engine can't count tokens without generating.", status=501)
        encoded = await _encoded(prompt, self.engine.tokenizer)
        return await self.engine.count_tokens(encoded) if isinstance(encoded, str) else len(encoded)

    def _parser(
        self,
        form: unspool.Format,
        conversation: Conversation,
        prompt: str | None,
        tokenizer: Any | None,
        stream: bool,
    ) -> ParserLike:
        if self.plugins is not None:
            return self.plugins.parser(conversation, prompt, tokenizer, stream=stream)
        return unspool.Parser(
            form,
            tools=conversation.offered_tools(),
            tool_choice=choice_of(conversation),
            prompt=prompt,
            arguments=self.settings.arguments,
            tokenizer=tokenizer,
            parallel_tool_calls=conversation.parallel_tool_calls,
        )


def _controls(tokenizer: Any, template: str, form: unspool.Format) -> Controls:
    """What only the template may write: control tokens, and those of the markers that template or format have."""
    if not isinstance(tokenizer, EncodesPrompts):
        return Controls()
    known = (template, *strings(form))
    markers = (
        text
        for text in tokenizer.added.values()
        if (text[:1], text[-1:]) in (("<", ">"), ("[", "]")) and any(text in each for each in known)
    )
    return Controls(tokenizer.special.values(), markers)


async def _encoded(prompt: Prompt, tokenizer: Any) -> str | list[int]:
    """What the engine is to get: the text, or ids where only they keep what a request spells text."""
    if not prompt.cuts or not isinstance(tokenizer, EncodesPrompts):
        return prompt.text
    return await asyncio.to_thread(tokenizer.encode_prompt, prompt.text, prompt.cuts)


def template_source(settings: Settings, model: ModelInfo) -> str | None:
    """The chat template to render with, ``None`` for the plain one."""
    if settings.chat_template is not None:
        return settings.chat_template
    # The demo model's own template is ChatML with a system message put in front, which is too much for a model
    # of its size: with it, the capital of France is a list of French nouns.
    return None if model.demo else model.chat_template


def choose_format(settings: Settings, model: ModelInfo) -> str:
    """The name of the format to read: the operator's, the engine's, what the template shows, the default.

    Raises ``unspool.AmbiguousFormatError`` if the template shows several.
    """
    chosen = settings.format or model.format
    if chosen:
        return chosen
    template = template_source(settings, model)
    if template is None:
        return DEFAULT_FORMAT
    try:
        found = unspool.detect({"chat_template": template})
    except unspool.UndetectedFormatError:
        log.info("The chat template shows no known format; reading %s. --format names another.", DEFAULT_FORMAT)
        return DEFAULT_FORMAT
    except unspool.AmbiguousFormatError as error:
        if error.shows_calls or len(set(error.found.values())) > 1:
            raise
        name = _with_default_calls(error.candidates)
        log.info("Of the calls nothing is known: %s Reading %s. --format names another.", error, name)
        return name
    name = found.format.name if found.shows_calls else _with_default_calls([found.format.name])
    log.info("The format is %s: %s. --format names another.", name, found.reason)
    return name


def _with_default_calls(names: Sequence[str]) -> str:
    """A format with the reasoning of these, and the calls that the built-in tool prompt asks for."""
    return DEFAULT_FORMAT if DEFAULT_FORMAT in names else f"{names[0]}+{DEFAULT_FORMAT}"
