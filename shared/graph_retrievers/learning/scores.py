"""Scores of trained networks."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError


def check_scores(scores: Tensor, who: str) -> None:
    """Raise InvalidArgumentError if a score of a trained network is NaN or infinite; `who` names the network.

    Finite weights may have sums that are not finite.
    """
    if not bool(torch.isfinite(scores).all()):
        raise InvalidArgumentError(f"{who} gave scores that are NaN or infinite: its weights are too large; train it again.")
