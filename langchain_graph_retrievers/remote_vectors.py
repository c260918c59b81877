"""LangChainVectors: a LangChain vector store for a graph in a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from inspect import signature
from typing import Any, Self

import numpy as np
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.stores.qdrant import QdrantVectors

__all__ = ["LangChainVectors"]


class LangChainVectors:
    """The vectors of a LangChain store, for a :class:`~graph_retrievers.stores.remote.RemoteIndex`.

    The nodes of the graph must have the ids of the documents, and the store must compare by cosine. It is searched by
    ``similarity_search_by_vector``, one query at a time; Qdrant with one request per batch, without documents.

    Parameters
    ----------
    store : VectorStore
        ``InMemoryVectorStore``, ``QdrantVectorStore`` (with dense vectors, not only sparse ones), ``Chroma``, or a store with a
        method ``vectors_by_ids(ids)`` that returns a mapping from ids to vectors: the scores of neighbours need vectors by id, for
        which LangChain has no method.

    Raises
    ------
    InvalidArgumentError
        If the store does not give vectors by id, or returns a document without an id.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> model = DeterministicFakeEmbedding(size=8)
    >>> store = InMemoryVectorStore.from_texts(["A loom.", "A card."], model, ids=["loom", "card"])
    >>> vectors = LangChainVectors(store)
    >>> vectors.search(np.array([model.embed_query("A card.")]), 1), list(vectors.vectors(["loom", "engine"]))
    ([['card']], ['loom'])
    """

    def __init__(self, store: VectorStore) -> None:
        self.store: Any = store
        # The keywords that restrict a search to some ids.
        self._search_options: dict[str, Any] = {}
        self._qdrant: QdrantVectors | None = None
        self._by_ids = getattr(store, "vectors_by_ids", None)
        self._in_chroma = callable(get := getattr(store, "get", None)) and "include" in signature(get).parameters
        if not self._by_ids and all(hasattr(store, name) for name in ("client", "collection_name", "vector_name")):
            qdrant: Any = store
            self._qdrant = QdrantVectors(qdrant.client, qdrant.collection_name, name=qdrant.vector_name or "")
        if not (self._qdrant or self._by_ids or self._in_chroma or isinstance(store, InMemoryVectorStore)):
            raise InvalidArgumentError(
                f"{type(store).__name__} is not a store that gives vectors by id. InMemoryVectorStore, Qdrant and Chroma are; "
                "another store needs a method vectors_by_ids(ids), which returns a vector for each id."
            )

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; its search finds the nearest among them.

        InMemoryVectorStore, Qdrant and Chroma support this; other stores raise InvalidArgumentError.
        """
        part = copy(self)
        if self._qdrant:
            part._qdrant = self._qdrant.within(ids)
        elif isinstance(self.store, InMemoryVectorStore):
            id_set = frozenset(ids)
            part._search_options = {"filter": lambda document: document.id in id_set}
        elif self._in_chroma:
            part._search_options = {"ids": list(ids)}
        else:
            raise InvalidArgumentError(
                f"{type(self.store).__name__} cannot be searched in a scope: LangChain has no search among some ids. "
                "InMemoryVectorStore, Qdrant and Chroma can be."
            )
        return part

    def search(self, vectors: np.ndarray, k: int) -> list[list[str]]:
        """Return the ids of the k nearest of each vector, best first."""
        if self._qdrant:
            return self._qdrant.search(vectors, k)
        results = [self.store.similarity_search_by_vector(vector.tolist(), k=k, **self._search_options) for vector in vectors]
        if any(document.id is None for documents in results for document in documents):
            raise InvalidArgumentError(
                f"The {type(self.store).__name__} returned a document without an id; give ids to all documents."
            )
        return [[str(document.id) for document in documents] for documents in results]

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the vectors of the given ids; ids without a vector are left out."""
        if self._qdrant:
            return self._qdrant.vectors(ids)
        if self._by_ids:
            return self._by_ids(ids)  # type: ignore[no-any-return]
        if isinstance(self.store, InMemoryVectorStore):
            return {name: self.store.store[name]["vector"] for name in ids if name in self.store.store}
        records = self.store.get(ids=list(ids), include=["embeddings"])
        return dict(zip(records["ids"], records["embeddings"], strict=True))
