"""A store in Redis (or a server that speaks its protocol), for servers on several machines.

A record is a list under its key, which Redis itself lets expire. How much is kept is Redis' own business
(``maxmemory`` and its policy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio

from unspool.server.storage import MAX_AGE, StoreError, opening_failed, without_password

PREFIX = "unspool:"
"""Begins every key, so that the database may be shared with others."""


class RedisStore:
    """Records as Redis lists. ``client`` is one of ``redis.asyncio``; ``max_age`` is in seconds."""

    def __init__(self, client: Any, *, where: str | None = None, max_age: float = MAX_AGE) -> None:
        self.where = where
        self._client = client
        self._milliseconds = int(max_age * 1000)

    @classmethod
    def open(cls, url: str) -> RedisStore:
        """The store at a ``redis://`` or ``rediss://`` URL. Raises :class:`StoreError` if nothing answers."""
        try:
            with redis.Redis.from_url(url) as client:
                client.ping()
        except (redis.RedisError, ValueError) as error:
            raise opening_failed("Redis", url, error) from None
        return cls(redis.asyncio.Redis.from_url(url), where=without_password(url))

    async def put(self, key: str, value: bytes) -> None:
        """Makes or replaces a record."""
        async with self._client.pipeline() as pipeline:
            pipeline.delete(PREFIX + key).rpush(PREFIX + key, value).pexpire(PREFIX + key, self._milliseconds)
            await self._answers(pipeline)

    async def append(self, key: str, value: bytes) -> bool:
        """Adds an entry to a record."""
        async with self._client.pipeline() as pipeline:
            pipeline.rpushx(PREFIX + key, value).pexpire(PREFIX + key, self._milliseconds)
            length, _ = await self._answers(pipeline)
            return bool(length)

    async def get(self, keys: Sequence[str]) -> list[list[bytes]]:
        """The entries of each of these records."""
        async with self._client.pipeline() as pipeline:
            for key in keys:
                pipeline.lrange(PREFIX + key, 0, -1).pexpire(PREFIX + key, self._milliseconds)
            answers = await self._answers(pipeline) if keys else []
            return answers[::2]

    async def delete(self, key: str) -> bool:
        """Forgets a record."""
        async with self._client.pipeline() as pipeline:
            (deleted,) = await self._answers(pipeline.delete(PREFIX + key))
            return bool(deleted)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _answers(self, pipeline: Any) -> list[Any]:
        try:
            answers: list[Any] = await pipeline.execute()
        except redis.RedisError as error:
            raise StoreError(f"The store failed: {str(error).rstrip('.')}.") from error
        return answers
