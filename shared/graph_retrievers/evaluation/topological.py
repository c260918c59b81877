"""Topological Recall: recall that credits what lies close to the retrieved nodes (FastInsight, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import gather_rows

__all__ = ["READINGS", "miss_topological_recall", "path_costs", "topological_credit", "topological_recall", "uncertainty"]

READINGS = ("hops", "weighted")
"""The two readings of "shortest path", see :func:`path_costs`."""


def path_costs(graph: CorpusGraph, oracle: Tensor, *, reading: str = "hops", targets: Tensor | None = None) -> Tensor:
    r"""Return what it costs to reach oracle nodes from every node of the graph.

    The cost of a path is the sum of :math:`\ln(1 + \deg(n))` over its nodes, the first included and the oracle
    node left out.

    Parameters
    ----------
    graph : CorpusGraph
        Its simple view is walked; degrees count distinct neighbours in the whole graph.
    oracle : Tensor, shape [M], int64
        Node rows.
    reading : {"hops", "weighted"}, default "hops"
        The paper says "shortest path" without saying by what. ``"hops"`` takes the path of fewest hops, of several
        the cheapest; ``"weighted"`` takes the cheapest path of any length.
    targets : Tensor, shape [T], int64, optional
        Nodes whose cost is wanted; with the reading ``"hops"`` the search ends when all of them are reached.

    Returns
    -------
    Tensor, shape [M, N], float64
        0 where the node is the oracle node itself, infinity where no path leads (or none was needed).

    Notes
    -----
    All oracle nodes are searched from at once, breadth first; the weighted reading corrects costs until none
    changes.
    """
    if reading not in READINGS:
        raise InvalidArgumentError(f"Unknown reading {reading!r}; choose 'hops' or 'weighted'.")
    size, count = len(graph), oracle.numel()
    weight = torch.log1p(graph.degree.double())
    cost = torch.full((count * size,), float("inf"), dtype=torch.float64, device=graph.device)
    frontier = torch.arange(count, device=graph.device) * size + oracle
    cost[frontier] = 0.0
    wanted = None
    if targets is not None and reading == "hops":
        wanted = (torch.arange(count, device=graph.device).unsqueeze(1) * size + targets).flatten()
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
    r"""Return :math:`u(E, N_{ret}, n_i)`: the cost of each oracle node from the nearest retrieved node.

    Parameters
    ----------
    graph : CorpusGraph
    retrieved, oracle : collection of str
        Node ids.
    reading : {"hops", "weighted"}, default "hops"
        See :func:`path_costs`.

    Returns
    -------
    Tensor, shape [M], float64
        In the order of `oracle`; infinity where no retrieved node is connected to it.
    """
    rows = _rows(graph, retrieved)
    targets = _rows(graph, oracle)
    if rows.numel() == 0:
        return torch.full((targets.numel(),), float("inf"), dtype=torch.float64, device=graph.device)
    return path_costs(graph, targets, reading=reading, targets=rows)[:, rows].amin(1)


def topological_credit(
    graph: CorpusGraph, retrieved: Sequence[Collection[str]], oracle: Collection[str], *, reading: str = "hops"
) -> list[list[float]]:
    """Return the credit 1 / (1 + u) of each oracle node under several retrieved sets, searched for once.

    Parameters
    ----------
    graph : CorpusGraph
    retrieved : sequence of S collections of str
        Node ids; ids that the graph does not hold (of a retriever from elsewhere) give no credit.
    oracle : collection of M str
        Node ids.
    reading : {"hops", "weighted"}, default "hops"

    Returns
    -------
    list of S lists of M float
        1.0 exactly where the set holds the oracle node.
    """
    rows = [_rows(graph, [node for node in nodes if node in graph]) for nodes in retrieved]
    targets = torch.unique(torch.cat([*rows, torch.empty(0, dtype=torch.int64, device=graph.device)]))
    cost = path_costs(graph, _rows(graph, oracle), reading=reading, targets=targets)
    none = torch.zeros(len(oracle), dtype=torch.float64, device=graph.device)
    return [(1 / (1 + cost[:, part].amin(1)) if part.numel() else none).tolist() for part in rows]


def topological_recall(graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], *, reading: str = "hops") -> float:
    r"""Return the mean over oracle nodes of :math:`1 / (1 + u)` (Definition 7).

    A retrieved oracle node counts 1, one that no path joins to a retrieved node 0. Ids given several times count once.
    See :func:`uncertainty` for the arguments.

    Raises
    ------
    InvalidArgumentError
        If `oracle` is empty: the paper leaves that undefined.
    """
    if not oracle:
        raise InvalidArgumentError("Topological Recall of no oracle nodes is undefined; leave the query out.")
    return float((1 / (1 + uncertainty(graph, retrieved, list(dict.fromkeys(oracle)), reading=reading))).mean())


def miss_topological_recall(
    graph: CorpusGraph, retrieved: Collection[str], oracle: Collection[str], *, reading: str = "hops"
) -> float:
    r"""Return MissTR, the partial credit for oracle nodes that were missed: :math:`TR = Recall + MissTR` (Corollary 1).

    The recall of the corollary is not capped. See :func:`topological_recall` for the arguments.
    """
    if not oracle:
        raise InvalidArgumentError("Topological Recall of no oracle nodes is undefined; leave the query out.")
    held, wanted = set(retrieved), set(oracle)
    missed = [node for node in dict.fromkeys(oracle) if node not in held]
    if not missed:
        return 0.0
    return len(missed) / len(wanted) * topological_recall(graph, retrieved, missed, reading=reading)


def _rows(graph: CorpusGraph, ids: Collection[str]) -> Tensor:
    return torch.tensor([graph.row(node) for node in ids], dtype=torch.int64, device=graph.device)
