"""What the server costs: CPU for a streamed token, memory for an open stream, and the time to the first byte.

    python -m benchmarks.server [--surfaces chat,messages,responses] [--streams 1,64,512] [--tokens 2000]
                                [--passes 5] [--feed queue|loop] [--delay 0] [--json FILE]

The server plays a recorded answer of reasoning, content and one call, token by token. Beside it, in a process of
its own and set up alike, a bare Starlette application sends the same bytes in the same pieces: what any server
costs. Tokens come to both through one queue a stream, as engines deliver them: a task, one for all streams as one
batch is for all requests, puts the next token of each into its queue, and the stream waits for it there. A token
that says nothing yet, since what is held may become a marker, is waited for by both, and sent by neither. With
``--feed loop`` neither has a queue: both go through a list, with a turn of the event loop at each token.

The two take turns, pass by pass, so that a busy machine slows both alike; each one's smallest figure over the
passes counts. CPU is that of the server's process. Answers of two lengths tell what a token costs from what a
request costs once (connection, body, prompt, the answer's start and end). Without ``--delay`` (seconds a token)
the queues are filled as fast as streams empty them, which leaves the least to hide behind.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from benchmarks.hosts import Host
from benchmarks.parser import names, numbers
from benchmarks.report import table
from benchmarks.workloads import MARKER, TOOLS, workload
from unspool.constrained import Constraint
from unspool.engines.base import Chunk, ModelInfo, Sampling
from unspool.engines.replay import Recording, Take, read_recording
from unspool.server.app import create_app
from unspool.server.service import Settings

RATIO = 1.3
"""How many times the bare loop's CPU the server may take for a token."""
FAMILY = "hermes"
SMALLEST = 32
"""Streams that a pass without a delay has at least, one after the other if need be."""
HELD = 100
"""After how many tokens a stream whose memory is measured stands still."""
OPEN = 512
"""How many of them are open: one alone is less than a page."""
SHORT = 100
"""Tokens of the answers that tell what a request costs once."""
OURS, BARE = "unspool", "bare loop"

T = TypeVar("T")
FeedKind: TypeAlias = Literal["queue", "loop"]

_QUESTION = [{"role": "user", "content": "What is the weather in São Paulo?"}]
_FUNCTIONS = [tool["function"] for tool in TOOLS]
SURFACES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": _QUESTION, "tools": TOOLS}),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 100_000,
            "messages": _QUESTION,
            "tools": [
                {"name": function["name"], "input_schema": function["parameters"]} for function in _FUNCTIONS
            ],
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": _QUESTION, "tools": [{"type": "function", **function} for function in _FUNCTIONS]},
    ),
}
"""Paths and bodies that ask the same of each surface."""


class Feed(Generic[T]):
    """What one batch of an engine does after another: it puts the next item of each stream into its queue.

    ``delay`` is in seconds between two of them.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._streams: list[tuple[asyncio.Queue[T], Iterator[T]]] = []
        self._task: asyncio.Task[None] | None = None

    def join(self, items: Sequence[T]) -> asyncio.Queue[T]:
        """A queue that gets these items, one at each step."""
        queue: asyncio.Queue[T] = asyncio.Queue()
        self._streams.append((queue, iter(items)))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return queue

    async def _run(self) -> None:
        while self._streams:
            ended = []
            for stream in self._streams:
                queue, items = stream
                for item in items:
                    queue.put_nowait(item)
                    break
                else:
                    ended.append(stream)
            for stream in ended:
                self._streams.remove(stream)
            await asyncio.sleep(self._delay)


class Queued(Take):
    """Plays a recording through a queue."""

    def __init__(self, recording: Recording, info: ModelInfo, delay: float, chunks: Sequence[Chunk]) -> None:
        super().__init__(recording, info, None, 0.0)
        self._feed: Feed[Chunk] = Feed(delay)
        self._all = chunks

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """The chunks as they come."""
        queue = self._feed.join(self._all)
        while True:
            chunk = await queue.get()
            yield chunk
            if chunk.finish_reason is not None:
                return


class Held(Take):
    """Plays the start of a recording and then says nothing more."""

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """The first :data:`HELD` chunks."""
        left = HELD
        async for chunk in super().stream(prompt, sampling, constraint):
            yield chunk
            left -= 1
            if not left:
                await asyncio.Event().wait()


def record(family: str, case: str, tokens: int) -> tuple[Recording, str]:
    """A workload as a recording with tokens, and the end of its prompt."""
    work = workload(family, case, tokens)
    return read_recording(
        {
            "token_pieces": [piece.encode().decode("latin-1") for piece in work.pieces],
            "special": [place for place, piece in enumerate(work.pieces) if re.fullmatch(MARKER, piece)],
        },
    ), work.prompt


def ours(tokens: int, delay: float, feed: FeedKind, hold: bool) -> Any:
    """unspool's application; ``delay`` is the engine's seconds a token, ``hold`` is for answers that never end."""
    info = ModelInfo("replay", int(time.time()), 131_072)
    recording, _ = record(FAMILY, "a", tokens)
    # Nobody is sent away: an answer that is a refusal costs next to nothing.
    settings = Settings(format=FAMILY, max_waiting=1_000_000)
    engine: Take
    if hold:
        engine = Held(recording, info, None, delay)
    elif feed == "loop":
        engine = Take(recording, info, None, delay)
    else:
        engine = Queued(recording, info, delay, asyncio.run(chunks(Take(recording, info, None, 0.0))))
    return create_app(engine, settings)


async def chunks(engine: Take) -> list[Chunk]:
    """All that a recording plays; every chunk has the counts of the prompt, as those of engines have."""
    found = [chunk async for chunk in engine.stream("", Sampling())]
    return [replace(chunk, prompt_tokens=found[-1].prompt_tokens) for chunk in found]


def bare(tokens: int, delay: float, feed: FeedKind, hold: bool) -> Any:
    """The bare loop: for each surface a route that sends what unspool's sends, having read the request."""
    model = ours(tokens, 0.0, "loop", False)
    count = len(workload(FAMILY, "a", tokens).pieces)
    queues: Feed[bytes] | None = None if hold or feed == "loop" else Feed(delay)
    return Starlette(
        routes=[
            Route(
                path,
                _loop(with_silent(asyncio.run(sent(model, path, body)), count), delay, queues, hold),
                methods=["POST"],
            )
            for path, body in SURFACES.values()
            if path in paths(model)
        ]
    )


def paths(app: Starlette) -> set[str]:
    """The routes of an application."""
    return {route.path for route in app.routes if isinstance(route, Route)}


def _loop(
    frames: Sequence[bytes], delay: float, feed: Feed[bytes] | None, hold: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def stream() -> AsyncIterator[bytes]:
        for frame in frames[:HELD] if hold else frames:
            await asyncio.sleep(delay)
            if frame:
                yield frame
        if hold:
            await asyncio.Event().wait()

    async def stream_queued(feed: Feed[bytes]) -> AsyncIterator[bytes]:
        queue = feed.join(frames)
        for _ in frames:
            if frame := await queue.get():
                yield frame

    async def answer(request: Request) -> Response:
        await request.body()
        return StreamingResponse(stream() if feed is None else stream_queued(feed), media_type="text/event-stream")

    return answer


def with_silent(frames: Sequence[bytes], tokens: int) -> list[bytes]:
    """The pieces, with those tokens evenly among them with which nothing was sent, as no bytes."""
    silent = max(tokens - len(frames), 0)
    found: list[bytes] = []
    for number, frame in enumerate(frames, 1):
        found.append(frame)
        found += [b""] * (number * silent // len(frames) - (number - 1) * silent // len(frames))
    return found


async def sent(app: Any, path: str, body: dict[str, Any]) -> list[bytes]:
    """The pieces in which an application sends the body of a streamed answer, without a server."""
    found: list[bytes] = []
    asked = [{"type": "http.request", "body": json.dumps({**body, "stream": True}).encode(), "more_body": False}]

    async def receive() -> Any:
        if asked:
            return asked.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message.get("body"):
            found.append(message["body"])

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return found


@dataclass(frozen=True, slots=True)
class Cost:
    """One contestant answering some requests at once.

    ``cpu`` is microseconds of the server's CPU a request, ``first`` the median of the milliseconds from a request
    to the first byte of its answer's body, ``size`` the bytes of the smallest answer.
    """

    cpu: float
    first: float
    size: int

    def better(self, other: Cost | None) -> Cost:
        """The smaller figures of two measurements of the same."""
        if other is None:
            return self
        return Cost(min(self.cpu, other.cpu), min(self.first, other.first), self.size)


@dataclass(frozen=True, slots=True)
class Costs:
    """One contestant with long answers and short ones, of so many tokens."""

    long: Cost
    short: Cost
    tokens: tuple[int, int]

    @property
    def token(self) -> float:
        """Microseconds of CPU that each token more takes."""
        return (self.long.cpu - self.short.cpu) / (self.tokens[0] - self.tokens[1])

    @property
    def request(self) -> float:
        """Microseconds of CPU that a request takes beside its tokens."""
        return self.short.cpu - self.tokens[1] * self.token


class Reader(asyncio.Protocol):
    """Sends one request and counts what comes back until the server closes: a client that costs little."""

    def __init__(self, request: bytes) -> None:
        self.first = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()
        self.size = 0
        self._request = request
        self._begun = 0.0
        self._start = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks."""
        # uvloop's transports have the methods and not the class.
        self.transport = cast(asyncio.Transport, transport)
        self._begun = time.perf_counter()
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Counts."""
        if not self.first.done():
            # The bare loop sends its head at once; unspool's waits until the engine took the request.
            self._start += data
            if self._start.partition(b"\r\n\r\n")[2]:
                self.first.set_result(time.perf_counter() - self._begun)
        self.size += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self.ended.set_result(None)


async def ask(port: int, surface: str, streams: int) -> list[Reader]:
    """That many requests at once, on connections of their own."""
    path, body = SURFACES[surface]
    data = json.dumps({**body, "stream": True}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    request = head.encode() + data
    loop = asyncio.get_running_loop()
    made = [loop.create_connection(lambda: Reader(request), "127.0.0.1", port) for _ in range(streams)]
    return [reader for _, reader in await asyncio.gather(*made)]


async def one_pass(host: Host, surface: str, streams: int, rounds: int) -> Cost:
    """What ``rounds`` times so many streams cost."""
    before = host.figures().cpu
    firsts: list[float] = []
    sizes: set[int] = set()
    for _ in range(rounds):
        readers = await ask(host.port, surface, streams)
        await asyncio.gather(*(reader.ended for reader in readers))
        firsts += [reader.first.result() for reader in readers]
        sizes |= {reader.size for reader in readers}
    cpu = host.figures().cpu - before
    return Cost(cpu / (streams * rounds) * 1e6, statistics.median(firsts) * 1e3, min(sizes))


@dataclass(frozen=True, slots=True)
class Cell:
    """Both contestants on one surface with so many streams."""

    surface: str
    streams: int
    ours: Costs
    bare: Costs

    @property
    def ratio(self) -> float:
        """How many times the bare loop's CPU the server takes for a token."""
        return self.ours.token / self.bare.token


def costs(options: argparse.Namespace) -> list[Cell]:
    """CPU and first bytes."""
    cells = []
    lengths = (options.tokens, SHORT)
    long, short = (len(workload(FAMILY, "a", length).pieces) for length in lengths)
    with ExitStack() as running:
        hosts = {
            (build, length): running.enter_context(Host(build, length, options.delay, options.feed, False))
            for build in (ours, bare)
            for length in lengths
        }
        for surface, streams in itertools.product(options.surfaces, options.streams):
            rounds = 1 if options.delay else max(SMALLEST // streams, 1)
            best: dict[Any, Cost] = {}
            for _ in range(options.passes):
                for key, host in hosts.items():
                    cost = uvloop.run(one_pass(host, surface, streams, rounds))
                    best[key] = cost.better(best.get(key))
            mine, other = (
                Costs(best[build, options.tokens], best[build, SHORT], (long, short)) for build in (ours, bare)
            )
            cells.append(Cell(surface, streams, mine, other))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return cells


async def memory(build: Callable[..., Any], surface: str, tokens: int) -> float:
    """KiB of the server's memory for each of :data:`OPEN` streams that are open and have sent something.

    A few are opened and closed before, for what is loaded once.
    """
    with Host(build, tokens, 0.0, "loop", True) as host:
        for count in (8, OPEN):
            before = host.figures().memory
            readers = await ask(host.port, surface, count)
            await asyncio.gather(*(reader.first for reader in readers))
            await asyncio.sleep(1)
            taken = host.figures().memory - before
            for reader in readers:
                reader.transport.abort()
            await asyncio.gather(*(reader.ended for reader in readers))
        return taken / OPEN / 1024


def report(cells: Sequence[Cell], memories: Sequence[tuple[str, float, float]]) -> str:
    """The tables."""
    rows = [
        [
            cell.surface,
            f"{cell.streams}",
            f"{cell.ours.token:.2f}",
            f"{cell.bare.token:.2f}",
            f"{cell.ratio:.2f}",
            f"{cell.ours.request:.0f}",
            f"{cell.bare.request:.0f}",
            f"{cell.ours.long.first:.2f}",
            f"{cell.bare.long.first:.2f}",
        ]
        for cell in cells
    ]
    head = ["surface", "streams", f"{OURS}, us", f"{BARE}, us", "ratio"]
    head += ["request, us", BARE, "first byte, ms", BARE]
    kept = [
        [surface, f"{OPEN}", f"{mine:.1f}", f"{other:.1f}", f"{mine / other:.2f}"]
        for surface, mine, other in memories
    ]
    return (
        "Microseconds of the server's CPU a token, and once a request; milliseconds to the first byte, median.\n\n"
        + table(head, rows)
        + "\n\nKiB of the server's memory an open stream.\n\n"
        + table(["surface", "streams", OURS, BARE, "ratio"], kept)
    )


def wrong(cells: Sequence[Cell]) -> list[str]:
    """Where the two did not send as many bytes, so that their figures can't be compared."""
    return [
        f"Not the same: {cell.surface}: {mine.size} bytes an answer, and {other.size} of the bare loop."
        for cell in cells
        for mine, other in ((cell.ours.long, cell.bare.long), (cell.ours.short, cell.bare.short))
        if abs(mine.size - other.size) > other.size // 50
    ]


def missed(cells: Sequence[Cell]) -> list[str]:
    """What is out of reach."""
    return [
        f"Out of reach: {cell.surface}, {cell.streams} streams: {cell.ratio:.2f} times the bare loop, not {RATIO}."
        for cell in cells
        if cell.ratio > RATIO
    ]


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    served = [name for name, (path, _) in SURFACES.items() if path in paths(ours(SHORT, 0.0, "loop", False))]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__.split("\n")[0])
    parser.add_argument("--surfaces", type=names(tuple(served)), default=served, help="comma-separated")
    parser.add_argument("--streams", type=numbers, default=[1, 64, 512], help="at once; comma-separated")
    parser.add_argument("--tokens", type=int, default=2000, help="of an answer")
    parser.add_argument("--passes", type=int, default=5, help="of which the smallest figures count")
    parser.add_argument("--feed", choices=get_args(FeedKind), default="queue", help="how tokens come to both")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that the engine takes for a token")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Runs the benchmark and prints its tables; 1 if something is out of reach or can't be compared."""
    options = arguments(given)
    started = time.perf_counter()
    before = os.getloadavg()[0]
    cells = costs(options)
    memories = [
        (surface, *(uvloop.run(memory(build, surface, options.tokens)) for build in (ours, bare)))
        for surface in options.surfaces
    ]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(
        f"unspool {version('unspool')}, uvicorn {version('uvicorn')}, starlette {version('starlette')}, {python}"
    )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; load {before:.1f} before, {os.getloadavg()[0]:.1f} after\n"
    )
    print(report(cells, memories))
    faults = wrong(cells) + missed(cells)
    print("\n" + ("\n".join(faults) or "Every cell is within reach."))
    print(f"{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"cells": [asdict(cell) for cell in cells], "memory": memories}))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
