from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import fakeredis
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.serving import client, served
from unspool.engines.replay import Recording, ReplayEngine
from unspool.server.redis_store import PREFIX, RedisStore
from unspool.server.storage import (
    MEMORY,
    SqliteStore,
    Store,
    StoreError,
    data_dir,
    open_store,
    without_password,
)


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


STORES: dict[str, Callable[[], Store]] = {
    "sqlite": SqliteStore,
    "redis": lambda: RedisStore(fakeredis.FakeAsyncRedis()),
    # Databases that run somewhere: UNSPOOL_TEST_STORES="redis://... postgresql://..."
    **{url: partial(open_store, url) for url in os.environ.get("UNSPOOL_TEST_STORES", "").split()},
}
every_store = pytest.mark.parametrize("make", STORES.values(), ids=STORES)

keys = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "append"]), keys, st.binary(max_size=5)),
    st.tuples(st.sampled_from(["get", "delete"]), keys),
)


@every_store
@given(st.lists(steps, max_size=15))
def test_it_keeps_what_a_dictionary_of_lists_would(
    make: Callable[[], Store], actions: list[tuple[Any, ...]]
) -> None:
    async def play() -> None:
        store = make()
        this = uuid.uuid4().hex
        known: dict[str, list[bytes]] = {}
        for action, key, *values in actions:
            if action == "put":
                known[key] = values
                await store.put(this + key, *values)
            elif action == "append":
                assert await store.append(this + key, *values) == (key in known)
                known.get(key, []).extend(values)
            elif action == "delete":
                assert await store.delete(this + key) == (known.pop(key, None) is not None)
            assert await store.get([this + key for key in "cbac"]) == [known.get(key, []) for key in "cbac"]
        assert await store.get([]) == []
        await store.close()

    asyncio.run(play())


@every_store
def test_nothing_is_lost_when_many_add_to_one_record(make: Callable[[], Store]) -> None:
    async def run() -> list[list[bytes]]:
        store, key = make(), uuid.uuid4().hex
        await store.put(key, b"0")
        assert all(await asyncio.gather(*(store.append(key, b"%d" % number) for number in range(1, 41))))
        found = await store.get([key])
        await store.close()
        return found

    ((first, *others),) = asyncio.run(run())
    assert first == b"0"
    assert sorted(map(int, others)) == list(range(1, 41))


@every_store
def test_a_server_can_be_given_any_store(make: Callable[[], Store]) -> None:
    with served(ReplayEngine([Recording("text", "Hello!")]), store=make()) as url:
        api = client(url)
        first = api.responses.create(model="text", input="1")
        second = api.responses.create(model="text", input="2", previous_response_id=first.id)
        assert api.responses.retrieve(second.id).output_text == "Hello!"
        api.responses.delete(first.id)
        assert httpx.get(f"{url}/v1/responses/{first.id}").status_code == 404


def test_redis_forgets_by_itself() -> None:
    async def run() -> tuple[float, float]:
        redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer())
        store = RedisStore(redis, max_age=100)
        await store.put("a", b"1")
        after_put = await redis.pttl(f"{PREFIX}a")
        await redis.persist(f"{PREFIX}a")
        await store.get(["a"])
        return after_put, await redis.pttl(f"{PREFIX}a")

    after_put, after_get = asyncio.run(run())
    assert 0 < after_put <= 100_000
    assert 0 < after_get <= 100_000


def test_a_lost_redis_is_an_error_with_words() -> None:
    server = fakeredis.FakeServer()
    server.connected = False
    with pytest.raises(StoreError, match="The store failed"):
        asyncio.run(RedisStore(fakeredis.FakeAsyncRedis(server=server)).put("a", b"1"))


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://:secret@127.0.0.1:1", "The Redis store can't be opened: .*refused"),
        ("redis://127.0.0.1:none", "The Redis store can't be opened"),
        ("postgresql://me:secret@127.0.0.1:1/db", "The PostgreSQL store can't be opened: .*refused"),
        ("postgresql://127.0.0.1:none", "The PostgreSQL store can't be opened"),
        ("mysql://me:secret@127.0.0.1", "'mysql' is not known"),
        ("redis:me:secret@127.0.0.1", "redis://"),
        ("postgresql:me:secret@127.0.0.1/db", "postgresql://"),
        ("redis://:secret/x@127.0.0.1:1", "percent-encoded"),
        ("redis://:secret#x@127.0.0.1:1", "percent-encoded"),
        ("postgresql://me:secret?x@127.0.0.1:1/db", "percent-encoded"),
        ("postgresql://me:secret@[::1/db", "percent-encoded"),
        ("postgresql://me:secret@127.0.0.1:secret/db", "The PostgreSQL store can't be opened"),
        ("postgresql://127.0.0.1:1/db?password=secret&sslmode=secret", "The PostgreSQL store can't be opened"),
        ("rediss://:secret@[::1", "percent-encoded"),
        ("redis://:s%65cret@127.0.0.1:secret", "The Redis store can't be opened"),
    ],
)
def test_a_database_that_cant_be_reached_is_one_line_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint) as caught:
        open_store(url)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_store_is_shown_without_its_password() -> None:
    assert (
        without_password("postgresql://me:secret@db.example:5/x?password=secret") == "postgresql://db.example:5/x"
    )
    for odd in ("/x@", "#x@", "?x@", "@[", "@[::1]x/"):
        assert "secret" not in without_password(f"redis://me:secret{odd}db.example/0")


@pytest.mark.parametrize(("url", "extra"), [("redis://here", "redis"), ("postgresql://here", "postgres")])
def test_what_has_to_be_installed_is_said(monkeypatch: pytest.MonkeyPatch, url: str, extra: str) -> None:
    for name in ("redis", "psycopg", "unspool.server.redis_store", "unspool.server.postgres_store"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finder = sys.meta_path.copy()
    monkeypatch.setattr(sys, "meta_path", [_Without({"redis", "psycopg"}), *finder])
    with pytest.raises(StoreError, match=rf'pip install "unspool\[{extra}\]"'):
        open_store(url)


class _Without:
    """Makes these packages missing."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


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


def test_a_few_large_records_are_noticed_as_soon_as_many_small_ones() -> None:
    async def fill(store: SqliteStore) -> int:
        for number in range(20):
            await store.put(str(number), b"1" * 10)
        return sum(map(bool, await store.get([str(number) for number in range(20)])))

    assert using(fill, max_records=10_000, max_bytes=50, clock=Clock()) == 5


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


def test_data_is_kept_where_the_user_wants(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSPOOL_DATA", str(tmp_path))
    assert data_dir() == tmp_path
    monkeypatch.delenv("UNSPOOL_DATA")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_dir() == tmp_path / "unspool"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_dir().parts[-2:] == ("Application Support", "unspool")
