"""Metrics that are exact where scores tie: MTRR and TMHits@k (G-RAG, section 4.2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["tied_hits", "tied_reciprocal_rank"]


def tied_reciprocal_rank(ids: Sequence[str], scores: Sequence[float], gold: Collection[str]) -> float:
    r"""Return the mean over found relevant nodes of 1 / mean rank among their ties; MTRR is its mean over queries.

    With a nodes scored strictly higher and :math:`\tau` nodes of the same score (the node included), a relevant
    node counts :math:`2 / (2 (a + 1) + \tau - 1)`.

    Parameters
    ----------
    ids : sequence of str, length n
        Scored nodes, in any order.
    scores : sequence of float, length n
    gold : collection of str
        Relevant ids; those that were not scored are left out.

    Returns
    -------
    float
        0.0 if no relevant node was scored, so that such a query keeps its place in the mean.

    Notes
    -----
    This is one over the mean rank, as published, and not the mean of 1 / rank over random orders of the ties.

    References
    ----------
    Dong et al., "Don't Forget to Connect! Improving RAG with Graph-based Reranking", section 4.2.
    """
    above, ties = _above_and_ties(ids, scores, gold)
    if above.numel() == 0:
        return 0.0
    return float((2 / (2 * (above + 1) + ties - 1)).mean())


def tied_hits(ids: Sequence[str], scores: Sequence[float], gold: Collection[str], k: int = 10) -> float:
    r"""Return the mean over found relevant nodes of their chance to be among the first `k`; TMHits@k is its mean.

    The chance, when ties are ordered at random, is :math:`\mathrm{clip}(k - a, 0, \tau) / \tau`. The paper's
    formula gives values above 1 when ties fit below k, and 1 to a node with exactly k better ones; this is what it
    describes in words. See :func:`tied_reciprocal_rank` for the arguments.
    """
    if k < 1:
        raise InvalidArgumentError(f"k must be at least 1, got {k!r}.")
    above, ties = _above_and_ties(ids, scores, gold)
    if above.numel() == 0:
        return 0.0
    return float(((k - above).clamp(min=0).minimum(ties) / ties).mean())


def _above_and_ties(ids: Sequence[str], scores: Sequence[float], gold: Collection[str]) -> tuple[Tensor, Tensor]:
    """Return for each found relevant node how many score higher and how many the same, float64."""
    if len(ids) != len(scores):
        raise InvalidArgumentError(f"{len(scores)} scores were given for {len(ids)} nodes; give one each.")
    table = torch.tensor(list(scores), dtype=torch.float64)
    if bool(torch.isnan(table).any()):
        raise InvalidArgumentError("A score is NaN; metrics need comparable scores.")
    wanted = set(gold)
    values = table[[place for place, node in enumerate(ids) if node in wanted]]
    rising = torch.sort(table).values
    not_above = torch.searchsorted(rising, values, right=True)
    below = torch.searchsorted(rising, values)
    return (len(ids) - not_above).double(), (not_above - below).double()
