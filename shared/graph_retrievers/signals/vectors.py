"""Vectors as tensors: checked, and of unit length."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import DimensionMismatchError, InvalidVectorError

LARGEST = 1e15
"""Dot products of vectors with smaller entries are finite in float32."""


def check_vectors(vectors: Any, count: int | None = None, width: int | None = None, name: str = "vectors") -> Tensor:
    """Return `vectors` as a finite float32 tensor of shape [n, d], with `count` rows and `width` columns if these are given.

    Raises DimensionMismatchError if the shape is different, and InvalidVectorError, which names the first such row, if an entry
    is NaN, infinite or so large that dot products overflow (above 1e15). `name` is for the messages.
    """
    if vectors is None:
        raise DimensionMismatchError(f"{name} are None; expected a table of numbers, a row for each text.")
    if not isinstance(vectors, Tensor):
        try:
            if isinstance(vectors, (list, tuple)):
                vectors = [row.detach().cpu() if isinstance(row, Tensor) else row for row in vectors]
            vectors = torch.from_numpy(np.array(vectors, dtype=np.float32))
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise DimensionMismatchError(f"{name} cannot be read as a table of numbers: {error}") from error
    if vectors.layout != torch.strided or vectors.is_meta:
        raise DimensionMismatchError(f"{name} are a sparse or an empty tensor; expected one with numbers in all places.")
    tensor = vectors.detach().to(torch.float32)
    if count == 0 and tensor.numel() == 0:
        return tensor.reshape(0, width or 0)
    if tensor.dim() != 2 or (count is not None and tensor.shape[0] != count):
        shape = f"[{count if count is not None else 'n'}, {width if width is not None else 'd'}]"
        raise DimensionMismatchError(f"{name} have shape {list(tensor.shape)}; expected {shape}.")
    if tensor.shape[1] == 0:
        raise DimensionMismatchError(f"{name} have no dimensions: shape {list(tensor.shape)}; expected at least one.")
    if width is not None and tensor.shape[1] != width:
        raise DimensionMismatchError(
            f"{name} have {tensor.shape[1]} dimensions, the index has {width}; embed both with the same model."
        )
    # NaN compares as false, so a row with NaN is not finite.
    finite = (tensor.amax(1) < LARGEST) & (tensor.amin(1) > -LARGEST)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise InvalidVectorError(
            f"{name}[{row}] holds NaN or infinity, or a number beyond {LARGEST:.0e}; drop that row or embed it again."
        )
    return tensor


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return vectors, shape [n, d], scaled to unit length; unit vectors and zeros stay exactly the same."""
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / lengths.masked_fill(((lengths - 1).abs() < 1e-6) | (lengths == 0), 1.0)
