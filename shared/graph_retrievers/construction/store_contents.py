"""What vector stores hold: the vectors of a faiss index, the records of a Chroma collection, vectors by the names of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError


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
    found = get(include=["embeddings", "documents", "metadatas"])
    ids = list(found["ids"])
    columns = [found.get(name) for name in ("documents", "metadatas", "embeddings")]
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
    made: list[np.ndarray] = []
    for name, row in zip(names, rows, strict=True):
        if row is None or np.size(row) == 0:
            raise InvalidVectorError(f"Document {name!r} of the store has no vector; add it to the store again, or delete it.")
        made.append(np.asarray(row, dtype=np.float32).reshape(-1))
        if made[-1].size != made[0].size:
            raise DimensionMismatchError(
                f"Document {name!r} of the store has a vector of {made[-1].size} dimensions, the first one has {made[0].size}; "
                "embed all documents with one model."
            )
    return np.stack(made)
