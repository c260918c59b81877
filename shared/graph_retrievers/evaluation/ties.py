"""Metrics of scored nodes: MTRR and TMHits@k, which are exact for ties (G-RAG, section 4.1.1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation.metrics import relevant_nodes


def tied_reciprocal_rank(ids: Sequence[str], scores: Sequence[float], gold: Collection[str]) -> float:
    r"""Return the mean over all relevant nodes of 1 / mean rank among their ties; MTRR is its mean over queries.

    `ids` and `scores` are those of all scored nodes, in any order. With a nodes with a higher score and :math:`\tau` nodes with
    the same score (including the node), a relevant node counts :math:`2 / (2 (a + 1) + \tau - 1)`: one over the mean rank, as
    published (G-RAG, section 4.1.1), not the mean of 1 / rank. Relevant nodes without a score count 0: the paper reranks a fixed
    list that has all of them. Without ties it is the paper's MRR, the mean of 1 / rank over all relevant nodes, and not that of
    only the first one.

    >>> tied_reciprocal_rank(["a", "b", "c"], [0.5, 0.5, 0.1], ["b"])  # rank 1 or 2, so 1.5 on average
    0.6666666666666666
    """
    above, ties = _above_and_ties(ids, scores, gold)
    return float((2 / (2 * (above + 1) + ties - 1)).sum()) / len(relevant_nodes(gold))


def tied_hits(ids: Sequence[str], scores: Sequence[float], gold: Collection[str], k: int = 10) -> float:
    r"""Return the mean over all relevant nodes of their chance to be among the first `k`; TMHits@k is its mean.

    The chance, with ties in random order, is :math:`\mathrm{clip}(k - a, 0, \tau) / \tau`. This is what the paper describes in
    words; its formula has values above 1 if all ties are among the first k, and 1 for a node with exactly k better ones. Without
    ties it is the paper's MHits@k. Relevant nodes without a score count 0. Arguments: see :func:`tied_reciprocal_rank`.
    """
    above, ties = _above_and_ties(ids, scores, gold)
    return float(((positive("k", k) - above).clamp(min=0).minimum(ties) / ties).sum()) / len(relevant_nodes(gold))


def _above_and_ties(ids: Sequence[str], scores: Sequence[float], gold: Collection[str]) -> tuple[Tensor, Tensor]:
    """Return for each found relevant node how many nodes score higher and how many the same, float64."""
    if len(ids) != len(scores):
        raise InvalidArgumentError(f"Got {len(scores)} scores for {len(ids)} nodes; give one for each.")
    table = torch.tensor(list(scores), dtype=torch.float64)
    if bool(torch.isnan(table).any()):
        raise InvalidArgumentError("A score is NaN; metrics need comparable scores.")
    relevant = relevant_nodes(gold)
    values = table[[place for place, node in enumerate(ids) if node in relevant]]
    rising = torch.sort(table).values
    not_above = torch.searchsorted(rising, values, right=True)
    return (len(ids) - not_above).double(), (not_above - torch.searchsorted(rising, values)).double()
