"""Forward push: the shares of a random walk with restarts, from the neighbours of the nodes that it comes to.

After Andersen, Chung and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006, section 3.
"""

from __future__ import annotations

import numpy as np

from graph_retrievers.core.candidates import best, best_of_each, falling, places_of
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.requests import Degree, WeightedNeighbors
from graph_retrievers.errors import ConvergenceError

TOLERANCE = 1e-4
"""Bound on the L1 error of the shares, unless limits end the walk earlier."""

_MAX_STEPS = 100_000
# What stays unpushed, as parts of the bound: of nodes whose neighbours are known, which costs no round trip, and of the others.
_KNOWN, _OTHERS = 1e-3, 1 / 4
# Ratios that differ by less are equal: of nodes that are alike, all are asked for, or none.
_EQUAL = 1 - 1e-9


class PushedWalk:
    r"""A walk that restarts with probability 1 - d, as far as it is pushed: shares p and residuals r of n nodes.

    A push of the node u settles a part of its residual in its share, and passes on the rest, by the weights w of its edges:

    .. math:: p_u \leftarrow p_u + (1 - d) \, r_u, \qquad r_v \leftarrow r_v + d \, r_u \frac{w_{uv}}{\sum_x w_{ux}}

    and :math:`r_u` becomes 0. A node without edges passes it on to the restart distribution. At first the residual is the restart
    distribution. Every push keeps the sum of p and of what walks that restart at r have, so that :math:`\sum_u r_u` is the L1
    error of p.

    Parameters
    ----------
    nodes : ndarray, shape [S], int64
        Rows at which it restarts; those given several times have all of their weights.
    weights : ndarray, shape [S]
        Restart weights, not negative; scaled to sum 1. One at least is above 0.
    damping : float
        Probability d of following an edge, in [0, 1).

    Attributes
    ----------
    nodes : ndarray, shape [n], int64
        The rows of the nodes to which it came.
    shares, residual : ndarray, shape [n], float64
    sources, targets, parts : ndarray, shape [T]
        The edges of the nodes whose neighbours are known: the places of both ends in `nodes`, and the part of the residual of the
        source that its push passes on to the target, if it passes on 1.
    """

    def __init__(self, nodes: np.ndarray, weights: np.ndarray, damping: float) -> None:
        self.nodes, place = np.unique(nodes, return_inverse=True)
        restart = np.bincount(place, weights, len(self.nodes))
        self.restart, self.damping = restart / restart.sum(), damping
        self.residual, self.shares = self.restart.copy(), np.zeros(len(self.nodes))
        # Whose neighbours were asked for, whose are known, and who has none.
        self.is_requested, self.is_known, self.ends = (np.zeros(len(self.nodes), bool) for _ in range(3))
        self.sources, self.targets, self.parts = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)

    @property
    def error(self) -> float:
        """The L1 error of the shares once :meth:`settle` has settled the residual."""
        return float(self.damping * self.residual.sum())

    def push(self, most: float) -> None:
        """Push all nodes whose neighbours are known, until their residuals together are at most `most`."""
        for _ in range(_MAX_STEPS):
            mass = np.where(self.is_known, self.residual, 0.0)
            if mass.sum() <= most:
                return
            self.shares += (1 - self.damping) * mass
            self.residual = np.where(self.is_known, 0.0, self.residual)
            self.residual += self.damping * np.bincount(self.targets, mass[self.sources] * self.parts, len(self.nodes))
            self.residual[: len(self.restart)] += self.damping * mass[self.ends].sum() * self.restart
        raise ConvergenceError(
            f"The walk with damping {self.damping} has not converged after {_MAX_STEPS:,} steps, with {mass.sum():.1e} of it left; "
            "lower the damping."
        )

    def frontier(self, most: float, adjacency: Adjacency) -> Algorithm[np.ndarray]:
        """Return the places of the nodes to ask for, the most urgent first: those with the most residual for each neighbour.

        It is the shortest such list for which the residuals of others that were not asked for are together at most `most`.
        """
        (place,) = np.nonzero(~self.is_requested & (self.residual > 0))
        degree = yield from adjacency.degree(self.nodes[place])
        ratio = self.residual[place] / np.maximum(degree, 1)
        by = np.lexsort((self.nodes[place], -ratio))
        # The residuals of each and of those behind it.
        behind = np.cumsum(self.residual[place][by][::-1])[::-1]
        (needed,) = np.nonzero(behind > most)
        if not len(needed):
            return place[:0]
        return place[by[ratio[by] >= _EQUAL * ratio[by[needed[-1]]]]]

    def meet(self, frontier: np.ndarray, near: np.ndarray, owner: np.ndarray, weights: np.ndarray, mask: np.ndarray) -> None:
        """Take in the neighbours, `near` [T], of nodes at places, `frontier` [F], with the weights of the edges, [T].

        `owner` has the place of each neighbour's node in the frontier, and `mask`, bool, shape [F], whose neighbours these are.
        """
        new = np.setdiff1d(near, self.nodes)
        self.nodes = np.append(self.nodes, new)
        for name in ("shares", "residual", "is_requested", "is_known", "ends"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, np.zeros(len(new), column.dtype)))
        strength = np.bincount(owner, weights, len(frontier))
        self.is_requested[frontier], self.is_known[frontier], self.ends[frontier] = True, mask, strength == 0
        self.sources = np.append(self.sources, frontier[owner])
        self.targets = np.append(self.targets, places_of(self.nodes, near))
        self.parts = np.append(self.parts, weights / strength[owner])

    def settle(self) -> None:
        """Settle the residuals where they are, as the last push of each node does."""
        self.shares += (1 - self.damping) * self.residual

    def best(self, k: int, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nodes with the largest shares above 0, best first, and these; ties go to the lower row.

        `among`, bool, shape [n], has the nodes that may be returned, all by default.
        """
        (place,) = np.nonzero(self.shares if among is None else self.shares * among)
        by = place[best(self.shares[place], k, self.nodes[place])]
        return self.nodes[by], falling(self.shares[by])

    def parents(self, nodes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Return for each of some nodes, shape [K], best first, the higher one that passes on most to it: [K]; -1 for `seeds`."""
        place, rank = places_of(self.nodes, nodes), np.full(len(self.nodes), len(nodes))
        rank[place] = np.arange(len(nodes))
        sought = np.zeros(len(self.nodes), bool)
        sought[place] = places_of(seeds, nodes) < 0
        (entry,) = np.nonzero(sought[self.targets] & (rank[self.sources] < rank[self.targets]))
        flow = (self.shares[self.sources[entry]] * self.parts[entry]).astype(np.float32)
        source, target = self.nodes[self.sources[entry]], rank[self.targets[entry]]
        largest, parents = best_of_each(target, flow, source), np.full(len(nodes), -1)
        parents[target[largest]] = source[largest]
        return parents


class Adjacency:
    """Which nodes a walk leads to: the neighbours in the corpus graph, by the weights of the edges between."""

    def degree(self, nodes: np.ndarray) -> Algorithm[np.ndarray]:
        """Return the number of neighbours of each of some nodes, shape [n], about."""
        return (yield Degree(nodes))  # type: ignore[no-any-return]

    def neighbors(self, nodes: np.ndarray) -> Algorithm[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Return the place of each neighbour's node in `nodes`, the neighbours, and weights, each [T], and of which nodes: [n]."""
        near, weights, mask = yield WeightedNeighbors(nodes)
        return near.owner, near.node, weights.sum(1), mask


def note_error(walk: PushedWalk, notes: list[str]) -> None:
    """Add a note if limits ended a walk before its error was below the tolerance."""
    if walk.error > TOLERANCE:
        # Rounded up, as it is a bound.
        bound = np.ceil(1e4 * walk.error) / 1e4
        notes.append(f"the walk ended at max_nodes or max_round_trips: its shares may be wrong by {bound:.4f} in all, of 1")


def pushed(
    nodes: np.ndarray,
    weights: np.ndarray,
    damping: float,
    tolerance: float = TOLERANCE,
    adjacency: Adjacency | None = None,
) -> Algorithm[PushedWalk]:
    """Return a walk that is pushed until the L1 error of its shares is at most the tolerance, or limits end it.

    The neighbours of all nodes of the frontier are asked for at once, and nodes whose neighbours are known are pushed without
    asking: a step for each hop from the restart nodes.

    Parameters
    ----------
    nodes, weights, damping : ndarray, shape [S], ndarray, shape [S], and float
        As for :class:`PushedWalk`.
    tolerance : float, default 1e-4
    adjacency : Adjacency, optional
        Of another graph than that of the corpus.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.core.driver import run
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    >>> backend = MemoryBackend(Queries.of(index, ["?"]))
    >>> (walk,) = run(backend, [pushed(np.array([0]), np.array([1.0]), 0.5)])
    >>> walk.nodes, walk.shares.round(3), walk.error < 1e-4
    (array([0, 1, 2]), array([0.583, 0.333, 0.083]), True)
    """
    walk, adjacency = PushedWalk(nodes, weights, damping), adjacency or Adjacency()
    while True:
        walk.push(_KNOWN * tolerance)
        if walk.error <= tolerance:
            break
        frontier = yield from walk.frontier(_OTHERS * tolerance, adjacency)
        if not len(frontier):
            break
        owner, near, sums, mask = yield from adjacency.neighbors(walk.nodes[frontier])
        walk.meet(frontier, near, owner, sums, mask)
    walk.settle()
    return walk
