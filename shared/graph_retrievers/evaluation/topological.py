"""Topological Recall: recall that also credits nodes close to the retrieved ones (FastInsight, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor

from graph_retrievers.arguments import choice
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import gather_rows

__all__ = ["READINGS", "miss_topological_recall", "path_costs", "topological_credit", "topological_recall", "uncertainty"]

READINGS = ("hops", "weighted")
"""The two meanings of "shortest path", see :func:`path_costs`."""


def path_costs(graph: CorpusGraph, oracle: Tensor, *, reading: str = "hops", targets: Tensor | None = None) -> Tensor:
    r"""Return the costs of the paths from all N nodes of the graph to M oracle nodes (rows), shape [M, N], float64.

    The cost of a path is the sum of :math:`\ln(1 + \deg(n))` over its nodes, with the first and without the oracle node. Paths
    ignore the direction of edges; degrees count distinct neighbours. The cost is 0 for the oracle node itself, and infinity
    without a path. The paper does not say how "shortest path" is measured: `reading` "hops" uses the path of fewest hops, and the
    cheapest of several such paths, "weighted" the cheapest path of any length. `targets`, shape [T], are rows whose costs are
    wanted; with "hops" the search stops when they are reached, and others may stay infinite.
    """
    choice("reading", reading, READINGS)
    # Breadth-first search from all oracle nodes at once; "weighted" corrects costs until none changes.
    size, count = len(graph), oracle.numel()
    weight = torch.log1p(graph.degree.double())
    cost = torch.full((count * size,), float("inf"), dtype=torch.float64, device=graph.device)
    starts = torch.arange(count, device=graph.device) * size
    frontier = starts + oracle
    cost[frontier] = 0.0
    wanted = (starts.unsqueeze(1) + targets).flatten() if targets is not None and reading == "hops" else None
    while frontier.numel() and not (wanted is not None and bool(torch.isfinite(cost[wanted]).all())):
        owner, entry = gather_rows(graph.indptr, frontier % size)
        node = graph.indices[entry].long()
        key = (frontier // size)[owner] * size + node
        reached = cost[frontier][owner] + weight[node]
        better = torch.isinf(cost[key]) if reading == "hops" else reached < cost[key]
        key, reached = key[better], reached[better]
        cost.scatter_reduce_(0, key, reached, "amin")
        frontier = torch.unique(key)
    return cost.view(count, size)


def uncertainty(graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], *, reading: str = "hops") -> Tensor:
    r"""Return :math:`u(E, N_{ret}, n_i)`: the cost of each oracle node from the nearest retrieved node, shape [M], float64.

    Nodes are given by id. The cost is infinity if no retrieved node is connected to the oracle node. `reading`: see
    :func:`path_costs`.
    """
    return _nearest(graph, [node_rows(graph, retrieved)], oracle, reading)[0]


def topological_credit(
    graph: CorpusGraph, retrieved: Sequence[Collection[str]], oracle: Collection[str], *, reading: str = "hops"
) -> list[list[float]]:
    """Return the credit 1 / (1 + u) of each oracle node (exactly 1.0 if it is retrieved) under each of several retrieved sets.

    It searches the graph once for all sets. Retrieved ids that are not in the graph (of other libraries' retrievers) give no
    credit. `reading`: see :func:`path_costs`.
    """
    rows = [node_rows(graph, (node for node in nodes if node in graph)) for nodes in retrieved]
    return [(1 / (1 + costs)).tolist() for costs in _nearest(graph, rows, oracle, reading)]


def topological_recall(graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], *, reading: str = "hops") -> float:
    """Return the mean over oracle nodes of :math:`1 / (1 + u)` (Definition 7), see :func:`uncertainty`.

    A retrieved oracle node counts 1, one without a path to a retrieved node counts 0; repeated ids count once. The paper does not
    define it for an empty `oracle`, which raises InvalidArgumentError.

    >>> graph = CorpusGraph(["a", "b"], ["one", "two"], edges=[("a", "b")])
    >>> round(topological_recall(graph, ["a"], ["b"]), 4)  # 1 / (1 + ln 2)
    0.5906
    """
    return float(_credit(graph, retrieved, oracle, reading).mean())


def miss_topological_recall(
    graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], *, reading: str = "hops"
) -> float:
    r"""Return MissTR, the credit for oracle nodes that were missed: :math:`TR = Recall + MissTR` (Corollary 1).

    Recall is not capped here. Arguments: see :func:`topological_recall`.
    """
    credit = _credit(graph, retrieved, oracle, reading)
    return float(credit[credit < 1].sum() / credit.numel())


def node_rows(graph: CorpusGraph, ids: Iterable[str]) -> Tensor:
    """Return the rows of nodes, int64, on the device of the graph."""
    return torch.tensor([graph.row(node) for node in ids], dtype=torch.int64, device=graph.device)


def _credit(graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], reading: str) -> Tensor:
    """Return the credit of each distinct oracle node."""
    if not oracle:
        raise InvalidArgumentError("Topological Recall of no oracle nodes is undefined; leave the query out.")
    return 1 / (1 + uncertainty(graph, retrieved, list(dict.fromkeys(oracle)), reading=reading))


def _nearest(graph: CorpusGraph, retrieved: Sequence[Tensor], oracle: Collection[str], reading: str) -> list[Tensor]:
    """Return for each of several sets of rows the cost of each oracle node from the nearest row, shape [M]."""
    rows = node_rows(graph, oracle)
    cost = path_costs(graph, rows, reading=reading, targets=torch.unique(torch.cat([*retrieved, rows[:0]])))
    none = torch.full((len(oracle),), float("inf"), dtype=torch.float64, device=graph.device)
    return [cost[:, near].amin(1) if near.numel() else none for near in retrieved]
