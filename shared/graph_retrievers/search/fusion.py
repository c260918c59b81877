"""Fusion: combine several rankings of the same queries into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.candidates import Candidates, concatenated, falling, order, places_of
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.operator import Composite, Operator, list_weights, side_by_side

__all__ = ["ReciprocalRankFusion", "fused", "min_max", "min_max_parts", "reciprocal_rank_parts"]


def reciprocal_rank_parts(found: Candidates, constant: int) -> np.ndarray:
    """Return 1 / (c + r) for each place, with the rank r from 1: float64, shape [K]."""
    return 1.0 / (float(constant) + np.arange(1, len(found) + 1))


def min_max(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Scale values, [B, K], to [0, 1] between the bounds of each row, [B, 1]; 1 where the bounds differ only by rounding.

    >>> min_max(torch.tensor([[3.0, 4.0, 5.0]]), torch.tensor([[3.0]]), torch.tensor([[5.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    level = high - low <= 1e-6 * torch.maximum(high.abs(), low.abs())
    return ((values - low) / (high - low).masked_fill(level, 1.0)).clamp(0, 1).masked_fill(level, 1.0)


def min_max_parts(found: Candidates) -> np.ndarray:
    """Return the scores scaled to [0, 1], 1 if all are equal: float64, shape [K]."""
    scores = torch.from_numpy(np.asarray(found.scores, np.float32))[None]
    if not len(found):
        return np.zeros(0)
    return min_max(scores, scores.amin(1, keepdim=True), scores.amax(1, keepdim=True))[0].double().numpy()  # type: ignore[no-any-return]


def fused(lists: Sequence[Candidates], parts: Sequence[np.ndarray], names: tuple[str, ...] = ()) -> Candidates:
    """Return the nodes of all lists, each scored by the sum of its parts.

    Parameters
    ----------
    lists : sequence of Candidates, length L
        For one question.
    parts : sequence of ndarray, shape [K_l]
        Contribution to the score of the node at each place.
    names : tuple of str, length L, optional
        Names of the lists. If given, the result has the rank of each node in each list.

    Returns
    -------
    Candidates
        Ties go to the lower node row. A node keeps the operator, the path and the values beside it from the list that contributes
        most to its score (the first of equals); where that has no context, it is from the first list that has one. Ranks in lists
        that were fused earlier are not kept.
    """
    lists = [part.unranked() if "ranks" in part.beside else part for part in lists]
    part = np.concatenate(parts)
    # The largest part first, of equal ones that of the first list: what a node keeps is what comes first of it.
    turn = np.argsort(-part.astype(np.float32), kind="stable")
    everything = concatenated(lists)
    nodes, first, at = np.unique(everything.nodes[turn], return_index=True, return_inverse=True)
    scores = np.bincount(at, part[turn], len(nodes)).astype(np.float64)  # of nothing, numpy counts integers
    by = order(scores)  # of equal scores that of the lower row, as rows ascend
    merged, nodes = everything.taken(turn[first[by]]), nodes[by]
    context = merged.beside.get("context")
    if context is not None:
        for one in lists:
            place = places_of(one.nodes, nodes)
            bare = (context < 0).all(1) & (place >= 0)
            told = one.beside.get("context")
            if told is not None and bare.any():
                context[bare] = -1
                context[bare, : told.shape[1]] = told[place[bare]]
    if names:
        merged.beside["ranks"] = np.stack([places_of(one.nodes, nodes) + 1 for one in lists], 1)
    merged.lists, merged.scores = names, falling(scores[by])
    return merged


class ReciprocalRankFusion(Composite):
    r"""Run operators side by side; a node scores :math:`\sum_s w_s / (c + r_s)` over the lists s that contain it at rank r_s.

    Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
    SIGIR 2009.

    Parameters
    ----------
    *operators : Operator
        Two or more; each gets the ranking from before the fusion.
    weights : sequence of float, optional
        One for each operator, all 1 by default; at least one is above 0. A list of weight 0 is not searched.
    depth : int, default 100
        Nodes taken from each list.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    For operators, trails, chains, facts and ties, see :func:`fused`. The ranks r are in the ranking (``Ranking.ranks``) and in
    hits. A list is named after the last operator of its pipeline, with a number if several lists end in the same operator: "STeX
    1", "STeX 2".

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

    def used(self) -> list[tuple[Operator, float, str]]:
        """Return the operators that are searched, each with its weight and the name of its list."""
        named = zip(self.operators, self.weights, _list_names(self.operators), strict=True)
        return [(operator, weight, name) for operator, weight, name in named if weight > 0]

    def search(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the nodes of all lists by fused score."""
        used = self.used()
        lists = yield from side_by_side([operator for operator, *_ in used], question, found)
        lists = [part.top(self.depth) for part in lists]
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
