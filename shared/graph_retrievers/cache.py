"""Caches of values that are computed from an immutable object, such as a graph or a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sized
from functools import cached_property
from threading import Lock, RLock
from typing import Any, Generic, TypeVar

__all__ = ["Cache", "SizedCache"]

T = TypeVar("T")
S = TypeVar("S", bound=Sized)
_ABSENT = object()


class Cache:
    """Values by key, each computed on first use.

    A graph has one for tables made from its nodes and edges, a batch of queries has one for vectors and scores. Their owners do
    not change, so entries are never out of date. A copy or a pickle of the owner starts with an empty cache. With a `limit`, only
    that number of the newest entries is kept.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.get("answer", lambda: 6 * 7)
    42
    >>> cache.get("answer", lambda: 0)
    42
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._values: dict[Hashable, Any] = {}
        # The turn of the threads that make the value of a key: the first makes it, the others wait; if it fails, the next one
        # tries. The function that makes a value may ask for the same key again.
        self._turns: dict[Hashable, RLock] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of `key`, from `make` if there is none yet. Of several threads one calls it, and the others wait.

        If `make` fails, its thread gets the error, and the next thread that waits calls its own.
        """
        # Read once, since another thread may drop it.
        entry = self._values.get(key, _ABSENT)
        if entry is not _ABSENT:
            return entry  # type: ignore[no-any-return]
        with self._turns.setdefault(key, RLock()):
            entry = self._values.get(key, _ABSENT)
            value: T = self._values.setdefault(key, make()) if entry is _ABSENT else entry
            if self.limit is not None:
                for oldest in list(self._values)[: -self.limit]:
                    self._values.pop(oldest, None)
            # Kept after an error, for those who wait.
            self._turns.pop(key, None)
            return value

    def __contains__(self, key: Hashable) -> bool:
        """Return whether there is a value of `key`."""
        return key in self._values

    def __reduce__(self) -> tuple[type[Cache], tuple[int | None]]:
        """Return an empty cache for a copy or a pickle."""
        return Cache, (self.limit,)


class Lazy(Generic[T]):
    """A value that is made when it is first read; a copy or a pickle has the value.

    Examples
    --------
    >>> answer = Lazy(lambda: 6 * 7)
    >>> answer.value
    42
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    @cached_property
    def value(self) -> T:
        """The value."""
        value = self._make()
        # What it was made from need not stay in memory.
        self._make = lambda: value
        return value

    def __getstate__(self) -> dict[str, T]:
        """Return the value."""
        return {"value": self.value}


class Identity:
    """A part of a key that is equal only to itself: it keeps one object, so that no other can reuse its id.

    Examples
    --------
    >>> one, other = [1], [1]
    >>> Identity(one) == Identity(one), Identity(one) == Identity(other)
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same object."""
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        """Return the hash of the object's id."""
        return hash(id(self.value))


class SizedCache:
    """Values by key, at most `limit` of them with a total of at most `size` (by ``len``), or only the last one.

    The least recently used are removed first. A copy or a pickle starts empty.

    Examples
    --------
    >>> cache = SizedCache(limit=10, size=4)
    >>> [cache.get(key, lambda: "abc") for key in (1, 2, 1)], len(cache)
    (['abc', 'abc', 'abc'], 1)
    """

    def __init__(self, limit: int, size: int) -> None:
        self.limit, self.size = limit, size
        self._values: dict[Hashable, Any] = {}
        self._lock = Lock()
        self._turns: dict[Hashable, RLock] = {}

    def __len__(self) -> int:
        """Return the number of values held."""
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], S]) -> S:
        """Return the value of `key`, from `make` if there is none; threads wait for each other as in :meth:`Cache.get`."""
        entry = self._values.get(key)
        if entry is not None:
            return self._mark_used(key, entry)
        with self._turns.setdefault(key, RLock()):
            entry = self._values.get(key)
            value = self._mark_used(key, make() if entry is None else entry)
            self._turns.pop(key, None)
            return value

    def _mark_used(self, key: Hashable, default: S) -> S:
        """Return the value of a key, `default` if another thread dropped it, as the one used last."""
        with self._lock:
            # Moved to the end, after those used before.
            value: S = self._values.pop(key, default)
            self._values[key] = value
            total = sum(map(len, self._values.values()))
            while len(self._values) > 1 and (len(self._values) > self.limit or total > self.size):
                total -= len(self._values.pop(next(iter(self._values))))
        return value

    def __reduce__(self) -> tuple[type[SizedCache], tuple[int, int]]:
        """Return an empty cache for a copy or a pickle."""
        return SizedCache, (self.limit, self.size)
