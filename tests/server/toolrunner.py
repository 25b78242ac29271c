"""Tools without servers, for tests of the loop: what a runner is asked, and what it answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import openai

from tests.server.serving import ScriptedEngine, client, served
from unspool.engines.base import Chunk, Engine
from unspool.engines.replay import Recording, ReplayEngine
from unspool.mcp.tools import Catalogue, McpTool, Policy, ServerState, ToolResult, digest_of
from unspool.server.service import Settings
from unspool.server.storage import Store

Answer: TypeAlias = str | ToolResult | Exception | Callable[[], Awaitable[ToolResult]]

ZONE: dict[str, Any] = {"type": "object", "properties": {"zone": {"type": "string"}}}


def tool(
    name: str,
    policy: Policy = "allow",
    *,
    server: str = "time",
    schema: dict[str, Any] | None = None,
    read_only: bool = False,
    description: str = "",
) -> McpTool:
    """A tool of a server, exposed as the server's name and its own."""
    schema = schema or ZONE
    digest = digest_of(name, description, schema, {})
    return McpTool(server, name, f"{server}__{name}", description, schema, policy, {}, digest, read_only)


def call(name: str, arguments: str = "{}") -> str:
    """A call as a model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


class FakeRunner:
    """Answers each tool as it is told; ``ran`` are the calls in the order in which they began.

    ``cancelled`` is set once a running call was cancelled, ``most`` is how many ran at the same time.
    """

    def __init__(self, *tools: McpTool, states: Sequence[ServerState] | None = None, **answers: Answer) -> None:
        self.tools = tools
        names = sorted({each.server for each in tools})
        self.states = tuple(states or (ServerState(name, "stdio", "ready", None, True) for name in names))
        self.answers = answers
        self.ran: list[tuple[str, str]] = []
        self.cancelled = threading.Event()
        self.waiting = threading.Event()
        self.now = self.most = 0
        self.started = self.closed = False

    def catalogue(self) -> Catalogue:
        """What there is."""
        return Catalogue(tuple(self.tools), self.states)

    async def call(self, tool: McpTool, arguments: str, *, request_id: str) -> ToolResult:
        """Answers as it was told."""
        assert request_id.startswith("req_")
        self.ran.append((tool.name, arguments))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            answer = self.answers.get(tool.name, "noon")
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, str | ToolResult):
                await asyncio.sleep(0.01)
                return ToolResult(answer) if isinstance(answer, str) else answer
            return await answer()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.now -= 1

    async def hang(self) -> ToolResult:
        """An answer that never comes."""
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def start(self) -> None:
        """Nothing to start."""
        self.started = True

    async def close(self) -> None:
        """Nothing to end."""
        self.closed = True


@contextmanager
def running(
    runner: FakeRunner,
    *recordings: Recording,
    engine: Engine | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
) -> Iterator[str]:
    """The URL of a server that plays recordings and runs these tools."""
    with served(engine or ReplayEngine(recordings, chunking="chars:3"), settings, store, runner) as url:
        yield url


@contextmanager
def connected(runner: FakeRunner, *recordings: Recording, **options: Any) -> Iterator[openai.OpenAI]:
    """The official client of such a server."""
    with running(runner, *recordings, **options) as url, client(url) as api:
        yield api


def scripted(*turns: str, finish: Any = "stop", tokens: int = 5) -> ScriptedEngine:
    """An engine that writes these turns one after the other, and goes on with the last."""

    class Turns(ScriptedEngine):
        async def stream(self, prompt: Any, sampling: Any, constraint: Any = None) -> Any:
            text = turns[min(len(self.prompts), len(turns) - 1)]
            self.script = [
                Chunk(text, finish_reason=finish, prompt_tokens=10, completion_tokens=tokens, cached_tokens=4)
            ]
            async for chunk in super().stream(prompt, sampling, constraint):
                yield chunk

    return Turns()
