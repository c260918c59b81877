"""Checkpoints: the parts of a trained operator as safetensors, each with its configuration as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(folder: str | Path, part: str, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write one part of a trained operator: ``<part>.safetensors`` and ``<part>.json``.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there; other parts in it are kept.
    part : str
        Name of the part, such as ``"reranker"``.
    tensors : mapping of str to Tensor
    config : mapping
        What is needed to build the part again, JSON-plain.
    """
    from safetensors.torch import save_file

    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    plain = {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    # Each file appears whole or not at all.
    save_file(plain, root / f"{part}.safetensors.partial")
    (root / f"{part}.json.partial").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for name in (f"{part}.safetensors", f"{part}.json"):
        os.replace(root / f"{name}.partial", root / name)


def load_checkpoint(folder: str | Path, part: str, device: str | torch.device = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the configuration of one part.

    Parameters
    ----------
    folder : str or Path
        A folder that :func:`save_checkpoint` wrote, or the ``fit`` command.
    part : str
    device : str or torch.device, default "cpu"

    Raises
    ------
    InvalidArgumentError
        If the folder does not hold the part, or a file of it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    root = Path(folder)
    weights, settings = root / f"{part}.safetensors", root / f"{part}.json"
    for path in (weights, settings):
        if not path.is_file():
            raise InvalidArgumentError(f"{path} is not there; a checkpoint is a folder that `graph-retrievers fit` wrote.")
    try:
        return load_file(weights, device=str(device)), dict(json.loads(settings.read_text(encoding="utf-8")))
    except (SafetensorError, ValueError, TypeError, OSError) as error:
        raise InvalidArgumentError(f"The checkpoint part {part!r} in {root} cannot be read: {error}") from error
