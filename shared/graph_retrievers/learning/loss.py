"""Losses of trainable operators."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["sampled_cross_entropy"]


def sampled_cross_entropy(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the cross entropy of each positive among its negatives, the mean over positives.

    Parameters
    ----------
    positive : Tensor, shape [P]
        Scores of relevant candidates.
    negative : Tensor, shape [P, M]
        Scores of the candidates each is compared with.

    Returns
    -------
    Tensor, scalar
    """
    scores = torch.cat([positive.unsqueeze(1), negative], 1)
    return torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.int64, device=scores.device))
