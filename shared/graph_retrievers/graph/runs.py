"""Runs of places in arrays, such as the entries of some rows of a CSR matrix."""

from __future__ import annotations

import numpy as np


def slices(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of rows, shape [n], of a CSR matrix: for each entry, the place of its row (ascending) and its position.

    >>> [part.tolist() for part in slices(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 0, 0, 1, 1], [2, 3, 4, 0, 1]]
    """
    start = indptr.take(rows)
    return runs(start, indptr.take(rows + 1) - start)


def runs(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in runs, `start` and `length` of shape [n], one after another: for each, its run and itself.

    >>> [part.tolist() for part in runs(np.array([7, 2]), np.array([2, 1]))]
    [[0, 0, 1], [7, 8, 2]]
    """
    owner = np.repeat(np.arange(len(start)), length)
    return owner, np.arange(len(owner)) + (start - np.cumsum(length) + length).take(owner)
