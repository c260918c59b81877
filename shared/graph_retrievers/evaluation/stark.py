"""The metrics of STaRK, which rank every candidate node whether it was scored or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation import metrics

__all__ = ["stark_metrics"]


def stark_metrics(scores: Mapping[str, float], answers: Collection[str], candidates: Sequence[str]) -> dict[str, float]:
    """Return Hit@1, Hit@5, Recall@20 and MRR of one query as STaRK's evaluator does.

    Parameters
    ----------
    scores : mapping of str to float
        Score of each node that was retrieved; scores may be negative.
    answers : collection of str
        Relevant nodes.
    candidates : sequence of str
        All nodes that could be answers, in row order.

    Returns
    -------
    dict
        ``hit@1``, ``hit@5``, ``recall@20`` (not capped) and ``mrr``.

    Notes
    -----
    Candidates that were not retrieved tie one below the lowest score, in row order: a missing answer therefore
    still has a rank, and in a small candidate set a good one. (Published code that fills with zeros instead ranks
    retrieved nodes of negative score below all that were not retrieved; this does not.)

    References
    ----------
    Wu et al., "STaRK: Benchmarking LLM Retrieval on Textual and Relational Knowledge Bases", 2024, section 4.
    """
    rows = {node: row for row, node in enumerate(candidates)}
    strange = next((node for node in scores if node not in rows), None)
    if strange is not None:
        raise InvalidArgumentError(f"{strange!r} was scored but is no candidate; pass all nodes that can be answers.")
    floor = min(scores.values(), default=0.0) - 1
    ranking = sorted(candidates, key=lambda node: (-scores.get(node, floor), rows[node]))
    return {
        "hit@1": metrics.hit(ranking, answers, 1),
        "hit@5": metrics.hit(ranking, answers, 5),
        "recall@20": metrics.recall(ranking, answers, 20),
        "mrr": metrics.reciprocal_rank(ranking, answers),
    }
