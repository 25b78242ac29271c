"""Whether the server is as it was after hours of clients and engines that misbehave.

    python -m benchmarks.soak [--minutes 10] [--clients 48] [--seed 0] [--surfaces chat,messages]

Clients ask all surfaces, streaming and not, of engines that are well, slow, fail in the middle, raise what nobody
expects or hang. They read to the end, read slowly, leave at a random moment, leave before the request is sent, or
send what is no request. In rounds of at most a minute; after each the server is left alone until it is quiet. In
the end no task and no file may be left over, memory must be where it was after the first round but for
:data:`TOLERANCE`, and every answer that was waited for must be what its API promises.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.answers import fault, parse
from benchmarks.hosts import Figures, Host
from benchmarks.parser import names
from benchmarks.server import SURFACES, paths, record
from unspool.constrained import Constraint
from unspool.engines.base import Chunk, EngineError, ModelInfo, Sampling
from unspool.engines.replay import Take
from unspool.server.app import create_app
from unspool.server.service import Settings
from unspool.server.storage import SqliteStore

TOLERANCE = 16 * 1024 * 1024
"""Bytes that the server's memory may differ: what the allocator keeps in pieces."""
QUIET = 30.0
"""Seconds after which a server that nobody asks must have nothing left to do."""
PATIENCE = 3.0
"""Seconds after which a client leaves an engine that hangs."""
BUFFER = 8192
"""Bytes that the system may hold of a connection, so that a slow reader is felt by the server."""
STORED = 100
"""Responses that are kept."""

MOODS = {"well": 8, "slow": 2, "fails": 2, "breaks": 1, "hangs": 1}
"""What an engine does, and how often one is asked that does it."""
MANNERS = {"reads": 6, "dawdles": 2, "leaves": 4, "hangs up": 1, "babbles": 1}
"""What a client does, likewise."""
OUTPUTS = (("hermes", "a", 200), ("qwen3_coder", "c", 1500), ("glm45", "b", 600), ("gpt_oss", "a", 300))
"""Family, case and tokens of what is played."""


class Moody(Take):
    """A recording that is played well or not."""

    mood = "well"

    async def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Plays it, as far as the mood allows."""
        place = random.randrange(len(self.recording.token_ids) - 1)
        number = 0
        async for chunk in super().stream(prompt, sampling, constraint):
            if self.mood == "slow":
                await asyncio.sleep(random.expovariate(1000))
            elif number == place and self.mood == "fails":
                raise EngineError("The engine fails here, as it was told to.")
            elif number == place and self.mood == "breaks":
                raise ZeroDivisionError("raised where nobody expects it")
            elif number == place and self.mood == "hangs":
                await asyncio.Event().wait()
            yield chunk
            number += 1


class Moods:
    """An engine that is one of several; the model that a request names says which mood it is in."""

    constrains = False
    tokenizer = None
    names = tuple(MOODS)

    def __init__(self) -> None:
        self.model = ModelInfo("moods", int(time.time()), 131_072)
        self._takes = {mood: [self._take(mood, *output) for output in OUTPUTS] for mood in MOODS}

    def _take(self, mood: str, family: str, case: str, tokens: int) -> Moody:
        recording, prompt = record(family, case, tokens)
        info = ModelInfo(family, 0, 131_072, format=family, details={"prompt_tail": prompt})
        take = Moody(recording, info, None, 0.0)
        take.mood = mood
        return take

    def pick(self, prompt: str, name: str | None = None) -> Moody:
        """Any recording, in the mood of that name."""
        return random.choice(self._takes[name or "well"])

    def stream(
        self, prompt: str | Sequence[int], sampling: Sampling, constraint: Constraint | None = None
    ) -> AsyncIterator[Chunk]:
        """Plays any recording well."""
        return self.pick(prompt if isinstance(prompt, str) else "").stream(prompt, sampling)

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""


def unruly(seed: int) -> Any:
    """The application that is soaked."""
    random.seed(seed)
    # An engine that fails is logged each time, as it should be; here it fails on purpose.
    logging.disable(logging.CRITICAL)
    # Responses are kept in memory; what fills up for hours would look like a leak.
    return create_app(Moods(), Settings(), SqliteStore(max_records=STORED))


@dataclass(slots=True)
class Tally:
    """What happened: what was asked in which way how often, and what was wrong."""

    asked: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class Client:
    """One client after the other, until it is time."""

    def __init__(self, port: int, surfaces: Sequence[str], dice: random.Random, tally: Tally) -> None:
        self._port = port
        self._surfaces = surfaces
        self._dice = dice
        self._tally = tally

    def _any(self, choices: dict[str, int]) -> str:
        return self._dice.choices(list(choices), list(choices.values()))[0]

    async def run(self, until: float) -> None:
        """Asks until then."""
        while time.monotonic() < until:
            surface = self._dice.choice(self._surfaces)
            mood, manner, stream = self._any(MOODS), self._any(MANNERS), self._dice.random() < 0.7
            self._tally.asked[f"{surface}, {'streaming' if stream else 'whole'}"] += 1
            self._tally.asked[manner] += 1
            self._tally.asked[mood] += 1
            request = _request(surface, mood, stream)
            with contextlib.suppress(ConnectionError):
                await self._ask(request, surface, mood, manner, stream)

    async def _ask(self, request: bytes, surface: str, mood: str, manner: str, stream: bool) -> None:
        dice = self._dice
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=BUFFER)
        try:
            if manner == "babbles":
                request = request[: dice.randrange(len(request))] + dice.randbytes(20) + b"\r\n\r\n"
            writer.write(request[: dice.randrange(len(request))] if manner == "hangs up" else request)
            await writer.drain()
            if manner == "hangs up":
                return
            limit = dice.expovariate(10) if manner == "leaves" else PATIENCE if mood == "hangs" else QUIET
            if manner == "babbles":
                limit = 0.2
            data = bytearray()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    while part := await reader.read(BUFFER):
                        data += part
                        if manner == "dawdles":
                            await asyncio.sleep(dice.expovariate(50))
                    self._check(bytes(data), surface, mood, manner, stream)
                    return
            if manner in ("reads", "dawdles") and mood != "hangs":
                self._fault(surface, mood, manner, stream, f"no end within {limit:g} s")
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _check(self, data: bytes, surface: str, mood: str, manner: str, stream: bool) -> None:
        if manner == "babbles":
            return
        self._tally.checked += 1
        if mood == "hangs":
            self._fault(surface, mood, manner, stream, "an answer of an engine that hangs")
        elif why := fault(surface, parse(data), stream=stream, fails=mood in ("fails", "breaks")):
            self._fault(surface, mood, manner, stream, why)

    def _fault(self, surface: str, mood: str, manner: str, stream: bool, why: str) -> None:
        kind = "streaming" if stream else "whole"
        self._tally.faults[f"{surface}, {kind}, engine {mood}, client {manner}: {why}"] += 1


def _request(surface: str, mood: str, stream: bool) -> bytes:
    path, body = SURFACES[surface]
    data = json.dumps({**body, "model": mood, "stream": stream}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def load(port: int, options: argparse.Namespace, seconds: float, number: int, tally: Tally) -> None:
    """One round."""
    until = time.monotonic() + seconds
    seeds = [options.seed * 1_000_003 + number * 1009 + client for client in range(options.clients)]
    clients = [Client(port, options.surfaces, random.Random(seed), tally) for seed in seeds]
    await asyncio.gather(*(client.run(until) for client in clients))


def settled(host: Host, idle: Figures) -> Figures:
    """The figures once the server has as many tasks and files as it had idle, or after :data:`QUIET` seconds."""
    until = time.monotonic() + QUIET
    while True:
        now = host.figures()
        if (now.tasks <= idle.tasks and now.files <= idle.files) or time.monotonic() > until:
            return now
        time.sleep(0.2)


def left(idle: Figures, first: Figures, last: Figures) -> list[str]:
    """What is not as it was."""
    faults = []
    if last.tasks > idle.tasks:
        faults.append(f"{last.tasks} tasks where there were {idle.tasks}")
    if last.files > idle.files:
        faults.append(f"{last.files} open files where there were {idle.files}")
    if last.memory > first.memory + TOLERANCE:
        faults.append(f"{last.memory >> 20} MiB of memory where there were {first.memory >> 20} after one round")
    return faults


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    served = [name for name, (path, _) in SURFACES.items() if path in paths(create_app(Moods()))]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="of load, in two rounds at least")
    parser.add_argument("--clients", type=int, default=48, help="at once")
    parser.add_argument("--seed", type=int, default=0, help="of what clients and engines do")
    parser.add_argument("--surfaces", type=names(tuple(served)), default=served, help="comma-separated")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Soaks a server and prints what became of it; 1 if it is not as it was or an answer was not legal."""
    options = arguments(given)
    rounds = max(round(options.minutes), 2)
    tally = Tally()
    seen: list[Figures] = []
    with Host(unruly, options.seed, send_buffer=BUFFER) as host:
        idle = host.figures()
        for number in range(rounds):
            asyncio.run(load(host.port, options, options.minutes * 60 / rounds, number, tally))
            seen.append(settled(host, idle))
            print(f"round {number + 1}: {_shown(seen[-1])}", file=sys.stderr, flush=True)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{options.minutes:g} minutes, {options.clients} clients; {machine}")
    print(f"{sum(tally.asked.values()) // 3:,} requests, {tally.checked:,} answers waited for and checked")
    print("; ".join(f"{what}: {count:,}" for what, count in sorted(tally.asked.items())))
    print(f"idle:  {_shown(idle)}\nfirst: {_shown(seen[0])}\nlast:  {_shown(seen[-1])}")
    faults = left(idle, seen[0], seen[-1]) + [f"{count} times: {why}" for why, count in tally.faults.most_common()]
    print("\n".join(faults) or "Nothing is left over, and every answer was legal.")
    return bool(faults)


def _shown(figures: Figures) -> str:
    memory = figures.memory / 2**20
    return f"{figures.tasks} tasks, {figures.files} files, {memory:.1f} MiB, {figures.cpu:.1f} s of CPU"


if __name__ == "__main__":
    sys.exit(main())
