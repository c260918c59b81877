"""Edges sorted by the type of the neighbour and by relation, so that a typed step reads one slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph

__all__ = ["TypedAdjacency", "typed_adjacency"]

# Beyond this many row pointers (one a node and kind of step) rows are found by binary search instead.
_POINTER_LIMIT = 1 << 27
# Up to this many nodes and edges a step is quicker as plain Python than as a dozen tensor operations.
_SMALL_FRONTIER, _SMALL_EDGES = 64, 600
# With one hit in this many (query, node) places or more, marking places beats sorting hits.
_DENSE_SHARE, _MARK_LIMIT = 50, 1 << 28


class TypedAdjacency:
    """Relationship rows seen from both ends, each node's sorted by the kind of step they allow.

    A *kind* is a pair of neighbour type and relation that occurs in the graph. Kinds are numbered so that those
    of one type (or, with ``order="relation"``, of one relation) follow each other: a step to a type, by any
    relation or by one, then reads one contiguous slice of a node's edges.

    Parameters
    ----------
    graph : CorpusGraph
    order : {"type", "relation"}, default "type"
        What comes first in the numbering: "type" serves steps to a type, "relation" steps by a relation to any type.

    Attributes
    ----------
    neighbors : Tensor, shape [E], int32
        The node at the other end; ascending within a node and kind.
    kinds : list of (str, str)
        Type and relation of each kind.
    """

    def __init__(self, graph: CorpusGraph, order: str = "type") -> None:
        if order not in ("type", "relation"):
            raise InvalidArgumentError(f"Unknown order {order!r}; choose 'type' or 'relation'.")
        view = graph.incidence
        self.order, self.num_nodes, self.device = order, len(graph), graph.device
        kind = graph.node_types[view.neighbors.long()].long()
        relation = view.relations.long()
        num_types, num_relations = max(len(graph.type_names), 1), max(len(graph.relation_names), 1)
        # Names decide the numbering, so that it does not depend on the order in which edges were given.
        rank = torch.tensor(np.argsort(np.argsort(graph.relation_names)), dtype=torch.int64, device=self.device)
        relation = rank[relation] if relation.numel() else relation
        code = kind * num_relations + relation if order == "type" else relation * num_types + kind
        codes, step = torch.unique(code, return_inverse=True)
        names = sorted(graph.relation_names)
        pairs = [divmod(c, num_relations if order == "type" else num_types) for c in codes.tolist()]
        self.kinds = [(graph.type_names[a], names[b]) if order == "type" else (graph.type_names[b], names[a]) for a, b in pairs]
        self.num_kinds = max(len(self.kinds), 1)
        rows = torch.repeat_interleave(torch.arange(len(graph), device=self.device), view.indptr.diff())
        keys, place = torch.sort(rows * self.num_kinds + step, stable=True)
        self.neighbors = view.neighbors[place].contiguous()
        self._keys: Tensor | None = keys
        self._pointers: Tensor | None = None
        self._views: tuple[Any, Any] | None = None
        cells = self.num_nodes * self.num_kinds
        if cells <= _POINTER_LIMIT and keys.numel() < 2**31:
            pointers = torch.zeros(cells + 1, dtype=torch.int32, device=self.device)
            pointers[1:] = torch.cumsum(torch.bincount(keys, minlength=cells), 0)
            self._keys, self._pointers = None, pointers
            if self.device.type == "cpu":
                self._views = memoryview(pointers.numpy()), memoryview(self.neighbors.numpy())  # type: ignore[arg-type]

    def span(self, type_name: str | None, relation: str | None) -> tuple[int, int]:
        """Return the kinds of a step as a half-open range of their numbers; (0, 0) if no edge is of that kind.

        Parameters
        ----------
        type_name, relation : str or None
            Neighbour type and relation; None for any. What comes first in the numbering can be given alone,
            or with the other.

        Raises
        ------
        InvalidArgumentError
            If only the one that comes second is given: its kinds do not follow each other.
        """
        first, second = (type_name, relation) if self.order == "type" else (relation, type_name)
        if first is None and second is not None:
            raise InvalidArgumentError(f"An adjacency ordered by {self.order} cannot step by the other alone.")
        mine = [
            i
            for i, (t, r) in enumerate(self.kinds)
            if (type_name is None or t == type_name) and (relation is None or r == relation)
        ]
        return (mine[0], mine[-1] + 1) if mine else (0, 0)

    def slices(self, nodes: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return where the edges of some kinds stand.

        Parameters
        ----------
        nodes, low, high : Tensor, shape [M], int64
            Node rows and half-open ranges of kinds.

        Returns
        -------
        start, length : Tensor, shape [M], int64
        """
        base = nodes * self.num_kinds
        if self._pointers is not None:
            start = self._pointers[base + low].long()
            return start, self._pointers[base + high].long() - start
        assert self._keys is not None
        start = torch.searchsorted(self._keys, base + low)
        return start, torch.searchsorted(self._keys, base + high) - start

    def step(self, frontier: Tensor, low: list[int], high: list[int], max_edges: int | None = None) -> tuple[Tensor, Tensor | None]:
        """Take one typed step from the frontiers of many walks at once.

        Parameters
        ----------
        frontier : Tensor, shape [M], int64
            Keys ``walk * N + node``, ascending and distinct.
        low, high : list of int, length W
            Kinds each walk steps by, as half-open ranges; an empty range ends a walk.
        max_edges : int, optional
            Edges a walk may read; the nodes of its frontier that come after are left out.

        Returns
        -------
        reached : Tensor, shape [M'], int64
            Keys of the nodes reached, ascending and distinct.
        cut : Tensor, shape [C], int64, or None
            Walks that met `max_edges`.
        """
        if self._views is not None and frontier.numel() <= _SMALL_FRONTIER:
            reached = self._small_step(self._views, frontier.tolist(), low, high)
            if reached is not None and (max_edges is None or max_edges >= _SMALL_EDGES):
                return reached, None
        size = self.num_nodes
        owner, neighbor, cut = self.edges(frontier, low, high, max_edges)
        return distinct(frontier[owner] // size * size + neighbor, len(low) * size), cut

    def edges(
        self, frontier: Tensor, low: list[int], high: list[int], max_edges: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the edges of a typed step, as :meth:`step` reads them.

        Parameters
        ----------
        frontier, low, high, max_edges
            As for :meth:`step`.

        Returns
        -------
        owner, neighbor : Tensor, shape [T], int64
            Position in `frontier` (ascending) and the node at the other end.
        cut : Tensor or None
            As for :meth:`step`.
        """
        walk = frontier // self.num_nodes
        ranges = torch.tensor([low, high], dtype=torch.int64, device=self.device)
        start, length = self.slices(frontier - walk * self.num_nodes, ranges[0][walk], ranges[1][walk])
        cut = None
        if max_edges is not None and int(length.sum()) > max_edges:
            read = torch.cumsum(length, 0)
            first = torch.searchsorted(walk, walk)
            over = read - (read - length)[first] > max_edges
            cut = torch.unique(walk[over])
            length = length.masked_fill(over, 0)
        owner, neighbor = self.read(start, length)
        return owner, neighbor, cut

    def read(self, start: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neighbours in slices as one flat list.

        Parameters
        ----------
        start, length : Tensor, shape [M], int64
            From :meth:`slices`.

        Returns
        -------
        owner, neighbor : Tensor, shape [T], int64
            The slice of each neighbour (ascending) and the neighbour's row.
        """
        total = int(length.sum())
        owner = torch.repeat_interleave(torch.arange(start.numel(), device=start.device), length, output_size=total)
        shift = start - (torch.cumsum(length, 0) - length)
        entry = torch.arange(total, device=start.device) + shift[owner]
        return owner, self.neighbors[entry].long()

    def _small_step(self, views: tuple[Any, Any], frontier: list[int], low: list[int], high: list[int]) -> Tensor | None:
        """Return the step of a small frontier, or None if it reads too many edges to be one."""
        size, kinds = self.num_nodes, self.num_kinds
        pointers, neighbors = views
        found: set[int] = set()
        room = _SMALL_EDGES
        for key in frontier:
            walk = key // size
            base = (key - walk * size) * kinds
            begin, end = pointers[base + low[walk]], pointers[base + high[walk]]
            if begin == end:
                continue
            room -= end - begin
            if room < 0:
                return None
            hits = neighbors[begin:end].tolist()
            found.update([walk * size + node for node in hits] if walk else hits)
        return torch.tensor(sorted(found), dtype=torch.int64)


def distinct(keys: Tensor, bound: int) -> Tensor:
    """Return the distinct values of `keys`, all below `bound`, in ascending order."""
    if bound <= _MARK_LIMIT and keys.numel() * _DENSE_SHARE > bound:
        marks = torch.zeros(bound, dtype=torch.bool, device=keys.device)
        marks[keys] = True
        return marks.nonzero().flatten()
    return torch.unique(keys)


def typed_adjacency(graph: CorpusGraph, order: str = "type") -> TypedAdjacency:
    """Return the typed adjacency of a graph, built when it is first asked for and kept with the graph."""
    return graph.cache.get(("typed adjacency", order), lambda: TypedAdjacency(graph, order))
