"""What a request tells of the rows in several lists, each row read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.requests import Request


def of_each(request: Callable[[np.ndarray], Request], lists: Sequence[np.ndarray]) -> Algorithm[list[list[Any]]]:
    """Return what a request, such as ``Texts``, tells of the rows in each list: one request, as a database takes one round trip.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.core.driver import run
    >>> from graph_retrievers.core.requests import Texts
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> from graph_retrievers.search.queries import Queries
    >>> backend = MemoryBackend(Queries.of(GraphIndex.from_texts(["a loom", "a card"]), ["?"]))
    >>> run(backend, [of_each(Texts, [np.array([1, 0]), np.array([1])])])
    [[['a card', 'a loom'], ['a card']]]
    """
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *lists]))
    values = dict(zip(rows.tolist(), (yield request(rows)), strict=True))
    return [[values[row] for row in part.tolist()] for part in lists]
