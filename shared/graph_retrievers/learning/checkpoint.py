"""Checkpoints: the parts of a trained operator, each as safetensors with its configuration as JSON.

All that is read from files of a checkpoint is checked here: settings by :func:`checked_settings`, weights by :func:`restored`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import as_path
from graph_retrievers.errors import InvalidArgumentError, reason, shown

_WEIGHTS = "weights_sha256"
# Bytes of the names and shapes of weights, of their file, and of settings. Each is far above what `fit` writes: some 10,000
# tensors, whose number takes more than its share of time, and settings of as many plans as a planner can hold.
_LONGEST_HEADER, _LONGEST_WEIGHTS, _LONGEST_SETTINGS = 1 << 20, 8 << 30, 1 << 25
# Weights that are checked at a time.
_CHECKED = 1 << 20

_Network = TypeVar("_Network", bound=nn.Module)


def save_checkpoint(folder: str | Path, part: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write one part of a trained operator, such as ``"reranker"``, to a folder: ``<part>.safetensors`` and ``<part>.json``.

    `config` has the values for building the part again, for JSON. Other parts in the folder are kept.
    """
    from safetensors.torch import save_file

    root = checkpoint_folder(folder)
    plain = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    # Under another name first, so that readers never see a part of a file.
    save_file(plain, root / f"{part}.safetensors.partial")
    # The configuration names its weights by their digest, as writing may end between the two files.
    settings = {**config, _WEIGHTS: _digest(root / f"{part}.safetensors.partial")}
    (root / f"{part}.json.partial").write_text(json.dumps(settings, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    # safetensors makes files that only their owner can read.
    (root / f"{part}.safetensors.partial").chmod((root / f"{part}.json.partial").stat().st_mode & 0o777)
    for name in (f"{part}.safetensors", f"{part}.json"):
        os.replace(root / f"{name}.partial", root / name)


def checkpoint_folder(folder: str | Path) -> Path:
    """Return a folder for checkpoints, created if it does not exist; InvalidArgumentError if that fails."""
    path = as_path("The folder for a checkpoint", folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"The folder {path} for a checkpoint cannot be made: {error}") from error
    return path


def load_checkpoint(folder: str | Path, part: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the configuration of one part that :func:`save_checkpoint` wrote.

    It raises InvalidArgumentError if the part is missing or cannot be read, or its two files do not belong together.
    """
    if not isinstance(folder, str | Path):
        raise InvalidArgumentError(f"A checkpoint is a folder that `graph-retrievers fit` wrote, got {shown(folder)}.")
    root = Path(folder)
    weights, settings = root / f"{part}.safetensors", root / f"{part}.json"
    tensors, config = read_weights(weights), read_settings(settings)
    digest = config.pop(_WEIGHTS, None)
    if digest is not None and digest != _digest(weights):
        raise InvalidArgumentError(
            f"{weights} does not belong to {settings.name}: one of them was changed, or writing them was interrupted. Remove both "
            "and fit again."
        )
    return tensors, config


def load_part(
    folder: str | Path, part: str, kinds: Mapping[str, tuple[type, ...]], what: str, defaults: Mapping[str, Any] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of one part and the requested settings (see :func:`checked_settings`).

    `defaults` has the settings that older checkpoints lack.
    """
    tensors, config = load_checkpoint(folder, part)
    return tensors, checked_settings({**(defaults or {}), **config}, kinds, what, folder)


def check_trained(trained: Mapping[str, Any], expected: Mapping[str, Any], what: str, command: str) -> None:
    """Raise InvalidArgumentError if the settings of the training differ from the requested ones.

    `what` begins the message, such as "DIR was trained with"; `command` trains it with the settings of the paper.

    >>> check_trained({"hops": 1}, {"hops": 1}, "x was trained with", "fit lesegr")
    """
    for name, value in expected.items():
        if name not in trained or trained[name] != value:
            raise InvalidArgumentError(
                f"{what} {name} {trained.get(name)!r}, not {value!r}; train it with that ({command} --paper for the settings "
                "of the paper)."
            )


def check_scores(scores: Tensor, who: str) -> None:
    """Raise InvalidArgumentError if a score of a trained network is NaN or infinite; `who` names the network.

    Finite weights may have sums that are not finite.
    """
    if not bool(torch.isfinite(scores).all()):
        raise InvalidArgumentError(f"{who} gave scores that are NaN or infinite: its weights are too large; train it again.")


def read_weights(file: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

    It raises InvalidArgumentError if the file is missing, cannot be read, is longer than 8 GiB, or has more than 1 MiB of names and
    shapes, those of some 10,000 tensors.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = _existing(file)
    try:
        _check_length(path.stat().st_size, _LONGEST_WEIGHTS)
        with path.open("rb") as stream:
            # A safetensors file begins with the length of its header.
            _check_length(int.from_bytes(stream.read(8), "little"), _LONGEST_HEADER, " of names and shapes")
        return load_file(path)
    except (SafetensorError, ValueError, OSError, RuntimeError, MemoryError) as error:
        raise InvalidArgumentError(f"The weights {path} cannot be read: {reason(error)}") from error


def read_settings(file: str | Path) -> dict[str, Any]:
    """Return the JSON object of a file; InvalidArgumentError if it is missing, cannot be read, or is longer than 32 MiB."""
    path = _existing(file)
    try:
        _check_length(path.stat().st_size, _LONGEST_SETTINGS)
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError, MemoryError) as error:
        raise InvalidArgumentError(f"The settings {path} cannot be read: {reason(error)}") from error
    if not isinstance(settings, dict):
        raise InvalidArgumentError(f"The settings {path} cannot be read: they are {shown(settings, 60)}; expected a JSON object.")
    return settings


def _check_length(length: int, most: int, of: str = "") -> None:
    if length > most:
        raise InvalidArgumentError(f"it has {length:,} bytes{of}, at most {most:,} are read; `fit` writes shorter ones.")


def _existing(file: str | Path) -> Path:
    # The method of a path raises for a name that no file can have, and reading a pipe would not end.
    if not os.path.isfile(file):
        raise InvalidArgumentError(f"{file} does not exist; a checkpoint is a folder that `graph-retrievers fit` wrote.")
    return Path(file)


def checked_settings(config: Mapping[str, Any], kinds: Mapping[str, tuple[type, ...]], what: str, where: Any) -> dict[str, Any]:
    """Return the requested settings of a checkpoint; raise InvalidArgumentError if one is missing or has another type.

    `kinds` has the types of each; ``object`` allows any, and a bool is not an int. For the message, `what` says which checkpoint
    it should be, and `where` its location.

    >>> checked_settings({"depth": 7, "seed": 0}, {"depth": (int,)}, "G-RAG", "a folder")
    {'depth': 7}
    """
    if missing := sorted(kinds.keys() - config.keys()):
        raise InvalidArgumentError(f"{where} is not a checkpoint of {what}: it lacks {', '.join(missing)}.")
    for name, expected in kinds.items():
        if object not in expected and type(config[name]) not in expected:
            names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in expected)
            raise InvalidArgumentError(
                f"{where} is not a checkpoint of {what}: {name} is {shown(config[name], 60)}, expected {names}. Fit it again."
            )
    return {name: config[name] for name in kinds}


def restored(make: Callable[[], _Network], tensors: Mapping[str, Tensor], what: str) -> _Network:
    """Return the network that `make` creates, with its weights, ready for use; `what` names it in messages.

    `make` is called on a device without memory: settings that need more than the weights contain are refused before any memory is
    allocated. InvalidArgumentError if the network cannot be created, the weights are not those of such a network, or one contains
    NaN, infinity or numbers that are not float32.

    >>> restored(lambda: nn.Linear(1, 1), {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, "a line")(torch.ones(1)).tolist()
    [2.0]
    """
    for name, value in tensors.items():
        if not isinstance(value, Tensor) or value.dtype != torch.float32 or not _finite(value):
            raise InvalidArgumentError(f"The weight {name!r} holds NaN, infinity or no float32 numbers; train {what} again.")
    try:
        with torch.device("meta"):
            network = make()
        network.load_state_dict({name: value.clone() for name, value in tensors.items()}, assign=True)
    except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise InvalidArgumentError(f"These are not the weights and settings of {what}: {error}") from error
    return network.eval()


def _finite(value: Tensor) -> bool:
    # By parts: the answer for each number takes more memory than the number.
    return all(bool(torch.isfinite(part).all()) for part in value.flatten().split(_CHECKED))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
