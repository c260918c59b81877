"""Metrics of one ranked list against the relevant nodes of its query.

All functions take a ranking of node ids, best first, and `gold`: a collection of relevant ids, or a mapping from id to a grade,
where a grade above 0 is relevant. A repeated id counts only at its first place. Without relevant nodes they raise
InvalidArgumentError.

Examples
--------
>>> recall(["a", "x", "b"], ["a", "b", "c"], 2), capped_recall(["a", "x", "b"], ["a", "b", "c"], 2)
(0.3333333333333333, 0.5)
>>> reciprocal_rank(["x", "a"], ["a"])
0.5
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["hit", "recall"]

Gold = Collection[str] | Mapping[str, float]
"""Relevant ids, or a grade for each judged id."""


def capped_recall(ranking: Sequence[str], gold: Gold, k: int) -> float:
    r"""Return the share of what k places can hold: :math:`|rel \cap top_k| / \min(k, |rel|)` (Thakur et al., "BEIR", 2021)."""
    relevant = relevant_nodes(gold)
    return len(relevant.intersection(_top(ranking, k))) / min(k, len(relevant))


def recall(ranking: Sequence[str], gold: Gold, k: int | None = None) -> float:
    """Return the share of relevant nodes among the first `k` (among all for None)."""
    relevant = relevant_nodes(gold)
    return len(relevant.intersection(_top(ranking, k))) / len(relevant)


def all_recall(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """Return 1.0 if all relevant nodes are among the first `k`, else 0.0 (Gutiérrez et al., "HippoRAG", 2024, section 4)."""
    return float(relevant_nodes(gold).issubset(_top(ranking, k)))


def hit(ranking: Sequence[str], gold: Gold, k: int) -> float:
    """Return 1.0 if a relevant node is among the first `k`, else 0.0."""
    return float(not relevant_nodes(gold).isdisjoint(_top(ranking, k)))


def reciprocal_rank(ranking: Sequence[str], gold: Gold, k: int | None = None) -> float:
    """Return 1 / rank of the first relevant node, 0.0 if none is among the first `k` (among all for None)."""
    relevant = relevant_nodes(gold)
    return next((1 / rank for rank, node in enumerate(_top(ranking, k), 1) if node in relevant), 0.0)


def average_precision(ranking: Sequence[str], gold: Gold, k: int | None = None) -> float:
    """Return the mean over all relevant nodes of the precision at their rank; 0 for those not found."""
    relevant = relevant_nodes(gold)
    count, total = 0, 0.0
    for rank, node in enumerate(_top(ranking, k), 1):
        if node in relevant:
            count += 1
            total += count / rank
    return total / len(relevant)


def ndcg(ranking: Sequence[str], gold: Gold, k: int | None = None) -> float:
    r"""Return discounted cumulative gain, divided by that of the best possible ranking.

    As in trec_eval, the gain of a node is its grade (1 if `gold` has no grades), and its discount :math:`1 / \log_2(rank + 1)`.
    """
    grades = {node: gold[node] if isinstance(gold, Mapping) else 1.0 for node in relevant_nodes(gold)}
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _discounted([grades.get(node, 0.0) for node in _top(ranking, k)]) / _discounted(ideal)


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def relevant_nodes(gold: Gold) -> set[str]:
    """Return the relevant ids of `gold`; InvalidArgumentError if there are none."""
    relevant = {node for node, grade in gold.items() if grade > 0} if isinstance(gold, Mapping) else set(gold)
    if not relevant:
        raise InvalidArgumentError("A query without relevant nodes has no metrics; leave it out.")
    return relevant


def _top(ranking: Sequence[str], k: int | None) -> list[str]:
    return list(dict.fromkeys(ranking))[: None if k is None else positive("k", k)]
