"""The training loop, with early stopping on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

__all__ = ["History", "fit"]


@dataclass
class History:
    """The course of a training: mean loss of each epoch, held-out score after it, and the epoch (from 1) whose state was kept."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = float("-inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the history for JSON."""
        return asdict(self)


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
    """Train a module in place with AdamW; at the end it has the state that scored best on held-out data.

    Parameters
    ----------
    module : nn.Module
    batches : callable
        Takes a random generator, and returns the batches of one epoch.
    loss : callable
        Takes a batch, and returns a scalar.
    evaluate : callable
        Returns the held-out score, larger is better; called after each epoch, without gradients.
    epochs : int, default 100
        Upper limit.
    patience : int, default 10
        Epochs without a better score before training stops.
    learning_rate : float, default 1e-4
    weight_decay : float, default 0
    seed : int, default 0
        Seed of the generator. Equal seeds and initial weights give equal results on one machine.
    show_progress : bool, default False
    description : str, default "fit"
        Text of the progress bar.

    Examples
    --------
    >>> line = nn.Linear(1, 1, bias=False)
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> error = lambda batch: ((line(batch) - 3 * batch) ** 2).mean()
    >>> history = fit(line, lambda generator: [x], error, lambda: -float(error(x)), epochs=500, learning_rate=0.1)
    >>> round(line.weight.item(), 1)
    3.0
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(module.parameters(), lr=learning_rate, weight_decay=weight_decay)
    history = History()
    best: dict[str, Tensor] = {}
    with _deterministic(), tqdm(range(1, epochs + 1), desc=description, unit="epoch", disable=not show_progress) as bar:
        for epoch in bar:
            module.train()
            losses = []
            for batch in batches(generator):
                optimizer.zero_grad(set_to_none=True)
                value = loss(batch)
                value.backward()
                optimizer.step()
                losses.append(float(value.detach()))
            module.eval()
            with torch.no_grad():
                score = evaluate()
            history.losses.append(sum(losses) / max(len(losses), 1))
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
    """Add gradients in a fixed order, whatever the number of threads."""
    enabled, warn_only = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
