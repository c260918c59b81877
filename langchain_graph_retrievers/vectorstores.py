"""Read documents and vectors from a LangChain vector store, so that nothing is embedded again."""

from __future__ import annotations

from collections import Counter
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from graph_retrievers.construction.vector_stores import (
    chroma_metric,
    chroma_records,
    faiss_metric,
    faiss_vectors,
    index_metric,
    vector_table,
)
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.stores.postgres.vector_stores import store_table


class StoreContents(NamedTuple):
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


def read_store(store: Any) -> StoreContents:
    """Return the documents and vectors of a store.

    Stores that other packages define are recognised by their attributes. Raises EmptyGraphError if the store is empty, and
    InvalidArgumentError if it does not list its vectors, or a vector has no document.
    """
    metric = None
    if callable(getattr(store, "documents_and_vectors", None)):
        documents, vectors = store.documents_and_vectors()
    elif isinstance(store, InMemoryVectorStore):
        rows, metric = list(store.store.values()), "cosine"
        documents = [Document(row["text"], id=row["id"], metadata=row["metadata"]) for row in rows]
        vectors = [row.get("vector") for row in rows]
    elif (table := store_table(store)) is not None:
        table_rows = table.rows()
        documents = [Document(row.text, id=row.id, metadata=row.metadata) for row in table_rows]
        vectors, metric = [row.vector for row in table_rows], table.metric
    elif all(hasattr(store, part) for part in ("docstore", "index", "index_to_docstore_id")):
        documents, vectors = _faiss_documents(store), faiss_vectors(store.index)
        # The metric is that of the index: the distance strategy of the store only says how it turns scores into relevance.
        metric = faiss_metric(store.index)
    elif callable(getattr(store, "get", None)) and "include" in signature(store.get).parameters:
        records = chroma_records(store.get)
        documents = [Document(text, id=name, metadata=metadata) for name, text, metadata, _ in records]
        vectors = [vector for *_, vector in records]
        metric = chroma_metric(getattr(store, "_collection", None))
    else:
        raise InvalidArgumentError(
            f"{type(store).__name__} is not a store whose vectors can be listed. InMemoryVectorStore, FAISS, Chroma, PGVector and "
            "PGVectorStore are; another store needs a method documents_and_vectors(), which returns all documents and their "
            "vectors. Or call from_documents(documents, store.embeddings, vectors=vectors)."
        )
    documents = list(documents)
    if not documents:
        raise EmptyGraphError(f"The {type(store).__name__} is empty; add documents to it first.")
    return StoreContents(
        documents, vector_table([document.id or place for place, document in enumerate(documents)], vectors), metric
    )


def _faiss_documents(store: Any) -> list[Document]:
    names = [name for _, name in sorted(store.index_to_docstore_id.items())]
    if sorted(store.index_to_docstore_id) != list(range(store.index.ntotal)):
        raise InvalidArgumentError(
            f"The FAISS index holds {store.index.ntotal} vectors, and index_to_docstore_id names {len(names)} documents; "
            "expected one for each vector. Build the store again."
        )
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
    return documents
