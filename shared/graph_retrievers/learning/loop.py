"""The training loop: batches, a loss, early stopping on held-out data, the best state at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

__all__ = ["History", "fit"]


@dataclass
class History:
    """How a training went.

    Attributes
    ----------
    losses : list of float
        Mean loss of each epoch.
    scores : list of float
        Held-out score after each epoch, larger is better.
    best_epoch : int
        Epoch whose state was kept, from 1; 0 if the untrained state was never beaten.
    best_score : float
    """

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = float("-inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the history as a JSON-plain mapping."""
        return {"losses": self.losses, "scores": self.scores, "best_epoch": self.best_epoch, "best_score": self.best_score}


def fit(
    module: nn.Module,
    batches: Callable[[torch.Generator], Iterable[Any]],
    loss: Callable[[Any], Tensor],
    evaluate: Callable[[], float],
    *,
    epochs: int = 100,
    patience: int = 10,
    learning_rate: float = 1e-4,
    weight_decay: float = 0.0,
    seed: int = 0,
    show_progress: bool = False,
    description: str = "fit",
) -> History:
    """Train a module with Adam, and leave it in the state that scored best on held-out data.

    Parameters
    ----------
    module : nn.Module
        Trained in place; in evaluation mode at the end.
    batches : callable
        From a seeded random generator to the batches of one epoch.
    loss : callable
        From a batch to a scalar.
    evaluate : callable
        Returns the held-out score, larger is better; called after each epoch, without gradients.
    epochs : int, default 100
        At most this many.
    patience : int, default 10
        Epochs without a better score before training stops.
    learning_rate : float, default 1e-4
    weight_decay : float, default 0
        Decoupled from the gradient (AdamW; Adam where it is 0).
    seed : int, default 0
        Of the generator. Equal seeds give equal weights on one machine; initial weights are the caller's.
    show_progress : bool, default False
    description : str, default "fit"
        What the progress bar says.

    Returns
    -------
    History
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(module.parameters(), lr=learning_rate, weight_decay=weight_decay)
    history = History()
    best: dict[str, Tensor] = {}
    with _deterministic(), tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=not show_progress) as bar:
        for epoch in bar:
            module.train()
            total, count = 0.0, 0
            for batch in batches(generator):
                optimizer.zero_grad(set_to_none=True)
                value = loss(batch)
                value.backward()
                optimizer.step()
                total, count = total + float(value.detach()), count + 1
            module.eval()
            with torch.no_grad():
                score = evaluate()
            history.losses.append(total / max(count, 1))
            history.scores.append(score)
            if score > history.best_score:
                history.best_score, history.best_epoch = score, epoch
                best = {name: value.detach().clone() for name, value in module.state_dict().items()}
            bar.set_postfix(loss=f"{history.losses[-1]:.4f}", score=f"{score:.4f}", best=f"{history.best_score:.4f}")
            if epoch - history.best_epoch >= patience:
                break
    if best:
        module.load_state_dict(best)
    module.eval()
    return history


@contextmanager
def _deterministic() -> Iterator[None]:
    """Let sums of gradients run in one order, however many threads there are; as it was before, afterwards."""
    enabled, warn_only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
