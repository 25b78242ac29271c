"""A store in PostgreSQL, for servers on several machines.

The tables are those of the SQLite store, under names that begin with ``unspool_``; what is forgotten, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from unspool.server.storage import (
    MAX_AGE,
    MAX_BYTES,
    MAX_RECORDS,
    Since,
    StoreError,
    opening_failed,
    without_password,
)

Connection: TypeAlias = psycopg.AsyncConnection[TupleRow]

_CONNECTIONS = 8
_TIMEOUT_SECONDS = 10
_SCHEMA = """
CREATE TABLE IF NOT EXISTS unspool_records (
    key TEXT PRIMARY KEY, used TIMESTAMPTZ NOT NULL DEFAULT now(), size BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS unspool_records_by_use ON unspool_records (used);
CREATE TABLE IF NOT EXISTS unspool_entries (
    key TEXT NOT NULL REFERENCES unspool_records ON DELETE CASCADE,
    position BIGINT NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (key, position)
);
"""
_YOUNG = "used >= now() - make_interval(secs => %s)"


class PostgresStore:
    """A store at a ``postgresql://`` URL. Ages are in seconds."""

    def __init__(
        self, url: str, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, max_age: float = MAX_AGE
    ) -> None:
        """Makes the tables if they are missing. Raises :class:`StoreError` if that can't be done."""
        self.where = without_password(url)
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._since = Since(max_records, max_bytes)
        try:
            with psycopg.connect(url, connect_timeout=_TIMEOUT_SECONDS) as connection:
                # Two servers that start at once must not make the same table.
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('unspool_records'))")
                connection.execute(_SCHEMA)
        except psycopg.Error as error:
            raise opening_failed("PostgreSQL", url, error) from None
        # Opened with the first use, since it lives in the event loop.
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=_TIMEOUT_SECONDS,
            # A connection that idled may have been cut off by anything on the way.
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        self._opening = asyncio.Lock()

    async def put(self, key: str, value: bytes) -> None:
        """Makes or replaces a record."""
        async with self._transaction() as database:
            await database.execute(
                "INSERT INTO unspool_records (key, size) VALUES (%s, %s) "
                "ON CONFLICT (key) DO UPDATE SET used = now(), size = excluded.size",
                (key, len(value)),
            )
            await database.execute("DELETE FROM unspool_entries WHERE key = %s", (key,))
            await database.execute("INSERT INTO unspool_entries VALUES (%s, 0, %s)", (key, value))
            await self._forget(database, len(value))

    async def append(self, key: str, value: bytes) -> bool:
        """Adds an entry to a record."""
        async with self._transaction() as database:
            updated = await database.execute(
                f"UPDATE unspool_records SET used = now(), size = size + %s WHERE key = %s AND {_YOUNG}",
                (len(value), key, self._max_age),
            )
            if not updated.rowcount:
                return False
            # The updated row keeps others from appending to this record at the same time.
            await database.execute(
                "INSERT INTO unspool_entries SELECT %s, max(position) + 1, %s FROM unspool_entries WHERE key = %s",
                (key, value, key),
            )
            await self._forget(database, len(value))
            return True

    async def get(self, keys: Sequence[str]) -> list[list[bytes]]:
        """The entries of each of these records."""
        found: dict[str, list[bytes]] = {key: [] for key in keys}
        async with self._transaction() as database:
            used = await database.execute(
                f"UPDATE unspool_records SET used = now() WHERE key = ANY(%s) AND {_YOUNG} RETURNING key",
                (sorted(found), self._max_age),
            )
            young = [key for (key,) in await used.fetchall()]
            rows = await database.execute(
                "SELECT key, value FROM unspool_entries WHERE key = ANY(%s) ORDER BY key, position", (young,)
            )
            for key, value in await rows.fetchall():
                found[key].append(bytes(value))
        return [found[key] for key in keys]

    async def delete(self, key: str) -> bool:
        """Forgets a record."""
        async with self._transaction() as database:
            deleted = await database.execute(
                f"DELETE FROM unspool_records WHERE key = %s RETURNING {_YOUNG}", (key, self._max_age)
            )
            return any(row[0] for row in await deleted.fetchall())

    async def close(self) -> None:
        """Closes the connections."""
        await self._pool.close()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        try:
            async with self._opening:
                if self._pool.closed:
                    await self._pool.open()
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.Error, PoolTimeout) as error:
            raise StoreError(f"The store failed: {_reason(error)}.") from error

    async def _forget(self, database: Connection, written: int) -> None:
        """Deletes what is too old, and the records used longest ago of what is too much."""
        if not self._since.enough(written):
            return
        await database.execute(f"DELETE FROM unspool_records WHERE NOT {_YOUNG}", (self._max_age,))
        ranked = (
            "SELECT key, row_number() OVER latest AS number, sum(size) OVER latest AS total "
            "FROM unspool_records WINDOW latest AS (ORDER BY used DESC, key)"
        )
        await database.execute(
            f"DELETE FROM unspool_records WHERE key IN "
            f"(SELECT key FROM ({ranked}) AS ranked WHERE number > %s OR total > %s)",
            (self._max_records, self._max_bytes),
        )


def _reason(error: Exception) -> str:
    """The first line of what the database says; the others are hints for its operators."""
    return str(error).strip().partition("\n")[0].rstrip(".")
