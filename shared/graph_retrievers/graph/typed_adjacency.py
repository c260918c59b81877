"""Edges sorted by the type of the neighbour and by relation, so that a typed step reads one slice for each node."""

from __future__ import annotations

import numpy as np
import torch

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph

# With more row pointers than this (one for each node and kind of step), rows are found by binary search instead.
_POINTER_LIMIT = 1 << 27


class TypedAdjacency:
    """Relationship rows from both ends, those of each node sorted by the kind of step that they allow; on the host.

    A *kind* is a pair of neighbour type and relation that occurs in the graph. Kinds are numbered so that a step to a type, by
    any relation or by one, reads one contiguous slice of a node's edges; with ``order="relation"``, a step by a relation, to any
    type or to one. `kinds` lists the pairs, `neighbors` [E], int32, the nodes at the other ends.
    """

    def __init__(self, graph: CorpusGraph, order: str = "type") -> None:
        view, self.order = graph.incidence, choice("order", order, ("type", "relation"))
        types, relations = graph.type_names, sorted(graph.relation_names)
        node_type = graph.node_types[view.neighbors.long()].long()
        # Relations are numbered by name, so that the order in which edges were given does not matter.
        numbers = {name: number for number, name in enumerate(relations)}
        rank = torch.tensor([numbers[name] for name in graph.relation_names], dtype=torch.int64, device=graph.device)
        relation = rank[view.relations.long()]
        if order == "type":
            codes, kind = torch.unique(node_type * max(len(relations), 1) + relation, return_inverse=True)
            pairs = [divmod(code, len(relations)) for code in codes.tolist()]
        else:
            codes, kind = torch.unique(relation * max(len(types), 1) + node_type, return_inverse=True)
            pairs = [divmod(code, len(types))[::-1] for code in codes.tolist()]
        self.kinds = [(types[a], relations[b]) for a, b in pairs]
        self._spans: dict[tuple[str | None, str | None], tuple[int, int]] = {}
        rows = torch.repeat_interleave(torch.arange(len(graph), device=graph.device), view.indptr.diff())
        keys, place = torch.sort(rows * max(len(self.kinds), 1) + kind, stable=True)
        self.neighbors: np.ndarray = view.neighbors[place].cpu().numpy()
        cells = len(graph) * max(len(self.kinds), 1)
        self._keys: np.ndarray = keys.cpu().numpy()
        self._pointers: np.ndarray | None = None
        if cells <= _POINTER_LIMIT and keys.numel() < 2**31:
            self._pointers = np.zeros(cells + 1, np.int32)
            np.cumsum(np.bincount(self._keys, minlength=cells), out=self._pointers[1:])
            self._keys = self._keys[:0].copy()

    def span(self, type_name: str | None, relation: str | None) -> tuple[int, int]:
        """Return the kinds of a step as a half-open range, with None for any type or relation; (0, 0) if there is no such edge.

        InvalidArgumentError if only the second part of `order` is given, because its kinds are not a range.
        """
        first, second = (type_name, relation) if self.order == "type" else (relation, type_name)
        if first is None and second is not None:
            raise InvalidArgumentError(f"An adjacency ordered by {self.order} cannot step by the other alone.")
        if (type_name, relation) not in self._spans:
            kinds = [i for i, (t, r) in enumerate(self.kinds) if type_name in (None, t) and relation in (None, r)]
            self._spans[type_name, relation] = (kinds[0], kinds[-1] + 1) if kinds else (0, 0)
        return self._spans[type_name, relation]

    def slices(self, nodes: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Return start and length, each [n], of the edges of nodes, shape [n], whose kinds are from `low` to before `high`."""
        base = nodes * max(len(self.kinds), 1)
        if self._pointers is not None:
            start, stop = self._pointers.take(base + low), self._pointers.take(base + high)
        else:
            start, stop = np.searchsorted(self._keys, base + low), np.searchsorted(self._keys, base + high)
        return start.astype(np.int64), (stop - start).astype(np.int64)


def typed_adjacency(graph: CorpusGraph, order: str = "type") -> TypedAdjacency:
    """Return the typed adjacency of a graph; it is built once and kept with the graph."""
    return graph.cache.get(("typed adjacency", order, "on the host"), lambda: TypedAdjacency(graph, order))
