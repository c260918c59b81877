"""How vector stores compare vectors, so that an index of their contents keeps their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

# Numbers of faiss.
_FAISS = {0: "dot", 1: "euclidean"}
_NAMES = {"cosine": "cosine", "dot": "dot", "ip": "dot", "euclid": "euclidean", "l2": "euclidean"}
# Vectors are of equal length if these differ by a smaller share, as after rounding to single precision. Two orders then differ
# only where cosines differ by less.
_EQUAL = 1e-5


def index_metric(metric: str | None, vectors: Tensor, what: str, instead: str) -> str | None:
    """Return the metric of an index, "cosine" or "dot", with the order of a store that compares by `metric`.

    A store that compares by Euclidean distance orders vectors of equal length, such as unit vectors, as by cosine. With others,
    no metric of an index has its order, and an InvalidArgumentError names `what` the store is and what to do `instead`.

    Parameters
    ----------
    metric : str or None
        "cosine", "dot", "euclidean" or another name; None, which is returned, if the store does not state it.
    vectors : Tensor, shape [N, d]
        The vectors of the store; a row of zeros stands for a missing vector.
    what, instead : str

    >>> index_metric("euclidean", torch.tensor([[3.0, 4.0], [0.0, 5.0]]), "The store", "normalise them")
    'cosine'
    """
    if metric in ("cosine", "dot", None):
        return metric
    if metric == "euclidean":
        if equal_lengths(vectors):
            return "cosine"
        lengths = torch.linalg.vector_norm(vectors, dim=1)
        lengths, metric = lengths[lengths > 0], "Euclidean distance"
        lengths_told = f"vectors of different lengths ({lengths.min():.7g} to {lengths.max():.7g})"
    else:
        lengths_told = "vectors"
    raise InvalidArgumentError(
        f"{what} compares {lengths_told} by {metric}; a retriever compares by cosine or dot product, which order them differently. "
        f"{instead}"
    )


def equal_lengths(vectors: Tensor) -> bool:
    """Return whether all vectors, shape [N, d], have the same length, except rows of zeros."""
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    lengths = lengths[lengths > 0]
    return not lengths.numel() or bool(lengths.max() - lengths.min() <= _EQUAL * lengths.max())


def faiss_metric(index: Any) -> str:
    """Return the metric of a faiss index; an ``IndexLSH`` compares signs of its vectors, whatever it states."""
    if type(index).__name__ == "IndexLSH":
        return "Hamming distance"
    return _FAISS.get(int(index.metric_type), f"faiss' metric {int(index.metric_type)}")


def chroma_metric(collection: Any) -> str | None:
    """Return the metric of a collection of Chroma, None if it does not state it; by default, a new one compares by L2."""
    space = (getattr(collection, "metadata", None) or {}).get("hnsw:space")
    for name in ("configuration_json", "configuration"):
        held = getattr(collection, name, None)
        parts = [held.get(part) for part in ("hnsw", "spann")] if isinstance(held, Mapping) else []
        space = space or next((part["space"] for part in parts if isinstance(part, Mapping) and part.get("space")), None)
    return None if space is None else _NAMES.get(str(space).lower(), str(space))


def qdrant_metric(client: Any, collection: str) -> str | None:
    """Return the metric of the dense vectors of a collection of Qdrant, None if it has several that differ, or none."""
    kept = client.get_collection(collection).config.params.vectors
    distances = {part.distance for part in (kept.values() if isinstance(kept, Mapping) else [kept]) if part is not None}
    name = str(getattr(next(iter(distances)), "value", "")).lower() if len(distances) == 1 else None
    return None if name is None else _NAMES.get(name, name)
