"""The training loop, with early stopping on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.learning.state import History, load_state, save_state
from graph_retrievers.progress import progress_bar
from graph_retrievers.seeding import seed_number, seeded

__all__ = ["fit"]


def fit(
    module: nn.Module,
    batches: Callable[[torch.Generator], Iterable[Any]],
    loss: Callable[[Any], Tensor],
    evaluate: Callable[[], float | Mapping[str, float]],
    *,
    epochs: int = 100,
    patience: int = 10,
    learning_rate: float = 1e-4,
    weight_decay: float = 0.0,
    warm_up: int = 0,
    clip: float | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    about: Mapping[str, Any] | None = None,
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
        Returns the held-out score, larger is better; called after each epoch, without gradients. Of several measures by name, the
        mean is the score, and the history keeps each.
    epochs : int, default 100
        Maximum number of epochs.
    patience : int, default 10
        Epochs without a better score before training stops.
    learning_rate : float, default 1e-4
    weight_decay : float, default 0
    warm_up : int, default 0
        Steps over which the learning rate rises linearly, from its share 1 / `warm_up` in the first; it is constant afterwards.
    clip : float, optional
        Largest length of the gradient of all parameters together; a longer one is scaled down to it.
    seed : int, default 0
        Seed of the generator, and of torch's own ones inside, from which dropout draws. Equal seeds and initial weights give equal
        results on one machine; the state of torch's generators outside does not count and is not changed.
    resume : str or Path, optional
        Folder that keeps the state after each epoch. A stopped training continues from there, with the result of an uninterrupted
        one. The state remains until :func:`graph_retrievers.learning.state.clear_state` removes it.
    about : mapping, optional
        Other settings on which the result depends, for JSON; a state with different settings is refused.
    show_progress : bool, default False
    description : str, default "fit"
        Text of the progress bar.

    Raises
    ------
    InvalidArgumentError
        If an argument is out of its range, the folder holds the state of another training, or a loss is NaN or infinite.

    Examples
    --------
    >>> line = nn.Linear(1, 1, bias=False)
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> error = lambda batch: ((line(batch) - 3 * batch) ** 2).mean()
    >>> history = fit(line, lambda generator: [x], error, lambda: -float(error(x)), epochs=500, learning_rate=0.1)
    >>> round(line.weight.item(), 1)
    3.0
    """
    for name, count, least in (("epochs", epochs, 1), ("patience", patience, 1), ("warm_up", warm_up, 0)):
        positive(name, count, least=least)
    for name, rate in (("learning_rate", learning_rate), ("weight_decay", weight_decay)):
        if not is_number(rate) or not 0 <= rate < math.inf:
            raise InvalidArgumentError(f"{name} must be a number of at least 0, got {shown(rate)}.")
    if clip is not None and (not is_number(clip) or not clip > 0):
        raise InvalidArgumentError(f"clip must be a number above 0, or None, got {shown(clip)}.")
    generator = torch.Generator().manual_seed(seed_number(seed))
    device = next((parameter.device for parameter in module.parameters()), None)
    optimizer = torch.optim.AdamW(module.parameters(), lr=learning_rate, weight_decay=weight_decay)
    settings = {"seed": seed, "learning_rate": learning_rate, "weight_decay": weight_decay, "patience": patience, **(about or {})}
    settings |= {"warm_up": warm_up} if warm_up else {}
    settings |= {"clip": clip} if clip is not None else {}
    with seeded(seed, device), _deterministic():
        history, best = (History(), {}) if resume is None else load_state(resume, module, optimizer, generator, settings)
        # AdamW counts the steps that a stopped training had taken.
        step = max((int(state["step"]) for state in optimizer.state.values()), default=0)
        rest = range(len(history.losses) + 1, epochs + 1 if len(history.losses) - history.best_epoch < patience else 0)
        with progress_bar(rest, desc=description, unit="epoch", disable=not show_progress) as bar:
            for epoch in bar:
                module.train()
                losses = []
                for batch in batches(generator):
                    optimizer.zero_grad(set_to_none=True)
                    value = loss(batch)
                    losses.append(float(value.detach()))
                    if not math.isfinite(losses[-1]):
                        message = f"The loss is {losses[-1]} in epoch {epoch}"
                        raise InvalidArgumentError(f"{message}; use a smaller learning_rate than {learning_rate}.")
                    value.backward()
                    if clip is not None:
                        nn.utils.clip_grad_norm_(module.parameters(), clip)
                    step += 1
                    for group in optimizer.param_groups if warm_up else ():
                        group["lr"] = learning_rate * min(1.0, step / warm_up)
                    optimizer.step()
                module.eval()
                with torch.no_grad():
                    outcome = evaluate()
                by_name = outcome if isinstance(outcome, Mapping) else {"score": outcome}
                measures = {name: float(part) for name, part in by_name.items()}
                score = sum(measures.values()) / len(measures)
                history.losses.append(sum(losses) / max(len(losses), 1))
                history.scores.append(score)
                for name, part in measures.items() if len(measures) > 1 else ():
                    history.measures.setdefault(name, []).append(part)
                if score > history.best_score:
                    history.best_score, history.best_epoch = score, epoch
                    best = {name: value.detach().clone() for name, value in module.state_dict().items()}
                shown_now = {"loss": history.losses[-1], **measures, "best": history.best_score}
                bar.set_postfix({name: f"{value:.4f}" for name, value in shown_now.items()})
                if resume is not None:
                    save_state(resume, module, optimizer, generator, best, history, settings)
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
