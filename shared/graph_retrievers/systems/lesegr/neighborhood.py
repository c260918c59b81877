"""The part of a graph in which messages pass: the nodes of a ranking and their neighbourhoods, for one query or for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, eq=False)
class Neighborhood:
    r"""n nodes between which messages pass, and what a network reads of them: arrays, or :meth:`joined` tensors.

    Attributes
    ----------
    nodes : shape [n], int64
        Node rows, ascending for each query.
    edges : shape [2, E], int64
        Places in `nodes` of the source and the target of each message, by target, then by source, without self loops.
    degree : shape [n], int64
        :math:`|N(i)|`, of all neighbours that may be visited.
    pairs : shape [E], int64
        The rows of target and source of each message as one number, ``target * N + source``.
    delta : shape [n], float32
        Sparse signal.
    returned : shape [n], bool
        Whether a node may be returned.
    products : shape [n], float32, or None
        :math:`q \cdot c_i`; None for a network that reads the vectors.
    query : shape [n], int64, or None
        The query of each node, by its place among those that were joined.
    """

    nodes: Any
    edges: Any
    degree: Any
    pairs: Any
    delta: Any
    returned: Any
    products: Any
    query: Any = None

    @classmethod
    def joined(cls, parts: Sequence[Neighborhood], device: torch.device) -> Neighborhood:
        """Return the neighbourhoods of several queries side by side, as tensors on a device."""
        counts = [len(part.nodes) for part in parts]
        starts = (np.cumsum(counts) - counts).tolist()
        arrays: dict[str, np.ndarray | None] = {
            "edges": np.concatenate([part.edges + start for part, start in zip(parts, starts, strict=True)], 1),
            "query": np.repeat(np.arange(len(parts)), counts),
        }
        for name in ("nodes", "degree", "pairs", "delta", "returned", "products"):
            columns = [getattr(part, name) for part in parts]
            arrays[name] = None if columns[0] is None else np.concatenate(columns)
        return cls(**{name: array if array is None else torch.from_numpy(array).to(device) for name, array in arrays.items()})
