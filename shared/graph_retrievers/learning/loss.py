"""Losses of trainable operators."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["sampled_cross_entropy"]


def sampled_cross_entropy(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the mean cross entropy of each positive, shape [P], among its negatives, shape [P, M].

    Examples
    --------
    >>> sampled_cross_entropy(torch.tensor([0.0]), torch.tensor([[0.0, 0.0]]))  # ln 3
    tensor(1.0986)
    """
    scores = torch.cat([positive.unsqueeze(1), negative], 1)
    return torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.int64, device=scores.device))
