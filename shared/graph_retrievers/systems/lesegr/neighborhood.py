"""The part of a graph in which messages pass: the nodes of a ranking and their neighbourhoods, for many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core.requests import Near, Request
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import gather_rows
from graph_retrievers.search.queries import Queries

DIRECTIONS = ("both", "in")
"""Which neighbours send messages: all, or those with an edge to the node."""


@dataclass(frozen=True)
class Adjacency:
    """The neighbours N(i) of every node, each once and ascending, as CSR: `indptr` [N + 1] and `neighbors` [M], int64."""

    indptr: Tensor
    neighbors: Tensor

    @classmethod
    def of(cls, graph: CorpusGraph, direction: str) -> Adjacency:
        """Return the neighbours in a direction, see :data:`DIRECTIONS`; computed once for a graph."""
        return graph.cache.get(("message adjacency", direction), lambda: cls._make(graph, direction))

    @classmethod
    def _make(cls, graph: CorpusGraph, direction: str) -> Adjacency:
        if direction == "both":
            return cls(graph.indptr.long(), graph.indices.long())
        proper = graph.sources != graph.targets
        keys = torch.unique(graph.targets[proper] * len(graph) + graph.sources[proper])
        counts = torch.bincount(keys // len(graph), minlength=len(graph))
        return cls(torch.nn.functional.pad(counts.cumsum(0), (1, 0)), keys % len(graph))

    @property
    def degree(self) -> Tensor:
        """|N(i)|: Tensor, shape [N], int64."""
        return self.indptr.diff()

    def degree_within(self, allowed: Tensor | None) -> Tensor:
        """Return the number of neighbours of each node among those of `allowed`, shape [N], bool: Tensor, shape [N], int64."""
        if allowed is None:
            return self.degree
        return torch.zeros_like(self.degree).index_add_(0, self.owners(), allowed[self.neighbors].long())

    def owners(self) -> Tensor:
        """Return the node i of each entry of `neighbors`: Tensor, shape [M], int64."""
        count = self.indptr.numel() - 1
        return torch.repeat_interleave(torch.arange(count, device=self.indptr.device), self.degree)


@dataclass(frozen=True)
class Neighborhood:
    """n nodes of B queries, and the edges among the nodes of each query; all int64.

    `query` and `rows`, shape [n], ascend by query, then by row. `edges`, shape [2, E], has the positions of source and target of
    each message, without self loops, and `entries`, shape [E], the entry of :class:`Adjacency` that it follows.
    """

    query: Tensor
    rows: Tensor
    edges: Tensor
    entries: Tensor

    @classmethod
    def of(cls, size: int, adjacency: Adjacency, nodes: Sequence[np.ndarray], allowed: Tensor | None = None) -> Neighborhood:
        """Return the nodes of B queries, ascending for each, of a graph of `size` nodes, with the edges among them.

        Only edges between nodes of `allowed`, shape [N], bool, are kept.
        """
        device = adjacency.indptr.device
        query = torch.from_numpy(np.repeat(np.arange(len(nodes)), [len(part) for part in nodes])).to(device)
        rows = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *nodes])).to(device)
        keys = query * size + rows
        target, entry = gather_rows(adjacency.indptr, rows)
        far_keys = (query * size)[target] + adjacency.neighbors[entry]
        source = torch.searchsorted(keys, far_keys).clamp(max=max(keys.numel() - 1, 0))
        inside = keys[source] == far_keys if keys.numel() else torch.zeros_like(far_keys, dtype=torch.bool)
        if allowed is not None:
            inside &= allowed[rows[target]] & allowed[adjacency.neighbors[entry]]
        places = inside.nonzero().flatten()
        return cls(query, rows, torch.stack([source, target])[:, places], entry[places])


@dataclass(frozen=True, eq=False)
class Senders(Request):
    """The nodes with an edge to each of some nodes, shape [n], that may be visited: :class:`Near`, ascending for each node."""

    reads = "graph"
    tells = "neighbors"
    nodes: np.ndarray

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Senders]]) -> list[Near]:
        """Return slices of the adjacency lists."""
        graph, walked = backend.index.graph, backend.queries.walk_allowed
        lists = []
        for _, request in requests:
            adjacency = Adjacency.of(graph, "in")
            owner, entry = gather_rows(adjacency.indptr, torch.from_numpy(request.nodes).to(graph.device))
            node = adjacency.neighbors[entry]
            mask = slice(None) if walked is None else walked[node]
            lists.append(Near(owner[mask].cpu().numpy(), node[mask].cpu().numpy()))
        return lists


def sparse_signal(queries: Queries, signal: str, batch: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the sparse signal :math:`\delta` of pairs, in [0, 1], and which of the B queries match no node at all.

    `batch` and `nodes`, shape [n], are queries and node rows. The score of each pair is divided by the largest score for its
    query of any node that may be visited, and is at most 1. A query that matches none of them has 1 everywhere.
    """
    table, walk = queries.table(signal), queries.walk_allowed
    if table is None:
        top = queries.search(signal, 1, walk)[0][:, 0]
    else:
        # The table is kept for the scores below; a search would make it again.
        top = (table if walk is None else table.masked_fill(~walk, 0.0)).amax(1)
    silent = ~(top > 0)
    scale = torch.where(silent, 1.0, top)
    scores = queries.scores(batch, nodes, signal) / scale[batch]
    return torch.where(silent[batch], 1.0, scores.clamp(0.0, 1.0)), silent
