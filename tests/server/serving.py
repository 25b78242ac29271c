"""A real server for tests: uvicorn in a thread on a free port, stopped at the end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import openai
import uvicorn

from unspool.constrained import Constraint
from unspool.engines.base import Chunk, Engine, ModelInfo, Sampling
from unspool.engines.replay import Recording, ReplayEngine
from unspool.mcp.tools import ToolRunner
from unspool.server.app import create_app
from unspool.server.service import Settings
from unspool.server.storage import Store

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HELLO: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def asked(path: str) -> dict[str, object]:
    """The body of a request for a stream of one of the three APIs."""
    said = {"input": HELLO} if path == RESPONSES else {"messages": HELLO, "max_tokens": 9}
    return {**said, "stream": True}


@contextmanager
def served(
    engine: Engine, settings: Settings | None = None, store: Store | None = None, runner: ToolRunner | None = None
) -> Iterator[str]:
    """The base URL of a server for this engine, without ``/v1``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(engine, settings, store, runner)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def replaying(*recordings: Recording, settings: Settings | None = None, **options: Any) -> Iterator[openai.OpenAI]:
    """The official client, connected to a server that plays these recordings."""
    with served(ReplayEngine(recordings, **options), settings) as url, client(url) as connected:
        yield connected


def client(url: str, key: str = "none") -> openai.OpenAI:
    """The official client, without its retries: a failure must show."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20)


class ScriptedEngine:
    """Yields these chunks; an exception among them is raised, and ``None`` waits until the stream is closed.

    ``closed`` counts the streams that were closed; ``aborted`` is set with the first.
    """

    tokenizer = None
    constrains = False

    def __init__(self, *script: Chunk | Exception | None, template: str | None = None) -> None:
        self.script: Sequence[Chunk | Exception | None] = script
        self.model = ModelInfo("scripted", 0, 100, chat_template=template)
        self.prompts: list[object] = []
        self.samplings: list[Sampling] = []
        self.constraints: list[Constraint | None] = []
        self.closed = 0
        self.aborted = threading.Event()
        self.waiting = threading.Event()

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Follows the script."""
        self.prompts.append(prompt)
        self.samplings.append(sampling)
        self.constraints.append(constraint)
        try:
            for step in self.script:
                await asyncio.sleep(0)
                if isinstance(step, Exception):
                    raise step
                if step is None:
                    self.waiting.set()
                    await asyncio.Event().wait()
                else:
                    yield step
        finally:
            self.closed += 1
            self.aborted.set()
