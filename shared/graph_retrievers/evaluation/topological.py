"""Topological Recall: recall that also credits nodes close to the retrieved ones (FastInsight, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import gather_rows


def path_costs(graph: CorpusGraph, oracle: Tensor, *, targets: Tensor | None = None) -> Tensor:
    r"""Return the costs of the paths from all N nodes of the graph to M oracle nodes (rows), shape [M, N], float64.

    The cost of a path is the sum of :math:`\ln(1 + \deg(n))` over its nodes, including the first and without the oracle node.
    Paths ignore the direction of edges; degrees count distinct neighbours. The cost is 0 for the oracle node itself, and infinity
    without a path. The paper does not define "shortest path": here it is the path with the fewest hops, and the cheapest of
    several such paths. `targets`, shape [T], are rows whose costs are needed: the search stops when they are reached, and others
    may stay infinite.
    """
    # Breadth-first search from all oracle nodes at once.
    size, count = len(graph), oracle.numel()
    weight = torch.log1p(graph.degree.double())
    cost = torch.full((count * size,), float("inf"), dtype=torch.float64, device=graph.device)
    starts = torch.arange(count, device=graph.device) * size
    frontier = starts + oracle
    cost[frontier] = 0.0
    target_keys = None if targets is None else (starts.unsqueeze(1) + targets).flatten()
    while frontier.numel() and not (target_keys is not None and bool(torch.isfinite(cost[target_keys]).all())):
        owner, entry = gather_rows(graph.indptr, frontier % size)
        node = graph.indices[entry].long()
        key = (frontier // size)[owner] * size + node
        costs, new = cost[frontier][owner] + weight[node], torch.isinf(cost[key])
        cost.scatter_reduce_(0, key[new], costs[new], "amin")
        frontier = torch.unique(key[new])
    return cost.view(count, size)


def topological_credit(graph: CorpusGraph, retrieved: Sequence[Collection[str]], oracle: Collection[str]) -> list[list[float]]:
    """Return the credit 1 / (1 + u) of each oracle node (exactly 1.0 if it is retrieved) under each of several retrieved sets.

    Here u is the cost of the path to the oracle node from the nearest retrieved node, see :func:`path_costs`; a node without a
    path gets 0. The mean over the distinct oracle nodes is Topological Recall (Definition 7). The graph is searched once for all
    sets. Retrieved ids that are not in the graph (from other libraries' retrievers) get no credit.

    >>> graph = CorpusGraph(["a", "b"], ["one", "two"], edges=[("a", "b")])
    >>> ((near,), found) = topological_credit(graph, [["a"], ["b"]], ["b"])
    >>> round(near, 4), found  # 1 / (1 + ln 2)
    (0.5906, [1.0])
    """
    row_lists = [node_rows(graph, (node for node in nodes if node in graph)) for nodes in retrieved]
    oracle_rows = node_rows(graph, oracle)
    costs = path_costs(graph, oracle_rows, targets=torch.unique(torch.cat([*row_lists, oracle_rows[:0]])))
    no_path = torch.full((len(oracle),), float("inf"), dtype=torch.float64, device=graph.device)
    return [(1 / (1 + (costs[:, rows].amin(1) if rows.numel() else no_path))).tolist() for rows in row_lists]


def node_rows(graph: CorpusGraph, ids: Iterable[str]) -> Tensor:
    """Return the rows of nodes, int64, on the device of the graph."""
    return torch.tensor([graph.row(node) for node in ids], dtype=torch.int64, device=graph.device)
