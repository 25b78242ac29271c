"""What outlives a request: stored responses and conversations.

The store knows nothing of either. It keeps records, each a list of JSON texts under a key that only grows; whoever
writes them reads them back. So another database needs four short methods. What was not used for a while, and what
is used least when there is too much, is forgotten.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")

MEMORY = ":memory:"
MAX_RECORDS = 10_000
MAX_BYTES = 1 << 30
MAX_BYTES_IN_MEMORY = 1 << 27
MAX_AGE = 30 * 24 * 3600.0
"""Seconds since a record was last read or written."""

_BUSY_SECONDS = 10
_DATABASES = ("redis", "rediss", "postgres", "postgresql")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, used REAL NOT NULL, size INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS records_by_use ON records (used);
CREATE TABLE IF NOT EXISTS entries (
    key TEXT NOT NULL REFERENCES records ON DELETE CASCADE,
    position INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (key, position)
);
"""


class StoreError(Exception):
    """The store can't be opened or used; the message says what to do."""


class Store(Protocol):
    """Records by key. Every method may be called from any task; none blocks the event loop."""

    @property
    def where(self) -> str | None:
        """Where the records outlive the server; ``None``: nowhere."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Makes or replaces a record, which has one entry then."""
        ...

    async def append(self, key: str, value: bytes) -> bool:
        """Adds an entry to a record; ``False`` if there is none."""
        ...

    async def get(self, keys: Sequence[str]) -> list[list[bytes]]:
        """The entries of each of these records; an empty list for one that there is not."""
        ...

    async def delete(self, key: str) -> bool:
        """Forgets a record; ``False`` if there was none."""
        ...

    async def close(self) -> None:
        """Ends the use of the store."""
        ...


def data_dir() -> Path:
    """Where a user's data is kept: ``UNSPOOL_DATA``, or ``unspool`` where the system keeps data."""
    if own := os.environ.get("UNSPOOL_DATA"):
        return Path(own).expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/unspool").expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "unspool"


class Since:
    """What was written since the last look for what is to be forgotten, which reads all records' sizes."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._most = (max(1, max_records // 100), max_bytes // 16)
        self._writes = self._bytes = 0

    def enough(self, written: int) -> bool:
        """Counts one more write of so many bytes; true when it is time to look again."""
        self._writes += 1
        self._bytes += written
        if self._writes < self._most[0] and self._bytes < self._most[1]:
            return False
        self._writes = self._bytes = 0
        return True


class SqliteStore:
    """A store in one file, or in memory. Several servers may share a file.

    All work is done by one thread, so statements of different requests don't mix and the loop never waits for a
    disk. ``clock`` gives the time in seconds.
    """

    def __init__(
        self,
        path: str | Path = MEMORY,
        *,
        max_records: int = MAX_RECORDS,
        max_bytes: int | None = None,
        max_age: float = MAX_AGE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``max_bytes`` ``None`` is :data:`MAX_BYTES`, or :data:`MAX_BYTES_IN_MEMORY` there.

        Raises :class:`StoreError` if the file can't be opened or is no database.
        """
        self.where = None if str(path) == MEMORY else str(path)
        self._max_records = max_records
        self._max_bytes = max_bytes or (MAX_BYTES_IN_MEMORY if self.where is None else MAX_BYTES)
        self._max_age = max_age
        self._clock = clock
        self._since = Since(max_records, self._max_bytes)
        self._thread = ThreadPoolExecutor(1, "store")
        try:
            self._database = self._thread.submit(_open, path).result()
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            raise StoreError(f"The store {path} can't be opened: {error}. Name another file.") from None

    async def put(self, key: str, value: bytes) -> None:
        """Makes or replaces a record."""
        await self._run(lambda: self._put(key, value))

    async def append(self, key: str, value: bytes) -> bool:
        """Adds an entry to a record."""
        return await self._run(lambda: self._append(key, value))

    async def get(self, keys: Sequence[str]) -> list[list[bytes]]:
        """The entries of each of these records."""
        return await self._run(lambda: self._get(keys)) if keys else []

    async def delete(self, key: str) -> bool:
        """Forgets a record."""
        return await self._run(lambda: self._delete(key))

    async def close(self) -> None:
        """Closes the file."""
        await self._run(self._database.close)
        self._thread.shutdown()

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            # A cancelled request does not stop what its statement has begun.
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise StoreError(f"The store failed: {error}.") from error

    def _put(self, key: str, value: bytes) -> None:
        with self._database as database:
            database.execute("DELETE FROM records WHERE key = ?", (key,))
            database.execute("INSERT INTO records VALUES (?, ?, ?)", (key, self._clock(), len(value)))
            database.execute("INSERT INTO entries VALUES (?, 0, ?)", (key, value))
            self._forget(database, len(value))

    def _append(self, key: str, value: bytes) -> bool:
        with self._database as database:
            updated = database.execute(
                "UPDATE records SET used = ?, size = size + ? WHERE key = ? AND used >= ?",
                (self._clock(), len(value), key, self._oldest()),
            )
            if not updated.rowcount:
                return False
            last = "SELECT max(position) + 1 FROM entries WHERE key = ?"
            database.execute(f"INSERT INTO entries VALUES (?, ({last}), ?)", (key, key, value))
            self._forget(database, len(value))
            return True

    def _get(self, keys: Sequence[str]) -> list[list[bytes]]:
        with self._database as database:
            return [self._entries(database, key) for key in keys]

    def _entries(self, database: sqlite3.Connection, key: str) -> list[bytes]:
        updated = database.execute(
            "UPDATE records SET used = ? WHERE key = ? AND used >= ?", (self._clock(), key, self._oldest())
        )
        if not updated.rowcount:
            return []
        rows = database.execute("SELECT value FROM entries WHERE key = ? ORDER BY position", (key,))
        return [value for (value,) in rows]

    def _delete(self, key: str) -> bool:
        with self._database as database:
            deleted = database.execute(
                "DELETE FROM records WHERE key = ? RETURNING used >= ?", (key, self._oldest())
            )
            return any(row[0] for row in deleted.fetchall())

    def _oldest(self) -> float:
        return self._clock() - self._max_age

    def _forget(self, database: sqlite3.Connection, written: int) -> None:
        """Deletes what is too old, and the records used longest ago of what is too much."""
        if not self._since.enough(written):
            return
        database.execute("DELETE FROM records WHERE used < ?", (self._oldest(),))
        ranked = (
            "SELECT key, row_number() OVER latest AS number, sum(size) OVER latest AS total "
            "FROM records WINDOW latest AS (ORDER BY used DESC, key)"
        )
        database.execute(
            f"DELETE FROM records WHERE key IN (SELECT key FROM ({ranked}) WHERE number > ? OR total > ?)",
            (self._max_records, self._max_bytes),
        )


def _open(path: str | Path) -> sqlite3.Connection:
    if str(path) != MEMORY:
        file = Path(path).expanduser()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Conversations are nobody else's business: the file is made before the database would make it.
        file.touch(mode=0o600)
        path = file
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA foreign_keys = ON")
        database.executescript(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database


def without_password(url: str) -> str:
    """A URL that may be shown; of one that can't be read for certain, only its kind."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or "@" in parts.path + parts.query + parts.fragment:
        return f"{url.partition(':')[0]}://..."
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def opening_failed(kind: str, url: str, error: Exception) -> StoreError:
    """What a database's package says of a URL that can't be used: its first line, without what is secret."""
    said = str(error).strip().partition("\n")[0].rstrip(".").replace(url, without_password(url))
    for secret in _secrets(url):
        said = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", said)
    return StoreError(f"The {kind} store can't be opened: {said}. Check its URL.")


def _secrets(url: str) -> set[str]:
    """What of a URL must not be shown: the password, as written and as meant, and what the query says."""
    rest, _, query = url.partition("://")[2].partition("?")
    password = rest.rpartition("@")[0].partition(":")[2]
    found = [password, *(field.partition("=")[2] for field in query.split("&"))]
    return {word for word in (*found, *map(unquote, found)) if word}


def open_store(where: str) -> Store:
    """The store at a path, at the URL of a Redis or PostgreSQL server, or in memory; or :class:`StoreError`."""
    scheme, is_url, _ = where.partition("://")
    if not is_url:
        kind = where.partition(":")[0]
        if kind in _DATABASES:
            raise StoreError(f"The URL of a store in a database begins with {kind}:// and not with {kind}: alone.")
        return SqliteStore(where)
    if "..." in (shown := without_password(where)) and scheme in _DATABASES:
        raise StoreError(f"The store's URL ({shown}) can't be read; its password must be percent-encoded.")
    try:
        if scheme in ("redis", "rediss"):
            from unspool.server.redis_store import RedisStore

            return RedisStore.open(where)
        if scheme in ("postgres", "postgresql"):
            from unspool.server.postgres_store import PostgresStore

            return PostgresStore(where)
    except ModuleNotFoundError as error:
        extra = "redis" if scheme.startswith("redis") else "postgres"
        raise StoreError(f'This store needs {error.name}; run: pip install "unspool[{extra}]"') from None
    raise StoreError(f"A store of the kind {scheme!r} is not known; name a file, {MEMORY}, or a database's URL.")
