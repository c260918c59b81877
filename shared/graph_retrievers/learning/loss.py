"""Losses of trainable operators."""

from __future__ import annotations

import torch
from torch import Tensor


def sampled_cross_entropy(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the mean cross entropy of each positive, shape [P], among its negatives, shape [P, M].

    >>> sampled_cross_entropy(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # ln 3
    tensor(1.0986)
    """
    scores = torch.cat([positive.unsqueeze(1), negative], 1)
    return torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.int64, device=scores.device))


def listwise_cross_entropy(scores: Tensor, relevant: Tensor) -> Tensor:
    r"""Return the sum of :math:`-\log \mathrm{softmax}(s)_i` over the relevant items (G-RAG, equation 9).

    `scores`, shape [n], and `relevant`, shape [n], bool, are those of one list. Without relevant items it is 0.

    >>> listwise_cross_entropy(torch.zeros(2), torch.tensor([True, True]))  # 2 ln 2
    tensor(1.3863)
    """
    return -(scores.log_softmax(0) * relevant).sum()


def pairwise_hinge(scores: Tensor, relevant: Tensor) -> Tensor:
    r"""Return the mean of :math:`\max(0, 1 - (s_i - s_j))` over relevant items i and others j (G-RAG, equation 10).

    The paper does not say which pairs it uses; here all pairs of a list are used. Arguments: see :func:`listwise_cross_entropy`.
    Without a pair it is 0.

    >>> pairwise_hinge(torch.tensor([1.0, 0.5, 0.0]), torch.tensor([True, False, False]))
    tensor(0.2500)
    """
    relevant = relevant.bool()
    gaps = scores[relevant].unsqueeze(1) - scores[~relevant].unsqueeze(0)
    return (1 - gaps).clamp(min=0).mean() if gaps.numel() else scores.sum() * 0
