"""The edges that one call has fetched, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.errors import DatabaseError, shown
from graph_retrievers.graph.corpus_graph import HEAVIEST, LIGHTEST
from graph_retrievers.stores.remote.ports import EdgeColumns


class NodeEdges(NamedTuple):
    """The edges of a node.

    `neighbors`, ascending, are without the node itself; for each, `weights`, float32, has the largest weight of an edge, and
    `sums`, shape [n, 2], the sum of the weights of all edges from the node, and of those to it. `ends` and `positions` have the
    other end and the position of each edge, in the order of both.
    """

    neighbors: np.ndarray
    weights: np.ndarray
    sums: np.ndarray
    ends: np.ndarray
    positions: np.ndarray

    @property
    def incoming(self) -> np.ndarray:
        """The neighbours with an edge to the node."""
        return self.neighbors[self.sums[:, 1] > 0]


class EdgeTable(NamedTuple):
    """M edges: their positions, the rows of their ends, shape [M, 2], the numbers of their relations, weights and texts."""

    positions: np.ndarray
    ends: np.ndarray
    relations: np.ndarray
    weights: np.ndarray
    texts: np.ndarray

    def distinct(self) -> EdgeTable:
        """Return each edge once, in the order of positions."""
        places = np.unique(self.positions, return_index=True)[1]
        return EdgeTable(*(column[places] for column in self))


class FetchedEdges:
    """The edges that a call has fetched.

    `table` has them in the order of positions, `near` the edges of each node of which all were fetched, by its row, and
    `relation_numbers` the number of each relation.
    """

    def __init__(self) -> None:
        self.near: dict[int, NodeEdges] = {}
        self.relation_numbers: dict[str, int] = {}
        self.table = self._table_of(EdgeColumns(), {})

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.table.positions)

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Return the places in `table` of edges, by their positions, shape [n]."""
        return np.searchsorted(self.table.positions, positions)

    def keep(self, nodes: Iterable[int], edges: EdgeColumns, rows: Mapping[str, int]) -> None:
        """Keep some edges, with all edges of `nodes`; `rows` has the row of each end by its id."""
        table = self._table_of(edges, rows)
        self._keep_near(np.array(sorted(nodes), np.int64), table)
        self.table = EdgeTable(*map(np.concatenate, zip(self.table, table, strict=True))).distinct()

    def _table_of(self, columns: EdgeColumns, rows: Mapping[str, int]) -> EdgeTable:
        numbers, texts = self.relation_numbers, np.empty(len(columns), object)
        texts[:] = columns.text
        ends = [[rows[name] for name in names] for names in (columns.source, columns.target)]
        table = EdgeTable(
            np.array(columns.position, np.int64),
            np.array(ends, np.int64).T.reshape(-1, 2),
            np.array([numbers.setdefault(name, len(numbers)) for name in columns.relation], np.int64),
            np.array(columns.weight, np.float64),
            texts,
        )
        # A store may give an edge once for each of its ends.
        return table.distinct()

    def _keep_near(self, nodes: np.ndarray, table: EdgeTable) -> None:
        """Keep the edges of some nodes, ascending, which are all in a table."""
        source, target = table.ends.T
        # An edge belongs to both of its ends, one from a node to itself only once.
        reversible = np.flatnonzero(source != target)
        owners, ends = np.append(source, target[reversible]), np.append(target, source[reversible])
        places, backward = np.append(np.arange(len(source)), reversible), np.arange(len(owners)) >= len(source)
        order = np.lexsort((places, ends, owners))
        order = order[np.isin(owners[order], nodes)]
        owners, ends, places, backward = owners[order], ends[order], places[order], backward[order]
        positions, bounds = table.positions[places], np.searchsorted(owners, [nodes, nodes + 1])
        # A node is not its own neighbour, and each neighbour counts once, however many edges join the two.
        apart = np.flatnonzero(owners != ends)
        pairs, weights = np.column_stack([owners, ends])[apart], table.weights[places[apart]]
        starts = np.flatnonzero(np.concatenate([[True], (pairs[1:] != pairs[:-1]).any(1)])[: len(pairs)])
        largest = np.maximum.reduceat(weights, starts).astype(np.float32)
        sums = np.add.reduceat(weights[:, None] * np.column_stack([~backward[apart], backward[apart]]), starts)
        owners, neighbors = pairs[starts].T
        neighbor_bounds = np.searchsorted(owners, [nodes, nodes + 1])
        for row, start, stop, first, last in zip(nodes.tolist(), *neighbor_bounds.tolist(), *bounds.tolist(), strict=True):
            near, own = slice(start, stop), slice(first, last)
            self.near[row] = NodeEdges(neighbors[near], largest[near], sums[near], ends[own], positions[own])


def check_edges(columns: EdgeColumns) -> None:
    """Raise DatabaseError unless each edge has an integer as its position and a number above 0 as its weight."""
    for place, (position, weight) in enumerate(zip(columns.position, columns.weight, strict=True)):
        if not isinstance(position, int) or not _is_weight(weight):
            raise DatabaseError(
                f"The edge from {shown(columns.source[place])} to {shown(columns.target[place])} has the position "
                f"{shown(position)} and the weight {shown(weight)}; expected an integer, and a number above 0. Write the graph "
                "with write_graph, which gives both."
            )


def _is_weight(value: Any) -> bool:
    if type(value) is float:
        return LIGHTEST <= value <= HEAVIEST
    return isinstance(value, Real) and not isinstance(value, bool) and LIGHTEST <= float(value) <= HEAVIEST
