"""STeX: semantic-topological expansion (FastInsight, section 3.4, Algorithm 3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["STeX"]


class STeX(Operator):
    r"""Expand ranked nodes to their neighbours, by structure and similarity: O_vgs.

    A candidate n is a neighbour of the ranked nodes that is not among them. With A(n) the ranked nodes it is linked
    to, :math:`r_{best}` the best rank among them (1 is first), R the number of ranked nodes and
    :math:`C = \min(\deg(n), R)`, it scores

    .. math:: S_n = v_q \cdot v_n + \beta \left(1 - \frac{r_{best} - 1}{R - 1} + \frac{|A(n)| - 1}{C - 1}\right),

    where the first fraction is dropped (with its 1) for R = 1 and the second for C <= 1. The degree counts distinct
    neighbours in the whole graph. The direction of edges is ignored: line 1 of the paper follows edges one way and line 4
    tests them the other way, so A(n) is never empty only if edges are symmetric.

    Parameters
    ----------
    beta : float, default 1.0
        Score ratio; 0 for similarity alone, ``math.inf`` for structure alone.
    nodes_per_round : int, default 10
        Candidates added a round.
    budget : int, optional
        Nodes a list may reach (hard cap, lines 5 and 6 of Algorithm 1).

    Notes
    -----
    Equal scores go to the lower node row. Scores of different rounds are not comparable, since R grows.

    References
    ----------
    FastInsight, section 3.4, Algorithm 3.

    Examples
    --------
    >>> from graph_retrievers import BM25Search, GraphIndex, Pipeline, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")], vectors=[[1], [0], [0]])
    >>> retriever = Retriever(index, Pipeline(BM25Search(1), STeX()), backfill=False)
    >>> [hit.path.text for hit in retriever.retrieve("loom", vector=[1])]
    ['0', '0 -> 1']
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, beta: float = 1.0, *, nodes_per_round: int = 10, budget: int | None = None) -> None:
        if not is_number(beta) or not beta >= 0:
            raise InvalidArgumentError(f"beta must be at least 0 (math.inf for structure alone), got {shown(beta)}.")
        self.beta = float(beta)
        self.nodes_per_round = positive("nodes_per_round", nodes_per_round)
        self.budget = None if budget is None else positive("budget", budget)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ranked nodes with the best candidates behind them."""
        found = self.candidates(queries, ranking)
        capacity = ranking.lengths() + self.nodes_per_round
        if self.budget is None:
            return ranking.append(found, capacity)
        return ranking.append(found, capacity.clamp(max=self.budget)).top(self.budget)

    def candidates(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the best `nodes_per_round` candidates of each query: the N_add of the paper, cut."""
        graph = queries.index.graph
        width, size = ranking.width, len(graph)
        place, node = graph.neighbors(ranking.nodes.flatten())
        batch = place // max(width, 1)
        key = batch * size + node
        # Entries are in rank order, so after a stable sort the first of a run is the best-ranked neighbour.
        key, order = torch.sort(key, stable=True)
        batch, node, rank = batch[order], node[order], (place % max(width, 1))[order]
        first = torch.ones_like(key, dtype=torch.bool)
        first[1:] = key[1:] != key[:-1]
        run = torch.cumsum(first, 0) - 1
        linked = torch.zeros_like(key).index_add_(0, run, torch.ones_like(key))[run]

        ranked = ranking.lengths()[batch]
        capacity = torch.minimum(graph.degree[node].long(), ranked)
        structure = torch.where(ranked > 1, 1 - rank / (ranked - 1).clamp(min=1), 0.0)
        structure = structure + torch.where(capacity > 1, (linked - 1) / (capacity - 1).clamp(min=1), 0.0)
        scores = structure if math.isinf(self.beta) else queries.scores(batch, node) + self.beta * structure

        candidate = first & ~_among(key, ranking.nodes, size)
        if queries.walk_allowed is not None:
            candidate &= queries.walk_allowed[node]
        node = torch.where(candidate, node, -1)
        return self.reached(ranking, batch, node, scores, rank, min(self.nodes_per_round, size))


def _among(keys: Tensor, nodes: Tensor, size: int) -> Tensor:
    """Return which ``query * size + node`` keys, shape [T], belong to a table of nodes, shape [B, K]."""
    batch = torch.arange(nodes.shape[0], device=nodes.device).unsqueeze(1)
    held = torch.where(nodes >= 0, batch * size + nodes, torch.full_like(nodes, -1)).flatten().sort().values
    if held.numel() == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    place = torch.searchsorted(held, keys).clamp(max=held.numel() - 1)
    return held[place] == keys
