"""Rank fusion: several operators side by side, their rankings merged by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import columns_of
from graph_retrievers.operators.operator import Composite, Operator, Ranking, list_weights, positive
from graph_retrievers.queries import QueryBatch

__all__ = ["ReciprocalRankFusion"]


class ReciprocalRankFusion(Composite):
    r"""Operators side by side; a node scores :math:`\sum_s w_s / (c + r_s)` over the lists s that hold it at rank r_s.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009.

    Parameters
    ----------
    *operators : Operator
        Two or more; each is given what came before the fusion.
    weights : sequence of float, optional
        One an operator; all 1 by default, and one at least above 0. A list of weight 0 is not searched.
    depth : int, default 100
        Nodes taken from each list.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    A node keeps the path, parent and operator of the first list that holds it. Ties go to the lower node row.
    """

    def __init__(
        self, *operators: Operator, weights: Sequence[float] | None = None, depth: int = 100, constant: int = 60
    ) -> None:
        super().__init__(*operators)
        if len(operators) < 2:
            raise InvalidArgumentError("ReciprocalRankFusion needs at least two operators.")
        self.weights = list_weights((1.0,) * len(operators) if weights is None else weights, len(operators))
        self.depth, self.constant = positive("depth", depth), positive("constant", constant)

    def formula(self) -> str:
        """Return the parts joined by plus signs."""
        return "(" + " + ".join(operator.formula() for operator in self.operators) + ")"

    def rank(self, queries: QueryBatch, ranking: Ranking) -> Ranking:
        """Return the nodes of all lists by fused score."""
        used = [(operator, weight) for operator, weight in zip(self.operators, self.weights, strict=True) if weight > 0]
        lists = [operator(queries, ranking).top(self.depth) for operator, _ in used]
        merged = lists[0]
        for part in lists[1:]:
            merged = merged.append(part, merged.width + part.width)
        scores = torch.zeros(merged.nodes.shape, device=merged.nodes.device)
        for part, (_, weight) in zip(lists, used, strict=True):
            column = columns_of(part.nodes, merged.nodes)
            scores += torch.where(column >= 0, weight / (self.constant + 1 + column), 0.0)
        # By node row first, so that equal scores end in that order.
        order = torch.argsort(merged.nodes, dim=1, stable=True)
        return merged.reordered(order).rescored(scores.gather(1, order))
