"""Results of one question beyond nodes: chains and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from graph_retrievers import results

__all__ = ["Chains", "Facts", "padded_chains", "padded_facts"]


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
        """Return the chains at some places, shape [n], or where a mask, shape [K], is true."""
        return replace(self, nodes=self.nodes[places], scores=self.scores[places])

    def last(self) -> np.ndarray:
        """Return the last node of each chain: int64, shape [K]."""
        return self.nodes[np.arange(len(self.nodes)), (self.nodes >= 0).sum(1) - 1]

    def append(self, other: Chains) -> Chains:
        """Return these chains with the new ones of another at the end; the same path is one chain, whichever operators found it."""
        length = max(self.nodes.shape[1], other.nodes.shape[1])
        mine, others = (_widened(chains.nodes, length) for chains in (self, other))
        held = set(map(tuple, mine.tolist()))
        fresh = [row for row, path in enumerate(others.tolist()) if tuple(path) not in held]
        nodes, scores = np.concatenate([mine, others[fresh]]), np.append(self.scores, other.scores[fresh])
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
        """Return the facts at some places, shape [n], or where a mask, shape [M], is true."""
        return replace(self, rows=self.rows[places], scores=self.scores[places])

    def append(self, other: Facts) -> Facts:
        """Return these facts with the new ones of another at the end."""
        fresh = ~np.isin(other.rows, self.rows)
        return replace(self, rows=np.append(self.rows, other.rows[fresh]), scores=np.append(self.scores, other.scores[fresh]))


def padded_chains(found: Sequence[Chains | None], device: torch.device) -> results.Chains | None:
    """Return the chains of several questions as one table, None if there are none."""
    told = [chains for chains in found if chains is not None]
    if not told:
        return None
    length = max(chains.nodes.shape[1] for chains in told)
    nodes = [np.empty((0, length), np.int64) if chains is None else _widened(chains.nodes, length) for chains in found]
    scores = [np.empty(0) if chains is None else chains.scores for chains in found]
    return results.Chains(_table(nodes, -1, device), _table(scores, -np.inf, device), told[0].operator, told[0].rising)


def padded_facts(found: Sequence[Facts | None], device: torch.device) -> results.Facts | None:
    """Return the facts of several questions as one table, None if there are none."""
    told = [facts for facts in found if facts is not None]
    if not told:
        return None
    rows = [np.empty(0, np.int64) if facts is None else facts.rows for facts in found]
    scores = [np.empty(0) if facts is None else facts.scores for facts in found]
    return results.Facts(_table(rows, -1, device), _table(scores, -np.inf, device), told[0].operator)


def _table(parts: Sequence[np.ndarray], pad: float, device: torch.device) -> Any:
    kind = np.int64 if pad == -1 else np.float32
    table = np.full((len(parts), max(map(len, parts)), *parts[0].shape[1:]), pad, kind)
    for row, part in zip(table, parts, strict=True):
        row[: len(part)] = part
    return torch.from_numpy(table).to(device)


def _widened(paths: np.ndarray, length: int) -> np.ndarray:
    if paths.shape[1] == length:
        return paths
    return np.pad(paths, ((0, 0), (0, length - paths.shape[1])), constant_values=-1)
