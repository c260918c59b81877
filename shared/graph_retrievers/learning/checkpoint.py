"""Checkpoints: the parts of a trained operator, each as safetensors with its configuration as JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import as_path
from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["checkpoint_folder", "load_checkpoint", "save_checkpoint"]

_WEIGHTS = "weights_sha256"


def save_checkpoint(folder: str | Path, part: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write one part of a trained operator, such as ``"reranker"``, to a folder: ``<part>.safetensors`` and ``<part>.json``.

    `config` is what is needed to build the part again, for JSON. Other parts in the folder are kept.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save_checkpoint(folder, "scorer", {"weight": torch.zeros(2)}, {"width": 2})
    >>> load_checkpoint(folder, "scorer")
    ({'weight': tensor([0., 0.])}, {'width': 2})
    """
    from safetensors.torch import save_file

    root = checkpoint_folder(folder)
    plain = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    # Under another name first, so that readers never see a part of a file.
    save_file(plain, root / f"{part}.safetensors.partial")
    # Which weights the configuration is for: writing may end between the two files.
    told = {**config, _WEIGHTS: _digest(root / f"{part}.safetensors.partial")}
    (root / f"{part}.json.partial").write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name in (f"{part}.safetensors", f"{part}.json"):
        os.replace(root / f"{name}.partial", root / name)


def checkpoint_folder(folder: str | Path) -> Path:
    """Return a folder for checkpoints, made if it does not exist; InvalidArgumentError if that fails."""
    path = as_path("The folder for a checkpoint", folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(f"The folder {path} for a checkpoint cannot be made: {error}") from error
    return path


def load_checkpoint(folder: str | Path, part: str, device: str | torch.device = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the configuration of one part that :func:`save_checkpoint` wrote.

    It raises InvalidArgumentError if the part is missing or cannot be read, or its two files do not belong together.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not isinstance(folder, str | Path):
        raise InvalidArgumentError(f"A checkpoint is a folder that `graph-retrievers fit` wrote, got {shown(folder)}.")
    root = Path(folder)
    weights, settings = root / f"{part}.safetensors", root / f"{part}.json"
    for path in (weights, settings):
        # Of a name that no file can have, the path's own method raises.
        if not os.path.isfile(path):
            raise InvalidArgumentError(f"{path} does not exist; a checkpoint is a folder that `graph-retrievers fit` wrote.")
    try:
        tensors, config = load_file(weights, device=str(device)), dict(json.loads(settings.read_text(encoding="utf-8")))
        written = config.pop(_WEIGHTS, None)
        whole = written in (None, _digest(weights))
    except (SafetensorError, ValueError, TypeError, OSError, RecursionError) as error:
        raise InvalidArgumentError(f"The checkpoint part {part!r} in {root} cannot be read: {error}") from error
    if not whole:
        raise InvalidArgumentError(
            f"{weights} does not belong to {settings.name}: one of them was changed, or writing them was interrupted. Remove both "
            "and fit again."
        )
    return tensors, config


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
