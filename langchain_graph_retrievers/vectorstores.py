"""Read documents and vectors from a LangChain vector store, so that nothing is embedded again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from graph_retrievers.construction.store_metrics import chroma_metric, faiss_metric, index_metric
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, InvalidVectorError

__all__ = ["ListsVectors", "Stored", "read_store"]


@runtime_checkable
class ListsVectors(Protocol):
    """The method that any other vector store needs for ``from_vectorstore``.

    Its ``embeddings``, a property of every LangChain vector store, embed the queries.

    Examples
    --------
    >>> class Shelf:
    ...     embeddings = None
    ...
    ...     def documents_and_vectors(self):
    ...         return [Document("A loom.", id="loom")], [[1.0, 0.0]]
    >>> isinstance(Shelf(), ListsVectors)
    True
    """

    def documents_and_vectors(self) -> tuple[Sequence[Document], Any]:
        """Return all N documents, and their vectors in the same order: array-like, shape [N, d]."""


class Stored(NamedTuple):
    """Contents of a store: documents with ids, their vectors [N, d], and how it compares vectors, if it states it."""

    documents: list[Document]
    vectors: np.ndarray
    metric: str | None

    def index_metric(self, store: str) -> str | None:
        """Return the metric of an index with the order of the store; InvalidArgumentError, with its name, if there is none."""
        return index_metric(
            self.metric,
            torch.from_numpy(self.vectors),
            f"The {store}",
            "Use a store of unit vectors (normalize_L2=True of FAISS), or of inner products; or pass metric='cosine' or "
            "metric='dot', for an order that is not the store's.",
        )


def read_store(store: Any) -> Stored:
    """Return the documents and vectors of a store.

    It is an ``InMemoryVectorStore``, FAISS (``docstore``, ``index`` and ``index_to_docstore_id``), Chroma (``get(include=...)``),
    or an implementation of :class:`ListsVectors`. Raises EmptyGraphError if it is empty; InvalidVectorError or
    DimensionMismatchError, which name the document, if one has no vector or vectors differ in width; InvalidArgumentError if the
    store does not list its vectors, or a vector has no document.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> store = InMemoryVectorStore.from_texts(["A loom.", "A card."], DeterministicFakeEmbedding(size=8))
    >>> found = read_store(store)
    >>> [document.page_content for document in found.documents], found.vectors.shape, found.metric
    (['A loom.', 'A card.'], (2, 8), 'cosine')
    """
    metric = None
    if isinstance(store, ListsVectors):
        documents, vectors = store.documents_and_vectors()
    elif isinstance(store, InMemoryVectorStore):
        rows, metric = list(store.store.values()), "cosine"
        documents = [Document(row["text"], id=row["id"], metadata=row["metadata"]) for row in rows]
        vectors = [row.get("vector") for row in rows]
    elif all(hasattr(store, name) for name in ("docstore", "index", "index_to_docstore_id")):
        documents, vectors = _faiss(store)
        # Not the distance strategy of the store, by which it turns scores into relevance.
        metric = faiss_metric(store.index)
    elif callable(getattr(store, "get", None)) and "include" in signature(store.get).parameters:
        documents, vectors = _chroma(store)
        metric = chroma_metric(getattr(store, "_collection", None))
    else:
        raise InvalidArgumentError(
            f"{type(store).__name__} is not a store whose vectors can be listed. InMemoryVectorStore, FAISS and Chroma are; "
            "another store needs a method documents_and_vectors(), which returns all documents and their vectors. Or call "
            "from_documents(documents, store.embeddings, vectors=vectors)."
        )
    documents = list(documents)
    if not documents:
        raise EmptyGraphError(f"The {type(store).__name__} is empty; add documents to it first.")
    return Stored(documents, _table(documents, vectors), metric)


def _faiss(store: Any) -> tuple[list[Document], Any]:
    places = sorted(store.index_to_docstore_id)
    if store.index.ntotal != len(places) or places != list(range(len(places))):
        raise InvalidArgumentError(
            f"The FAISS index holds {store.index.ntotal} vectors, and index_to_docstore_id names {len(places)} documents; "
            "expected one for each vector. Build the store again."
        )
    names = [store.index_to_docstore_id[place] for place in places]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidArgumentError(
            f"Several vectors of the FAISS store are those of the document {twice[0]!r}; build it with an id for every document, "
            "or for none."
        )
    documents = []
    for place, name in enumerate(names):
        document = store.docstore.search(name)
        # The docstore returns a message for a document that it does not have.
        if not isinstance(document, Document):
            raise InvalidArgumentError(f"Vector {place} of the FAISS store is that of {name!r}, which its docstore does not hold.")
        documents.append(document if document.id or name is None else document.model_copy(update={"id": str(name)}))
    try:
        # Faiss ends the process if an index cannot return many vectors, but raises an error if it cannot return one. An inverted
        # index returns many, but not one.
        if places and not hasattr(store.index, "invlists"):
            store.index.reconstruct(0)
        return documents, store.index.reconstruct_n(0, len(places)) if places else []
    except RuntimeError as error:
        raise InvalidArgumentError(
            f"{type(store.index).__name__} does not give its vectors back ({str(error).splitlines()[0]:.120}). Build the store "
            "with an index that keeps them, such as a flat one."
        ) from error


def _chroma(store: Any) -> tuple[list[Document], Any]:
    found = store.get(include=["embeddings", "documents", "metadatas"])
    ids, vectors = list(found["ids"]), found.get("embeddings")
    texts = found.get("documents") or [None] * len(ids)
    metadatas = found.get("metadatas") or [None] * len(ids)
    for name, text in zip(ids, texts, strict=True):
        if text is None:
            raise InvalidArgumentError(f"Document {name!r} of the store has no text; store the texts beside the vectors.")
    documents = [
        Document(text, id=name, metadata=dict(metadata or {})) for name, text, metadata in zip(ids, texts, metadatas, strict=True)
    ]
    return documents, [None] * len(ids) if vectors is None else vectors


def _table(documents: Sequence[Document], vectors: Iterable[Any]) -> np.ndarray:
    rows = list(vectors)
    if len(rows) != len(documents):
        raise DimensionMismatchError(f"The store gave {len(rows)} vectors for {len(documents)} documents; expected one for each.")
    made: list[np.ndarray] = []
    for place, (document, row) in enumerate(zip(documents, rows, strict=True)):
        name = f"Document {document.id or place!r}"
        if row is None or np.size(row) == 0:
            raise InvalidVectorError(f"{name} of the store has no vector; add it to the store again, or delete it.")
        made.append(np.asarray(row, dtype=np.float32).reshape(-1))
        if made[-1].size != made[0].size:
            raise DimensionMismatchError(
                f"{name} of the store has a vector of {made[-1].size} dimensions, the first one has {made[0].size}; embed all "
                "documents with one model."
            )
    return np.stack(made)
