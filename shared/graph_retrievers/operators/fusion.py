"""Rank fusion: several operators side by side, their rankings merged by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import columns_of
from graph_retrievers.operators.operator import Composite, Operator, Ranking, list_weights, positive
from graph_retrievers.queries import QueryBatch

__all__ = ["ReciprocalRankFusion"]

# Paths that lead through more nodes are told from their last ones on.
_LONGEST_PATH = 16


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
    A node keeps the operator, parent and path of the list that brings most to its score. Ties go to the lower node row.
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
        trails = _padded([_trails(part) for part in lists])
        merged = replace(lists[0], trails=None)
        for part in lists[1:]:
            merged = merged.append(replace(part, trails=None), merged.width + part.width)
        scores = torch.zeros(merged.nodes.shape, device=merged.nodes.device)
        most, parents, origins = scores.clone(), merged.parents, merged.origins
        path = torch.nn.functional.pad(merged.nodes.unsqueeze(2), (trails[0].shape[2] - 1, 0), value=-1)
        for part, trail, (_, weight) in zip(lists, trails, used, strict=True):
            if part.width == 0:
                continue
            column = columns_of(part.nodes, merged.nodes)
            share = torch.where(column >= 0, weight / (self.constant + 1 + column), 0.0)
            scores += share
            # The list that brings most says how the node was found; on equal terms the first.
            more, place = share > most, column.clamp(min=0)
            most = torch.maximum(most, share)
            names = torch.tensor([merged.operators.index(name) for name in part.operators] or [0], device=scores.device)
            parents = torch.where(more, part.parents.gather(1, place), parents)
            origins = torch.where(more, names[part.origins.gather(1, place).clamp(min=0)], origins)
            chosen = trail.gather(1, place.unsqueeze(2).expand(-1, -1, trail.shape[2]))
            path = torch.where(more.unsqueeze(2), chosen, path)
        merged = replace(merged, parents=parents, origins=origins, trails=path)
        # By node row first, so that equal scores end in that order.
        order = torch.argsort(merged.nodes, dim=1, stable=True)
        return merged.reordered(order).rescored(scores.gather(1, order))


def _trails(part: Ranking) -> Tensor:
    """Return whole paths of a ranking, following its parents where it holds none: Tensor, shape [B, K, L]."""
    if part.trails is not None:
        return part.trails
    steps, current = [part.nodes], part.parents
    for _ in range(_LONGEST_PATH - 1):
        if not bool((current >= 0).any()):
            break
        steps.append(current)
        column = columns_of(part.nodes, current)
        current = torch.where(column >= 0, part.parents.gather(1, column.clamp(min=0)), -1)
    return torch.stack(steps[::-1], 2)


def _padded(trails: list[Tensor]) -> list[Tensor]:
    """Return trails of one length, -1 padded at the left."""
    length = max(trail.shape[2] for trail in trails)
    return [torch.nn.functional.pad(trail, (length - trail.shape[2], 0), value=-1) for trail in trails]
