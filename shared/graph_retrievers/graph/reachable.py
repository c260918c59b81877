"""Which nodes lead to others along directed edges."""

from __future__ import annotations

import numpy as np


def leading_to(nodes: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return which of n nodes lead to some, along any number of edges, or are one: bool, shape [n].

    `nodes`, bool, shape [n], are those that are led to; `sources` and `targets`, int64, shape [m], are the ends of edges.

    >>> leading_to(np.array([False, False, True, False]), np.array([0, 1, 2]), np.array([1, 2, 3])).tolist()
    [True, True, True, False]
    """
    leads, before = nodes.copy(), np.zeros(0, bool)
    while not np.array_equal(leads, before):
        before = leads.copy()
        leads[sources[leads[targets]]] = True
    return leads
