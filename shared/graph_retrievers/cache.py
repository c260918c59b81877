"""The cache of values that are computed from an immutable object, such as a graph or a batch of queries."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Cache"]

T = TypeVar("T")


class Cache:
    """Values by key, each computed on first use.

    A graph has one for tables made of its nodes and edges, a batch of queries has one for vectors and scores. Their owners do
    not change, so entries are never out of date. A copy or a pickle of the owner starts with an empty cache. With a `limit`,
    only so many entries are kept, the last ones that were made.

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

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of `key`, from `make` if there is none yet; two threads may both call it, and get the same object."""
        if key in self._values:
            return self._values[key]  # type: ignore[no-any-return]
        value: T = self._values.setdefault(key, make())
        if self.limit is not None:
            for oldest in list(self._values)[: -self.limit]:
                self._values.pop(oldest, None)
        return value

    def __reduce__(self) -> tuple[type[Cache], tuple[int | None]]:
        """Return an empty cache for a copy or a pickle."""
        return Cache, (self.limit,)
