"""What is made once and used by many requests: tokenizer data and compiled grammars.

Both caches are bounded and safe to use from several threads; two requests that need the same thing at once wait
for one making of it. A tokenizer is known by its identity, never by a reused address: an entry keeps a weak
reference to its object, or the object itself where it allows none or the value needs it; then the bound makes it
go.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Cache(Generic[V]):
    """The ``size`` most recently used values by key. ``made`` counts how often a value had to be made."""

    def __init__(self, size: int) -> None:
        self._size = size
        # Reentrant: the end of an owner may drop its entry while this thread is in here.
        self._lock = threading.RLock()
        self._entries: OrderedDict[Hashable, Future[V]] = OrderedDict()
        self.made = 0

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key, made if there is none. What ``make`` raises is raised and not kept."""
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                entry = self._entries[key] = Future()
                self.made += 1
                if len(self._entries) > self._size:
                    self._entries.popitem(last=False)
            else:
                self._entries.move_to_end(key)
        if mine:
            try:
                entry.set_result(make())
            except BaseException as error:
                self.drop(key)
                entry.set_exception(error)
                raise
        return entry.result()

    def drop(self, key: Hashable) -> None:
        """Forgets a key."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


class IdentityCache(Generic[V]):
    """Values by the identity of an object; an entry goes when its object does."""

    def __init__(self, size: int) -> None:
        self._cache: Cache[tuple[Callable[[], Any], V]] = Cache(size)

    @property
    def made(self) -> int:
        """How often a value had to be made."""
        return self._cache.made

    def get(self, owner: Any, make: Callable[[], V]) -> V:
        """The value of an object, made if there is none."""
        key = id(owner)
        while True:
            find, value = self._cache.get(key, lambda: (self._reference(owner), make()))
            if find() is owner:
                return value
            # The address of an object that is gone was used again.
            self._cache.drop(key)

    def clear(self) -> None:
        """Forgets everything."""
        self._cache.clear()

    def __len__(self) -> int:
        return len(self._cache)

    def _reference(self, owner: Any) -> Callable[[], Any]:
        key, cache = id(owner), self._cache
        try:
            return weakref.ref(owner, lambda _: cache.drop(key))
        except TypeError:
            return lambda: owner
