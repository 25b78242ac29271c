from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.server.storage import MEMORY, SqliteStore, Store, StoreError, data_dir, open_store


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def using(work: Callable[[SqliteStore], Awaitable[Any]], path: str | Path = MEMORY, **options: Any) -> Any:
    async def run() -> Any:
        store = SqliteStore(path, **options)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


keys = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "append"]), keys, st.binary(max_size=5)),
    st.tuples(st.sampled_from(["get", "delete"]), keys),
)


@given(st.lists(steps, max_size=15))
def test_it_keeps_what_a_dictionary_of_lists_would(actions: list[tuple[Any, ...]]) -> None:
    async def play(store: SqliteStore) -> None:
        known: dict[str, list[bytes]] = {}
        for action, key, *values in actions:
            if action == "put":
                known[key] = values
                await store.put(key, *values)
            elif action == "append":
                assert await store.append(key, *values) == (key in known)
                known.get(key, []).extend(values)
            elif action == "delete":
                assert await store.delete(key) == (known.pop(key, None) is not None)
            assert await store.get(["c", "b", "a"]) == [known.get(key, []) for key in "cba"]

    using(play)


def test_what_is_in_a_file_is_there_for_the_next_server_and_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.sqlite3"
    using(lambda store: store.put("a", b"1"), path)
    assert using(lambda store: store.get(["a"]), path) == [[b"1"]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_servers_share_a_file(tmp_path: Path) -> None:
    async def run() -> list[list[bytes]]:
        one, other = SqliteStore(tmp_path / "s"), SqliteStore(tmp_path / "s")
        await one.put("a", b"0")
        await asyncio.gather(*(store.append("a", b"x") for _ in range(20) for store in (one, other)))
        found = await other.get(["a"])
        await asyncio.gather(one.close(), other.close())
        return found

    assert asyncio.run(run()) == [[b"0", *[b"x"] * 40]]


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    async def fill(store: SqliteStore) -> list[list[bytes]]:
        for key in "abc":
            await store.put(key, b"1")
        await store.get(["a"])
        await store.put("d", b"1")
        return await store.get(list("abcd"))

    assert using(fill, max_records=3, clock=Clock()) == [[b"1"], [], [b"1"], [b"1"]]


def test_too_many_bytes_are_too_much_as_well() -> None:
    async def fill(store: SqliteStore) -> list[list[bytes]]:
        await store.put("a", b"12345")
        await store.put("b", b"1")
        await store.append("b", b"2345")
        return await store.get(["a", "b"])

    assert using(fill, max_records=9, max_bytes=8, clock=Clock()) == [[], [b"1", b"2345"]]


def test_what_was_not_used_for_long_is_gone() -> None:
    clock = Clock()

    async def wait(store: SqliteStore) -> tuple[Any, ...]:
        await store.put("a", b"1")
        await store.put("b", b"1")
        clock.now += 60
        await store.get(["b"])
        clock.now += 60
        return await store.append("a", b"2"), await store.get(["a", "b"]), await store.delete("a")

    assert using(wait, max_age=100, clock=clock) == (False, [[], [b"1"]], False)


def test_the_event_loop_never_waits_for_the_database() -> None:
    threads: list[str] = []

    def clock() -> float:
        threads.append(threading.current_thread().name)
        return 1.0

    using(lambda store: store.put("a", b"1"), clock=clock)
    assert threads
    assert all(name.startswith("store") for name in threads)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt can't be opened"):
        SqliteStore(path)
    with pytest.raises(StoreError, match="can't be opened"):
        SqliteStore(path / "below")


def test_a_failing_database_is_an_error_with_words() -> None:
    async def spoil(store: SqliteStore) -> None:
        store._database.execute("DROP TABLE entries")
        with pytest.raises(StoreError, match="The store failed: no such table"):
            await store.put("a", b"1")

    using(spoil)


def test_a_store_is_chosen_by_its_name(tmp_path: Path) -> None:
    async def close(store: Store) -> None:
        await store.close()

    asyncio.run(close(open_store(MEMORY)))
    asyncio.run(close(open_store(str(tmp_path / "s"))))
    assert (tmp_path / "s").exists()
    with pytest.raises(StoreError, match="'redis' is not known"):
        open_store("redis://localhost")


def test_data_is_kept_where_the_user_wants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    assert data_dir() == tmp_path
    monkeypatch.delenv("UNSPOOL_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_dir() == tmp_path / "unspool"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_dir().parts[-2:] == ("Application Support", "unspool")
