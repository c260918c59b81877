"""Edges sorted by the type of the neighbour and by relation, so that a typed step reads one slice for each node."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph

__all__ = ["TypedAdjacency", "typed_adjacency"]

# With more row pointers than this (one for each node and kind of step), rows are found by binary search instead.
_POINTER_LIMIT = 1 << 27
# Up to this many nodes and edges, plain Python takes a step faster than a dozen tensor operations.
_SMALL_FRONTIER, _SMALL_EDGES = 64, 600
# With one hit in this many (query, node) places or more, marking places is faster than sorting hits.
_DENSE_SHARE, _MARK_LIMIT = 50, 1 << 28


class TypedAdjacency:
    """Relationship rows from both ends, those of each node sorted by the kind of step they allow.

    A *kind* is a pair of neighbour type and relation that occurs in the graph. Kinds are numbered so that a step to a type, by
    any relation or by one, reads one contiguous slice of a node's edges; with ``order="relation"``, a step by a relation, to any
    type or to one. `kinds` lists the pairs, `neighbors` [E], int32, the nodes at the other ends.

    Examples
    --------
    >>> edges = [("ada", "engine", "wrote"), ("ada", "tom", "knows")]
    >>> graph = CorpusGraph(["ada", "tom", "engine"], [""] * 3, types=["person", "person", "paper"], edges=edges)
    >>> adjacency = TypedAdjacency(graph)
    >>> low, high = adjacency.span("person", None)
    >>> adjacency.step(torch.tensor([0]), [low], [high])[0].tolist()
    [1]
    """

    def __init__(self, graph: CorpusGraph, order: str = "type") -> None:
        view, self._expand = graph.incidence, graph.expand
        self.order, self.num_nodes, self.device = choice("order", order, ("type", "relation")), len(graph), graph.device
        types, relations = graph.type_names, sorted(graph.relation_names)
        kind = graph.node_types[view.neighbors.long()].long()
        # Relations are numbered by name, so that the order in which edges were given does not matter.
        rank = torch.tensor(np.argsort(np.argsort(graph.relation_names)), dtype=torch.int64, device=self.device)
        relation = rank[view.relations.long()]
        if order == "type":
            codes, step = torch.unique(kind * max(len(relations), 1) + relation, return_inverse=True)
            pairs = [divmod(code, len(relations)) for code in codes.tolist()]
        else:
            codes, step = torch.unique(relation * max(len(types), 1) + kind, return_inverse=True)
            pairs = [divmod(code, len(types))[::-1] for code in codes.tolist()]
        self.kinds = [(types[a], relations[b]) for a, b in pairs]
        self.num_kinds = max(len(self.kinds), 1)
        rows = torch.repeat_interleave(torch.arange(len(graph), device=self.device), view.indptr.diff())
        keys, place = torch.sort(rows * self.num_kinds + step, stable=True)
        self.neighbors = view.neighbors[place].contiguous()
        self._keys, self._pointers = keys, None
        self._views: tuple[Any, Any] | None = None
        cells = self.num_nodes * self.num_kinds
        if cells <= _POINTER_LIMIT and keys.numel() < 2**31:
            pointers = torch.zeros(cells + 1, dtype=torch.int32, device=self.device)
            pointers[1:] = torch.cumsum(torch.bincount(keys, minlength=cells), 0)
            self._keys, self._pointers = keys[:0], pointers
            if self.device.type == "cpu":
                self._views = memoryview(pointers.numpy()), memoryview(self.neighbors.numpy())  # type: ignore[arg-type]

    def span(self, type_name: str | None, relation: str | None) -> tuple[int, int]:
        """Return the kinds of a step as a half-open range, None standing for any type or relation; (0, 0) if there is no such edge.

        What comes second in `order` cannot be given alone, because its kinds are not a range: InvalidArgumentError.
        """
        first, second = (type_name, relation) if self.order == "type" else (relation, type_name)
        if first is None and second is not None:
            raise InvalidArgumentError(f"An adjacency ordered by {self.order} cannot step by the other alone.")
        mine = [i for i, (t, r) in enumerate(self.kinds) if type_name in (None, t) and relation in (None, r)]
        return (mine[0], mine[-1] + 1) if mine else (0, 0)

    def slices(self, nodes: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return start and length, each [M], of the edges of `nodes` whose kinds are from `low` to before `high`, [M] each."""
        base = nodes * self.num_kinds
        if self._pointers is not None:
            start = self._pointers[base + low].long()
            return start, self._pointers[base + high].long() - start
        start = torch.searchsorted(self._keys, base + low)
        return start, torch.searchsorted(self._keys, base + high) - start

    def step(self, frontier: Tensor, low: list[int], high: list[int], max_edges: int | None = None) -> tuple[Tensor, Tensor | None]:
        """Take one typed step from the frontiers of W walks at once; return the nodes reached, and the walks that were cut.

        `frontier` has keys ``walk * N + node``, int64 [M], ascending and distinct, as have the nodes reached. Walk w steps by the
        kinds from ``low[w]`` to before ``high[w]`` and reads at most `max_edges`: nodes of its frontier beyond that are left out.
        """
        self._expand(frontier % self.num_nodes)
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
        """Return the edges of a :meth:`step` as places in `frontier` and neighbours, both [T], with the walks that were cut."""
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
        return *self.read(start, length), cut

    def read(self, start: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neighbours in :meth:`slices` as one list: the slice of each, ascending, and its row, both [T]."""
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
    """Return the typed adjacency of a graph; it is built once and kept with the graph."""
    return graph.cache.get(("typed adjacency", order), lambda: TypedAdjacency(graph, order))
