"""The metrics of STaRK, which rank every candidate node, retrieved or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation import metrics

__all__ = ["stark_metrics"]


def stark_metrics(scores: Mapping[str, float], answers: Collection[str], candidates: Sequence[str]) -> dict[str, float]:
    """Return ``hit@1``, ``hit@5``, ``recall@20`` (not capped) and ``mrr`` of one query as STaRK's evaluator does.

    Parameters
    ----------
    scores : mapping of str to float
        Score of each retrieved node; scores may be negative.
    answers : collection of str
        Relevant nodes.
    candidates : sequence of str
        All nodes that could be answers, in row order.

    Notes
    -----
    Candidates that were not retrieved get the same score, one below the lowest, and are ranked in row order. A missing answer
    thus has a rank, and in a small candidate set a good one. Published code that fills with zeros ranks retrieved nodes of
    negative score below all that were not retrieved; this function does not.

    References
    ----------
    Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases", 2024, section 4.

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
