"""What has been computed from something that never changes, kept beside it: the one cache idiom of the package."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["Cache"]

T = TypeVar("T")


class Cache:
    """Values by key, each computed when it is first asked for.

    A graph owns one for what follows from its nodes and edges (name tables, transition matrices), a batch of queries owns
    one for what follows from them (vectors, similarities). Owners never change, so an entry never becomes stale, and it is
    freed with its owner. A copy or a pickle of the owner starts with an empty cache.

    Examples
    --------
    >>> cache = Cache()
    >>> cache.get("answer", lambda: 6 * 7)
    42
    >>> cache.get("answer", lambda: 0)
    42
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of `key`; call `make` for it where there is none. Threads may compute it twice, and share one."""
        if key not in self._values:
            value = make()
            return self._values.setdefault(key, value)  # type: ignore[no-any-return]
        return self._values[key]  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        """Return an empty cache for a copy or a pickle."""
        return Cache, ()
