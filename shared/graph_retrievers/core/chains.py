"""Results of one question other than nodes: chains and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["Chains", "Facts"]


@dataclass(frozen=True)
class Chains:
    """Chains: paths as results, best first.

    Attributes
    ----------
    nodes : ndarray, shape [K, L], int64
        Node rows of each chain in order; -1 pads on the right.
    scores : ndarray, shape [K]
    operator : str
        Name of the operator that found them.
    rising : bool, default False
        Whether a context lists them with the best last.

    Examples
    --------
    >>> Chains(np.array([[0, 3, -1]]), np.array([0.7]), "Mine").append(Chains(np.array([[0, 3]]), np.array([0.5]), "Yours"))
    Chains(nodes=array([[ 0,  3, -1]]), scores=array([0.7]), operator='Mine', rising=False)
    """

    nodes: np.ndarray
    scores: np.ndarray
    operator: str
    rising: bool = False

    def taken(self, places: np.ndarray) -> Chains:
        """Return the chains at some places, shape [n], or selected by a mask, shape [K]."""
        return replace(self, nodes=self.nodes[places], scores=self.scores[places])

    def last(self) -> np.ndarray:
        """Return the last node of each chain: int64, shape [K]."""
        return self.nodes[np.arange(len(self.nodes)), (self.nodes >= 0).sum(1) - 1]

    def append(self, other: Chains) -> Chains:
        """Return these chains, followed by the new ones of another; equal paths are one chain, even from several operators."""
        length = max(self.nodes.shape[1], other.nodes.shape[1])
        first, second = (
            np.pad(chains.nodes, ((0, 0), (0, length - chains.nodes.shape[1])), constant_values=-1) for chains in (self, other)
        )
        paths = set(map(tuple, first.tolist()))
        fresh = [row for row, path in enumerate(second.tolist()) if tuple(path) not in paths]
        nodes, scores = np.concatenate([first, second[fresh]]), np.append(self.scores, other.scores[fresh])
        return replace(self, nodes=nodes, scores=scores)


@dataclass(frozen=True)
class Facts:
    """Facts: edges as results, best first.

    Attributes
    ----------
    rows : ndarray, shape [M], int64
        Relationship rows of the graph.
    scores : ndarray, shape [M]
    operator : str
        Name of the operator that found them.

    Examples
    --------
    >>> Facts(np.array([5, 2]), np.array([0.7, 0.1]), "Mine").append(Facts(np.array([2, 4]), np.array([0.9, 0.3]), "Yours")).rows
    array([5, 2, 4])
    """

    rows: np.ndarray
    scores: np.ndarray
    operator: str

    def taken(self, places: np.ndarray) -> Facts:
        """Return the facts at some places, shape [n], or selected by a mask, shape [M]."""
        return replace(self, rows=self.rows[places], scores=self.scores[places])

    def append(self, other: Facts) -> Facts:
        """Return these facts, followed by the new ones of another."""
        fresh = ~np.isin(other.rows, self.rows)
        return replace(self, rows=np.append(self.rows, other.rows[fresh]), scores=np.append(self.scores, other.scores[fresh]))


def padded(parts: Sequence[Any], pad: float = -1, *, left: bool = False, least: int = 0) -> np.ndarray:
    """Return lists or arrays of different lengths as one table, padded on the right: integers, or numbers of single precision.

    An array of more dimensions is padded in each of them. With `left`, the last dimension is padded on the left; its length is at
    least `least`. None means no entries.

    >>> padded([[4, 2], [7]], left=True)
    array([[ 4,  2],
           [-1,  7]])
    """
    arrays = [None if part is None else np.asarray(part) for part in parts]
    shapes = [array.shape for array in arrays if array is not None]
    *shape, width = np.max(shapes, 0) if shapes else (least,)
    table = np.full((len(arrays), *shape, max(width, least)), pad, np.int64 if isinstance(pad, int) else np.float32)
    for row, array in zip(table, arrays, strict=True):
        if array is not None:
            last = slice(row.shape[-1] - array.shape[-1], None) if left else slice(array.shape[-1])
            row[(*map(slice, array.shape[:-1]), last)] = array
    return table
