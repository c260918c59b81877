"""Vector stores: the vectors and records they hold, and how they compare vectors, so that an index keeps their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError

# Numbers of faiss.
_FAISS = {0: "dot", 1: "euclidean"}
_NAMES = {"cosine": "cosine", "dot": "dot", "ip": "dot", "euclid": "euclidean", "l2": "euclidean"}
# Vectors are of equal length if these differ by a smaller share, as after rounding to single precision. Two orders then differ
# only where cosines differ by less.
_EQUAL = 1e-5


def faiss_vectors(index: Any) -> np.ndarray:
    """Return all vectors of a faiss index, float32, shape [N, d]; InvalidArgumentError if it does not give them back."""
    if not index.ntotal:
        return np.empty((0, index.d), np.float32)
    try:
        # Faiss ends the process if an index cannot return many vectors, but raises an error if it cannot return one. An inverted
        # index returns many, but not one.
        if not hasattr(index, "invlists"):
            index.reconstruct(0)
        return index.reconstruct_n(0, index.ntotal)  # type: ignore[no-any-return]
    except RuntimeError as error:
        raise InvalidArgumentError(
            f"{type(index).__name__} does not give its vectors back ({str(error).splitlines()[0]:.120}). Build the store with an "
            "index that keeps them, such as a flat one."
        ) from error


def chroma_records(get: Callable[..., Any]) -> list[tuple[str, str, dict[str, Any], Any]]:
    """Return id, text, metadata and vector of each record, from the method ``get`` of a Chroma collection or store.

    A vector is None if there is none; InvalidArgumentError if a record has no text.
    """
    response = get(include=["embeddings", "documents", "metadatas"])
    ids = list(response["ids"])
    columns = [response.get(name) for name in ("documents", "metadatas", "embeddings")]
    texts, metadatas, vectors = ([None] * len(ids) if column is None else column for column in columns)
    records = list(zip(ids, texts, metadatas, vectors, strict=True))
    for name, text, _, _ in records:
        if text is None:
            raise InvalidArgumentError(f"Document {name!r} of the store has no text; store the texts beside the vectors.")
    return [(name, text, dict(metadata or {}), vector) for name, text, metadata, vector in records]


def vector_table(names: Sequence[Any], vectors: Iterable[Any]) -> np.ndarray:
    """Return the vectors of documents as a table, float32, shape [N, d].

    InvalidVectorError and DimensionMismatchError name the first document without a vector, or with one of another width.

    >>> vector_table(["loom", "card"], [[1, 0], [0, 1]]).shape
    (2, 2)
    """
    rows = list(vectors)
    if len(rows) != len(names):
        raise DimensionMismatchError(f"The store gave {len(rows)} vectors for {len(names)} documents; expected one for each.")
    arrays: list[np.ndarray] = []
    for name, row in zip(names, rows, strict=True):
        if row is None or np.size(row) == 0:
            raise InvalidVectorError(f"Document {name!r} of the store has no vector; add it to the store again, or delete it.")
        arrays.append(np.asarray(row, dtype=np.float32).reshape(-1))
        if arrays[-1].size != arrays[0].size:
            raise DimensionMismatchError(
                f"Document {name!r} of the store has a vector of {arrays[-1].size} dimensions, the first one has {arrays[0].size}; "
                "embed all documents with one model."
            )
    return np.stack(arrays)


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
        subject = f"vectors of different lengths ({lengths.min():.7g} to {lengths.max():.7g})"
    else:
        subject = "vectors"
    raise InvalidArgumentError(
        f"{what} compares {subject} by {metric}; a retriever compares by cosine or dot product, which order them differently. "
        f"{instead}"
    )


def equal_lengths(vectors: Tensor) -> bool:
    """Return whether all vectors, shape [N, d], have the same length, except rows of zeros."""
    lengths = torch.linalg.vector_norm(vectors, dim=1)
    lengths = lengths[lengths > 0]
    return not lengths.numel() or bool(lengths.max() - lengths.min() <= _EQUAL * lengths.max())


def faiss_metric(index: Any) -> str:
    """Return the metric of a faiss index; an ``IndexLSH`` compares signs of its vectors, even if it states another metric."""
    if type(index).__name__ == "IndexLSH":
        return "Hamming distance"
    return _FAISS.get(int(index.metric_type), f"faiss' metric {int(index.metric_type)}")


def chroma_metric(collection: Any) -> str | None:
    """Return the metric of a collection of Chroma, None if it does not state it; by default, a new one compares by L2."""
    space = (getattr(collection, "metadata", None) or {}).get("hnsw:space")
    for name in ("configuration_json", "configuration"):
        settings = getattr(collection, name, None)
        parts = [settings.get(part) for part in ("hnsw", "spann")] if isinstance(settings, Mapping) else []
        space = space or next((part["space"] for part in parts if isinstance(part, Mapping) and part.get("space")), None)
    return None if space is None else _NAMES.get(str(space).lower(), str(space))


def qdrant_metric(client: Any, collection: str) -> str | None:
    """Return the metric of the dense vectors of a collection of Qdrant, None if it has several that differ, or none."""
    params = client.get_collection(collection).config.params.vectors
    distances = {part.distance for part in (params.values() if isinstance(params, Mapping) else [params]) if part is not None}
    name = str(getattr(next(iter(distances)), "value", "")).lower() if len(distances) == 1 else None
    return None if name is None else _NAMES.get(name, name)
