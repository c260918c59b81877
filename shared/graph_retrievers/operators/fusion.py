"""Fusion: several rankings of the same queries as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import columns_of
from graph_retrievers.operators.operator import Composite, Operator, list_weights
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["ReciprocalRankFusion", "fused", "min_max", "min_max_parts", "reciprocal_rank_parts"]


def reciprocal_rank_parts(ranking: Ranking, constant: int) -> Tensor:
    """Return 1 / (c + r) of each place, its rank r counted from 1: Tensor, shape [B, K], float32."""
    place = torch.arange(1, ranking.width + 1, device=ranking.nodes.device)
    return (1.0 / (float(constant) + place)).expand(ranking.nodes.shape)


def min_max(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return values, [B, K], brought to [0, 1] between the bounds of each row, [B, 1]; 1 where the bounds differ by rounding.

    >>> min_max(torch.tensor([[3.0, 4.0, 5.0]]), torch.tensor([[3.0]]), torch.tensor([[5.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    level = high - low <= 1e-6 * torch.maximum(high.abs(), low.abs())
    return ((values - low) / (high - low).masked_fill(level, 1.0)).clamp(0, 1).masked_fill(level, 1.0)


def min_max_parts(ranking: Ranking) -> Tensor:
    """Return the scores of each list brought to [0, 1], 1 where all are equal: Tensor, shape [B, K], float32."""
    real = ranking.nodes >= 0
    low = ranking.scores.masked_fill(~real, float("inf")).amin(1, keepdim=True) if ranking.width else ranking.scores
    high = ranking.scores.masked_fill(~real, float("-inf")).amax(1, keepdim=True) if ranking.width else ranking.scores
    return min_max(ranking.scores, low, high)


def fused(rankings: Sequence[Ranking], parts: Sequence[Tensor], lists: tuple[str, ...] = ()) -> Ranking:
    """Return the nodes of all rankings, each scored by the sum of its parts.

    Parameters
    ----------
    rankings : sequence of Ranking, length L
        Of the same B queries.
    parts : sequence of Tensor, shape [B, K_l], float32
        Part of the score of the node at each place.
    lists : tuple of str, length L, optional
        Names of the rankings: with them, the result has the rank of each node in each.

    Returns
    -------
    Ranking
        Ties go to the lower node row. A node keeps the operator and the trail of the ranking with the largest part of its
        score, of the first among equals, and the context of the first that has one. Chains, facts and notes of all are kept,
        ranks in lists that were fused before are not.
    """
    rankings = [replace(ranking, ranks=None, lists=()) for ranking in rankings]
    merged = rankings[0]
    for ranking in rankings[1:]:
        merged = merged.append(ranking, merged.width + ranking.width)
    scores = torch.zeros(merged.nodes.shape, device=merged.nodes.device)
    most, ranks = scores.clone(), []
    for ranking, part in zip(rankings, parts, strict=True):
        column = columns_of(ranking.nodes, merged.nodes)
        ranks.append(column + 1)
        if ranking.width == 0:
            continue
        place = column.clamp(min=0)
        share = torch.where(column >= 0, part.gather(1, place), 0.0)
        scores = scores + share
        merged = _told_by(merged, ranking, column, share > most)
        most = torch.maximum(most, share)
    if lists:
        merged = replace(merged, ranks=torch.stack(ranks, 2), lists=lists)
    # First by node row: rescored keeps the order of equal scores.
    order = torch.argsort(merged.nodes, dim=1, stable=True)
    return merged.reordered(order).rescored(scores.gather(1, order))


def _told_by(merged: Ranking, ranking: Ranking, column: Tensor, where: Tensor) -> Ranking:
    """Return a merged ranking with origin and trail at the places `where`, and missing contexts, from `column` of one ranking."""
    names = torch.tensor([merged.operators.index(name) for name in ranking.operators] or [0], device=column.device)
    named = replace(ranking, origins=names[ranking.origins.clamp(min=0)])
    left, right = merged.aligned(named), named.reordered(column.clamp(min=0)).aligned(merged)
    columns: dict[str, Any] = {
        name: torch.where(where if left[name].dim() == 2 else where.unsqueeze(2), right[name], left[name])
        for name in left
        if name not in ("nodes", "scores", "context")
    }
    if "context" in left:
        bare = (column >= 0) & (left["context"] < 0).all(2)
        columns["context"] = torch.where(bare.unsqueeze(2), right["context"], left["context"])
    return replace(merged, **columns)


class ReciprocalRankFusion(Composite):
    r"""Run operators side by side; a node scores :math:`\sum_s w_s / (c + r_s)` over the lists s that hold it at rank r_s.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009.

    Parameters
    ----------
    *operators : Operator
        Two or more; each is called with the ranking from before the fusion.
    weights : sequence of float, optional
        One for each operator, all 1 by default; at least one is above 0. A list of weight 0 is not searched.
    depth : int, default 100
        Nodes taken from each list.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    Operators, trails, chains, facts and ties: see :func:`fused`. The ranks r are in the ranking (``Ranking.ranks``), and in hits. A
    list is named after the last operator of its pipeline, with a number where several lists end in the same one: "STeX 1",
    "STeX 2".

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, VectorSearch
    >>> ReciprocalRankFusion(VectorSearch(), BM25Search(), constant=5)
    ReciprocalRankFusion(
      VectorSearch(returned=True, signal='dense'),
      BM25Search(returned=True, signal='bm25'),
      weights=(1.0, 1.0), depth=100, constant=5,
    )
    """

    def __init__(self, *operators: Operator, weights: Sequence[float] | None = None, depth: int = 100, constant: int = 60) -> None:
        super().__init__(*operators)
        if len(operators) < 2:
            raise InvalidArgumentError("ReciprocalRankFusion needs at least two operators.")
        self.weights = list_weights((1.0,) * len(operators) if weights is None else weights, len(operators))
        self.depth, self.constant = positive("depth", depth), positive("constant", constant)

    def formula(self) -> str:
        """Return the parts joined by plus signs."""
        return "(" + " + ".join(operator.formula() for operator in self.operators) + ")"

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes of all lists by fused score."""
        named = zip(self.operators, self.weights, _list_names(self.operators), strict=True)
        used = [(operator, weight, name) for operator, weight, name in named if weight > 0]
        lists = [operator(queries, ranking).top(self.depth) for operator, *_ in used]
        parts = [weight * reciprocal_rank_parts(part, self.constant) for part, (_, weight, _) in zip(lists, used, strict=True)]
        return fused(lists, parts, tuple(name for *_, name in used))


def _list_names(operators: Sequence[Operator]) -> list[str]:
    """Return a name for the list of each operator, all different."""
    names = []
    for operator in operators:
        # A fusion inside has no last operator: it is named itself.
        while isinstance(operator, Composite) and not isinstance(operator, ReciprocalRankFusion):
            operator = operator.operators[-1]
        names.append(operator.name)
    counts = Counter(names)
    return [f"{name} {names[: place + 1].count(name)}" if counts[name] > 1 else name for place, name in enumerate(names)]
