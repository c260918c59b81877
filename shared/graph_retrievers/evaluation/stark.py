"""The metrics of STaRK, which rank every candidate node, retrieved or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation import metrics

__all__ = ["stark_metrics"]


def stark_metrics(scores: Mapping[str, float], answers: Collection[str], candidates: Sequence[str]) -> dict[str, float]:
    """Return ``hit@1``, ``hit@5``, ``recall@20`` (not capped) and ``mrr`` of one query (Wu et al., "STaRK", 2024, section 4).

    `scores` are those of the retrieved nodes, `answers` the relevant nodes, `candidates` all nodes that could be answers, in row
    order. Candidates that were not retrieved get the same score, one below the lowest, and are ranked in row order; so a missing
    answer has a rank too. Published code that gives them zero ranks retrieved nodes of negative score below them; this does not.

    Examples
    --------
    >>> stark_metrics({"b": 0.9}, ["c"], ["a", "b", "c"])
    {'hit@1': 0.0, 'hit@5': 1.0, 'recall@20': 1.0, 'mrr': 0.3333333333333333}
    """
    strange = set(scores) - set(candidates)
    if strange:
        raise InvalidArgumentError(f"{min(strange)!r} has a score but is not a candidate; pass all nodes that can be answers.")
    floor = min(scores.values(), default=0.0) - 1
    ranking = sorted(candidates, key=lambda node: -scores.get(node, floor))
    return {
        "hit@1": metrics.hit(ranking, answers, 1),
        "hit@5": metrics.hit(ranking, answers, 5),
        "recall@20": metrics.recall(ranking, answers, 20),
        "mrr": metrics.reciprocal_rank(ranking, answers),
    }
