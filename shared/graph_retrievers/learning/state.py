"""The state of an unfinished training, kept so that it can continue after an interruption."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.learning.checkpoint import load_checkpoint, save_checkpoint

_PART = "training"


@dataclass
class History:
    """The course of a training: mean loss of each epoch, held-out score after it, and the epoch (from 1) whose state was kept.

    If the score is the mean of several measures, `measures` has each of them by name, after each epoch.
    """

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = float("-inf")
    measures: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise TypeError for values that are impossible in a training."""
        columns = [self.losses, self.scores, *self.measures.values()]
        numbers = [*(number for column in columns for number in column), self.best_score]
        if len(set(map(len, columns))) > 1 or not all(isinstance(number, float) for number in numbers):
            raise TypeError("losses and scores are not numbers, one of each for an epoch")
        if not all(map(math.isfinite, numbers if self.best_epoch else numbers[:-1])):
            raise TypeError("losses or scores are NaN or infinite")
        if type(self.best_epoch) is not int or not bool(self.losses) <= self.best_epoch <= len(self.losses):
            raise TypeError(f"the best epoch is {self.best_epoch!r} of {len(self.losses)}")

    @property
    def best_measures(self) -> dict[str, float]:
        """The measures after the epoch whose state was kept, by name."""
        return {name: values[self.best_epoch - 1] for name, values in self.measures.items()}

    def summary(self) -> dict[str, Any]:
        """Return what was kept and when, for JSON: score and measures on held-out data, its epoch, and the number of epochs."""
        measures = {f"{name}_on_dev": value for name, value in self.best_measures.items()}
        return {"quality_on_dev": self.best_score, **measures, "epoch": self.best_epoch, "epochs": len(self.losses)}

    def to_dict(self) -> dict[str, Any]:
        """Return the history for JSON."""
        return asdict(self)


def save_state(
    folder: str | Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    best: Mapping[str, Tensor],
    history: History,
    settings: Mapping[str, Any],
) -> None:
    """Write everything on which the next epoch depends to a folder, as :func:`save_checkpoint` writes checkpoints."""
    tensors = {f"module.{name}": value for name, value in module.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
    tensors |= {"generator": generator.get_state(), "random": torch.get_rng_state()}
    if (device := next(module.parameters()).device).type == "cuda":
        # Dropout uses that device's random numbers.
        tensors["random of the device"] = torch.cuda.get_rng_state(device)
    # Clones, as safetensors refuses tensors that share memory.
    clones = {name: value.clone() for name, value in tensors.items()}
    save_checkpoint(folder, _PART, clones, {**settings, "history": history.to_dict()})


def clear_state(folder: str | Path) -> None:
    """Remove the state of a training from a folder, and the folder if nothing else is in it."""
    for name in (f"{_PART}.safetensors", f"{_PART}.json"):
        (Path(folder) / name).unlink(missing_ok=True)
    if Path(folder).is_dir() and not any(Path(folder).iterdir()):
        Path(folder).rmdir()


def _check_moments(parameters: Sequence[Tensor], states: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Raise ValueError unless the states of AdamW are those of parameters, after the same steps."""
    for number, state in states.items():
        shape = parameters[number].shape
        if state.keys() != {"step", "exp_avg", "exp_avg_sq"} or state["step"].shape or not float(state["step"]) >= 1:
            raise ValueError(f"parameter {number} has {', '.join(state)}")
        for name in ("exp_avg", "exp_avg_sq"):
            value = state[name]
            if value.shape != shape or value.dtype != parameters[number].dtype or not bool(torch.isfinite(value).all()):
                raise ValueError(f"{name} of parameter {number} does not fit it")


def load_state(
    folder: str | Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    settings: Mapping[str, Any],
) -> tuple[History, dict[str, Tensor]]:
    """Set module, optimizer and generators to the state in a folder; return the history and the best weights so far.

    For a folder without a state, the history is empty. Raises InvalidArgumentError if the state belongs to other settings or to
    another module.
    """
    if not (Path(folder) / f"{_PART}.json").is_file():
        return History(), {}
    tensors, config = load_checkpoint(folder, _PART)
    try:
        history = History(**config.pop("history"))
        random = tensors["generator"], tensors["random"]
    except (KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"{folder} does not hold the state of a training ({error}); remove it to start again."
        ) from error
    if config != dict(settings):
        problem = f"{folder} holds another training: {config} instead of {dict(settings)}"
        raise InvalidArgumentError(f"{problem}. Remove it to start again.")
    device = next(module.parameters()).device

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value.to(device) for name, value in tensors.items() if name.startswith(prefix)}

    try:
        best = part("best.")
        for weights in (part("module."), best) if history.best_epoch else (part("module."),):
            # Both fit before one is taken over.
            deepcopy(module).load_state_dict(weights)
            kinds = {name: value.dtype for name, value in module.state_dict().items()}
            if any(value.dtype != kinds[name] or not bool(torch.isfinite(value).all()) for name, value in weights.items()):
                raise RuntimeError("weights of another type, NaN or infinity")
        module.load_state_dict(part("module."))
    except RuntimeError as error:
        raise InvalidArgumentError(f"{folder} holds the training of another model; remove it to start again: {error}") from error
    states: dict[int, dict[str, Tensor]] = {}
    try:
        for name, value in part("optimizer.").items():
            number, _, key = name.partition(".")
            states.setdefault(int(number), {})[key] = value.cpu() if key == "step" else value
        _check_moments(list(module.parameters()), states)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
        generator.set_state(random[0])
        torch.set_rng_state(random[1])
        if device.type == "cuda" and "random of the device" in tensors:
            torch.cuda.set_rng_state(tensors["random of the device"], device)
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(f"{folder} holds a damaged state of a training; remove it to start again: {error}") from error
    return history, best


def fit_and_save(
    fit: Callable[..., History],
    network: nn.Module,
    folder: Path,
    part: str,
    settings: Mapping[str, Any],
    training: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Train a network and write it, with its settings, as a part of a checkpoint; a stopped run continues after its last epoch.

    `fit` trains the network in place, with the keywords `training`. Returns the summary of the training, for JSON.
    """
    options = {"resume": folder / "under-way", **(training or {})}
    history = fit(**options)
    save_checkpoint(folder, part, network.state_dict(), {**settings, "history": history.to_dict()})
    if options["resume"] is not None:
        clear_state(options["resume"])
    return history.summary()
